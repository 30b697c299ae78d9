"""The version, which tables, pages and `--version` name."""

__version__ = "0.1.0"

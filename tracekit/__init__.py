"""Capture, characterize and replay block I/O traces; decide where a small fast memory belongs."""

__version__ = "0.1.0"

"""Traces in object storage: places named by URLs, and trace folders whose files are objects."""

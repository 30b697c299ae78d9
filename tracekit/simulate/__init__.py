"""Replaying a trace against a model instead of a device; one file a model."""

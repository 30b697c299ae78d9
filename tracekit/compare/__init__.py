"""Puts replays of a trace side by side."""

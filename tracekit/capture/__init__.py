"""Captures of block events and of file operations: sources, their recordings, kernel state."""

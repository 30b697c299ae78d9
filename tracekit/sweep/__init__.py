"""Sweeps: personalities run on directories over file counts, sizes of calls and threads."""

"""Trace sets: many traces in one folder, worked on volume by volume, and NVM divided among them."""

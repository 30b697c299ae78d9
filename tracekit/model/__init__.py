"""Models: a trace against device profiles instead of devices."""

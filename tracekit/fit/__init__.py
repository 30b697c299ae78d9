"""Makes a work profile of a trace, and tells how well it matches."""

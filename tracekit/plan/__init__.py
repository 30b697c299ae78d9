"""Makes plans: what the replay program is to do, when and where."""

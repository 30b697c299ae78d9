"""The figures, one file each: a table goes in, a matplotlib figure comes out; no file is opened."""

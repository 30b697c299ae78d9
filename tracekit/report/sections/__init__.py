"""The sections, one file each: what is said is computed here, from tables; nothing is drawn."""

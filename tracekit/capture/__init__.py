"""Live capture of block events, with the layout of the traced disk beside them.

A source (one file each, `source.py` says what it offers) records; `session.py` decides how long;
`keep.py` writes the files; `settings.py` gives the machine back as it was.
"""

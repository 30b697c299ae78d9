"""The VM lab: a small QEMU guest with disks of chosen roles, for what a host should not see.

`image.py` makes kernel, drivers and root file system once, `machine.py` starts QEMU, and
`session.py` runs one command and fetches what it wrote. `guest/` is what runs inside.
"""

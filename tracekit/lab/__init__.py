"""The VM lab: a small QEMU guest with disks of chosen roles, for what a host should not see.

`build.py` makes kernel, drivers and root file system once; `session.py` boots them for one command;
`collect.py` takes home what the guest wrote. `guest/` is what runs inside.
"""

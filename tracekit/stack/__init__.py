"""The storage stack of a host: devices on devices down to its disks, and what uses them.

Runs in the guest of the lab too, where there is nothing beside the standard library.
"""

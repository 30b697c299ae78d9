"""`tracekit lab`: a small virtual machine, one file a sub-command."""

from __future__ import annotations


def lab() -> None:
    """Run and capture a command in a small virtual machine with disks of chosen roles."""

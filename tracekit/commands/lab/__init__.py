"""`tracekit lab`: a small virtual machine, one file a sub-command; the order is the help's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracekit.commands.lab.build import build
from tracekit.commands.lab.capture import capture
from tracekit.commands.lab.run import run

LAB: tuple[Callable[..., Any], ...] = (build, run, capture)


def lab() -> None:
    """Run and capture a command in a small virtual machine with disks of chosen roles."""

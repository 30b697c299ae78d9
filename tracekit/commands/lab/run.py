"""`tracekit lab run`: a command in a virtual machine."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from tracekit.api import lab
from tracekit.commands import options
from tracekit.escapes import bare
from tracekit.invoking_user import become_invoking_user


@options.of(
    lab.run,
    lab.job,
    output="New folder for what the command writes into $LAB_OUT.",
    disk=options.DISK,
    pmem="Size of persistent memory, with an ext4 that does DAX on $LAB_DAX.",
    **options.GUEST,
)
def run(command: options.GuestCommand, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Run a command in a virtual machine; bring back what it prints and writes."""
    become_invoking_user()
    guest = lab.run(command, **chosen)
    if as_json:
        talk = {"stdout": guest.stdout, "stderr": guest.stderr}
        options.say_json({**guest.summary, **talk})
    else:
        _pass_on(guest.stdout, sys.stdout)
        _pass_on(guest.stderr, sys.stderr)
    guest.check()


def _pass_on(text: str, stream: TextIO) -> None:
    """Write what the command wrote, as it is into a file or pipe; a terminal is not the guest's."""
    (stream if stream.isatty() else bare(stream)).write(text)

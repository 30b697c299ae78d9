"""`tracekit lab capture`: the block events of a command in a virtual machine."""

from __future__ import annotations

import sys
from typing import Any

from tracekit.api import lab
from tracekit.commands import options
from tracekit.invoking_user import become_invoking_user


@options.of(
    lab.capture,
    lab.job,
    output="New folder, as `tracekit parse` reads it.",
    disk=options.DISK,
    **options.GUEST,
    compress="Compress the record files.",
    buffer="Each of blktrace's 8 buffers a CPU, at least 64KiB.",
)
def capture(command: options.GuestCommand, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Record the block events of a command in a virtual machine, with blktrace and the layout."""
    become_invoking_user()
    guest = lab.capture(command, **chosen)
    sys.stderr.write(guest.stdout + guest.stderr)
    done = guest.summary
    if as_json:
        options.say_json(done)
    else:
        options.say(
            f"{chosen['output']}: {done['records']:,} records in {len(done['files'])} files,"
            f" {done['dropped']:,} lost; guest of {done['duration_ns'] / 1e9:.1f} s"
            f" ({done['accelerator']})"
        )
        if done["own_requests"]:
            options.say(f"{done['own_requests']:,} requests are of blktrace itself")
    guest.check()

"""Which engines of the replayer work here."""

from __future__ import annotations

import os
from pathlib import Path

from tracekit.doctor.check import Check, Finding, Group

SWITCH = Path("/proc/sys/kernel/io_uring_disabled")


def io_uring() -> Finding:
    """Set a ring up and close it."""
    from tracekit.native.io_uring import setup_errno

    failure = setup_errno()
    switch = SWITCH.read_text().strip() if SWITCH.exists() else "not there"
    detail = f"kernel.io_uring_disabled is {switch}"
    if failure == 0:
        return Finding("ok", f"a ring was set up; {detail}")
    remedy = "sysctl kernel.io_uring_disabled=0, or replay with the threads engine"
    return Finding("missing", f"io_uring_setup: {os.strerror(failure)}; {detail}", remedy)


ENGINES = Group(
    "Replay engines",
    (Check("io_uring", "replaying with many requests in flight", io_uring),),
)

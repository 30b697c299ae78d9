"""Runs a file plan in a guest of the VM lab, with a file system that is new for each run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import TracekitError, UsageError
from tracekit.native import FILE_PROGRAM
from tracekit.native.replay import DONE, PARTIAL, USAGE, Outcome
from tracekit.store import scratch_folder
from tracekit.sweep.target import MEMORY_MIB, Guest

if TYPE_CHECKING:
    from tracekit.lab.job import Job
    from tracekit.lab.session import Ended

SUMMARY = "summary.json"
WITHOUT_DAX = "umount $LAB_DAX && mount -t ext4 -o dax=never /dev/pmem0 $LAB_DAX || exit 1; "
TIMEOUT_S = 3600


def run_in_guest(
    plan: Path,
    guest: Guest,
    *,
    arguments: Sequence[str],
    tell: Callable[[str], None],
    results: Path | None = None,
) -> tuple[Outcome, dict[str, Any]]:
    """Boot a guest, run the plan on its file system, and return what the program and lab said.

    `results` becomes the file with a record an operation, which the guest leaves.

    Raises TracekitError with the program's message when it refused or failed, and for a lab that
    this machine cannot have.
    """
    from tracekit.lab.session import session

    with scratch_folder(plan.with_name("share")) as share:
        shutil.copy(plan, share / plan.name)
        if results:
            arguments = [*arguments, "--results", f"$LAB_OUT/{results.name}"]
        job = _job(guest, share, plan.name, arguments)
        with session(job, on_step=tell) as ended:
            told = {"accelerator": ended.accelerator, "exact": guest.is_exact}
            medium = {"medium": vars(guest.medium)} if guest.medium else {}
            outcome = _outcome(ended)
            if results:
                shutil.copy(ended.folder / "files" / results.name, results)
            return outcome, {**told, "memory_mib": MEMORY_MIB, **medium}


def _job(guest: Guest, share: Path, plan: str, arguments: Sequence[str]) -> Job:
    from tracekit.lab.job import Job

    place = "$LAB_FS" if guest.disk else "$LAB_DAX"
    words = [FILE_PROGRAM, plan, place, "--summary", f"$LAB_OUT/{SUMMARY}", *arguments]
    remount = WITHOUT_DAX if guest.memory_mib and not guest.is_dax else ""
    return Job(
        ("sh", "-c", remount + " ".join(words)),
        disks=(guest.disk,) if guest.disk else (),
        dax_mib=guest.memory_mib,
        memory_mib=MEMORY_MIB,
        share=share,
        is_exact=guest.is_exact,
        timeout_s=TIMEOUT_S,
    )


def _outcome(ended: Ended) -> Outcome:
    messages = (ended.folder / "stderr").read_text(errors="replace")
    if ended.exit_status not in (DONE, PARTIAL):
        lines = [line.removeprefix(f"{FILE_PROGRAM}: ") for line in messages.splitlines()]
        text = "; ".join(lines) or f"status {ended.exit_status}, and nothing was said"
        kind = UsageError if ended.exit_status == USAGE else TracekitError
        raise kind(f"in the guest: {text}")
    told = (ended.folder / "files" / SUMMARY).read_text(errors="backslashreplace")
    return Outcome(json.loads(told), messages, ended.exit_status == PARTIAL)

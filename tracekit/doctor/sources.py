"""Which ways of capturing block events and file operations work here, each found by trying it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracekit.capture import strace
from tracekit.capture.blktrace import why_not as why_not_blktrace
from tracekit.capture.sources import NAMES, choose
from tracekit.capture.tracefs import mounted_folder, read_setting
from tracekit.doctor.check import Check, Finding, Group, missing_program, run
from tracekit.errors import TracekitError

NEEDS_ROOT = Finding("missing", "not tried: needs root", "run: sudo tracekit doctor")
EVENT = "block:block_rq_issue"


def blk_tracer() -> Finding:
    """See that the kernel's `blk` tracer is there, free, and may be set."""
    if os.geteuid() != 0:
        return NEEDS_ROOT
    folder = mounted_folder()
    if folder is None:
        return Finding("limited", "tracefs is not mounted; a capture mounts it")
    if "blk" not in (folder / "available_tracers").read_text().split():
        remedy = "use a kernel with CONFIG_BLK_DEV_IO_TRACE"
        return Finding("missing", "this kernel has no tracer blk", remedy)
    os.close(os.open(folder / "current_tracer", os.O_WRONLY))
    used_by = read_setting(folder / "current_tracer")
    if used_by != "nop":
        return Finding("limited", f"in use: current_tracer is {used_by}", "stop that tracing")
    return Finding("ok", f"free, {folder}")


@contextmanager
def _idle_disk() -> Iterator[Path]:
    """Yield the folder in /sys/block of a loop device that nobody uses."""
    with tempfile.TemporaryDirectory(prefix="tracekit-doctor-") as folder:
        image = Path(folder) / "image"
        image.write_bytes(bytes(1 << 20))
        attached = run("losetup", "--find", "--show", "--read-only", str(image))
        if attached.status != 0:
            raise TracekitError(f"not tried: no loop device: {attached.first_complaint}")
        device = attached.output.strip()
        try:
            yield Path("/sys/block") / Path(device).name
        finally:
            run("losetup", "--detach", device)


def blktrace() -> Finding:
    """Set up a trace of an idle loop device and open its relay file, as blktrace(8) does."""
    found = missing_program("blktrace", "blktrace")
    if found or os.geteuid() != 0:
        return found or NEEDS_ROOT
    with _idle_disk() as disk:
        reason = why_not_blktrace(disk)
    if reason is not None:
        return Finding("broken", reason, "capture with another source: it is chosen by itself")
    return Finding("ok", "opened the relay file of an idle loop device")


def perf() -> Finding:
    """Record a block event on all CPUs with perf while `true` runs."""
    found = missing_program("perf", "linux-perf")
    if found:
        return found
    with tempfile.TemporaryDirectory(prefix="tracekit-doctor-") as folder:
        ran = run("perf", "record", "-a", "-e", EVENT, "-o", f"{folder}/perf.data", "--", "true")
    if ran.status != 0:
        remedy = "run as root, or lower kernel.perf_event_paranoid"
        return Finding("broken", f"perf record -e {EVENT}: {ran.first_complaint}", remedy)
    unseen = "completions that it does not see, parse tells by the disk's counters"
    return Finding("ok", f"perf record -e {EVENT} works; {unseen}")


def chosen() -> Finding:
    """Name the source that a capture would take here."""
    folder = mounted_folder()
    if os.geteuid() != 0:
        return NEEDS_ROOT
    if folder is None:
        return Finding("limited", "tracefs is not mounted; a capture mounts it")
    try:
        with _idle_disk() as disk:
            choice = choose(None, tracefs=folder, disks=[disk])
    except TracekitError as error:
        return Finding("missing", str(error), error.hint or "")
    if choice.refused:
        return Finding("limited", "; ".join(choice.notes))
    return Finding("ok", f"{choice.name}, the first of {', '.join(NAMES)}")


def bpftrace() -> Finding:
    """Attach to a block event with bpftrace and leave at once."""
    found = missing_program("bpftrace", "bpftrace")
    if found or os.geteuid() != 0:
        return found or NEEDS_ROOT
    program = f"tracepoint:{EVENT} {{ @n = count(); }} BEGIN {{ exit(); }}"
    ran = run("bpftrace", "-e", program)
    if ran.status != 0:
        return Finding("broken", ran.first_complaint, "use a kernel with CONFIG_BPF_EVENTS and BTF")
    return Finding("ok", f"attached to {EVENT}")


def files() -> Finding:
    """Trace the calls of `true` with strace."""
    found = missing_program("strace", "strace")
    if found:
        return found
    reason = strace.probe()
    if reason is not None:
        return Finding("broken", f"strace: {reason}", strace.REMEDY)
    return Finding("ok", "traced the calls of `true`")


SOURCES = Group(
    "Capture sources",
    (
        Check("block events of a capture", "tracekit capture", chosen),
        Check("tracefs blk tracer", "tracekit capture --source tracefs-blk", blk_tracer),
        Check("blktrace(8)", "tracekit capture --source blktrace", blktrace),
        Check("perf block events", "tracekit capture --source perf", perf),
        Check("bpftrace block events", "tracekit capture --source bpftrace", bpftrace),
        Check("strace file operations", "tracekit capture --files", files),
    ),
)

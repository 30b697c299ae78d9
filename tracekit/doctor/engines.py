"""Which engines of the replayer work here: each writes and reads one block."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from tracekit.doctor.check import Check, Finding, Group, run

URING_SWITCH = Path("/proc/sys/kernel/io_uring_disabled")
BLOCK_DEVICES = Path("/sys/block")
BLOCK_SECTORS = 8


def _replay(engine: str, *more: str) -> Finding:
    """Replay a plan of one write and one read with the engine on a file made for it."""
    from tracekit.native.replay import checked_program

    with tempfile.TemporaryDirectory(prefix="tracekit-doctor-") as folder:
        plan = Path(folder) / "plan.bin"
        _write_plan(plan)
        command = [str(checked_program()), str(plan), "--engine", engine, *more, "--quiet"]
        if engine != "null":
            command += ["--target", f"{folder}/target"]
        ran = run(*command)
    if ran.status != 0:
        asked = " ".join(["--engine", engine, *more])
        return Finding("broken", f"tracekit-replay {asked}: {ran.first_complaint}")
    done = json.loads(ran.output)["counts"]["done"]
    return Finding("ok", f"replayed {done} requests")


def _write_plan(path: Path) -> None:
    import numpy as np

    from tracekit.plan import file

    records = np.zeros(2, file.RECORD)
    records["operation"] = [file.WRITE, file.READ]
    records["request_id"] = [0, 1]
    records["length_sectors"] = BLOCK_SECTORS
    extent = file.Extent("probe", 0, BLOCK_SECTORS, 0, 0)
    tables = file.Tables(
        labels=("probe",),
        needed_bytes=(BLOCK_SECTORS * file.SECTOR_BYTES,),
        extents=(extent,),
        trace_sha256=bytes(32),
        level="queued",
    )
    with path.open("w+b") as out:
        writer = file.PlanWriter(out)
        writer.append(records)
        writer.finish(tables)


def io_uring() -> Finding:
    """Replay with io_uring; say how the kernel's switch stands when it does not work."""
    found = _replay("io_uring")
    if found.status == "ok" or not URING_SWITCH.exists():
        return found
    detail = f"{found.detail}; kernel.io_uring_disabled is {URING_SWITCH.read_text().strip()}"
    remedy = "sysctl kernel.io_uring_disabled=0, or replay with --engine threads"
    return Finding("missing", detail, remedy)


def sqpoll() -> Finding:
    """Replay with a thread of the kernel that submits."""
    found = _replay("io_uring", "--sqpoll", "--sqpoll-idle-ms", "1")
    if found.status == "ok":
        return found
    return Finding("missing", found.detail, "replay without --sqpoll")


def polled_devices(block_devices: Path = BLOCK_DEVICES) -> list[str]:
    """Return the names of the block devices whose queues can be polled."""
    switches = sorted(block_devices.glob("*/queue/io_poll"))
    return [path.parent.parent.name for path in switches if path.read_text().strip() == "1"]


def iopoll() -> Finding:
    """Look for devices that can be polled: only there can it be tried."""
    devices = polled_devices()
    if devices:
        return Finding("ok", f"devices with queues for it: {', '.join(devices)}")
    remedy = "for an NVMe drive: nvme.poll_queues=N on the kernel's command line"
    return Finding("missing", "no block device has queues for it", remedy)


def _probe(engine: str) -> Callable[[], Finding]:
    return lambda: _replay(engine)


ENGINES = Group(
    "Replay engines",
    (
        Check("io_uring", "replaying with many requests in flight", io_uring),
        Check("io_uring --sqpoll", "submitting without calls", sqpoll),
        Check("io_uring --iopoll", "completions without interrupts", iopoll),
        Check("threads", "replaying anywhere", _probe("threads"), is_required=True),
        Check("null", "proving the timing of a replay", _probe("null"), is_required=True),
    ),
)

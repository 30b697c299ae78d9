"""A trace that blktrace made in a guest becomes a folder like that of `tracekit capture`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tracekit.capture.keep import SUFFIXES, packing_writer
from tracekit.capture.records import survey
from tracekit.errors import TracekitError
from tracekit.lab.job import Job
from tracekit.lab.session import Ended
from tracekit.store import write_json

FILE = re.compile(r"(?P<device>.+)\.blktrace\.(?P<cpu>\d+)")
DROPPED = re.compile(r"Total:\s+\d+ events \(dropped (\d+)\)")


@dataclass(frozen=True)
class Kept:
    """What a capture's folder holds."""

    records: int
    own_requests: int
    """Requests that blktrace itself queued."""
    dropped: int
    """Records that blktrace had no room for."""
    files: tuple[str, ...]


def collect(ended: Ended, job: Job, *, folder: Path, name: str, compress: str) -> Kept:
    """Write the guest's trace and layout into `folder`.

    The files are NAME.blktrace.CPU, for several disks NAME-DISK.blktrace.CPU, and layout.json.
    """
    sources = sorted((ended.folder / "trace").iterdir())
    matches = [(match, path) for path in sources if (match := FILE.fullmatch(path.name))]
    summary = (ended.folder / "blktrace.log").read_text(errors="replace")
    totals = DROPPED.findall(summary)
    devices = sorted({match["device"] for match, _ in matches})
    if not matches or len(totals) != len(devices):
        raise TracekitError(f"blktrace left no whole trace in the guest:\n{summary.strip()}")
    files = []
    for match, path in matches:
        stem = name if len(devices) == 1 else f"{name}-{match['device']}"
        files.append(f"{stem}.blktrace.{match['cpu']}{SUFFIXES[compress]}")
        with packing_writer(folder / files[-1], compress) as target:
            target.write(path.read_bytes())
    found = survey([path for _, path in matches])
    own = map(int, (ended.folder / "tracer").read_text().split())
    kept = Kept(
        records=found.records,
        own_requests=sum(found.queued_by_pid.get(pid, 0) for pid in own),
        dropped=sum(map(int, totals)),
        files=tuple(files),
    )
    write_json(folder / "layout.json", _layout(ended, job, kept))
    return kept


def _layout(ended: Ended, job: Job, kept: Kept) -> dict[str, object]:
    """Return the guest's layout with what is known of the capture."""
    layout: dict[str, object] = json.loads((ended.folder / "layout.json").read_text())
    return {
        **layout,
        "processes": {},
        "loss": {"overrun": 0, "dropped": kept.dropped},
        "capture": {
            "source": "lab-blktrace",
            "command": list(job.command),
            "records": kept.records,
            "own_requests": kept.own_requests,
            "foreign_bytes": 0,
            "lab": {
                "accelerator": ended.accelerator,
                "memory_mib": job.memory_mib,
                "limit_bytes": job.limit_bytes,
                "prepare": job.prepare,
                "mount_options": job.mount_options,
                "packages": list(job.packages),
                "latency_ns": {
                    part.role: part.latency_ns for disk in job.disks for part in disk.parts
                },
            },
        },
    }

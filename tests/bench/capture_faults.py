"""Faults of captures by the dozen, and losses at the highest rate beside the kernel's counters."""

import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from tests.bench.capturing import DISK_MIB, job
from tests.bench.harness import MEMORY, Bench, needs, needs_root, tracekit
from tests.capture.faults import FAULTS, fault
from tests.capture.machine import small_disk, tracer_turn
from tests.replay.disk import image, loop
from tracekit.readers.blktrace import parse


def bench_capture_faults(out: Bench, *, runs: int = 60, seed: int = 1) -> None:
    """Each kind of fault in turn, at random moments: programs hurt, records lost, what is left."""
    needs_root()
    total: Counter[str] = Counter()
    kinds: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory(dir=out.folder) as work, small_disk(Path(work)) as disk:
        for number in range(runs):
            name = [*FAULTS][number % len(FAULTS)]
            with tracer_turn():  # others wait for theirs between two faults
                found = fault(name, disk, Path(work) / f"case-{number}", seed=seed + number)
            total += Counter(hurt=found.hurt, lost=found.lost, left=found.left)
            kinds.setdefault(name, []).append(found.kept)
            if found.hurt or found.lost or found.left:
                out.note(f"{number}: {found}")
            shutil.rmtree(Path(work) / f"case-{number}")
    for name, kept in kinds.items():
        out.row(name, faults=len(kept), least_kept=min(kept), most_kept=max(kept))
    out.row("all", faults=runs, hurt=total["hurt"], lost=total["lost"], left=total["left"])


def bench_capture_losses(out: Bench, *, requests: int = 100_000, rounds: int = 5) -> None:
    """Losses that are declared beside those that the kernel's counters show, over memory.

    With a buffer that is large enough, and with one that is not.
    """
    needs_root()
    needs("fio")
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as place,
        loop(image(Path(place) / "disk", mib=DISK_MIB)) as device,
    ):
        words = ["fio", *job(device, requests=requests, depth=32), "--output-format=json"]
        for buffer in ("32MiB", "1MiB"):
            for _ in range(rounds):
                folder, report = out.scratch / "capture", out.scratch / "fio.json"
                for old in (folder, out.scratch / "trace"):
                    shutil.rmtree(old, ignore_errors=True)
                options = ("--source", "tracefs-blk", "--buffer", buffer)
                tracekit(
                    "capture", device, "-o", folder, *options, "--", *words, f"--output={report}"
                )
                loss = parse([folder], out.scratch / "trace")[0].content["loss"]
                declared = sum(json.loads((folder / "layout.json").read_text())["loss"].values())
                disks = loss["unseen"]["disks"]
                counted = sum(row["counted"] for row in disks)
                unseen = sum(row["at_least"] for row in disks)
                rate = json.loads(report.read_text())["jobs"][0]["read"]["iops"]
                out.row(
                    f"buffer {buffer}",
                    iops=rate,
                    counted=counted,
                    completions_missing=unseen,
                    records_declared_lost=declared,
                    undeclared=int(unseen > 0 and declared == 0),
                )

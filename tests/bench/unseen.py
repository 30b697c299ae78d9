"""How many completions each capture source does not see on an idle machine, and what it reports."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench.harness import Bench, Skipped, needs_root
from tests.capture.machine import Disk, run_capture, small_disk
from tests.capture.test_unseen import READS, mixed, reads
from tracekit.capture.layout import find_disk
from tracekit.capture.session import NAMES, choose
from tracekit.capture.tracefs import tracefs_folder
from tracekit.errors import TracekitError
from tracekit.readers.blktrace import parse


def run(disk: Disk, source: str, command: list[str], folder: Path) -> dict[str, int]:
    """Return requests counted, recorded, unseen (least, most), rows without completion."""
    options = ("-o", str(folder / "c"), "--source", source)
    done = run_capture(disk.device, *options, "--", *command, code=None)
    if done.returncode:
        raise SystemExit(done.stderr)
    loss = parse([folder / "c"], folder / "trace")[0].content["loss"]
    rows = loss["unseen"]["disks"]
    names = ("counted", "recorded", "at_least", "at_most")
    found = {name: sum(row[name] for row in rows) for name in names}
    counted = sum(row["counted"] for row in rows if row["kind"] == "read")
    return found | {"open": loss["unmatched"]["queue"], "reads": counted}


def measure(out: Bench, disk: Disk, source: str, runs: int) -> None:
    """Print what became of the reads and of requests of all kinds."""
    try:
        choose(source, tracefs=tracefs_folder(), disks=[find_disk(disk.device)])
    except TracekitError as error:
        raise Skipped(str(error)) from error
    for name, command in (("reads", reads(disk)), ("mixed", ["sh", "-c", mixed(disk)])):
        found: list[dict[str, int]] = []
        while len(found) < runs:
            with tempfile.TemporaryDirectory(dir=out.scratch) as folder:
                one = run(disk, source, command, Path(folder))
            if name == "mixed" or one["reads"] == READS:
                found.append(one)
        exact = sum(one["at_least"] == one["at_most"] for one in found)
        out.row(f"{source}: {name}", requests=found[-1]["counted"], runs=runs, exact=exact)
        told = sorted((one["at_least"], one["at_most"], one["open"]) for one in found)
        out.note(f"  unseen at least, at most, rows without completion: {told}")


def bench(out: Bench, *, runs: int = 10, source: str | None = None) -> None:
    """Capture with each source in turn; the truth is the number of direct reads that were made.

    They are of a partition that nobody else uses; a capture in which somebody else read is made
    again.
    """
    needs_root()
    with tempfile.TemporaryDirectory(dir=out.folder) as work, small_disk(Path(work)) as disk:
        for name in [source] if source else NAMES:
            with out.part(name):
                measure(out, disk, name, runs)

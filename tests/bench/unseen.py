"""How many completions each capture source does not see on an idle machine, and what is told.

    python -m tests.bench.unseen FOLDER [--runs 10] [--source NAME]

The truth is the number of direct reads that were made, of a partition that nobody else uses. A
capture in which somebody else read is made again. Needs root.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.capture.machine import Disk, run_capture, small_disk
from tests.capture.test_unseen import READS, mixed, reads
from tracekit.capture.layout import find_disk
from tracekit.capture.session import NAMES, choose
from tracekit.capture.tracefs import tracefs_folder
from tracekit.errors import TracekitError
from tracekit.readers.blktrace import parse


def sources(disk: Disk, given: str | None) -> Iterator[str]:
    """Yield those that work here, and say why others do not."""
    for name in [given] if given else NAMES:
        try:
            choose(name, tracefs=tracefs_folder(), disks=[find_disk(disk.device)])
        except TracekitError as error:
            print(f"{name}: {error}")
        else:
            yield name


def run(disk: Disk, source: str, command: list[str], folder: Path) -> dict[str, int]:
    """Return requests counted, recorded, told as unseen (least, most), rows without completion."""
    done = run_capture(disk.device, "-o", str(folder / "c"), "--source", source, "--", *command)
    if done.returncode:
        raise SystemExit(done.stderr)
    loss = parse([folder / "c"], folder / "trace")[0].content["loss"]
    rows = loss["unseen"]["disks"]
    names = ("counted", "recorded", "at_least", "at_most")
    found = {name: sum(row[name] for row in rows) for name in names}
    reads_counted = sum(row["counted"] for row in rows if row["kind"] == "read")
    return found | {"open": loss["unmatched"]["queue"], "reads": reads_counted}


def table(disk: Disk, source: str, place: Path, runs: int) -> None:
    """Print what became of the reads and of requests of all kinds."""
    for name, command in (("reads", reads(disk)), ("mixed", ["sh", "-c", mixed(disk)])):
        found: list[dict[str, int]] = []
        while len(found) < runs:
            with tempfile.TemporaryDirectory(dir=place) as folder:
                one = run(disk, source, command, Path(folder))
            if name == "mixed" or one["reads"] == READS:
                found.append(one)
        exact = sum(one["at_least"] == one["at_most"] for one in found)
        print(f"{source} {name}: {found[-1]['counted']} requests, {exact} of {runs} told exactly")
        told = sorted((one["at_least"], one["at_most"], one["open"]) for one in found)
        print(f"  unseen at least, at most, rows without completion: {told}")


def main() -> None:
    """Capture with each source in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--source", choices=NAMES)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.folder) as work, small_disk(Path(work)) as disk:
        for source in sources(disk, given.source):
            table(disk, source, given.folder, given.runs)


if __name__ == "__main__":
    main()

"""What capturing block events costs: the same requests untraced and under each source by turns.

python -m tests.bench.block_capture FOLDER [--requests 20000] [--rounds 9]

As root; needs fio. The disk is a loop device over memory, the hardest case: a real disk takes
longer for a request, of which the capture is then a smaller part. FOLDER is on another disk.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.bench.memory_disk import MEMORY
from tests.replay.disk import image, loop
from tracekit.capture.session import NAMES

DISK_MIB = 512
DEPTHS = (1, 32)
WORKS_NOT = "block events cannot be captured"


@dataclass(frozen=True)
class Run:
    """What one run came to."""

    iops: float
    latency_us: float
    """Mean, of a request."""
    records: int = 0
    lost: int = 0


def job(device: Path, report: Path, *, requests: int, depth: int) -> list[str]:
    """Return the command: random reads of 4 KiB past the page cache, so many of them."""
    return [
        *("fio", "--name=read", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1"),
        *("--ioengine=io_uring", f"--iodepth={depth}", "--size=100%", "--norandommap"),
        *("--randseed=7", f"--number_ios={requests}", "--readonly"),
        *("--output-format=json", f"--output={report}"),
    ]


def measured(report: Path) -> tuple[float, float]:
    """Return requests a second and their mean latency in us."""
    read = json.loads(report.read_text())["jobs"][0]["read"]
    return read["iops"], read["lat_ns"]["mean"] / 1e3


def untraced(folder: Path, device: Path, *, requests: int, depth: int) -> Run:
    """Run without a capture."""
    report = folder / "fio.json"
    subprocess.run(job(device, report, requests=requests, depth=depth), check=True)
    return Run(*measured(report))


def traced(folder: Path, device: Path, source: str, *, requests: int, depth: int) -> Run | None:
    """Run under a capture with this source, or return None where it does not work."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        output, report = Path(place) / "capture", folder / "fio.json"
        command = [sys.executable, "-m", "tracekit", "capture", str(device), "-o", str(output)]
        command += ["--source", source, "--json", "--"]
        command += job(device, report, requests=requests, depth=depth)
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode and WORKS_NOT in ran.stderr:
            return None
        ran.check_returncode()
        layout = json.loads((output / "layout.json").read_text())
        return Run(
            *measured(report),
            records=layout["capture"]["records"],
            lost=sum(layout["loss"].values()),
        )


def shown(name: str, runs: list[Run], *, beside: list[Run]) -> str:
    """Return a row: the best of the rounds, as other users of the machine only take away."""
    best, untouched = (max(one.iops for one in some) for some in (runs, beside))
    latency = min(run.latency_us for run in runs)
    more = latency - min(run.latency_us for run in beside)
    counts = f"{runs[-1].records:,} | {sum(run.lost for run in runs):,}"
    return f"| {name} | {best:,.0f} | {best / untouched:.2f} | {more:.1f} us | {counts} |"


def compare(folder: Path, device: Path, *, requests: int, rounds: int, depth: int) -> None:
    """Print a table of all sources that work here."""
    found: dict[str, list[Run]] = {}
    beside: list[Run] = []
    for _ in range(rounds):
        beside.append(untraced(folder, device, requests=requests, depth=depth))
        for source in NAMES:
            run = traced(folder, device, source, requests=requests, depth=depth)
            if run is not None:
                found.setdefault(source, []).append(run)
    print(f"\n{requests:,} reads of 4 KiB, {depth} at a time")
    print("| source | IOPS | to untraced | longer | records | lost |\n|---|---|---|---|---|---|")
    print(shown("untraced", beside, beside=beside))
    for source, runs in found.items():
        print(shown(source, runs, beside=beside))


def main() -> None:
    """Measure at each depth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as place,
        loop(image(Path(place) / "disk", mib=DISK_MIB)) as device,
    ):
        for depth in DEPTHS:
            compare(given.folder, device, requests=given.requests, rounds=given.rounds, depth=depth)


if __name__ == "__main__":
    main()

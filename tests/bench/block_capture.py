"""What capturing block events costs: the same requests untraced and under each source by turns."""

import json
import shutil
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.harness import MEMORY, Bench, Failed, fio, needs, needs_root, tracekit
from tests.replay.disk import image, loop
from tracekit.capture.session import NAMES

DISK_MIB = 512
DEPTHS = (1, 32)
MISSING = "block events cannot be captured"


def job(device: Path, *, requests: int, depth: int) -> list[str]:
    """Return fio's words: random reads of 4 KiB past the page cache, so many of them."""
    return [
        *("--name=read", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1"),
        *("--ioengine=io_uring", f"--iodepth={depth}", "--size=100%", "--norandommap"),
        *("--randseed=7", f"--number_ios={requests}", "--readonly"),
    ]


class Rounds:
    """Runs of one job, whose latency, records and losses are kept beside the rates."""

    def __init__(self, folder: Path, device: Path, words: list[str]) -> None:
        self.folder, self.device, self.words = folder, device, words
        self.latency_us: dict[str, list[float]] = {}
        self.records: dict[str, int] = {}
        self.lost: dict[str, int] = {}

    def add(self, name: str, read: dict[str, Any]) -> float:
        self.latency_us.setdefault(name, []).append(read["lat_ns"]["mean"] / 1e3)
        return float(read["iops"])

    def untraced(self) -> float:
        return self.add("untraced", fio(*self.words)[0]["read"])

    def traced(self, source: str) -> float:
        """Run under a capture with this source."""
        output, report = self.folder / "capture", self.folder / "fio.json"
        shutil.rmtree(output, ignore_errors=True)
        command = ["fio", *self.words, "--output-format=json", f"--output={report}"]
        tracekit("capture", self.device, "-o", output, "--source", source, "--", *command)
        layout = json.loads((output / "layout.json").read_text())
        self.records[source] = layout["capture"]["records"]
        lost = sum(layout["loss"].values())
        self.lost[source] = self.lost.get(source, 0) + lost
        return self.add(source, json.loads(report.read_text())["jobs"][0]["read"])

    def works(self, source: str) -> bool:
        try:
            self.traced(source)
        except Failed as error:
            if MISSING in str(error):
                return False
            raise
        return True


def bench(out: Bench, *, requests: int = 20_000, rounds: int = 9) -> None:
    """Run on a loop device over memory: the hardest case, as a real disk takes longer.

    FOLDER must be on another disk. Others on the machine only take away: compare the most IOPS.
    """
    needs_root()
    needs("fio")
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as place,
        loop(image(Path(place) / "disk", mib=DISK_MIB)) as device,
    ):
        for depth in DEPTHS:
            runs = Rounds(out.scratch, device, job(device, requests=requests, depth=depth))
            sources = {name: partial(runs.traced, name) for name in NAMES if runs.works(name)}
            for missing in set(NAMES) - set(sources):
                out.note(f"{missing}: {MISSING} here")
            runs = Rounds(out.scratch, device, runs.words)
            sources = {name: partial(runs.traced, name) for name in sources}
            case = f"{depth} at a time"
            out.compare(case, {"untraced": runs.untraced} | sources, rounds=rounds, unit="IOPS")
            least = min(runs.latency_us["untraced"])
            for name, lost in runs.lost.items():
                median_us = statistics.median(runs.latency_us[name])
                longer = {"median_us": median_us, "longer_us": min(runs.latency_us[name]) - least}
                out.row(f"{case}: {name}", **longer, records=runs.records[name], lost=lost)

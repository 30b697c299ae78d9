"""Stages of a set in two processes and on two workers: processor time, memory and shuffled bytes.

python -m tests.spark.measure [REQUESTS...], of each volume of eight; one table of Markdown. Or
python -m tests.spark.measure import REQUESTS, of a text of 24 volumes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tracekit as tk
from tests.spark.cluster import Cluster, cluster, environment
from tests.spark.demo import volumes_file

VOLUMES = 8
SIZES = ("1000", "100000", "400000")
SAMPLE_S = 0.05
TICKS = os.sysconf("SC_CLK_TCK")
STAGES = ("classify", "analyze")
EVENTS = "--conf spark.eventLog.enabled=true --conf spark.eventLog.compress=false"


@dataclass
class Usage:
    """What the processes of sessions took, as far as samples of /proc show it."""

    sessions: set[int]
    cpu_s: dict[int, float] = field(default_factory=dict)
    peak_kib: dict[int, int] = field(default_factory=dict)

    def sample(self) -> None:
        """Look at all processes of the sessions; a process keeps what it had when last seen."""
        for place in Path("/proc").glob("[0-9]*"):
            try:
                name, _, rest = (place / "stat").read_text().rpartition(")")
                fields = rest.split()
                if int(fields[3]) not in self.sessions:
                    continue
                self.cpu_s[int(place.name)] = (int(fields[11]) + int(fields[12])) / TICKS
                if "(java" not in name:
                    status = (place / "status").read_text()
                    peak = status.partition("VmHWM:")[2].split()
                    known = self.peak_kib.get(int(place.name), 0)
                    self.peak_kib[int(place.name)] = max(known, int(peak[0]) if peak else 0)
            except (OSError, IndexError, ValueError):
                continue


def run(
    stage: Sequence[str], place: Path, made: Cluster | None, events: Path
) -> tuple[float, Usage]:
    """Run a stage of a set; return how long it took, and what it used."""
    words = [sys.executable, "-m", "tracekit", *stage, str(place)]
    environs = dict(os.environ)
    sessions = set[int]()
    if made is not None:
        words += ["--engine", "spark", "--master", made.master]
        log = f"{EVENTS} --conf spark.eventLog.dir=file:{events}"
        environs = environment(PYSPARK_SUBMIT_ARGS=f"{log} pyspark-shell")
        sessions = {one.pid for one in made.all}
    before = Usage({*sessions})
    before.sample()
    begin_s = time.monotonic()
    running = subprocess.Popen(
        words, env=environs, stdout=subprocess.DEVNULL, start_new_session=True
    )
    used = Usage({running.pid, *sessions})
    while running.poll() is None:
        used.sample()
        time.sleep(SAMPLE_S)
    elapsed_s = time.monotonic() - begin_s
    if running.returncode:
        raise RuntimeError(f"{words} ended with {running.returncode}")
    for pid, cpu_s in before.cpu_s.items():
        used.cpu_s[pid] = used.cpu_s.get(pid, cpu_s) - cpu_s
    return elapsed_s, used


def shuffled(events: Path) -> tuple[int, int]:
    """Return the bytes that tasks wrote for others, and those of their results."""
    written = results = 0
    for path in events.glob("*/events_*"):
        for line in path.read_text().splitlines():
            metrics = json.loads(line).get("Task Metrics") or {}
            written += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
            results += metrics.get("Result Size", 0)
    return written, results


def measure(folder: Path, requests: int, made: Cluster) -> None:
    """Print the rows of one size."""
    trace = folder / f"trace-{requests}"
    tk.generate("web-server", trace, requests=requests)
    names = [folder / f"{requests}" / f"v{number}" for number in range(VOLUMES)]
    for name in names:
        shutil.copytree(trace, name)
    for where in ("here", "spark"):
        tk.add_to_set(folder / f"{where}-{requests}", *names)
    for stage in STAGES:
        print_rows((stage,), folder, f"{requests}", made, requests * VOLUMES)


def measure_import(folder: Path, rows: int, made: Cluster) -> None:
    """Print the rows of an import of so many requests of 24 volumes."""
    source = volumes_file(folder, rows)
    words = ("import", str(source), "--format", "alibaba", "--split-by", "volume", "-o")
    print_rows(words, folder, "imported", made, rows)


def print_rows(stage: Sequence[str], folder: Path, name: str, made: Cluster, rows: int) -> None:
    """Print what a stage takes here and on a cluster."""
    for where, on in (("here", None), ("spark", made)):
        events = Path(tempfile.mkdtemp(dir=folder))
        elapsed_s, used = run(stage, folder / f"{where}-{name}", on, events)
        cpu_s, moved = sum(used.cpu_s.values()), shuffled(events) if on else ("", "")
        cells = (
            *(stage[0], f"{rows:,}", "two workers" if on else "here"),
            *(f"{elapsed_s:.1f}", f"{cpu_s:.1f}", f"{rows / cpu_s:,.0f}"),
            *(f"{max(used.peak_kib.values()) / 1024:.0f}", *map(str, moved)),
        )
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()


def main(sizes: Sequence[str]) -> None:
    """Measure each size on one cluster."""
    with tempfile.TemporaryDirectory(prefix="tracekit-spark-") as name:
        folder = Path(name)
        (folder / "cluster").mkdir()
        with cluster(folder / "cluster") as made:
            if sizes[:1] == ["import"]:
                measure_import(folder, int(sizes[1]), made)
                return
            for size in sizes or SIZES:
                measure(folder, int(size), made)


if __name__ == "__main__":
    main(sys.argv[1:])

"""`make spark-demo`: a cluster of two workers on this machine, and the answer for a set on it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import tracekit as tk
from tests.spark.cluster import cluster, environment

PROFILES = ("web-server", "paging", "log-structured")
VOLUMES = 12
LARGEST = 30_000
"""Requests of the first volume; the n-th has one n-th of them, as Zipf's law has it."""


def make_set(place: Path, *, volumes: int = VOLUMES, largest: int = LARGEST) -> tk.Set:
    """Make a set of generated volumes of very different sizes."""
    traces = []
    for number in range(1, volumes + 1):
        profile = PROFILES[number % len(PROFILES)]
        trace = place / "traces" / f"{profile}-{number}"
        tk.generate(profile, trace, requests=max(1, largest // number), seed=number)
        traces.append(trace)
    return tk.add_to_set(place / "set", *traces)


def volumes_file(place: Path, rows: int) -> Path:
    """Write a text of 24 volumes of very different sizes, a few lines of which are wrong."""
    file = place / "volumes.csv"
    with file.open("w") as out:
        for n in range(rows):
            volume = min(n * 7919 % 1009, n * 104_729 % 1013) % 24
            length, time_us = 4096 << n % 4, 10**15 + n * 371
            out.write(f"v{volume},{'RW'[n % 3 > 0]},{n * 7 % 99_991 * 4096},{length},{time_us}\n")
            if n % 250_000 == 7:
                out.write("v1,R,no,number,here\n")
    return file


def main(folder: Path) -> None:
    """Make the set, start the cluster, and run the stages on it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sys.stdout.write(f"{make_set(folder).headline}\n")
    with cluster(folder) as made:
        sys.stdout.write(f"a master and two workers: {made.master}\n")
        for stage in ("classify", "analyze", "recommend"):
            begin_s = time.monotonic()
            words = [stage, str(folder / "set"), "--engine", "spark", "--master", made.master]
            sys.stdout.write(f"\n$ tracekit {' '.join(words)}\n")
            sys.stdout.flush()
            command = [sys.executable, "-m", "tracekit", *words]
            subprocess.run(command, env=environment(), check=True)
            sys.stdout.write(f"  {time.monotonic() - begin_s:.1f} s\n")
    sys.stdout.write("\nthe cluster has ended\n")


if __name__ == "__main__":
    main(Path("out/spark-demo"))

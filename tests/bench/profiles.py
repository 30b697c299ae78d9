"""Time the making of requests from work profiles: in memory, into a plan and into a trace folder.

On one processor core and on as many as there are. Rates are millions of requests a second.

    python -m tests.bench.profiles FOLDER --requests 20000000
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tracekit.workload.generate import generate, open_profile
from tracekit.workload.model import Profile
from tracekit.workload.reader import shipped
from tracekit.workload.requests import Extent, blocks

ROUNDS = 3


def made(profile: Profile, count: int, _folder: Path) -> None:
    """Make the requests and drop them."""
    assert sum(len(block) for block in blocks(profile, Extent(count))) == count


def planned(profile: Profile, count: int, folder: Path) -> None:
    """Write a plan."""
    generate(profile, folder / "plan", form="plan", extent=Extent(count))
    (folder / "plan").unlink()


def traced(profile: Profile, count: int, folder: Path) -> None:
    """Write a trace folder of a tenth of the requests."""
    generate(profile, folder / "trace", form="trace", extent=Extent(count // 10))
    shutil.rmtree(folder / "trace")


def best(
    work: Callable[[Profile, int, Path], None], profile: Profile, where: tuple[int, Path]
) -> float:
    """Return the shortest time of some rounds."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work(profile, *where)
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    """Print a line a profile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=20_000_000)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    every = os.sched_getaffinity(0)
    where = (asked.requests, asked.folder)
    for cores in ({min(every)}, every):
        os.sched_setaffinity(0, cores)
        for name in shipped():
            profile = open_profile(name)
            rates = [
                count / best(work, profile, where) / 1e6
                for work, count in ((made, asked.requests), (planned, asked.requests),
                                    (traced, asked.requests // 10))
            ]  # fmt: skip
            shown = ", ".join(
                f"{what} {rate:.1f}"
                for what, rate in zip(("made", "plan", "trace"), rates, strict=True)
            )
            print(
                f"{len(cores)} cores, {name}: {shown} M requests/s, load {os.getloadavg()[0]:.1f}"
            )


if __name__ == "__main__":
    main()

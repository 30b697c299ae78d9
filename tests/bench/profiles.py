"""The making of requests from work profiles: in memory, into a plan and into a trace folder."""

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.bench.harness import Bench, timed
from tracekit.workload.generate import generate, open_profile
from tracekit.workload.model import Profile
from tracekit.workload.reader import shipped
from tracekit.workload.requests import Extent, blocks


def dropped(profile: Profile, count: int, _folder: Path) -> None:
    assert sum(len(block) for block in blocks(profile, Extent(count))) == count


def planned(profile: Profile, count: int, folder: Path) -> None:
    generate(profile, folder / "plan", form="plan", extent=Extent(count))
    (folder / "plan").unlink()


def traced(profile: Profile, count: int, folder: Path) -> None:
    generate(profile, folder / "trace", form="trace", extent=Extent(count))
    shutil.rmtree(folder / "trace")


# A trace folder gets a tenth of the requests.
WAYS: dict[str, tuple[Callable[[Profile, int, Path], None], int]] = {
    "in memory": (dropped, 1),
    "plan": (planned, 1),
    "trace folder": (traced, 10),
}


def rate(profile: Profile, way: str, requests: int, folder: Path) -> float:
    function, share = WAYS[way]
    return requests // share / timed(function, profile, requests // share, folder)[1].wall_s / 1e6


def bench_profiles(out: Bench, *, requests: int = 20_000_000, rounds: int = 3) -> None:
    """On one processor core and on as many as there are."""
    every = os.sched_getaffinity(0)
    for cores in ({min(every)}, every):
        os.sched_setaffinity(0, cores)
        for name in shipped():
            profile = open_profile(name)
            ways = {way: partial(rate, profile, way, requests, out.scratch) for way in WAYS}
            out.compare(f"{name}, {len(cores)} cores", ways, rounds=rounds, unit="M a second")

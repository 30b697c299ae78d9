"""Make a trace set to try: `python -m tests.bench.make_set SET [--volumes 500] [--requests 10000]`.

Volumes are a day of a shipped work profile each. The largest has about so many requests, the one
of rank r that many by r (Zipf). Targets have 64 MiB to 16 GiB, and the hour of the day at which
most requests come is another for each. With --samples each of the sample traces is a volume, too.
The same seed gives the same set.
"""

import argparse
import math
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import tracekit as tk

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("web-server", "paging", "log-structured")
HOURS = 24
HOUR_US = 3_600_000_000
LEAST = 20
"""Requests of the smallest volume."""
SHARPEST = 3.0
"""At the peak a volume has up to e^3 times its median rate."""
BATCH = 16


@dataclass(frozen=True)
class Load:
    """A volume to make: its profile as a TOML text, and the seed."""

    name: str
    text: str
    seed: int


def loads(volumes: int, *, requests: int, seed: int = 0) -> list[Load]:
    """Return the volumes of a set, the largest first."""
    chance = np.random.default_rng(seed)
    found = []
    for rank in range(1, volumes + 1):
        shipped = SHIPPED[int(chance.integers(len(SHIPPED)))]
        target_mib = 2 ** int(chance.integers(6, 15))
        peak_hour, sharpness = int(chance.integers(HOURS)), chance.uniform(0, SHARPEST)
        angles = ((hour - peak_hour) * 2 * math.pi / HOURS for hour in range(HOURS))
        rates = [math.exp(sharpness * math.cos(angle)) for angle in angles]
        count = max(LEAST, requests // rank)
        mean_us = round(HOURS * HOUR_US / count * np.mean(rates))
        text = (ROOT / "tracekit" / "workload" / "profiles" / f"{shipped}.toml").read_text()
        lines = []
        for line in text.splitlines():
            key = line.partition(" = ")[0]
            value = {"target_size": f"{target_mib}MiB", "mean": f"{mean_us}us"}.get(key)
            lines.append(line if value is None else f'{key} = "{value}"')
        steps = ", ".join(f"{rate:.4f}" for rate in rates)
        lines += ["[[phase]]", f'duration = "{HOURS}h"', f"rate = [{steps}]", ""]
        name = f"volume-{rank:0{len(str(volumes))}}-{shipped}"
        found.append(Load(name, "\n".join(lines), seed + rank))
    return found


def make_volume(load: Load, *, into: Path) -> Path:
    """Generate the trace folder of a volume."""
    file = into / f"{load.name}.toml"
    file.write_text(load.text)
    tk.generate(str(file), into / load.name, duration=f"{HOURS}h", seed=load.seed)
    file.unlink()
    return into / load.name


def make_set(place: Path, *, volumes: int = 500, requests: int = 100_000, seed: int = 0) -> tk.Set:
    """Generate a set of volumes in the folder `place`, which is made."""
    place.mkdir(parents=True, exist_ok=True)
    chosen = loads(volumes, requests=requests, seed=seed)
    with ProcessPoolExecutor(min(2, len(os.sched_getaffinity(0)))) as pool:
        made = pool.map(partial(make_volume, into=place), chosen, chunksize=BATCH)
        for number, _ in enumerate(made, 1):
            print(f"\r{number:,} of {volumes:,} volumes", end="", flush=True)
    print()
    return tk.add_to_set(place)


def add_samples(place: Path) -> None:
    """Parse the sample traces, each into a volume of the set."""
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        traces = []
        for sample in sorted(file.parent for file in ROOT.glob("sample-traces/*/layout.json")):
            trace = Path(scratch) / f"sample-{sample.name}"
            traces.append(tk.read(sample, trace).path)
        tk.add_to_set(place, *traces)


def main() -> None:
    """Make the set that the command line describes."""
    assert __doc__
    parser = argparse.ArgumentParser(prog="python -m tests.bench.make_set", description=__doc__)
    parser.add_argument("set", type=Path)
    parser.add_argument("--volumes", type=int, default=500)
    parser.add_argument("--requests", type=int, default=100_000, help="of the largest volume")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", action="store_true", help="with the sample traces")
    options = parser.parse_args()
    make_set(options.set, volumes=options.volumes, requests=options.requests, seed=options.seed)
    if options.samples:
        add_samples(options.set)
    print(tk.open_set(options.set).headline)


if __name__ == "__main__":
    main()

"""What characterizing tells, beside what is known and beside fio.

`python -m tests.bench.characterize`: emulated devices of three built-in profiles and one of eight
lanes, then the same random reads and writes by fio and by the steps of a characterization on one
file, in turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.replay.program import run
from tracekit.device.characterize import CharacterizeOptions, characterize
from tracekit.device.latencies import ALL, read_latencies
from tracekit.device.steps import Amounts, Step, write_plan
from tracekit.device.target import Asked

SIZE_BYTES = 256 << 20
LANES = """
[eight-lanes]
read_latency_us = 66.7
write_latency_us = 240.0
read_mib_s = 3242.0
write_mib_s = 500.0
flush_us = 400.0
fua_us = 300.0
parallelism = 8
price_per_gb = 6.0
"""
DEVICES = ("ssd-pcm", "ssd-emlc", "ssd-nvme", "eight-lanes")
CELLS = ((0.0, 1), (1.0, 1), (0.0, 32), (0.5, 32))


def emulated(place: Path, scale: float) -> None:
    """Print how far what was found is off what was emulated."""
    own = place / "own.toml"
    own.write_text(LANES)
    for name in DEVICES:
        asked = Asked(device=name, profiles=own)
        told = characterize(
            place / name, CharacterizeOptions(asked=asked, amounts=Amounts(scale=scale))
        )
        found = {one["parameter"]: one for one in told["fit"]}
        errors = ", ".join(
            f"{key} {one['error_ratio']:+.1%}"
            for key, one in found.items()
            if one["error_ratio"] is not None
        )
        print(f"{name}: {errors}")


def by_fio(target: Path, step: Step) -> tuple[float, float]:
    """Return IOPS and mean latency in us of the step's requests, made by fio."""
    command = [
        "fio", "--name=a", f"--filename={target}", "--direct=1", "--ioengine=io_uring",
        "--rw=randrw", f"--rwmixwrite={round(step.write_ratio * 100)}", "--bs=4k", "--norandommap",
        f"--iodepth={step.depth}", f"--size={SIZE_BYTES}", f"--number_ios={step.requests}",
        "--output-format=json",
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    job: Mapping[str, Any] = json.loads(ended.stdout)["jobs"][0]
    parts = [job["read"], job["write"]]
    count = sum(part["total_ios"] for part in parts)
    mean_ns = sum(part["lat_ns"]["mean"] * part["total_ios"] for part in parts) / count
    return count / max(part["runtime"] for part in parts) * 1e3, mean_ns / 1e3


def by_us(place: Path, target: Path, step: Step) -> tuple[float, float]:
    """Return the same of the step as a characterization runs it."""
    plan = place / "step.plan"
    write_plan(plan, step, size_bytes=SIZE_BYTES, seed=(1, 1))
    ran = run(
        plan, "--pace", "fast", "--depth", str(step.depth), "--target", str(target),
        "--write-to", str(target), "--no-calibration", "--quiet",
    )  # fmt: skip
    latencies, pace = read_latencies(ran.completions, step.requests, depth=step.depth)
    return latencies[ALL].count / pace.elapsed_ns * 1e9, latencies[ALL].mean / 1e3


def beside_fio(place: Path, requests: int, repeats: int) -> None:
    """Print the medians of both, and their ratio, for each cell."""
    target = place / "target.img"
    with target.open("wb") as file:
        for _ in range(SIZE_BYTES >> 20):
            file.write(bytes(1 << 20))
    for write_ratio, depth in CELLS:
        step = Step("surface", requests, write_ratio, depth)
        pairs = [_pair(place, target, step, is_first=n % 2 == 0) for n in range(repeats)]
        for part, unit in enumerate(("IOPS", "mean latency, us")):
            fio, us = (statistics.median(pair[who][part] for pair in pairs) for who in (0, 1))
            ratios = sorted(pair[1][part] / pair[0][part] for pair in pairs)
            print(
                f"{write_ratio:.0%} writes, depth {depth}, {unit}: fio {fio:,.1f}, characterize"
                f" {us:,.1f}, ratio {statistics.median(ratios):.3f}"
                f" ({ratios[0]:.3f} to {ratios[-1]:.3f})"
            )


def _pair(
    place: Path, target: Path, step: Step, *, is_first: bool
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Run both, fio first or last: whatever shares the disk meets both alike."""
    fio = by_fio(target, step) if is_first else None
    us = by_us(place, target, step)
    return (fio or by_fio(target, step)), us


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--without-emulated", action="store_true")
    parser.add_argument("--place", type=Path, help="where the file for fio lies")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.place) as name:
        if not asked.without_emulated:
            emulated(Path(name), asked.scale)
        beside_fio(Path(name), asked.requests, asked.repeats)


if __name__ == "__main__":
    main()

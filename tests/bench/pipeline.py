"""Time every stage from parse to report on synthetic captures of growing length.

Prints seconds, peak memory and cost a request for each stage and length, so that growth that is
not linear, or memory that is not bounded, shows at once.

    python tests/bench/pipeline.py /big/disk/folder --requests 2000000 20000000
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

STAGES = (
    ("parse", ["parse", "{capture}", "-o", "{trace}"]),
    ("classify", ["classify", "{trace}"]),
    ("analyze", ["analyze", "{trace}"]),
    ("recommend", ["recommend", "{trace}"]),
    ("replay", ["replay", "{trace}", "--engine", "null", "--pace", "fast"]),
    ("report", ["report", "{trace}"]),
)
LIMIT_MIB = 1024


def measured(command: list[str]) -> tuple[float, float]:
    """Run a command and return its seconds and peak memory (MiB, its children included)."""
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return time.monotonic() - started, usage.ru_maxrss / 1024


def run_length(folder: Path, requests: int) -> dict[str, tuple[float, float]]:
    """Generate a capture of `requests`, run every stage on it, and return the figures by stage."""
    capture, trace = folder / f"capture-{requests}", folder / f"trace-{requests}"
    generate = Path(__file__).with_name("generate.py")
    subprocess.run(
        [sys.executable, str(generate), str(capture), "--requests", str(requests)], check=True
    )
    program = str(Path(sysconfig.get_path("scripts")) / "tracekit")
    figures = {}
    for stage, words in STAGES:
        command = [word.format(capture=capture, trace=trace) for word in words]
        figures[stage] = measured([program, *command])
        seconds, mebibytes = figures[stage]
        over = "  OVER THE LIMIT" if mebibytes > LIMIT_MIB else ""
        nanoseconds = seconds / requests * 1e9
        print(
            f"{requests:>12,} {stage:<10} {seconds:8.1f} s {mebibytes:8.0f} MiB "
            f"{nanoseconds:8.0f} ns/request{over}",
            flush=True,
        )
    shutil.rmtree(capture)
    shutil.rmtree(trace)
    return figures


def main() -> None:
    """Read the arguments, run each length, and print the growth between the first and the last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, nargs="+", default=[2_000_000, 20_000_000])
    arguments = parser.parse_args()
    results = {length: run_length(arguments.folder, length) for length in arguments.requests}
    first, last = arguments.requests[0], arguments.requests[-1]
    print(
        f"time at {last:,} over time at {first:,}; the ratio of the lengths is {last / first:.1f}"
    )
    for stage, _ in STAGES:
        print(f"  {stage:<10} {results[last][stage][0] / results[first][stage][0]:6.1f}")


if __name__ == "__main__":
    main()

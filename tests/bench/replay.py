"""Time the replayer itself: issue-time error, duration error, cost a request; fio beside it.

Reads at a fixed rate on the null engine, so that only the replayer is measured. fio replays the
same requests (`--read_iolog`, version 3, null engine) in the same run; it keeps no record of when a
request was due, so only its duration can be compared. Its log has microseconds: rates that divide a
million are exact.

    python tests/bench/replay.py --requests 10000 100000 1000000 --rate 20000 --repeats 3
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tracekit._native import program_path
from tracekit.plans import block_plan

SECOND_NS = 1_000_000_000
BLOCKS = 1 << 20


def write_plan(path: Path, requests: int, gap_ns: int) -> None:
    """Write a plan of 4 KiB reads, one each `gap_ns`."""
    tables = block_plan.Tables(
        labels=("default",),
        needed_bytes=(BLOCKS * 4096,),
        extents=(block_plan.Extent("disk", 0, BLOCKS * 8, 0, 0),),
        trace_sha256=bytes(32),
        level="queued",
    )
    with block_plan.open_new(path) as out:
        writer = block_plan.PlanWriter(out)
        for first in range(0, requests, 1 << 20):
            number = np.arange(first, min(first + (1 << 20), requests), dtype=np.uint64)
            rows = np.zeros(len(number), block_plan.RECORD)
            rows["intended_ns"] = number * np.uint64(gap_ns)
            rows["request_id"] = number
            rows["sector"] = number * np.uint64(7919) % np.uint64(BLOCKS) * np.uint64(8)
            rows["length_sectors"] = 8
            writer.append(rows)
        writer.finish(tables)


def write_iolog(path: Path, requests: int, gap_ns: int) -> None:
    """Write the same requests for fio."""
    with path.open("w") as out:
        out.write("fio version 3 iolog\n0 null add\n0 null open\n")
        for number in range(requests):
            offset = number * 7919 % BLOCKS * 4096
            out.write(f"{number * gap_ns // 1000} null read {offset} 4096\n")
        out.write(f"{(requests - 1) * gap_ns // 1000} null close\n")


def run_ours(plan: Path, *arguments: str) -> dict[str, Any]:
    """Run the program and return its summary."""
    command = [str(program_path()), str(plan), "--engine", "null", *arguments]
    command += ["--completions", str(plan.with_suffix(".done"))]
    done = subprocess.run(command, capture_output=True, check=True)
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def run_fio(iolog: Path) -> tuple[float, float]:
    """Run fio and return its duration (s) and its peak of memory (MiB)."""
    command = ["fio", "--name=replay", "--ioengine=null", f"--read_iolog={iolog}"]
    command += ["--thread", "--output-format=json", f"--output={iolog}.json"]
    peak_kib = 0
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
        while child.poll() is None:
            peak_kib = max(peak_kib, _peak_kib(child.pid))
            time.sleep(0.05)
    text = Path(f"{iolog}.json").read_text()
    job = json.loads(text[text.index("{") :])["jobs"][0]
    return job["read"]["runtime"] / 1000, peak_kib / 1024


def _peak_kib(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) if lines else 0


def report(folder: Path, requests: int, *, rate: int, repeats: int) -> None:
    """Print the figures of one length: the median of the repeats."""
    gap_ns = SECOND_NS // rate
    intended_s = (requests - 1) * gap_ns / SECOND_NS
    plan = folder / f"{requests}.plan"
    write_plan(plan, requests, gap_ns)
    runs = [run_ours(plan) for _ in range(repeats)]
    fast = [run_ours(plan, "--pace", "fast") for _ in range(repeats)]

    def middle(read: Any, among: list[dict[str, Any]] = runs) -> float:
        return float(statistics.median(read(run) for run in among))

    error = {
        key: middle(lambda run, k=key: run["issue_error"][f"{k}_ns"])
        for key in ("p50", "p99", "p99_9", "max", "mean")
    }
    print(f"{requests:,} requests at {rate:,}/s, {intended_s:.3f} s, median of {repeats}")
    print(
        "  tracekit issue error  "
        + ", ".join(f"{key.replace('_', '.')} {ns / 1e3:,.2f} us" for key, ns in error.items())
    )
    worst = max(abs(run["timing"]["duration_error_ns"]) for run in runs)
    print(
        f"  tracekit duration     error {middle(lambda r: r['timing']['duration_error_ns']):,.0f}"
        f" ns (worst {worst:,} ns), drift {middle(lambda r: r['timing']['drift_ns']):,.0f} ns,"
        f" {middle(lambda r: r['peak_memory_bytes']) / 2**20:.1f} MiB"
    )
    cost = middle(lambda run: run["timing"]["elapsed_ns"] / requests, fast)
    print(f"  tracekit fast         {cost:.0f} ns a request, every completion logged")


def report_fio(folder: Path, requests: int, *, rate: int, repeats: int) -> None:
    """Print fio's figures of the same length."""
    gap_ns = SECOND_NS // rate
    intended_s = (requests - 1) * gap_ns / SECOND_NS
    iolog = folder / f"{requests}.iolog"
    if shutil.which("fio") is None:
        print("  fio                   not installed")
        return
    write_iolog(iolog, requests, gap_ns)
    took = [run_fio(iolog) for _ in range(repeats)]
    seconds = statistics.median(run[0] for run in took)
    print(
        f"  fio duration          error {(seconds - intended_s) * 1e9:,.0f} ns"
        f" ({seconds / intended_s:.2f} of the trace),"
        f" {statistics.median(run[1] for run in took):.1f} MiB",
        flush=True,
    )


def main() -> None:
    """Read the command line and report each length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rate", type=int, default=20_000, help="requests a second")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracekit-bench-") as folder:
        for requests in options.requests:
            report(Path(folder), requests, rate=options.rate, repeats=options.repeats)
            report_fio(Path(folder), requests, rate=options.rate, repeats=options.repeats)


if __name__ == "__main__":
    main()

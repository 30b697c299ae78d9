"""The replayer itself: issue-time error, duration error, cost a request; fio beside it."""

import json
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.bench.harness import Bench, fio, run
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


def replayed(plan: Path, *arguments: str) -> dict[str, Any]:
    """Run the program and return its summary."""
    command: list[str | Path] = [program_path(), plan, "--engine", "null", *arguments]
    ran = run([*command, "--completions", plan.with_suffix(".done")])
    summary: dict[str, Any] = json.loads(ran.output)
    return summary


def ours(out: Bench, case: str, plan: Path, rounds: int) -> None:
    runs = [replayed(plan) for _ in range(rounds)]
    names = ("p50", "p99", "p99_9", "max", "mean")
    errors = {f"{at}_us": median(r["issue_error"][f"{at}_ns"] for r in runs) / 1e3 for at in names}
    out.row(f"{case}: issue error", **errors)
    timing = [one["timing"] for one in runs]
    off = [one["duration_error_ns"] for one in timing]
    drift = {"drift_ns": median(one["drift_ns"] for one in timing)}
    peak = {"peak_mib": median(one["peak_memory_bytes"] for one in runs) / 2**20}
    out.row(f"{case}: duration", error_ns=median(off), worst_ns=max(map(abs, off)), **drift, **peak)


def fast(plan: Path, requests: int) -> float:
    """Return the ns of a request as fast as possible, every completion logged."""
    return float(replayed(plan, "--pace", "fast")["timing"]["elapsed_ns"]) / requests


def by_fio(out: Bench, case: str, iolog: Path, *, intended_s: float, rounds: int) -> None:
    """Print the duration and memory of fio, which keeps no record of when a request was due."""
    words = ("--name=replay", "--ioengine=null", f"--read_iolog={iolog}", "--thread")
    took = [fio(*words) for _ in range(rounds)]
    seconds = median(job["read"]["runtime"] / 1000 for job, _ in took)
    peak = {"peak_mib": median(used.peak_mib for _, used in took)}
    of_trace = {"of_trace": seconds / intended_s}
    out.row(f"{case}: fio", error_ns=(seconds - intended_s) * 1e9, **of_trace, **peak)


def bench(
    out: Bench, *, requests: tuple[int, ...] = (10_000, 100_000), rate: int = 20_000,
    rounds: int = 3,
) -> None:  # fmt: skip
    """Reads at a fixed rate on the null engine, so that only the replayer is measured.

    fio replays the same requests (`--read_iolog`, version 3, null engine) in the same run. Its log
    has microseconds: rates that divide a million are exact.
    """
    gap_ns = SECOND_NS // rate
    for count in requests:
        plan = out.input(
            f"{count}-{gap_ns}.plan", partial(write_plan, requests=count, gap_ns=gap_ns)
        )
        iolog = out.input(
            f"{count}-{gap_ns}.iolog", partial(write_iolog, requests=count, gap_ns=gap_ns)
        )
        case = f"{count:,} at {rate:,}/s"
        ours(out, case, plan, rounds)
        costs = [fast(plan, count) for _ in range(rounds)]
        out.row(f"{case}: as fast as possible", ns_a_request=median(costs), least=min(costs))
        intended_s = (count - 1) * gap_ns / SECOND_NS
        with out.part("fio"):
            by_fio(out, case, iolog, intended_s=intended_s, rounds=rounds)

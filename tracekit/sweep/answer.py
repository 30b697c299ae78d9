"""Turns the summaries of a sweep's runs into its table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.schema.file_runs import FILE_RUNS
from tracekit.store import write_table
from tracekit.sweep.conditions import told_settings

if TYPE_CHECKING:
    from tracekit.sweep.grid import Run
    from tracekit.sweep.target import Memory

STEPS = ("p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns")
ALL = "all"
LAB_DAX = "lab:dax="  # of runs that an older version made, which did not write is_dax
Row = dict[str, Any]


def of_run(run: Run, summary: Mapping[str, Any], *, lab: Mapping[str, Any] | None) -> Row:
    """Return what is kept of a run: how it was asked for, what the program told, and the lab."""
    parameters = run.personality.parameters
    kept = ("outcome", "ended_by", "counts", "timing", "steps", "errors", "timeline")
    return {
        "run_id": run.run_id,
        "personality": run.personality.name,
        "target": run.target.name,
        "directory": str(run.target.directory),
        "is_dax": run.target.is_dax,
        "run": run.number,
        "threads": run.personality.threads,
        "settings": dict(parameters),
        "definition": run.personality.definition,
        "timing_asked": vars(run.timing),
        "summary": {key: summary[key] for key in kept},
        "directory_told": summary["directory"],
        "preparation": summary["preparation"],
        **({"lab": dict(lab)} if lab else {}),
        **({"memory": _of_memory(memory)} if (memory := run.target.memory) else {}),
    }


def _of_memory(memory: Memory) -> Row:
    medium = {"medium": vars(memory.medium)} if memory.medium else {}
    return {"stands_for_dax": memory.stands_for_dax, **medium}


def write_runs(path: Path, results: Sequence[Mapping[str, Any]]) -> None:
    """Write the table FILE_RUNS of all results."""
    import pyarrow as pa

    settings = told_settings(results)
    rows = [row for pair in zip(results, settings, strict=True) for row in _rows(*pair)]
    write_table(path, pa.Table.from_pylist(rows, FILE_RUNS))


def _rows(result: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Row]:
    summary = result["summary"]
    counts = summary["counts"]
    restored_ns = counts["untimed_ns"] / result["threads"]
    elapsed_ns = max(round(summary["timing"]["elapsed_ns"] - restored_ns), 1)
    same = {key: result[key] for key in ("run_id", "personality", "target", "run", "threads")} | {
        "is_dax": result.get("is_dax", result["directory"].startswith(LAB_DAX)),
        "files": _whole(settings.get("files")),
        "io_bytes": _whole(settings.get("io_size")),
        "settings": json.dumps(settings, sort_keys=True),
        "outcome": summary["outcome"],
        "elapsed_ns": elapsed_ns,
    }
    times = [_sum_ns(step) for step in summary["steps"]]
    total_ns = sum(times)
    done = sum(step["done"] for step in summary["steps"])
    yield (
        same
        | _rates(done, counts["bytes"], elapsed_ns)
        | {
            "step": ALL,
            "failed": sum(step["failed"] for step in summary["steps"]),
            "time_ratio": 1.0,
            "mean_ns": total_ns / max(done, 1),
        }
    )
    for step, time_ns in zip(summary["steps"], times, strict=True):
        latency = step["latency"] or {}
        yield (
            same
            | _rates(step["done"], step["bytes"], elapsed_ns)
            | {
                "step": step["name"],
                "failed": step["failed"],
                "time_ratio": time_ns / total_ns if total_ns else 0.0,
                "mean_ns": latency.get("mean_ns", 0.0),
                **{key: latency.get(key) for key in STEPS},
            }
        )


def _rates(done: int, moved: int, elapsed_ns: int) -> Row:
    seconds = elapsed_ns / 1e9
    return {
        "steps": done,
        "bytes": moved,
        "steps_per_second": done / seconds,
        "bytes_per_second": moved / seconds,
    }


def _sum_ns(step: Mapping[str, Any]) -> float:
    return float(step["latency"]["mean_ns"] * step["done"]) if step["latency"] else 0.0


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)

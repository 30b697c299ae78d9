"""What was measured, by hand: rows of a device, of counted events, of file workloads and calls."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.analyzers.folder import OF_EACH, PLACES, table
from tests.traces import Row
from tracekit.store import TraceFolder, write_json, write_table


def write_measurements(folder: TraceFolder) -> None:
    """Add the results of commands that measure, so that the report has every section."""
    _write_device(folder.path)
    _write_counters(folder.path)
    _write_file_runs(folder)
    _write_file_calls(folder)
    _write_verification(folder.path)


def _write(folder: Path, name: str, rows: list[Row]) -> None:
    """Write a table of its schema; columns that the rows leave out have their defaults."""
    write_table(folder / f"{PLACES[name]}.parquet", table(name, rows))


def _write_device(path: Path) -> None:
    singles = [
        {
            "step": number, "kind": f"random_{operation}", "operation": operation, "depth": 1,
            "requests": 1000, "usual_iops": 9000, "mean_ns": mean_ns, "deviation_ns": 5000,
            "p50_ns": mean_ns, "p99_ns": 2 * mean_ns, "p99_9_ns": 3 * mean_ns, "max_ns": 400_000,
        }
        for number, (operation, mean_ns) in enumerate((("read", 80_000), ("write", 120_000)))
    ]  # fmt: skip
    cells = [
        {"step": 2 + number, "kind": "surface", "operation": "all", "depth": depth,
         "write_ratio": share, "usual_iops": 10_000 * depth * (1 - share / 2)}
        for number, (depth, share) in enumerate((d, s) for d in (1, 8) for s in (0.0, 0.5, 1.0))
    ]  # fmt: skip
    buckets = [
        {"step": one["step"], "kind": one["kind"], "operation": one["operation"], "low_ns": low_ns,
         "high_ns": low_ns + 20_000, "requests": requests, "requests_ratio": requests / 1000}
        for one in singles
        for low_ns, requests in ((60_000, 700), (100_000, 290), (380_000, 10))
    ]  # fmt: skip
    _write(path, "device_steps", [*singles, *cells])
    _write(path, "device_latency", buckets)
    parameters = {"read_latency_us": (80.0, 0.01, True), "rate_spread": (0.3, None, False)}
    fit = [
        {"parameter": name, "value": value, "spread_ratio": spread, "is_in_profile": is_in}
        for name, (value, spread, is_in) in parameters.items()
    ]
    _write(path, "device_fit", fit)
    answer = {
        "headline": ["A random read takes 80 us."], "warnings": ["The device was not filled."],
        "target": "/dev/<b>", "device": None, "asked": ["--name", "mine"],
    }  # fmt: skip
    write_json(path / "device" / "device.json", answer)


def _write_counters(path: Path) -> None:
    correlations = {"cache-misses": (-0.95, -0.99, -0.7), "<b>events": (0.2, -0.5, 0.8)}
    rows = [
        {"workload": workload, "event": event, "runs": 5, "mean": 1e6, "deviation": 1e4,
         "least_running_ratio": 0.5, "correlation": found, "correlation_low": low,
         "correlation_high": high, "p_value": 0.01, "rank": 1}
        for workload in ("web", "mail")
        for event, (found, low, high) in correlations.items()
    ]  # fmt: skip
    _write(path, "counter_statistics", rows)
    workload = {
        "workload": "web", "command": ["./serve"], "asked": ["--runs", "5"],
        "not_counted": {"dtlb-misses": "not supported"},
    }  # fmt: skip
    answer = {"headline": ["cache-misses go with less work."], "workloads": [workload]}
    write_json(path / "counters" / "counters.json", answer)


STEPS = {"read_file": (0.25, 30_000), "append": (0.15, 20_000), "fsync": (0.6, 80_000)}


def _file_runs() -> Iterator[dict[str, Any]]:
    speeds = (("varmail", "disk", 1), ("varmail", "dax", 2), ("zip", "disk", 3), ("zip", "dax", 3))
    for personality, target, speed in speeds:
        for threads in (1, 4):
            for run in (1, 2):
                rate = 1000 * speed * threads * (1 + run / 100)
                run_facts = {
                    "run_id": f"{personality}-{target}-{threads}-{run}", "target": target,
                    "personality": personality, "is_dax": target == "dax", "run": run,
                    "threads": threads, "files": 100, "io_bytes": 4096, "outcome": "finished",
                    "settings": json.dumps({"files": 100, "io_size": 4096, "threads": threads}),
                }  # fmt: skip
                yield {
                    **run_facts, "step": "all", "steps": 1000, "steps_per_second": rate,
                    "mean_ns": round(1e9 * threads / rate), "time_ratio": 1,
                }  # fmt: skip
                for step, (share, mean_ns) in STEPS.items():
                    yield {
                        **run_facts, "step": step, "steps": 300, "steps_per_second": rate / 3,
                        "mean_ns": mean_ns // speed, "p99_ns": 3 * mean_ns, "time_ratio": share,
                    }  # fmt: skip


def _write_file_runs(folder: TraceFolder) -> None:
    runs = list(_file_runs())
    _write(folder.path, "file_runs", runs)
    for run in runs:
        if run["step"] == "all":
            calls = [
                {"run_id": run["run_id"], "start_ns": 0, "end_ns": end_ns * run["threads"],
                 "step": "fsync", "is_timed": True, "is_expected": True}
                for end_ns in (20_000, 40_000, 90_000)
            ]  # fmt: skip
            _write_of_each(folder.path, "sweep_operations", str(run["run_id"]), calls)
    asked = [["sweep", "varmail", "--target", "disk=/mnt/disk"]]
    write_json(folder.path / "files" / "sweep.json", {"headline": [], "asked": asked})


def _write_of_each(path: Path, name: str, owner: str, rows: list[Row]) -> None:
    write_table(path / OF_EACH[name][1].format(owner), table(name, rows))


def _write_file_calls(folder: TraceFolder) -> None:
    names = ("open", "read", "read", "write", "fsync")
    calls: list[Row] = [
        {"operation": operation, "process": "mail", "start_ns": 1000 * number,
         "end_ns": 1000 * number + 100 * (1 + number % 7), "file_id": 1 + number % 2,
         "done_bytes": 512 if operation in ("read", "write") else None}
        for number, operation in enumerate(names * 6)
    ]  # fmt: skip
    _write(folder.path, "file_operations", calls)
    files = [
        {"file_id": 1, "path": "/mail/<b>", "kind": "file", "size_bytes": 9000, "evidence": "stat"},
        {"file_id": 2, "path": "/mail/2", "kind": "file", "size_bytes": 100, "evidence": "stat"},
    ]
    _write(folder.path, "files", files)
    replayed = [
        {**one, "replay": "disk", "end_ns": one["start_ns"] + 2000, "is_expected": True,
         "is_timed": True}
        for one in calls
    ]  # fmt: skip
    for one in replayed:
        del one["process"], one["file_id"]
    _write_of_each(folder.path, "file_completions", "disk", replayed)
    overhead = {"overhead": {"call_ns": 900, "duration_ns": 400}}
    folder.save_info(capture={**folder.content.get("capture", {}), **overhead})


def _write_verification(path: Path) -> None:
    rows = [
        {"repeat": repeat, "devices": devices, "predicted_ns": predicted_ns,
         "measured_ns": predicted_ns + 10_000_000 * repeat}
        for repeat in (1, 2, 3)
        for devices, predicted_ns in (("base", 40 * 10**9), ("placement", 30 * 10**9))
    ]  # fmt: skip
    _write(path, "verification", rows)
    answer = {"headline": ["The prediction held."], "queueing": "serial", "asked": []}
    write_json(path / "verification.json", answer)

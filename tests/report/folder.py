"""Small trace folders for the report, by hand in the documented schema, with all it can show."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tests.analyzers.folder import OF_EACH, PLACES, table
from tests.traces import Row, disk, filled, partition, write_folder
from tracekit.analyze import analyze
from tracekit.report.inputs import Inputs
from tracekit.report.page import render
from tracekit.report.section import BuildSection, Section
from tracekit.store import TraceFolder, write_json, write_table
from tracekit.sweep.judgement import compare_targets
from tracekit.tables import BLOCKS, COMPLETIONS, PLACEMENT, WORKING_SET
from tracekit.units import MIB

ALL_STAGES = ("classify", "analyze", "recommend", "replay")
HOSTILE = ("<script>alert(1)</script>", "</svg><b>", '"; x=" onload="', "$a^2$ & \x07\u202egnp")


def plain(sentences: Sequence[str]) -> list[str]:
    """Return sentences with ordinary spaces, so that expectations can be read."""
    return [sentence.replace("\N{NO-BREAK SPACE}", " ") for sentence in sentences]


def numbers(sentences: Sequence[str]) -> list[str]:
    """Return the numbers of sentences, with their units: the words are golden.txt's."""
    units = "B|KiB|MiB|GiB|ns|µs|ms|s|min|h"
    found = re.compile(rf"(?<![\w.])[−-]?\d[\d,.]*(?:\d|(?<=\d))(?: (?:{units})\b|%)?")  # noqa: RUF001
    return [text.strip(",.") for one in plain(sentences) for text in found.findall(one)]


def frame(**columns: Any) -> pd.DataFrame:
    """Return a table of these columns."""
    return pd.DataFrame(columns)


def page_of(folder: TraceFolder, *builds: BuildSection) -> str:
    """Return a page of these sections only, which must be there: figures take long to draw."""
    return render(title="t", sections=[section_of(one, folder) for one in builds], missing={})


def section_of(build: BuildSection, folder: TraceFolder) -> Section:
    """Build a section, which must be there."""
    section = build(Inputs(folder))
    assert isinstance(section, Section)
    return section


def make_folder(
    path: Path,
    *,
    requests: int = 240,
    stages: Sequence[str] = ALL_STAGES,
    processes: Sequence[str] = ("mysqld", "jbd2/sda5-8"),
    warnings: Sequence[dict[str, str]] = (),
) -> TraceFolder:
    """Write requests, one every 50 ms, and the tables of the stages that are named."""
    rows = [_request(number, processes) for number in range(requests)]
    write_folder(path, rows, **_info(processes, warnings))
    if "classify" in stages:
        _write_blocks(path, _touches(rows))
        _write_working_set(path, _touches(rows))
    if "recommend" in stages:
        write_recommendation(path)
    if "replay" in stages:
        _write_replay(path, rows, warnings)
    folder = TraceFolder(path)
    if "analyze" in stages:
        analyze(folder)
    return folder


def _request(number: int, processes: Sequence[str]) -> dict[str, Any]:
    """Every third request is the journal's and goes on; every eighth is a flush; reads are rare."""
    is_journal = number % 3 == 0
    is_flush = number % 8 == 7 and not is_journal
    queue_ns = number * 50_000_000
    operation = "flush" if is_flush else "read" if number % 10 == 1 else "write"
    issue_ns, complete_ns = queue_ns + 20_000, queue_ns + 120_000 + 1_000 * number
    return {
        "request_id": number,
        "queue_ns": queue_ns,
        "getrq_ns": queue_ns + 1_000,
        "insert_ns": queue_ns + 2_000,
        "issue_ns": issue_ns,
        "complete_ns": complete_ns,
        "transfer_ns": None if is_flush else complete_ns,
        "device": "sda",
        "sector": 0 if is_flush else 80_000 + number * 8 if is_journal else number % 7 * 64,
        "length_bytes": 0 if is_flush else 4096 if is_journal else 8192,
        "operation": operation,
        "is_sync": True,
        "is_meta": is_journal,
        "is_preflush": is_flush,
        "process": processes[number % len(processes)],
        "pid": 100 + number % len(processes),
        "role": "journal" if is_journal else "fs",
    }


def _info(processes: Sequence[str], warnings: Sequence[dict[str, str]]) -> dict[str, Any]:
    files = {"filesystem": "ext4", "mount": f"/mnt/{processes[0]}"}
    layout = [
        partition("sda", 1, "fs", range(65_536), **files),
        partition("sda", 5, "journal", range(65_536, 131_072), **files),
    ]
    return {
        "tool": {"tracekit": "0.1.0"},
        "source": {
            "format": "blktrace",
            "files": [{"name": "sda.blktrace.0", "bytes": 48_000, "sha256": "ab" * 32}],
        },
        "clock": {"base_ns": 5, "wall_ns": None, "duration_ns": 12_000_000_000},
        "devices": [disk("sda", 131_072)],
        "layout": layout,
        "counts": {"records": 1_200, "requests": 240, "actions": {"Q": 240, "C": 240}},
        "loss": {"sequence_gaps": 0, "lost_records": 0, "dropped": 0, "unmatched": {"queue": 0}},
        "inferences": [],
        "warnings": list(warnings),
    }


Touch = tuple[int, dict[str, Any]]  # block and request


def _touches(rows: Sequence[dict[str, Any]]) -> list[Touch]:
    return [
        (row["sector"] // 8 + block, row)
        for row in rows
        for block in range(row["length_bytes"] >> 12)
    ]


def _write_blocks(path: Path, touches: Sequence[Touch]) -> None:
    counts = Counter(block for block, _ in touches)
    blocks: dict[int, dict[str, Any]] = {}
    for block, row in touches:
        entry = blocks.setdefault(
            block,
            {
                "block": block,
                "role": row["role"],
                "reads": 0,
                "writes": 0,
                "first_ns": row["queue_ns"],
                "traffic_ratio": counts[block] / len(touches),
                "temperature": "hot" if counts[block] > 4 else "cold",
            },
        )
        entry["reads" if row["operation"] == "read" else "writes"] += 1
        entry["last_ns"] = row["queue_ns"]
    ordered = [blocks[block] for block in sorted(blocks)]
    write_table(path / "blocks.parquet", filled(BLOCKS, ordered, device="sda", sectors=8))


def _write_working_set(path: Path, touches: Sequence[Touch]) -> None:
    seen: set[int] = set()
    windows = []
    for second in range(12):
        for role in ("fs", "journal"):
            key = (second, role)
            inside = {b for b, row in touches if (row["queue_ns"] // 10**9, row["role"]) == key}
            counts = {"distinct_blocks": len(inside), "new_blocks": len(inside - seen)}
            windows.append({"window_ns": second * 1_000_000_000, "role": role, **counts})
            seen |= inside
    write_table(path / "working_set.parquet", filled(WORKING_SET, windows))


def _write_replay(
    path: Path, rows: Sequence[dict[str, Any]], warnings: Sequence[dict[str, str]]
) -> None:
    """Write the completions of a replay that was always 10 us late and took 100 us a request."""
    (path / "replays" / "file").mkdir(parents=True)
    done = [
        {
            "request_id": row["request_id"],
            "intended_ns": row["queue_ns"],
            "submit_ns": row["queue_ns"] + 10_000,
            "complete_ns": row["queue_ns"] + 110_000,
            "status": "done",
        }
        for row in rows
    ]
    write_table(path / "replays" / "file" / "completions.parquet", filled(COMPLETIONS, done))
    summary = {
        "plan": {"requests": len(rows)},
        "pace": "trace",
        "engine": {"asked": "auto", "used": "threads"},
        "targets": [{"label": "default", "path": "<b>", "kind": "made file", "is_direct": True}],
        "issue_error": {"max_ns": 10_000},
        "timing": {"elapsed_ns": rows[-1]["queue_ns"] + 110_000 if rows else 0},
        "counts": {"done": len(rows)},
        "warnings": list(warnings),
    }
    write_json(path / "replays" / "file" / "summary.json", summary)


def write_recommendation(path: Path) -> None:
    """Write `simulations/placement` and recommendation.json."""
    (path / "simulations").mkdir()
    points = []
    for step in range(5):
        left = {"fs": 1 - step / 10, "journal": 1 - step / 20, "combined": 1 - step / 8}
        for coverage in ("hottest", "start"):
            points += [_point(name, coverage, step, ratio) for name, ratio in left.items()]
        points.append(_point("base", "none", step, 1.0))
        points.append(_point("most-accessed-first", "hottest", step, 1 - step / 7))
    table = filled(PLACEMENT, points, base_profile="hdd-7200", nvm_profile="dax-pcm")
    write_table(path / "simulations" / "placement.parquet", table)
    write_json(path / "recommendation.json", _recommendation())


def _point(placement: str, coverage: str, step: int, left: float) -> dict[str, Any]:
    return {
        "placement": placement,
        "coverage": coverage,
        "capacity_bytes": step * MIB,
        "elapsed_ns": round(left * 40_000_000_000),
    }


def _answer(step: int, placement: str) -> dict[str, Any]:
    return {
        "capacity_bytes": step * MIB,
        "placement": placement,
        "fs_bytes": step * MIB,
        "journal_bytes": 0,
        "swap_bytes": 0,
        "elapsed_ns": 30_000_000_000,
        "base_elapsed_ns": 40_000_000_000,
        "gain_ratio": 0.25,
        "runner_up": "journal",
        "runner_up_elapsed_ns": 36_000_000_000,
        "margin_ratio": 1 / 6,
        "most_accessed_elapsed_ns": 29_000_000_000,
    }


def _recommendation() -> dict[str, Any]:
    profile = {
        "name": "hdd-7200",
        "about": "a disk",
        "read_latency_us": 12_700.0,
        "write_latency_us": 13_700.0,
        "read_mib_s": 149.0,
        "write_mib_s": 149.0,
        "flush_us": 8_333.0,
        "fua_us": 8_333.0,
        "price_per_gb": 1.0,
    }
    return {
        "base_profile": "hdd-7200",
        "nvm_profile": "dax-pcm",
        "profiles": [profile, {**profile, "name": "dax-pcm", "read_latency_us": 2.34}],
        "level": "issued",
        "coverage": "hottest",
        "headline": ["Place 2 MiB of the file system.", "The journal is behind."],
        "answer": _answer(2, "fs"),
        "answers": [_answer(step, "fs" if step < 3 else "combined") for step in range(5)],
        "flips": [{"capacity_bytes": 3 * MIB, "from": "fs", "to": "combined"}],
        "single_role_flips": [],
        "knee": _answer(3, "combined"),
        "best": _answer(4, "combined"),
        "footprint_bytes": 4 * MIB,
        "assumptions": ["requests are served one after another"],
    }


def write_measurements(folder: TraceFolder) -> None:
    """Add the results of commands that measure, so that the report has every section."""
    _write_device(folder.path)
    _write_counters(folder.path)
    _write_file_runs(folder)
    _write_file_calls(folder)
    _write_verification(folder.path)


def _write_rows(folder: Path, name: str, rows: list[Row]) -> None:
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
    _write_rows(path, "device_steps", [*singles, *cells])
    _write_rows(path, "device_latency", buckets)
    parameters = {"read_latency_us": (80.0, 0.01, True), "rate_spread": (0.3, None, False)}
    fit = [
        {"parameter": name, "value": value, "spread_ratio": spread, "is_in_profile": is_in}
        for name, (value, spread, is_in) in parameters.items()
    ]
    _write_rows(path, "device_fit", fit)
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
         "correlation_high": high, "p_value": 0.01, "rank": 1, "spearman": found,
         "corrected_p_value": 0.02 if low * high > 0 else 0.4}
        for workload in ("web", "mail")
        for event, (found, low, high) in correlations.items()
    ]  # fmt: skip
    _write_rows(path, "counter_statistics", rows)
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
                    "is_copy": False, "is_outlier": False, "steady_from_ns": 0,
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
    _write_rows(folder.path, "file_runs", runs)
    whole = [run for run in runs if run["step"] == "all"]
    _write_rows(folder.path, "file_comparisons", compare_targets(whole))
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
    _write_rows(folder.path, "file_operations", calls)
    files = [
        {"file_id": 1, "path": "/mail/<b>", "kind": "file", "size_bytes": 9000, "evidence": "stat"},
        {"file_id": 2, "path": "/mail/2", "kind": "file", "size_bytes": 100, "evidence": "stat"},
    ]
    _write_rows(folder.path, "files", files)
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
    _write_rows(path, "verification", rows)
    answer = {"headline": ["The prediction held."], "queueing": "serial", "asked": []}
    write_json(path / "verification.json", answer)

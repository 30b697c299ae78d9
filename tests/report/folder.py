"""Make a small trace folder by hand, in the documented schema, and analyze it with the real SQL."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tests.report.advice import write_recommendation
from tests.traces import filled, write_folder
from tracekit.analyze import analyze
from tracekit.report.inputs import Inputs
from tracekit.report.page import report
from tracekit.report.section import Missing, Section
from tracekit.store import TraceFolder, write_json, write_table
from tracekit.tables import BLOCKS, COMPLETIONS, WORKING_SET

ALL_STAGES = ("classify", "analyze", "recommend", "replay")
HOSTILE = ("<script>alert(1)</script>", "</svg><b>", '"; x=" onload="', "$a^2$ & \x07\u202egnp")


def plain(sentences: Sequence[str]) -> list[str]:
    """Return sentences with ordinary spaces, so that expectations can be read."""
    return [sentence.replace("\N{NO-BREAK SPACE}", " ") for sentence in sentences]


def numbers(sentences: Sequence[str]) -> list[str]:
    """Return the numbers of sentences, with their units: the words are golden.txt's."""
    units = "%|B|KiB|MiB|GiB|ns|µs|ms|s|min|h"
    found = re.compile(rf"(?<![\w.])[−-]?\d[\d,.]*(?:\d|(?<=\d))(?: (?:{units})\b| %)?")  # noqa: RUF001
    return [text.strip(",.") for one in plain(sentences) for text in found.findall(one)]


def frame(**columns: Any) -> pd.DataFrame:
    """Return a table of these columns."""
    return pd.DataFrame(columns)


def page_of(folder: TraceFolder) -> str:
    """Write the report beside the trace folder and return it."""
    return report(folder, folder.path.with_name("report.html")).path.read_text(encoding="utf-8")


def section_of(build: Callable[[Inputs], Section | Missing | None], folder: TraceFolder) -> Section:
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
    parts = (("fs", "sda1", 0, 65_536), ("journal", "sda5", 65_536, 65_536))
    layout = [
        {
            "device": "sda",
            "partition": f"8,{name[-1]}",
            "name": name,
            "start_sector": start,
            "sectors": sectors,
            "role": role,
            "filesystem": "ext4",
            "mount": f"/mnt/{processes[0]}",
            "evidence": "layout.json",
        }
        for role, name, start, sectors in parts
    ]
    return {
        "tool": {"tracekit": "0.1.0"},
        "source": {
            "format": "blktrace",
            "files": [{"name": "sda.blktrace.0", "bytes": 48_000, "sha256": "ab" * 32}],
        },
        "clock": {"base_ns": 5, "wall_ns": None, "duration_ns": 12_000_000_000},
        "devices": [
            {
                "device": "sda",
                "major": 8,
                "minor": 0,
                "size_sectors": 131_072,
                "logical_sector_bytes": 512,
                "rotational": None,
            }
        ],
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
            inside = {
                block
                for block, row in touches
                if row["queue_ns"] // 1_000_000_000 == second and row["role"] == role
            }
            windows.append(
                {
                    "window_ns": second * 1_000_000_000,
                    "role": role,
                    "distinct_blocks": len(inside),
                    "new_blocks": len(inside - seen),
                }
            )
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

"""trace.json of a capture of file operations."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit import __version__
from tracekit.capture import strace
from tracekit.capture.file_tables import Decoded
from tracekit.schema import SCHEMA_VERSION
from tracekit.warnings import warning


@dataclass(frozen=True)
class FileOptions:
    """How to capture file operations."""

    command: tuple[str, ...]
    below: Path | None = None
    """Keep operations on what is below this folder only."""
    hashes_names: bool = False
    is_stdout_ours: bool = False
    runs_untraced: bool = False
    """Run the command untraced first, to measure what tracing costs it."""
    overwrite: bool = False


@dataclass(frozen=True)
class FileCapture:
    """What a capture brought."""

    decoded: Decoded
    duration_s: float
    untraced_s: float | None
    cost: strace.Cost | None
    exit_status: int
    stopped_by: str | None
    info: dict[str, Any]


def trace_info(found: FileCapture, options: FileOptions) -> dict[str, Any]:
    """Return the content of trace.json."""
    stats = found.decoded.stats
    return {
        "schema": SCHEMA_VERSION,
        "tool": {"tracekit": __version__},
        "source": {"format": strace.NAME, "kernel": platform.release(), "files": []},
        "clock": {
            "base_ns": stats["base_ns"],
            "wall_ns": stats["base_ns"],
            "duration_ns": stats["last_ns"] - stats["base_ns"],
        },
        "devices": [],
        "layout": [],
        "counts": _counts(found),
        "loss": {
            "lost_records": 0,
            "sequence_gaps": 0,
            "dropped": 0,
            **{name: stats[name] for name in ("bad_lines", "orphan_ends", "unfinished")},
            **{name: stats[name] for name in ("abandoned", "backwards", "forced")},
        },
        "capture": _about(found, options),
        "inferences": _inferences(found),
        "warnings": _warnings(found),
    }


def _counts(found: FileCapture) -> dict[str, Any]:
    stats = found.decoded.stats
    return {
        "records": stats["lines"],
        "file_operations": stats["rows"],
        "files": found.decoded.files,
        "operations": found.decoded.operations,
        "sizes": found.decoded.sizes,
        **{name: stats[name] for name in ("calls", "joined", "filtered", "adopted")},
        "left_out": found.decoded.left_out,
    }


def _about(found: FileCapture, options: FileOptions) -> dict[str, Any]:
    hides = options.hashes_names
    return {
        "source": strace.NAME,
        "command": [] if hides else list(options.command),
        "below": None if hides or options.below is None else str(options.below),
        "hashed_names": hides,
        "exit_status": found.exit_status,
        "stopped_by": found.stopped_by,
        "overhead": _overhead(found),
    }


def _overhead(found: FileCapture) -> dict[str, Any]:
    cost = found.cost
    traced_ns = round(found.duration_s * 1e9)
    plain_ns = None if found.untraced_s is None else round(found.untraced_s * 1e9)
    return {
        "traced_ns": traced_ns,
        "untraced_ns": plain_ns,
        "ratio": traced_ns / plain_ns if plain_ns else None,
        "call_ns": cost.call_ns if cost else None,
        "duration_ns": cost.duration_ns if cost else None,
        "expected_ns": cost.call_ns * found.decoded.stats["calls"] if cost else None,
    }


def _inferences(found: FileCapture) -> list[dict[str, Any]]:
    stats = found.decoded.stats
    sizes = ", ".join(f"{name} {count:,}" for name, count in found.decoded.sizes.items())
    made = [("sizes of files before the first operation", sizes, "the column evidence of files")]
    if stats["adopted"]:
        evidence = "descriptors that were used and never seen opened; strace names the file"
        made.append(("open files", f"{stats['adopted']:,}", evidence))
    if stats["guessed_creates"]:
        evidence = "opened with O_CREAT and gone afterwards, or cut to nothing by the open"
        made.append(("files taken for new ones", f"{stats['guessed_creates']:,}", evidence))
    keys = ("what", "value", "evidence")
    return [{**dict(zip(keys, one, strict=True)), "stage": "capture"} for one in made]


def _warnings(found: FileCapture) -> list[dict[str, Any]]:
    stats = found.decoded.stats
    cost = found.cost
    calls = ", ".join(f"{name} {count:,}" for name, count in found.decoded.left_out.items())
    unreal = [
        name for name in found.decoded.left_out if name.startswith("io_") and "setup" not in name
    ]
    doubts = [
        (
            "traced_times",
            cost is not None,
            f"a call took about {cost.call_ns / 1e3:,.1f} us longer under strace, of which"
            f" {cost.duration_ns / 1e3:,.1f} us are in its duration"
            if cost
            else "",
        ),
        ("bad_lines", stats["bad_lines"], f"{stats['bad_lines']:,} lines cannot be understood"),
        ("unseen_operations", unreal, f"the command used {', '.join(unreal)}"),
        ("left_out_calls", calls, f"calls without a row: {calls}"),
        (
            "unknown_offsets",
            stats["unplaced"],
            f"the place of {stats['unplaced']:,} reads and writes is not known",
        ),
        (
            "unfinished_calls",
            stats["unfinished"] + stats["abandoned"],
            f"{stats['unfinished'] + stats['abandoned']:,} calls did not return",
        ),
    ]
    return [warning(code, message, stage="capture") for code, applies, message in doubts if applies]

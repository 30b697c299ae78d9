"""Says what a sweep found, in rows and in sentences."""

from __future__ import annotations

import json
import sys
from typing import Any

from tracekit import query
from tracekit.errors import PartialError
from tracekit.store import TraceFolder
from tracekit.sweep.answer import ALL
from tracekit.sweep.stage import Swept

POINTS = "files/file_points"


def show(line: str) -> None:
    """Say on a terminal which run is under way."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{line}\n")


def tell(swept: Swept, *, as_json: bool) -> str:
    """Return what a sweep found, for people or as JSON."""
    if as_json:
        told = {
            "folder": str(swept.folder.path),
            "made": swept.made,
            "kept": swept.kept,
            "missing": swept.missing,
            "points": summarize(swept.folder) if swept.has_results else [],
        }
        return json.dumps(told, indent=2)
    lines = [f"{swept.made} runs made, {swept.kept} there before, {swept.folder.path}"]
    return "\n".join([*lines, *(headline(swept.folder) if swept.has_results else [])])


def check_complete(swept: Swept) -> None:
    """Raise PartialError when runs are missing."""
    if swept.missing:
        raise PartialError(
            f"{len(swept.missing)} runs are missing: {swept.missing[0]}",
            hint="what was done is kept; the same command goes on",
        )


def summarize(folder: TraceFolder) -> list[dict[str, Any]]:
    """Return one row a personality, target, setting and step, mean and spread over the repeats."""
    with query.connect(folder) as connection:
        return list(query.run(connection, POINTS).to_pylist())


def headline(folder: TraceFolder) -> list[str]:
    """Return one line a point: steps a second with spread, and what takes most of the time."""
    rows = summarize(folder)
    lines = []
    for row in rows:
        if row["step"] != ALL:
            continue
        same = ("personality", "target", "settings")
        steps = [
            one for one in rows if one["step"] != ALL and all(one[key] == row[key] for key in same)
        ]
        lines.append(f"  {point_name(row)}: {rate(row)}{_most(steps)}")
    return lines


def point_name(row: dict[str, Any]) -> str:
    """Name a point by what is varied most."""
    parts = [f"{row['personality']} on {row['target']}", f"{row['threads']} threads"]
    if row["files"] is not None:
        parts.append(f"{row['files']:,} files")
    if row["io_bytes"] is not None:
        parts.append(f"{row['io_bytes']:,} B a call")
    return ", ".join(parts)


def rate(row: dict[str, Any]) -> str:
    """Say the rate of a point with its spread."""
    text = f"{row['steps_per_second']:,.0f} steps/s"
    if row["deviation_per_second"] is not None:
        text += f" (+-{row['deviation_per_second']:,.0f} over {row['run_count']} runs)"
    return text + f", {row['bytes_per_second'] / (1 << 20):,.1f} MiB/s"


def _most(steps: list[dict[str, Any]]) -> str:
    if not steps:
        return ""
    top = max(steps, key=lambda one: one["time_ratio"])
    failed = sum(one["failed"] for one in steps)
    text = f"; {top['step']} takes {top['time_ratio']:.0%} of the time"
    return text + (f"; {failed:,} steps failed" if failed else "")

"""What trace.json says of an imported trace: counts, what was taken for granted, and doubts."""

from __future__ import annotations

from typing import Any

from tracekit import __version__
from tracekit.formats.feed import Feed
from tracekit.formats.fio import FioLog, same_waits
from tracekit.formats.text import BadLines, TextFormat
from tracekit.parse_blocks import Choice, Reading
from tracekit.schema import SCHEMA_VERSION
from tracekit.warnings import warning


def contradictions(run: Reading) -> list[str]:
    """Return what cannot be under the units of a trace that was read, in words."""
    made = run.assembler
    found = made.evidence.contradictions(span_ns=made.last_ns, first_ns=made.first_ns)
    return found + same_waits(run.lines)


def _inferences(run: Reading, choice: Choice) -> list[dict[str, Any]]:
    """Return what was taken of the format and its units, and who said so."""
    units, pairs = run.units, run.assembler.evidence.pairs
    evidence = f"sequential pairs: {pairs['bytes']:,} as bytes, {pairs['sectors']:,} as sectors"
    lengths = f"{_source(run, choice, 'length')}; {evidence}"
    beyond = f"beyond {run.bounds.told()}, where nearly all lie" if run.bounds else ""
    strays = {"what": "strays", "value": f"{run.beyond:,} wrong lines", "evidence": beyond}
    return [
        {"what": "format", "value": run.format.name, "evidence": _format_evidence(run)},
        {"what": "unit of lengths", "value": units.length, "evidence": lengths},
        {
            "what": "unit of places",
            "value": units.offset,
            "evidence": _source(run, choice, "offset"),
        },
        {"what": "unit of times", "value": units.time, "evidence": _time_evidence(run, choice)},
        *([strays] if run.bounds else []),
    ]


def trace_info(run: Reading, feed: Feed, *, choice: Choice) -> dict[str, Any]:
    """Return the content of trace.json."""
    made, units = run.assembler, run.units
    facts = dict.fromkeys(("major", "minor", "size_sectors", "logical_sector_bytes", "rotational"))
    return {
        "schema": SCHEMA_VERSION,
        "tool": {"tracekit": __version__},
        "source": {"format": run.format.name, "kernel": None, "files": [feed.describe()]},
        "clock": {
            "base_ns": made.first_ns,
            "wall_ns": made.first_ns if units.is_wall and made.first_ns >= 0 else None,
            "duration_ns": made.last_ns,
        },
        "devices": [{"device": name, **facts} for name in made.devices],
        "layout": [],
        "counts": {
            "records": made.rows + run.lines.bad,
            "requests": made.rows,
            "operations": dict(made.operations),
            "preamble_lines": run.preamble,
            **_line_counts(run.lines),
            "rounded_places": made.rounded,
        },
        "loss": {"has_sequence_numbers": False, "sequence_gaps": 0, "lost_records": 0}
        | {"dropped": 0, "unmatched": {}},
        "inferences": _inferences(run, choice),
        "warnings": _warnings(run),
    }


def _format_evidence(run: Reading) -> str:
    return run.format.evidence if isinstance(run.format, TextFormat) else "the first records"


def _line_counts(lines: BadLines) -> dict[str, Any]:
    return {
        "passed_lines": lines.passed,
        "bad_lines": lines.bad,
        "bad_examples": [{"line": line, "text": text} for line, text in lines.examples],
    }


def _source(run: Reading, choice: Choice, name: str) -> str:
    """Return who says the unit of this: the user, a header, or else the format."""
    if any(unit.startswith(f"{name}=") for unit in choice.units):
        return "given by the user"
    if choice.columns or choice.regex:
        return "not given, that of a text of one's own"
    own = run.format.name == "own"
    return _format_evidence(run) if own else f"format {run.format.name}"


def _time_evidence(run: Reading, choice: Choice) -> str:
    given = _source(run, choice, "time")
    if run.units.time == "date":
        return f"{_format_evidence(run)}; dates without a zone are taken as UTC"
    if isinstance(run.format, FioLog) and run.format.version == 2:
        return f"{given}; waits count from fio's start, requests between two share the time"
    if isinstance(run.format, TextFormat) and "time" not in run.format.columns:
        return "the format has no times: a request each microsecond, in its order"
    return given


def _warnings(run: Reading) -> list[dict[str, Any]]:
    made = run.assembler
    doubts = contradictions(run) + made.evidence.doubts(span_ns=made.last_ns)
    lone = run.strays.doubts()
    found = [
        ("no_completions", not made.responses, "no request completes in this trace"),
        ("bad_lines", run.lines.bad, f"{run.lines.bad:,} lines were wrong and left out"),
        ("doubtful_units", doubts, "; ".join(doubts)),
        ("lone_times", lone, "; ".join(lone)),
        (
            "reordered_records",
            made.reordered,
            f"{made.reordered:,} requests stood behind a later one",
        ),
        (
            "rounded_places",
            made.rounded,
            f"{made.rounded:,} requests begin within a sector: its start is taken",
        ),
    ]
    return [warning(code, message) for code, applies, message in found if applies]

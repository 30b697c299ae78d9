"""`trace.json` and the results beside the tables: what they hold, checked on reading."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.errors import InputError
from tracekit.tables import (
    BLOCKS,
    COMPARISON,
    FIDELITY,
    FIDELITY_CURVE,
    FILE_OPERATIONS,
    FILES,
    PLACEMENT,
    REQUESTS,
    VERIFICATION,
    WORKING_SET,
)

LARGEST = (1 << 63) - 1
"""What a column can hold, so that any number of the folder fits."""

TABLES = {
    "requests": REQUESTS,
    "blocks": BLOCKS,
    "working_set": WORKING_SET,
    "file_operations": FILE_OPERATIONS,
    "files": FILES,
    "simulations/placement": PLACEMENT,
    "verification": VERIFICATION,
    "comparison": COMPARISON,
    "fidelity": FIDELITY,
    "fidelity_curve": FIDELITY_CURVE,
}
"""The tables that one stage reads of another, by their place in the trace folder."""

Check = Callable[[Any], bool]


def is_count(value: Any) -> bool:
    """Say whether the value is a whole number that a column can hold, from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def is_text(value: Any) -> bool:
    """Say whether the value is text."""
    return isinstance(value, str)


def is_text_or_null(value: Any) -> bool:
    """Say whether the value is text or unknown."""
    return value is None or isinstance(value, str)


def is_span_or_null(value: Any) -> bool:
    """Say whether the value is unknown or has the counts `at_least` and `at_most`."""
    if value is None:
        return True
    names = ("at_least", "at_most")
    return isinstance(value, dict) and all(is_count(value.get(name)) for name in names)


def is_count_or_null(value: Any) -> bool:
    """Say whether the value is a count or unknown."""
    return value is None or is_count(value)


def is_flag_or_null(value: Any) -> bool:
    """Say whether the value is true, false or unknown."""
    return value is None or isinstance(value, bool)


_DEVICE: Mapping[str, Check] = {
    "device": is_text,
    "major": is_count_or_null,
    "minor": is_count_or_null,
    "size_sectors": is_count_or_null,
    "logical_sector_bytes": is_count_or_null,
    "rotational": is_flag_or_null,
}
_TEXTS = ("partition", "name", "role", "filesystem", "mount", "evidence")
_REGION: Mapping[str, Check] = {
    "device": is_text,
    "start_sector": is_count,
    "sectors": is_count,
    **dict.fromkeys(_TEXTS, is_text_or_null),
}
LISTS: Mapping[str, Mapping[str, Check]] = {
    "devices": _DEVICE,
    "layout": _REGION,
    "partitions": _REGION,
    "counters": {"device": is_text},
    "warnings": dict.fromkeys(("code", "message", "advice"), is_text),
    "inferences": {"what": is_text, "evidence": is_text},
}
OBJECTS: Mapping[str, Mapping[str, Check]] = {
    "tool": {"tracekit": is_text},
    "source": {"format": is_text, "kernel": is_text_or_null},
    "clock": {"duration_ns": is_count, "wall_ns": is_count_or_null},
    "counts": dict.fromkeys(("requests", "records", "notifies"), lambda _value: True),
    "loss": {
        **dict.fromkeys(("lost_records", "sequence_gaps", "dropped"), is_count),
        "unseen": is_span_or_null,
    },
    "classification": {"rule": is_text},
    "hotness": {"rule": is_text},
}


def read_object(file: Path, *, hint: str) -> dict[str, Any]:
    """Return the JSON object in a file; raise InputError that says why there is none.

    Numbers that are not finite and halves of surrogate pairs are refused: no later file could hold
    them.
    """
    try:
        content = json.loads(file.read_text("utf-8"), parse_constant=_refuse, parse_float=_finite)
        json.dumps(content, ensure_ascii=False).encode()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}", hint=hint) from None
    except RecursionError:
        raise InputError(f"{file}: JSON nested too deeply", hint=hint) from None
    except UnicodeError as error:
        raise InputError(f"{file}: not UTF-8 text: {error}", hint=hint) from None
    except ValueError as error:
        raise InputError(f"{file}: not valid JSON: {error}", hint=hint) from None
    if not isinstance(content, dict):
        raise InputError(f"{file}: JSON, but no object in braces", hint=hint)
    return content


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def check_object(content: Mapping[str, Any], file: Path, *, hint: str) -> None:
    """Raise InputError that names the first value of trace.json or layout.json of a wrong kind.

    A key that is not there is no error: what it would say is unknown.
    """
    for key, checks in OBJECTS.items():
        if content.get(key) is not None:
            _check_entry(content[key], checks, f"{file}: {key}", hint)
    for key, checks in LISTS.items():
        entries = content.get(key)
        if entries is None:
            continue
        if not isinstance(entries, list):
            raise InputError(f"{file}: {key} is no list", hint=hint)
        for number, entry in enumerate(entries):
            _check_entry(entry, checks, f"{file}: {key}, entry {number}", hint)


def _check_entry(entry: Any, checks: Mapping[str, Check], place: str, hint: str) -> None:
    if not isinstance(entry, dict):
        raise InputError(f"{place} is no object in braces", hint=hint)
    for key, is_good in checks.items():
        if key in entry and not is_good(entry[key]):
            shown = repr(entry[key])
            shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
            raise InputError(f"{place}: {key} cannot be {shown}", hint=hint)


def check_table(file: Path, schema: pa.Schema, *, hint: str, may_have_nulls: bool = False) -> None:
    """Raise InputError unless the file is a Parquet table with the columns of the schema.

    Reads the footer only: names, types, and that columns without nulls have none.
    """
    try:
        table = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        message = f"{file} is not a readable Parquet file: {first_line(error)}"
        raise InputError(message, hint=hint) from None
    with table:
        stored = table.schema_arrow
        missing = [name for name in schema.names if name not in stored.names]
        if missing:
            raise InputError(f"{file} lacks the columns {', '.join(missing)}", hint=hint)
        for field in schema:
            found = stored.field(field.name)
            if found.type != field.type:
                message = f"{file}: column {field.name} is {found.type}, not {field.type}"
                raise InputError(message, hint=hint)
            is_full = may_have_nulls or field.nullable or not found.nullable
            if not is_full and _has_nulls(table, field.name):
                raise InputError(f"{file}: column {field.name} has nulls", hint=hint)


def _has_nulls(table: Any, name: str) -> bool:
    """Say whether a column has nulls by the statistics; without any nothing is known."""
    position = table.schema_arrow.names.index(name)
    groups = (table.metadata.row_group(group) for group in range(table.metadata.num_row_groups))
    known = (group.column(position).statistics for group in groups)
    return any(found is not None and found.null_count for found in known)


def impossible_values(what: str, error: Exception) -> InputError:
    """Return the error for damaged pages and for numbers that no trace has, such as sector 2^63."""
    return InputError(
        f"{what} cannot be worked out from this trace's tables: {first_line(error)}",
        hint="they are damaged or of a damaged capture: parse it again, and check the warnings",
    )


def first_line(error: Exception) -> str:
    """Return an error's message without the listings that follow it."""
    return (str(error).splitlines() or [type(error).__name__])[0]


STAGE = "parse"

ADVICE = {
    "lost_records": "capture again with larger buffers: latencies and totals can be wrong",
    "no_sequence_numbers": "the source cannot tell lost records; trust the tracer's own loss count",
    "unmatched_events": "expected at both ends of a capture; many of them mean lost records",
    "unseen_completions": "these requests have no completion and no latency: capture with blktrace"
    " or tracefs-blk, of which none is unseen",
    "unseen_not_measured": "trust the tracer's own loss count",
    "window_full": "requests that never completed were given up; look for lost completions",
    "repeated_records": "check that no file was given twice and that all are of one capture",
    "reordered_records": "nothing: they were put in order of time",
    "salvaged": "capture or copy the file again if the rest matters",
    "unknown_actions": "the kernel is newer than this tracekit: these events were left out",
    "passthrough": "nothing: commands to the device are no block I/O and have no row",
    "no_completions": "latency cannot be analysed: capture all actions, or import response times",
    "no_process_names": "capture with tracekit, which saves the names, or give --layout",
    "bad_lines": "trace.json shows the first of them; the rest was imported",
    "doubtful_units": "import again with the right --unit: sizes, places or rates can be wrong",
    "lone_times": "take these lines out if their times are wrong: they stretch the trace",
    "rounded_places": "check the unit of places",
    "guessed_roles": "check them; set roles with tracekit classify --role NAME=ROLE or --layout",
    "unknown_roles": "set roles with tracekit classify --role NAME=ROLE, or give a --layout",
    "absent_devices": "check that the layout belongs to this trace",
    "crossing_requests": "check that the layout belongs to this trace",
    "impossible_requests": "check the capture for damage",
    "traced_times": "take durations of short calls for upper bounds; think time is longer, too",
    "unseen_operations": "reads and writes by io_uring and libaio are not in the trace",
    "left_out_calls": "nothing if they are few: no file operation stands for them",
    "unknown_offsets": "capture from the start of the program, with --below its files",
    "unfinished_calls": "expected when threads end or the capture was ended early",
}


def warning(code: str, message: str, *, stage: str = STAGE) -> dict[str, Any]:
    """Return a warning of trace.json; `code` is one of ADVICE, `stage` the one that warns."""
    return {"code": code, "message": message, "advice": ADVICE[code], "stage": stage}

"""What `perf stat` writes: JSON lines (-j) and the separated values of -x, of this machine or any.

Both are in perf-stat(1). A file holds one run. What was counted by processor, core, die, socket or
node (-A, --per-...) is added up, as perf does without these; intervals, threads and control groups
are refused, as they can leave out or count twice what a run did.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracekit.errors import InputError

NOT_COUNTED = {
    "<not supported>": "this machine's processor does not count it, or hides it from the guest",
    "<not counted>": "no counter was free while it ran",
}
SEPARATORS = (",", ";", "\t", "|", " ")
MODIFIER = re.compile(r"(?<=.):[ukhGHpPSDWIe]+$")
VARIANCE = re.compile(r"\d+([.,]\d+)?%")
# What perf writes where the locale has decimal commas: two decimals, in values of -j six.
DECIMAL_COMMA = re.compile(r"(?<!\w)(?<!\w,)(\d+),(\d\d|\d{6})(?!\w|,\w)")
LOCALE_HINT = "numbers with decimal commas: record with LC_ALL=C perf stat, or with -x ';'"
PART_KEYS = ("cpu", "core", "cluster", "cache", "die", "socket", "node")
PARTIAL_KEYS = ("interval", "thread", "cgroup")
PROCESSOR = re.compile(r"CPU\d+")
# Such as S0-D0-C3 of --per-core; the number of processors in it is a field of its own behind it.
PROCESSORS = re.compile(r"(S\d+(-[A-Z]+\d+)*|N\d+)")


@dataclass(frozen=True)
class Count:
    """One event of one run; `count` is None with a `reason`. `is_user`: not the kernel's part.

    `is_mean`: of the runs of `perf stat -r`, and so no run of its own.
    """

    event: str
    count: float | None
    unit: str
    running_ratio: float | None
    reason: str
    is_user: bool = False
    is_mean: bool = False


def read_counts(file: Path) -> tuple[list[Count], str]:
    """Return the counts of a recorded file, and its text; InputError names file, line and value."""
    try:
        text = file.read_text(encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    return parse_counts(text, place=str(file)), text


def parse_counts(text: str, *, place: str) -> list[Count]:
    """Return the counts of the text of `perf stat -j` or `-x`, each event once."""
    lines = [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    is_json = bool(lines) and lines[0][1].startswith("{")
    separator = "" if is_json or not lines else _separator(lines[0][1])
    found: dict[str, dict[str, Count]] = {}
    for number, line in lines:
        at = f"{place}, line {number}"
        part, one = _of_json(line, at) if is_json else _of_fields(line.split(separator), at)
        if one is None:
            continue
        parts = found.setdefault(one.event, {})
        if part in parts or (parts and "" in (part, *parts)):
            raise InputError(
                f"{at}: '{one.event}' is counted a second time{f' for {part}' * bool(part)}",
                hint="one file is one run: without -I, and not appended",
            )
        parts[part] = one
    if not found:
        raise InputError(
            f"{place} holds no event of perf stat",
            hint="record with: perf stat -j -o FILE -- COMMAND, or with -x, in place of -j",
        )
    return [_sum(list(parts.values())) for parts in found.values()]


def _sum(parts: list[Count]) -> Count:
    """Add up the counts of processors; those where nothing was counted ran nothing of it."""
    counts = [one.count for one in parts if one.count is not None]
    if len(parts) == 1 or not counts:
        return parts[0]
    known = [one for one in parts if one.count is not None]
    shares = [one.running_ratio for one in known if one.running_ratio is not None]
    return replace(known[0], count=math.fsum(counts), running_ratio=min(shares, default=None))


Part = tuple[str, Count | None]
"""Of which processors a line is, `` of all, and what was counted; None for a metric alone."""


def _of_json(line: str, at: str) -> Part:
    try:
        told = json.loads(line)
    except ValueError:
        told = _with_decimal_points(line)
    if not isinstance(told, dict):
        raise InputError(f"{at}: not a line of perf stat -j: {line[:60]!r}")
    partial = [key for key in PARTIAL_KEYS if key in told]
    if partial:
        raise InputError(
            f"{at}: counted by {partial[0]}, not over the run",
            hint="record without -I, --per-thread and --for-each-cgroup",
        )
    part = " ".join(f"{key} {told[key]}" for key in PART_KEYS if key in told)
    if "event" not in told or "counter-value" not in told:
        return part, None
    return part, _count(told, at)


def _with_decimal_points(line: str) -> Any:
    """Take a line whose numbers the locale wrote with decimal commas; None when it is no JSON."""
    try:
        return json.loads(DECIMAL_COMMA.sub(r"\1.\2", line))
    except ValueError:
        return None


def _of_fields(fields: list[str], at: str) -> Part:
    """Take [processors,] value, unit, event, [variance,] run time, share, metric and its unit."""
    part, fields = _of_processors(fields)
    if len(fields) < 3:
        raise InputError(f"{at}: not a line of perf stat -x: {','.join(fields)[:60]!r}")
    if not fields[2] and not fields[0]:
        return part, None
    if re.fullmatch(r"\d+\.\d{9}", fields[0].strip()):
        raise InputError(
            f"{at}: counted by interval ({fields[0].strip()}), not over the run",
            hint="record without -I",
        )
    rest = fields[3:]
    told = {"counter-value": fields[0], "unit": fields[1], "event": fields[2]}
    if rest and VARIANCE.fullmatch(rest[0]):
        told["variance"], rest = rest[0], rest[1:]
    return part, _count(told | ({"pcnt-running": rest[1]} if len(rest) > 1 else {}), at)


def _of_processors(fields: list[str]) -> tuple[str, list[str]]:
    if PROCESSOR.fullmatch(fields[0]):
        return fields[0], fields[1:]
    if PROCESSORS.fullmatch(fields[0]):
        return fields[0], fields[2:]
    return "", fields


def _count(told: Mapping[str, Any], at: str) -> Count:
    name, value = str(told["event"]), str(told["counter-value"]).strip()
    event = MODIFIER.sub("", name)
    modifier = name[len(event) :]
    is_user = "u" in modifier and "k" not in modifier
    if value in NOT_COUNTED:
        return Count(event, None, "", None, NOT_COUNTED[value], is_user, "variance" in told)
    count = _number(value, f"{at}: count of '{name}'")
    share = _number(str(told.get("pcnt-running", 100)), f"{at}: share of '{name}'") / 100
    if not 0 <= share <= 1.001:
        raise InputError(f"{at}: '{name}' ran {share:.0%} of the time", hint=LOCALE_HINT)
    unit = str(told.get("unit") or "")
    return Count(event, count, unit, min(share, 1.0), "", is_user, "variance" in told)


def _number(text: str, place: str) -> float:
    try:
        value = float(DECIMAL_COMMA.sub(r"\1.\2", text))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{place}: {text[:60]!r} is not a number from 0 up")
    return value


def _separator(line: str) -> str:
    """Return the separator of -x: the one that leaves an event as the third field."""
    fitting: Iterator[str] = (
        separator
        for separator in SEPARATORS
        if len(fields := _of_processors(line.split(separator))[1]) >= 5
        and re.search(r"[A-Za-z]", fields[2])
    )
    return next(fitting, SEPARATORS[0])

"""A trace in several text files, as a program that rotates its log leaves it: order and gaps."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.readers.stream import open_feeds
from tracekit.readers.text import BadLines, TextFormat

NUMBER = re.compile(r"(\d+)")
COMPRESSED = re.compile(r"\.(gz|xz|zst|bz2)$")
MOST_GAPS = 64
EDGE_BYTES = 1 << 16
EMPTY_BYTES = 64
"""Of a compressed file without a text."""
LONGEST_NUMBER = 7
"""Digits: a date or a time of day has more or stands beside others."""
LONG_SHARE = 0.1
"""Of the trace: without a request for so long is a gap."""
FEWEST_GAPS = 100
FEWEST_TICKS = 10
BOUNDARY_RATIO = 2
"""Between two files so many times the longest within one is a gap."""


@dataclass(frozen=True)
class Piece:
    """The times of one of several files."""

    name: str
    first_ns: int
    last_ns: int


class Gaps:
    """The longest times without a request, of times that come in order."""

    def __init__(self) -> None:
        self.latest_ns: int | None = None
        self.count = 0
        self.longest: list[tuple[int, int]] = []
        """How long, and from when on; the longest first."""

    def add(self, times_ns: NDArray[np.int64]) -> None:
        """Look at some times."""
        before = times_ns[:1] if self.latest_ns is None else np.array([self.latest_ns])
        line = np.concatenate((before, times_ns))
        lengths = np.diff(line)
        self.latest_ns = int(line[-1])
        self.count += len(times_ns)
        least = self.longest[-1][0] if len(self.longest) == MOST_GAPS else 0
        if lengths.max() > least:
            rows = np.argsort(lengths)[-MOST_GAPS:]
            found = zip(lengths[rows].tolist(), line[rows].tolist(), strict=True)
            self.longest = sorted([*self.longest, *found], reverse=True)[:MOST_GAPS]


def by_name(files: Sequence[Path]) -> list[Path]:
    """Return the files by their names, of which numbers count as numbers: 2 before 10."""
    return sorted(files, key=lambda file: (file.parent, _key(file.name)))


def _key(name: str) -> list[tuple[int, str]]:
    parts = NUMBER.split(COMPRESSED.sub("", name))
    return [(int(part), "") if at % 2 else (-1, part) for at, part in enumerate(parts)]


def missing_numbers(files: Sequence[Path]) -> list[str]:
    """Return the names that are missing between others, where one number tells them apart."""
    rows = [NUMBER.split(COMPRESSED.sub("", file.name)) for file in files]
    rows = [row for row in rows if len(row) == max(map(len, rows))]
    places = [at for at, column in enumerate(zip(*rows, strict=True)) if len(set(column)) > 1]
    if len(places) != 1 or places[0] % 2 == 0:
        return []
    at = places[0]
    found = sorted({int(row[at]) for row in rows})
    if len(str(found[-1])) > LONGEST_NUMBER:
        return []
    width = len(rows[0][at]) if len({len(row[at]) for row in rows}) == 1 else 0
    lost = (number for one, next_ in pairwise(found) for number in range(one + 1, next_))
    return ["".join([*rows[0][:at], f"{number:0{width}}", *rows[0][at + 1 :]]) for number in lost]


def by_time(files: Sequence[Path], form: TextFormat, *, salvages: bool) -> list[Path]:
    """Return the files, which are in the order of their names, in that of their times.

    Of logrotate's files the last number is the oldest. Where files overlap in times that count from
    anywhere each may have a clock of its own, and they stay as they are. Raise UsageError for a
    file that is not of the format.
    """
    if "time" not in form.columns:
        return list(files)
    firsts = [_edge(file, form, is_last=False, salvages=salvages) for file in files]
    empty = [file for file, time in zip(files, firsts, strict=True) if time is None]
    if salvages and any(file.stat().st_size > EMPTY_BYTES for file in empty):
        return list(files)  # its text cannot be read to that edge
    named = [file for file in files if file not in empty]
    times = [time for time in firsts if time is not None]
    order = np.argsort(times, kind="stable").tolist()
    if order == sorted(order):
        return [*named, *empty]
    found = [named[at] for at in order]
    ends = [_edge(file, form, is_last=True, salvages=salvages) or 0 for file in found[:-1]]
    is_apart = all(end <= times[at] for end, at in zip(ends, order[1:], strict=True))
    return [*(found if is_apart or form.units.is_wall else named), *empty]


def _edge(file: Path, form: TextFormat, *, is_last: bool, salvages: bool) -> int | None:
    """Return the first or the last time of a file, as it stands in it; None of an empty file."""
    with open_feeds([file], salvages=salvages) as (feed,):
        if is_last and feed.is_direct and feed.total_bytes:
            os.lseek(feed.fd, max(feed.total_bytes - EDGE_BYTES, 0), os.SEEK_SET)
        text = b""
        while (more := os.read(feed.fd, EDGE_BYTES)) and (is_last or len(text) < EDGE_BYTES):
            text = (text + more)[-2 * EDGE_BYTES :]
    if not text:
        return None
    whole = text[: text.rfind(b"\n") + 1] or text + b"\n"
    columns = form.decode(whole, BadLines())
    if columns is None:
        message = f"{file}: there is no line of the format {form.name} in {len(whole):,} bytes"
        raise UsageError(message, hint="give files of one trace, all in the same format")
    return int(columns.numbers["time"][-1 if is_last else 0])


def gaps_in_words(gaps: Gaps, pieces: Sequence[Piece], *, first_ns: int, tick_ns: int) -> list[str]:
    """Return in words where there is no request for long: a tenth of the trace, or between files.

    Between two files it is long where it is longer than all within them. Of times that are read in
    ticks a gap is some of them.
    """
    span_ns = (gaps.latest_ns or first_ns) - first_ns
    if gaps.count < FEWEST_GAPS or span_ns <= 0:
        return []
    ends = {one.last_ns: (one.name, next_.name) for one, next_ in pairwise(pieces)}
    inner = max((length for length, start in gaps.longest if start not in ends), default=0)
    found = []
    for length, start in sorted(gaps.longest, key=lambda gap: gap[1]):
        is_long = length >= LONG_SHARE * span_ns and length >= FEWEST_TICKS * tick_ns
        if not is_long and not (start in ends and length > BOUNDARY_RATIO * inner):
            continue
        where = f", between {' and '.join(ends[start])}" if start in ends else ""
        from_s = (start - first_ns) / 1e9
        found.append(f"no request for {length / 1e9:,.3f} s from {from_s:,.3f} s on{where}")
    return found

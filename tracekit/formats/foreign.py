"""What the importers of foreign formats hand on: columns as they stand in the file, and units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tracekit.errors import UsageError

TIME_NS = {
    "ns": 1,
    "us": 1_000,
    "filetime": 100,
    "ms": 1_000_000,
    "s": 1_000_000_000,
}
"""Nanoseconds in a unit of time; filetime is 100 ns since 1601."""
SIZE_BYTES = {"bytes": 1, "sectors": 512, "pages": 4096}
FILETIME_OF_1970 = 116_444_736_000_000_000


@dataclass(frozen=True)
class Units:
    """In which units a format counts."""

    time: str
    offset: str
    length: str
    is_wall: bool = False
    """Times count from 1970, or for filetime from 1601; else from the capture's start."""
    response: str | None = None
    """Unit of the response time, where the format has one."""
    settled_time: str | None = None
    """Unit of time that the format's own reader takes, where traces are often read in another."""

    def overridden(self, given: Iterable[str]) -> Units:
        """Return the units with the user's WHAT=UNIT; raise UsageError for unknown ones."""
        units = self
        for item in given:
            name, _, unit = item.partition("=")
            known = TIME_NS if name in ("time", "response") else SIZE_BYTES
            if name not in ("time", "response", "offset", "length") or unit not in known:
                raise UsageError(
                    f"--unit {item}: not one of time, response, offset or length with its unit",
                    hint=f"such as time=us or length=bytes; known here: {', '.join(known)}",
                )
            given_unit: dict[str, Any] = {name: unit}
            units = replace(units, **given_unit)
        return units


@dataclass
class Columns:
    """Some requests as they stand in the file, column by column."""

    numbers: Mapping[str, Any]
    """int64 arrays: time, offset, length, response, pid; what is missing is not known."""
    words: Mapping[str, Any]
    """Arrow dictionary arrays: op, device, volume, process."""
    rows: int
    scaled: set[str] = field(default_factory=set)
    """Numbers that are nanoseconds already."""


def bad_operation(words: Iterable[str], known: Mapping[str, str]) -> bool:
    """Say whether one of the words is no operation of the format."""
    return any(word.strip().lower() not in known for word in words)

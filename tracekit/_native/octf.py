"""Traces of the Open CAS telemetry framework: `replayer/read/octf.h` for numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.decode import Place, StoppedError
from tracekit._native.library import Owned, array, call, constant, enumerators, plain, struct

COLUMNS = enumerators("tk_octf_column", "TK_OCTF_")[:-1]
BLOCK_ROWS = (1 << 16) - 8
"""Columns that lay a power of two apart would take the same lines of a cache."""


class Problem(IntEnum):
    """Why a trace cannot be read on; `enum octf_problem_kind` has what the values mean."""

    NONE = constant("OCTF_PROBLEM_NONE")
    CUT = constant("OCTF_PROBLEM_CUT")
    LENGTH = constant("OCTF_PROBLEM_LENGTH")
    MESSAGE = constant("OCTF_PROBLEM_MESSAGE")
    HEADER = constant("OCTF_PROBLEM_HEADER")
    TIME = constant("OCTF_PROBLEM_TIME")
    PLACE = constant("OCTF_PROBLEM_PLACE")
    DEVICES = constant("OCTF_PROBLEM_DEVICES")
    READ = constant("OCTF_PROBLEM_READ")
    MEMORY = constant("OCTF_PROBLEM_MEMORY")


class OctfStats(SimpleNamespace):
    """What was read: the fields of `struct tk_octf_stats`, where each is explained."""


@dataclass(frozen=True)
class Device:
    """A device of the trace; name and size as it was described, or empty and 0."""

    id: int
    sectors: int
    name: str


class OctfError(StoppedError):
    """The reader stopped, with a Problem of this module."""


def is_octf(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is of such a trace."""
    return bool(call("tk_octf_detect", head, len(head)))


class OctfReader(Owned):
    """Reads open descriptors of one trace, of the first behind `head`."""

    kind = "tk_octf"
    made_by, freed_by = "open", "close"
    failure = "the OCTF trace cannot be read"

    def __init__(self, fds: Sequence[int], head: bytes) -> None:
        super().__init__(array("int32_t", fds), len(fds), head, len(head))

    def read(self) -> dict[str, NDArray[np.int64]]:
        """Return the next requests by COLUMNS, of no rows at the end; raise OctfError."""
        block = np.empty((len(COLUMNS), BLOCK_ROWS), np.int64)
        rows = self._call("read", list(block), BLOCK_ROWS)
        if rows < 0:
            raise OctfError(_place(self._read("problem", "octf_problem")))
        return {name: block[number, :rows] for number, name in enumerate(COLUMNS)}

    def devices(self) -> list[Device]:
        """Return the devices that occurred, in order of appearance."""
        found: list[Device] = []
        device = struct("tk_octf_device")
        while len(found) < self._call("device", len(found), device):
            fields = plain(device)
            found.append(Device(**fields | {"name": fields["name"].decode("utf-8", "replace")}))
        return found

    def stats(self) -> OctfStats:
        """Return what was read so far."""
        return OctfStats(**self._read("stats", "tk_octf_stats"))

    def cut(self, file: int) -> Place | None:
        """Return where input `file` ended within a message, if it did."""
        problem = self._read("cut", "octf_problem", file)
        return _place(problem) if problem["kind"] else None


def _place(problem: dict[str, Any]) -> Place:
    return Place(**problem | {"kind": Problem(problem["kind"])})

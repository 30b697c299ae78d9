"""Caches and row buffers, one access at a time with lists, and small folders of accesses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracekit.metadata import MemoryTrace, TraceInfo
from tracekit.store import TraceFolder, write_info, write_table
from tracekit.tables import MEMORY_ACCESSES

Access = tuple[str, int, int]  # operation, address, bytes
Asked = tuple[int, int, bool]  # address, bytes, is write


def memory_folder(path: Path, accesses: Iterable[Access], **memory: Any) -> TraceFolder:
    """Make a trace folder of these accesses."""
    path.mkdir()
    write_info(path, TraceInfo())
    return with_accesses(TraceFolder(path), accesses, **memory)


def with_accesses(folder: TraceFolder, accesses: Iterable[Access], **memory: Any) -> TraceFolder:
    """Put these accesses into a folder, whatever else is in it; `memory` is of MemoryTrace."""
    rows = [
        {"address": address, "size_bytes": size, "operation": operation}
        for operation, address, size in accesses
    ]
    write_table(folder.table("memory_accesses"), pa.Table.from_pylist(rows, MEMORY_ACCESSES))
    folder.save_info(memory=MemoryTrace(**memory))
    return TraceFolder(folder.path)


def some_accesses(count: int) -> list[Access]:
    """Return loads and stores that walk through pages and come back to some of them."""
    return [
        (("load", "load", "store", "modify", "fetch")[at % 5], at * at % 4099 * 24 + at * 8, 8)
        for at in range(count)
    ]


@dataclass
class SlowCaches:
    """Levels of (sets, ways): sets are lists of lines, the one used last first."""

    levels: Sequence[tuple[int, int]]
    line: int = 64
    sets: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    dirty: set[tuple[int, int]] = field(default_factory=set)
    """Level and line."""
    asked: list[Asked] = field(default_factory=list)
    missed: list[dict[str, int]] = field(default_factory=list)

    def _set(self, level: int, line: int, operation: str) -> list[int]:
        name = "fetch" if (level, operation) == (0, "fetch") else str(level)
        return self.sets.setdefault((name, line % self.levels[level][0]), [])

    def _missing(self, line: int, operation: str) -> int:
        """Bring a line in; return how many levels missed it."""
        victims = []
        missed = 0
        for level, (_sets, ways) in enumerate(self.levels):
            lines = self._set(level, line, operation)
            is_hit = line in lines
            if is_hit:
                lines.remove(line)
            lines.insert(0, line)
            if level == 0 and operation in ("store", "modify"):
                self.dirty.add((0, line))
            if is_hit:
                break
            missed += 1
            if len(lines) > ways:
                # What instructions are fetched from is never dirty, though data may hold it, too.
                victims.append((-1 if (level, operation) == (0, "fetch") else level, lines.pop()))
        if missed == len(self.levels):
            self.asked.append((line * self.line, self.line, False))
        for level, victim in victims:
            if (level, victim) in self.dirty:
                self.dirty.remove((level, victim))
                self._write_back(level + 1, victim)
        return missed

    def _write_back(self, level: int, line: int) -> None:
        for below in range(level, len(self.levels)):
            if line in self._set(below, line, ""):
                self.dirty.add((below, line))
                return
        self.asked.append((line * self.line, self.line, True))

    def add(self, accesses: Iterable[Access]) -> None:
        """Take accesses in their order."""
        self.missed = self.missed or [{} for _ in range(len(self.levels) + 1)]
        for operation, address, size in accesses:
            lines = range(address // self.line, (address + size - 1) // self.line + 1)
            missed = max(self._missing(line, operation) for line in lines)
            for level in range(missed + 1):
                self.missed[level][operation] = self.missed[level].get(operation, 0) + 1


def slow_rows(
    asked: Iterable[Asked], *, row: int, line: int, buffers: int, is_banked: bool
) -> list[int]:
    """Return accesses, hits, rows read and rows written back."""
    opened: dict[int, list[list[int]]] = {}  # by bank: [row, is written], the one used last first
    totals = [0, 0, 0, 0]
    for address, size, is_write in asked:
        at = address
        while at < address + size:
            end = min((at // line + 1) * line, address + size)
            is_hit = True
            for number in range(at // row, (end - 1) // row + 1):
                kept = opened.setdefault(number % buffers if is_banked else 0, [])
                found = next((one for one in kept if one[0] == number), None)
                if found is None:
                    is_hit = False
                    totals[2] += 1
                    found = [number, 0]
                else:
                    kept.remove(found)
                kept.insert(0, found)
                found[1] |= is_write
                while len(kept) > (1 if is_banked else buffers):
                    totals[3] += kept.pop()[1]
            totals[0] += 1
            totals[1] += is_hit
            at = end
    return totals

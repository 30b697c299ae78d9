"""Reads `requests.parquet` in order of time, as queued or as issued, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracekit.errors import InputError
from tracekit.plans.block_plan import FLAG_BITS

BATCH_ROWS = 1 << 18
TIMES = ("queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "complete_ns")
COLUMNS = ("request_id", "device", "sector", "length_bytes", "operation", "role")
CHAIN_MAX = 64
NO_TIME = np.iinfo(np.int64).min

ROWS = np.dtype(
    [
        ("time_ns", "i8"),
        ("complete_ns", "i8"),
        ("request_id", "i8"),
        ("sector", "i8"),
        ("length_bytes", "i8"),
        ("merged_into", "i8"),
        ("device", "i4"),
        ("role", "i2"),
        ("operation", "i2"),
        ("flags", "u1"),
    ],
    align=True,
)
Rows = npt.NDArray[np.void]
Integers = npt.NDArray[np.int64]


@dataclass
class Source:
    """A trace's requests; `devices`, `roles` and `operations` name the codes in the rows."""

    path: Path
    level: str
    guessed_times: int = 0
    unissued: int = 0
    orphans: int = 0

    def __post_init__(self) -> None:
        """Start with no names."""
        self.devices: list[str] = []
        self.roles: list[str] = []
        self.operations: list[str] = []

    def rows(self) -> Iterator[Rows]:
        """Yield rows in order of `time_ns`: of the queueing, or of the issue.

        What stands later in the table was queued later, so rows up to the last queue time of a
        batch are final; the others wait. Waiting are only requests in flight at one moment.
        """
        waiting = np.empty(0, ROWS)
        last_ns = NO_TIME
        for batch, until_ns in self._batches():
            waiting = np.concatenate([waiting, batch]) if len(waiting) else batch
            if self.level == "issued":
                waiting = self._merge(waiting)
            is_final = (waiting["time_ns"] <= until_ns) & (waiting["merged_into"] < 0)
            # Nearly always all are final, or all but a few: copy once.
            if is_final.all():
                ready, waiting = waiting, waiting[:0]
            else:
                ready, waiting = waiting[is_final], waiting[~is_final]
            if len(ready):
                ready = _sorted(ready, last_ns, self.path)
                last_ns = int(ready["time_ns"][-1])
                yield ready
        self.orphans += int((waiting["merged_into"] >= 0).sum())
        rest = waiting[waiting["merged_into"] < 0]
        if len(rest):
            yield _sorted(rest, last_ns, self.path)

    def _batches(self) -> Iterator[tuple[Rows, int]]:
        """Yield rows as they stand, and the time up to which no later row can come."""
        with pq.ParquetFile(self.path) as table:
            times = ["queue_ns", "issue_ns"] if self.level == "issued" else self._times(table)
            columns = [*dict.fromkeys((*times, "complete_ns")), *COLUMNS, *FLAG_BITS]
            if self.level == "issued":
                columns.append("merged_into")
            for batch in table.iter_batches(BATCH_ROWS, columns=columns):
                if batch.num_rows:
                    yield self._take(batch, times)

    @staticmethod
    def _times(table: Any) -> list[str]:
        """The times to read: later ones only where the queue event of some request is missing."""
        position = table.schema_arrow.names.index("queue_ns")
        groups = range(table.metadata.num_row_groups)
        statistics = [table.metadata.row_group(g).column(position).statistics for g in groups]
        is_complete = all(
            s is not None and s.has_null_count and not s.null_count for s in statistics
        )
        return ["queue_ns"] if is_complete else list(TIMES)

    def _take(self, batch: Any, times: list[str]) -> tuple[Rows, int]:
        rows = np.empty(batch.num_rows, ROWS)
        known = [_filled(batch.column(name), NO_TIME) for name in times]
        if self.level == "issued":
            rows["time_ns"] = known[1]
            rows["merged_into"] = _filled(batch.column("merged_into"), -1)
        else:
            rows["time_ns"] = self._first_known(known)
            rows["merged_into"] = -1
        rows["complete_ns"] = _filled(batch.column("complete_ns"), NO_TIME)
        for name in ("request_id", "sector", "length_bytes"):
            rows[name] = batch.column(name).to_numpy()
        for name, names in (
            ("device", self.devices),
            ("role", self.roles),
            ("operation", self.operations),
        ):
            rows[name] = _codes(batch.column(name), names)
        rows["flags"] = _flags(batch)
        if self.level == "issued":
            is_lost = (rows["time_ns"] == NO_TIME) & (rows["merged_into"] < 0)
            self.unissued += int(is_lost.sum())
            rows = rows[~is_lost]
        return rows, int(known[0].max())

    def _first_known(self, known: list[Integers]) -> Integers:
        time_ns = known[0].copy()
        for later in known[1:]:
            is_missing = time_ns == NO_TIME
            time_ns[is_missing] = later[is_missing]
        self.guessed_times += int((known[0] == NO_TIME).sum())
        return time_ns

    def _merge(self, rows: Rows) -> Rows:
        """Add merged requests to the one that carried them, and drop them.

        A merged request waits only for a merge target that stands further on in the table; if its
        target is gone, or was never issued, it is counted as an orphan. The rows stand in order of
        their ids.
        """
        merged = np.flatnonzero(rows["merged_into"] >= 0)
        if not len(merged):
            return rows
        ids = rows["request_id"]
        into = rows["merged_into"][merged]
        for _ in range(CHAIN_MAX):
            target = np.minimum(np.searchsorted(ids, into), len(ids) - 1)
            is_found = ids[target] == into
            # A merge target may itself be merged: pass on to its own target until none is.
            is_chained = is_found & (rows["merged_into"][target] >= 0)
            if not is_chained.any():
                break
            into[is_chained] = rows["merged_into"][target[is_chained]]
        is_found &= ~is_chained
        found, target = merged[is_found], target[is_found]
        np.add.at(rows["length_bytes"], target, rows["length_bytes"][found])
        np.minimum.at(rows["sector"], target, rows["sector"][found])
        is_orphan = ~is_found & (into <= ids[-1])
        self.orphans += int(is_orphan.sum())
        is_kept = np.ones(len(rows), bool)
        is_kept[merged[is_found | is_orphan]] = False
        kept: Rows = rows[is_kept]
        return kept


def _filled(column: Any, missing: int) -> Integers:
    whole = pc.fill_null(column, missing) if column.null_count else column
    return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.int64)


def _codes(column: Any, names: list[str]) -> Integers:
    """Codes of a dictionary column in a list of names that grows as new ones come."""
    known = {name: code for code, name in enumerate(names)}
    for name in column.dictionary.to_pylist():
        if name not in known:
            known[name] = len(names)
            names.append(name)
    of_batch = np.array([known[name] for name in column.dictionary.to_pylist()], np.int64)
    return np.asarray(of_batch[column.indices.to_numpy()], dtype=np.int64)


def _flags(batch: Any) -> npt.NDArray[np.uint8]:
    flags = np.zeros(batch.num_rows, np.uint8)
    for name, bit in FLAG_BITS.items():
        flags |= batch.column(name).to_numpy(zero_copy_only=False).astype(np.uint8) * np.uint8(bit)
    return flags


def _sorted(rows: Rows, last_ns: int, path: Path) -> Rows:
    time_ns = rows["time_ns"]
    if (time_ns[1:] < time_ns[:-1]).any():
        rows = rows[np.argsort(time_ns, kind="stable")]
    if int(rows["time_ns"][0]) < last_ns:
        raise InputError(
            f"{path}: request {int(rows['request_id'][0])} stands behind requests of later times",
            hint="the table must be in queue order: parse the capture again",
        )
    return rows

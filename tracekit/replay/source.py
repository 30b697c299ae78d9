"""Reads `requests.parquet` in order of time, as queued or as issued, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.arrow import flag_bytes, ints, name_codes, open_table
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


@dataclass
class Source:
    """A trace's requests; `devices`, `roles` and `operations` name the codes in the rows."""

    path: Path
    level: str
    guessed_times: int = 0
    unissued: int = 0
    orphans: int = 0
    devices: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)

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
        with open_table(self.path) as table:
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
        found = [table.metadata.row_group(g).column(position).statistics for g in groups]
        is_complete = all(one and one.has_null_count and not one.null_count for one in found)
        return ["queue_ns"] if is_complete else list(TIMES)

    def _take(self, batch: Any, times: list[str]) -> tuple[Rows, int]:
        rows = np.zeros(batch.num_rows, ROWS)
        known = [ints(batch.column(name), if_null=NO_TIME) for name in times]
        rows["complete_ns"] = ints(batch.column("complete_ns"), if_null=NO_TIME)
        for name in ("request_id", "sector", "length_bytes"):
            rows[name] = ints(batch.column(name))
        rows["device"] = name_codes(batch.column("device"), self.devices, grow=True)
        rows["role"] = name_codes(batch.column("role"), self.roles, grow=True)
        rows["operation"] = name_codes(batch.column("operation"), self.operations, grow=True)
        for name, bit in FLAG_BITS.items():
            rows["flags"] |= flag_bytes(batch.column(name)) * np.uint8(bit)
        if self.level == "issued":
            rows["time_ns"] = known[1]
            rows["merged_into"] = ints(batch.column("merged_into"), if_null=-1)
            is_lost = (rows["time_ns"] == NO_TIME) & (rows["merged_into"] < 0)
            self.unissued += int(is_lost.sum())
            return rows[~is_lost], int(known[0].max())
        time_ns = known[0]
        for later in known[1:]:
            time_ns = np.where(time_ns == NO_TIME, later, time_ns)
        rows["time_ns"], rows["merged_into"] = time_ns, -1
        self.guessed_times += int((known[0] == NO_TIME).sum())
        return rows, int(known[0].max())

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
        return np.delete(rows, merged[is_found | is_orphan])


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

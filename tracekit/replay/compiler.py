"""Compiles the requests of a trace, in order of time, into a plan file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.arrow import (
    Integers,
    batches_of,
    count_rejected,
    flag_bytes,
    ints,
    name_codes,
    open_table,
)
from tracekit.errors import InputError
from tracekit.metadata import TraceInfo
from tracekit.plans import block_plan
from tracekit.plans.block_plan import AFTER_MAX, FLAG_BITS
from tracekit.replay.placed import Pieces, Placed, Steps, no_rows, together
from tracekit.replay.routes import NVM, Routes, known_devices, parts_of
from tracekit.store import TraceFolder, beside
from tracekit.tables import ROLES
from tracekit.units import SECTOR_BYTES

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
            for batch in batches_of(table, columns, rows=BATCH_ROWS):
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


@dataclass
class Waits:
    """Finds, in a stream of requests in order of time, the one that each came after.

    A request comes after the last completion that is earlier than it: its think time is what
    passed since. Those before the first completion came after none. Kept are only requests in
    flight, and the last one that has completed.
    """

    count: int = 0
    without_completion: int = 0
    complete_ns: Integers = field(default_factory=no_rows)
    position: Integers = field(default_factory=no_rows)

    def add(self, rows: Rows) -> tuple[Integers, Integers]:
        """Return, for each row, how many rows before it that one stands (0: none) and the think ns.

        Rows come as `Source.rows` yields them, without those that the plan leaves out.
        """
        own = self.count + np.arange(len(rows), dtype=np.int64)
        self.count += len(rows)
        # A completion that is earlier than its own request is none that anybody can have seen.
        has_ended = rows["complete_ns"] >= rows["time_ns"]
        self.without_completion += int((~has_ended).sum())
        ended = np.concatenate([self.complete_ns, rows["complete_ns"][has_ended]])
        position = np.concatenate([self.position, own[has_ended]])
        order = np.argsort(ended, kind="stable")
        ended, position = ended[order], position[order]
        last = np.searchsorted(ended, rows["time_ns"], side="left") - 1
        last = _near(last, position, own)
        after = np.where(last >= 0, own - position[last], 0) if len(ended) else 0 * own
        think = np.where(after > 0, rows["time_ns"] - ended[last], 0) if len(ended) else 0 * own
        first = max(int(np.searchsorted(ended, rows["time_ns"][-1], side="left")) - 1, 0)
        self.complete_ns, self.position = ended[first:], position[first:]
        return after, think


def _near(last: Integers, position: Integers, own: Integers) -> Integers:
    """Go back from a completion whose request stands too far before, to one that does not."""
    found = last.copy()
    if len(position):
        for row in np.flatnonzero((last >= 0) & (own - position[last] > AFTER_MAX)):
            while found[row] >= 0 and own[row] - position[found[row]] > AFTER_MAX:
                found[row] -= 1
    return found


ADDRESS_MAX = 1 << 52


@dataclass(frozen=True)
class PlanReport:
    """What went into a plan and what did not; counts are requests."""

    requests: int
    duration_ns: int
    level: str
    operations: dict[str, int]
    skipped: dict[str, int]
    guessed_times: int
    rounded: int
    without_completion: int
    cut_requests: int
    pieces: int
    targets: list[dict[str, Any]]
    extents: list[dict[str, Any]]


@dataclass(frozen=True)
class PlanOptions:
    """What goes into a plan.

    `level` is `queued` (every request of the application's side) or `issued` (what the device got,
    merged requests as one). Roles, devices and parts of devices (`parts_of`) in `own_labels` have
    targets of their own; blocks in `placed` lie on the target `nvm`. `limit` is a number of
    requests of the trace.
    """

    level: str = "queued"
    own_labels: tuple[str, ...] = ()
    limit: int | None = None
    placed: Placed | None = None


MOVES_DATA = (block_plan.READ, block_plan.WRITE, block_plan.ZONE_APPEND)


def _is_zone(operation: Integers) -> npt.NDArray[np.bool_]:
    """Say which operations are on a zone as a whole, without data."""
    return operation > block_plan.ZONE_APPEND


@dataclass
class _Compiler:
    source: Source
    routes: Routes
    writer: block_plan.PlanWriter
    options: PlanOptions
    taken: int = 0
    steps: Steps = field(default_factory=Steps)
    first_ns: int | None = None
    rounded: int = 0
    waits: Waits = field(default_factory=Waits)
    skipped: dict[str, int] = field(default_factory=dict)

    def add(self, rows: Rows) -> bool:
        """Append a batch; return whether more are wanted."""
        rows, operation = self._replayable(rows)
        limit = self.options.limit
        if limit is not None:
            rows = rows[: limit - self.taken]
            operation = operation[: len(rows)]
        self.taken += len(rows)
        if len(rows):
            self._append(rows, operation)
        return limit is None or self.taken < limit

    def _operations(self, rows: Rows) -> Integers:
        """Plan's operation of each row, -1 where it has none."""
        codes = {name: code for code, name in enumerate(block_plan.OPERATIONS)}
        table = [codes.get(name, -1) for name in self.source.operations]
        operation: Integers = np.array(table, np.int64)[rows["operation"]]
        is_empty = rows["length_bytes"] == 0
        is_flush = (rows["flags"] & block_plan.PREFLUSH) != 0
        operation[(operation == block_plan.WRITE) & is_empty & is_flush] = block_plan.FLUSH
        operation[(operation == block_plan.FLUSH) & ~is_empty] = block_plan.WRITE
        return operation

    def _replayable(self, rows: Rows) -> tuple[Rows, Integers]:
        """Return the rows that can be replayed with their operations; count the others."""
        operation, length = self._operations(rows), rows["length_bytes"]
        moves_data = np.isin(operation, MOVES_DATA)
        is_placed = operation != block_plan.FLUSH
        sector = rows["sector"]
        # An address can be negative or huge only in a damaged capture.
        is_outside = is_placed & ((sector < 0) | (sector > ADDRESS_MAX) | (length < 0))
        reasons = {
            "operation": operation < 0,
            "empty": (operation >= 0) & is_placed & (length == 0) & ~_is_zone(operation),
            "address": is_outside,
            "too_long": ~is_outside
            & np.where(moves_data, length > block_plan.MAX_TRANSFER_BYTES, length >= 1 << 41),
        }
        is_kept = count_rejected(reasons, self.skipped)
        return rows[is_kept], operation[is_kept]

    def _append(self, rows: Rows, operation: Integers) -> None:
        if self.first_ns is None:
            self.first_ns = int(rows["time_ns"][0])
        is_placed, is_zone = operation != block_plan.FLUSH, _is_zone(operation)
        length_bytes = rows["length_bytes"] * (is_placed & ~is_zone)
        sector = rows["sector"] * is_placed
        sectors = -(-length_bytes // SECTOR_BYTES)
        self.rounded += int((sectors * SECTOR_BYTES != length_bytes).sum())
        after, think_ns = self.waits.add(rows)
        # A zone is named by its first sector, whatever its size.
        parts = self._place(rows, operation, sector, sector + np.maximum(sectors, is_zone))
        row = parts.row
        records = np.zeros(len(row), block_plan.RECORD)
        records["intended_ns"] = rows["time_ns"][row] - self.first_ns
        records["sector"] = parts.sector
        records["request_id"] = rows["request_id"][row]
        records["length_sectors"] = (parts.end - parts.sector) * ~_is_zone(parts.operation)
        records["operation"] = parts.operation
        records["flags"] = parts.flags
        records["target"] = self._areas(rows[row], parts)
        records["after"], records["think_ns"] = self.steps.add(row, after, think_ns=think_ns)
        self.writer.append(records)

    def _place(self, rows: Rows, operation: Integers, sector: Integers, end: Integers) -> Pieces:
        """Cut requests where a placement has them on both devices."""
        flags = rows["flags"].astype(np.int64)
        is_nvm = np.zeros(len(rows), bool)
        whole = Pieces(np.arange(len(rows)), sector, end, operation, flags, is_nvm)
        placed = self.options.placed
        if placed is None:
            return whole
        groups = self._groups(rows)
        return together(
            [placed.split(d, role, pieces=whole.take(mask)) for d, role, mask in groups]
        )

    def _groups(self, rows: Rows) -> Iterator[tuple[str, str, Integers]]:
        """Yield device, role and positions of the rows that have them."""
        roles = len(self.source.roles)
        group = rows["device"].astype(np.int64) * roles + rows["role"]
        for one in np.flatnonzero(np.bincount(group)):
            device = self.source.devices[int(one) // roles]
            role = self.source.roles[int(one) % roles]
            yield device, role, np.flatnonzero(group == one)

    def _areas(self, rows: Rows, parts: Pieces) -> Integers:
        """Area of each piece; pieces of one device and role are looked at together."""
        areas = np.empty(len(rows), np.int64)
        for device, role, group in self._groups(rows):
            for is_nvm in np.unique(parts.is_nvm[group]):
                mask = group[parts.is_nvm[group] == is_nvm]
                sector, end = parts.sector[mask], parts.end[mask]
                if is_nvm:
                    areas[mask] = self.routes.number_on(NVM, sector=sector, end=end)
                else:
                    areas[mask] = self.routes.number(device, role, sector=sector, end=end)
        return areas


def trace_hash(info: TraceInfo) -> bytes:
    """Return the SHA-256 of the trace's source: of the one file, or of the list of all hashes."""
    hashes = [file.sha256 for file in info.source.files]
    if len(hashes) == 1:
        return bytes.fromhex(hashes[0])
    return hashlib.sha256("\n".join(hashes).encode()).digest()


def compile_plan(
    folder: TraceFolder,
    path: Path,
    *,
    options: PlanOptions,
    on_rows: Callable[[int], None] | None = None,
) -> PlanReport:
    """Write the plan of a trace to `path`, in bounded memory.

    Raises InputError when there is nothing to replay.
    """
    requests = folder.require("requests", made_by="parse")
    source = Source(requests, options.level)
    own = options.own_labels
    routes = Routes(
        folder.info.layout,
        tuple(label for label in own if label in ROLES),
        parts_of(own, known_devices(folder.info)),
    )
    with beside(path) as part, block_plan.open_new(part) as out:
        compiler = _Compiler(source, routes, block_plan.PlanWriter(out), options)
        for rows in source.rows():
            if on_rows is not None:
                on_rows(len(rows))
            if not compiler.add(rows):
                break
        if compiler.writer.count == 0:
            raise InputError(
                f"{requests}: there is no request to replay at level '{options.level}'"
            )
        tables = routes.tables(trace_sha256=trace_hash(folder.info), level=options.level)
        totals = compiler.writer.finish(tables)
    return _report(compiler, tables, totals)


def _report(compiler: _Compiler, tables: block_plan.Tables, totals: dict[str, Any]) -> PlanReport:
    source, placed = compiler.source, compiler.options.placed
    lost = {"unissued": source.unissued, "merged_into_unknown": source.orphans}
    return PlanReport(
        requests=compiler.writer.count,
        duration_ns=totals["duration_ns"],
        level=tables.level,
        operations=totals["operations"],
        skipped={**compiler.skipped, **{reason: n for reason, n in lost.items() if n}},
        guessed_times=source.guessed_times,
        rounded=compiler.rounded,
        without_completion=compiler.waits.without_completion,
        cut_requests=0 if placed is None else placed.cut_requests,
        pieces=0 if placed is None else placed.pieces,
        targets=[
            {"label": label, "needed_bytes": needed}
            for label, needed in zip(tables.labels, tables.needed_bytes, strict=True)
        ],
        extents=[vars(extent).copy() for extent in tables.extents],
    )

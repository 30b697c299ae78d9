"""Compiles a captured trace of file operations into a file plan."""

from __future__ import annotations

import errno
import heapq
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.arrow import (
    Integers,
    batches_of,
    codes,
    count_rejected,
    flags,
    numbers,
    open_table,
    read_whole,
)
from tracekit.errors import InputError
from tracekit.plans import file_plan
from tracekit.plans.file_plan import CODES, NONE, UNTIMED, FileTable
from tracekit.store import TraceFolder
from tracekit.tables import FILE_OPERATION_NAMES

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Uses:
    """Rows that use a thing (a handle, a name), in order of the rows; one row may use several."""

    row: Integers
    thing: Integers
    is_change: Flags


def waits(
    uses: Uses, lane: Integers, *, start_ns: Integers, end_ns: Integers
) -> tuple[Integers, Integers]:
    """Return pairs of rows: the first must wait for the second, which is of another lane.

    `lane`, `start_ns` and `end_ns` are of each row, in order of start. A pair is left out when
    the second had not ended when the first began.
    """
    order = np.lexsort((uses.row, uses.thing))
    uses = Uses(uses.row[order], uses.thing[order], uses.is_change[order])
    pairs = np.concatenate([_behind_changes(uses), _before_changes(uses, lane)])
    first, second = pairs[:, 0], pairs[:, 1]
    is_needed = (lane[first] != lane[second]) & (end_ns[second] <= start_ns[first])
    # Of each lane that a row waits for, the last counts.
    first, second = first[is_needed], second[is_needed]
    order = np.lexsort((second, lane[second], first))
    first, second = first[order], second[order]
    is_last = _ends(first, lane[second])
    return first[is_last], second[is_last]


def _ends(*keys: npt.NDArray[Any]) -> Flags:
    """Return whether each entry is the last of a run of entries with the same keys."""
    is_last = np.ones(len(keys[0]), bool)
    is_last[:-1] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return is_last


def _behind_changes(uses: Uses) -> Integers:
    """Return each use with the change before it."""
    count = len(uses.row)
    places = np.arange(count)
    # The change before place i is at most place i - 1, and of the same thing.
    changed = np.maximum.accumulate(np.where(uses.is_change, places, -1))
    before = np.concatenate([[-1], changed[:-1]]).astype(np.int64) if count else changed
    known = before >= 0
    known[known] &= uses.thing[before[known]] == uses.thing[known]
    return np.stack([uses.row[known], uses.row[before[known]]], axis=1)


def _before_changes(uses: Uses, lane: Integers) -> Integers:
    """Return each change with the last use of each lane since the change before."""
    if len(uses.row) == 0:
        return np.zeros((0, 2), np.int64)
    starts = np.flatnonzero(uses.is_change)
    epoch = np.cumsum(uses.is_change)
    own_lane = lane[uses.row]
    order = np.lexsort((uses.row, own_lane, epoch, uses.thing))
    last = order[_ends(uses.thing[order], epoch[order], own_lane[order])]
    # The change that ends an epoch is the first one behind it, if it is of the same thing.
    last = last[epoch[last] < len(starts)]
    change = starts[epoch[last]]
    same = uses.thing[change] == uses.thing[last]
    return np.stack([uses.row[change[same]], uses.row[last[same]]], axis=1)


def lanes(tid: Integers, *, start_ns: Integers, end_ns: Integers) -> Integers:
    """Return a lane for each row: threads that did not live at the same time share one.

    A lane is taken by the thread that begins next after it became free, the longest free one first.
    """
    threads, place = np.unique(tid, return_inverse=True)
    first = np.full(len(threads), np.iinfo(np.int64).max)
    last = np.full(len(threads), np.iinfo(np.int64).min)
    np.minimum.at(first, place, start_ns)
    np.maximum.at(last, place, end_ns)
    lane_of = np.zeros(len(threads), np.int64)
    free_at: list[tuple[int, int]] = []
    for thread in np.argsort(first, kind="stable").tolist():
        begins = int(first[thread])
        if free_at and free_at[0][0] <= begins:
            lane_of[thread] = heapq.heappop(free_at)[1]
        else:
            lane_of[thread] = len(free_at)
        heapq.heappush(free_at, (int(last[thread]), int(lane_of[thread])))
    return lane_of[place]


MADE_BY = "capture --files"


@dataclass
class Tree:
    """The files of a plan; numbers are those of the plan, -1 for what cannot be in one."""

    table: FileTable = field(default_factory=FileTable)
    number_of: dict[int, int] = field(default_factory=dict)
    """By file_id of the trace."""
    plain_files: set[int] = field(default_factory=set)
    """Numbers of what is no folder."""
    absent: set[str] = field(default_factory=set)
    """Paths that were not there."""
    present_files: int = 0
    present_bytes: int = 0
    unknown_sizes: int = 0

    def parents(self, files: Integers) -> Integers:
        """Return the numbers of the folders that hold these, -1 where there is none."""
        folders = np.array([*(parent for _, parent, _, _ in self.table.rows()), NONE], np.int64)
        return np.where(folders == NONE, -1, folders)[files]

    def add(self, row: dict[str, Any], *, is_folder: bool) -> None:
        """Add a row of the table `files`, unless it lies below what is no folder."""
        path, heads = row["path"], _heads(row["path"])
        known = [number for head in heads if (number := self.table.number(head)) is not None]
        if known and known[-1] in self.plain_files:
            return
        for head in heads:
            if self.table.number(head) is None:
                self._add_path(head, kind="directory")
        # Nothing was there in a folder that was not, whatever a name that is a link seemed to say.
        is_there = row["evidence"] != "absent" and path.rpartition("/")[0] not in self.absent
        size_bytes = 0 if is_folder else row["size_bytes"] or 0
        number = self.table.number(path)
        if number is None:
            kind = "directory" if is_folder else "file"
            number = self._add_path(path, kind=kind, size_bytes=size_bytes, there=is_there)
        self.number_of[row["file_id"]] = number
        if not is_folder:
            self.plain_files.add(number)
            self.present_files += is_there
            self.present_bytes += size_bytes * is_there
            self.unknown_sizes += is_there and row["size_bytes"] is None

    def _add_path(self, path: str, *, kind: str, size_bytes: int = 0, there: bool = True) -> int:
        """Add a path, which is there only if its folder is; return its number."""
        is_there = there and path.rpartition("/")[0] not in self.absent
        if not is_there:
            self.absent.add(path)
        return self.table.add(path, kind=kind, size_bytes=size_bytes, there=is_there)


def _heads(path: str) -> list[str]:
    """Return the folders on the way to a path, the outermost first."""
    return list(accumulate(path.split("/")[:-1], "{}/{}".format))


def build_tree(folder: TraceFolder) -> Tree:
    """Read the table `files`: paths become relative to `/`, folders come before what they hold."""
    rows = read_whole(folder.require("files", made_by=MADE_BY)).to_pylist()
    rows = [row for row in rows if row["kind"] != "other" and row["path"] != "/"]
    for row in rows:
        row["path"] = row["path"].removeprefix("/")
    rows.sort(key=lambda row: row["path"].split("/"))
    # Something that was there lies below each of these.
    folders = {head for row in rows if row["evidence"] != "absent" for head in _heads(row["path"])}
    tree = Tree()
    for row in rows:
        tree.add(row, is_folder=row["kind"] == "directory" or row["path"] in folders)
    return tree


BATCH_ROWS = 1 << 17
MOST_OPERATIONS = 8_000_000
"""That are compiled at a time: they are kept in memory."""
ROWS = np.dtype(
    [
        *((name, "<i8") for name in ("operation_id", "start_ns", "end_ns", "offset", "length")),
        *((name, "<i8") for name in ("file", "other", "handle", "pid", "tid")),
        ("error", "<i4"),
        ("flags", "<i4"),
        ("operation", "<i4"),
    ]
)
Rows = npt.NDArray[np.void]
FLAGS = {
    "is_direct": file_plan.DIRECT,
    "is_sync": file_plan.SYNC,
    "is_append": file_plan.APPEND,
    "is_exclusive": file_plan.EXCLUSIVE,
    "is_truncate": file_plan.TRUNCATE,
}
HANDLE_FLAGS = file_plan.DIRECT | file_plan.SYNC | file_plan.APPEND
OPEN_FLAGS = HANDLE_FLAGS | file_plan.TRUNCATE | UNTIMED
UNSEEN = ("mmap", "munmap", "msync")
"""What is touched in a mapping is not in the trace."""
NO_CODE = -1
"""Of operations that no plan has: their rows name no attribute and no target of a link."""
REPEATABLE_ERRORS = (0, errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY)


def read_rows(folder: TraceFolder, tree: Tree, *, limit: int | None) -> tuple[Rows, dict[str, int]]:
    """Return the first `limit` operations that can be replayed, and how many cannot by reason."""
    skipped: dict[str, int] = {}
    kept: list[Rows] = []
    left = MOST_OPERATIONS + 1 if limit is None else limit
    with open_table(folder.require("file_operations", made_by=MADE_BY)) as table:
        for batch in batches_of(table, rows=BATCH_ROWS):
            rows = _chosen(batch, tree, skipped)[:left]
            kept.append(rows)
            left -= len(rows)
            if left <= 0:
                break
    if limit is None and left <= 0:
        raise InputError(
            f"{folder.path}: more than {MOST_OPERATIONS:,} file operations",
            hint=f"replay the first with --limit {MOST_OPERATIONS}",
        )
    return (np.concatenate(kept) if kept else np.empty(0, ROWS)), skipped


def _chosen(batch: Any, tree: Tree, skipped: dict[str, int]) -> Rows:
    """Return a batch's rows that can be replayed; add the others to `skipped`."""
    rows = np.zeros(batch.num_rows, ROWS)
    rows["operation"] = _codes(batch.column("operation"))
    for name in ("operation_id", "start_ns", "pid", "tid", "error"):
        rows[name] = batch.column(name).to_numpy()
    for name, source in (("end_ns", "end_ns"), ("handle", "handle"), ("offset", "offset_bytes")):
        rows[name] = numbers(batch.column(source))
    length, done = numbers(batch.column("length_bytes")), numbers(batch.column("done_bytes"))
    rows["length"] = np.where(length < 0, np.maximum(done, 0), length)
    rows["file"], bad_file = _numbers(batch.column("file_id"), tree)
    rows["other"], bad_other = _numbers(batch.column("other_file_id"), tree)
    for name, bit in FLAGS.items():
        rows["flags"] |= np.where(flags(batch.column(name)), bit, 0)
    closed_itself = (rows["operation"] == CODES["close"]) & (rows["end_ns"] < 0)
    rows["flags"] |= np.where(closed_itself, UNTIMED, 0)
    reasons = {
        "mapped memory is not seen": np.isin(rows["operation"], [CODES[n] for n in UNSEEN]),
        "extended attributes and symbolic links are not replayed": rows["operation"] == NO_CODE,
        "an error that another machine need not give": ~np.isin(rows["error"], REPEATABLE_ERRORS),
        "no plain file": bad_file | bad_other,
    }
    return rows[count_rejected(reasons, skipped)]


def _codes(column: Any) -> Integers:
    """Return the plan's codes of a dictionary column of operations, NO_CODE for what has none."""
    unknown = sorted(set(column.dictionary.to_pylist()) - set(FILE_OPERATION_NAMES))
    if unknown:
        raise InputError(f"file_operations has the operation {unknown[0]!r}", hint="capture again")
    return codes(column, lambda word: CODES.get(word or "", NO_CODE))


def _numbers(column: Any, tree: Tree) -> tuple[Integers, Flags]:
    """Return the plan's numbers of files, and whether there is a file without one."""
    ids = numbers(column)
    known, place = np.unique(ids, return_inverse=True)
    found = np.array([tree.number_of.get(int(one), -1) for one in known], np.int64)[place]
    return found, (ids >= 0) & (found < 0)


MOST_THREADS = 4096
NO_ID = np.iinfo(np.int64).max
"""Of records that stand for no captured operation."""
OPENS = (CODES["open"], CODES["create"])
TRANSFERS = (CODES["read"], CODES["write"])
PLACED = (*TRANSFERS, CODES["fallocate"], CODES["sync_file_range"])
WRITES = ("write", "truncate", "fallocate")
CHANGES = ("create", "rename", "link", "unlink", "mkdir", "rmdir", "truncate")


@dataclass(frozen=True)
class FilePlanReport:
    """What went into a plan and what did not; counts are operations."""

    operations: dict[str, int]
    skipped: dict[str, int]
    """By reason."""
    threads: int
    files: int
    present_files: int
    """Made before the run, with `present_bytes`."""
    present_bytes: int
    unknown_sizes: int
    """Files that were there, of unknown size: they are made empty."""
    adopted_handles: int
    """Opened, untimed, where the trace does not show their opening."""
    waits: int
    """Operations that wait for one of another thread."""
    cut_transfers: int
    """Longer than a plan can hold."""


def compile_files(folder: TraceFolder, plan: Path, *, limit: int | None = None) -> FilePlanReport:
    """Write the plan of the first `limit` operations of a trace; raise InputError if none is left.

    Operations are kept in memory, about 200 bytes each.
    """
    tree = build_tree(folder)
    rows, skipped = read_rows(folder, tree, limit=limit)
    if len(rows) == 0:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
        raise InputError(
            f"{folder.path}: there is no file operation to replay ({reasons or 'none at all'})",
            hint="capture again with: tracekit capture --files",
        )
    rows, adopted = _with_opens(rows)
    rows["end_ns"] = np.maximum(rows["end_ns"], rows["start_ns"])
    times = {name: rows[name] for name in ("start_ns", "end_ns")}
    lane = lanes(rows["tid"], **times)
    if int(lane.max()) >= MOST_THREADS:
        raise InputError(
            f"{folder.path}: {int(lane.max()) + 1:,} threads at a time, a plan has {MOST_THREADS}",
            hint="replay fewer operations with --limit",
        )
    first, second = waits(_uses(rows, tree), lane, **times)
    records, chosen, lane_of = _records(rows, lane, first, second)
    counts = _write(plan, records, chosen, lane_of, table=tree.table)
    counts["open"] = counts.get("open", 0) - adopted
    counts["stat"] = counts.get("stat", 0) - (len(records) - len(rows))
    is_cut = np.isin(rows["operation"], TRANSFERS) & (rows["length"] > file_plan.MAX_TRANSFER_BYTES)
    return FilePlanReport(
        operations={name: count for name, count in counts.items() if count},
        skipped=skipped,
        threads=int(lane.max()) + 1,
        files=len(tree.table),
        present_files=tree.present_files,
        present_bytes=tree.present_bytes,
        unknown_sizes=tree.unknown_sizes,
        adopted_handles=adopted,
        waits=len(np.unique(first)),
        cut_transfers=int(is_cut.sum()),
    )


def _write(
    plan: Path, records: npt.NDArray[np.void], rows: Rows, lane: Integers, *, table: FileTable
) -> dict[str, int]:
    """Write the plan; return its operations by name."""
    bounds = np.searchsorted(lane, np.arange(int(lane[-1]) + 2)).tolist()
    with plan.open("wb") as file:
        writer = file_plan.FilePlanWriter(file)
        for low, high in pairwise(bounds):
            writer.thread(int(rows["pid"][low]), int(rows["tid"][low]))
            writer.append(records[low:high])
        return writer.finish(table, file_plan.Setting())


def _with_opens(rows: Rows) -> tuple[Rows, int]:
    """Return the rows with an untimed open before the first use of a handle never seen opened.

    Handles are numbered from 0 afterwards.
    """
    used = np.flatnonzero(rows["handle"] >= 0)
    numbers, first, place = np.unique(rows["handle"][used], return_index=True, return_inverse=True)
    rows["handle"][used] = place
    first_row = used[first]
    missing = first_row[~np.isin(rows["operation"][first_row], OPENS)]
    if len(numbers) > (1 << 24):
        raise InputError("more than 16,777,216 files were opened", hint="replay with --limit")
    opens = rows[missing].copy()
    opens["operation"] = CODES["open"]
    opens["operation_id"] = NO_ID
    opens["end_ns"] = opens["start_ns"]
    opens["error"] = 0
    opens["other"], opens["length"] = -1, 0
    opens["flags"] = (opens["flags"] & HANDLE_FLAGS) | UNTIMED
    return np.insert(rows, missing, opens), len(opens)


def _uses(rows: Rows, tree: Tree) -> Uses:
    """Return what each row uses: its handle, the names it gives, and the folders of these."""
    number = np.arange(len(rows))
    operation = rows["operation"]
    has_handle = rows["handle"] >= 0
    is_open = np.isin(operation, OPENS)
    is_done = rows["error"] == 0
    ends_handle = is_open | (operation == CODES["close"])
    changes = np.isin(operation, [CODES[name] for name in CHANGES])
    changes |= is_open & ((rows["flags"] & file_plan.TRUNCATE) != 0)
    by_name = (~has_handle | is_open) & (rows["file"] >= 0)
    has_other = rows["other"] >= 0
    # Who opens a file sees what was written by those that had closed it.
    is_written = np.zeros(int(rows["handle"].max()) + 2, bool)
    is_written[rows["handle"][np.isin(operation, [CODES[name] for name in WRITES])]] = True
    is_written[-1] = False
    ends_writing = (operation == CODES["close"]) & is_written[rows["handle"]]
    # Names come behind the handles in the numbers of things.
    base = int(rows["handle"].max()) + 1
    parents, other_parents = tree.parents(rows["file"]), tree.parents(rows["other"])
    only_used = np.zeros(len(rows), bool)
    is_source = operation != CODES["link"]
    parts: list[tuple[Flags, Integers, Flags]] = [
        (has_handle, rows["handle"], ends_handle),
        (by_name, base + rows["file"], changes & is_done & is_source),
        (ends_writing, base + rows["file"], ends_writing),
        (has_other, base + rows["other"], changes & is_done),
        (by_name & (parents >= 0), base + parents, only_used),
        (has_other & (other_parents >= 0), base + other_parents, only_used),
    ]
    found = [(number[chosen], thing[chosen], change[chosen]) for chosen, thing, change in parts]
    return Uses(*map(np.concatenate, zip(*found, strict=True)))


def _records(
    rows: Rows, lane: Integers, first: Integers, second: Integers
) -> tuple[npt.NDArray[np.void], Rows, Integers]:
    """Return the records lane by lane, with the row and the lane of each.

    One that waits for several threads gets helpers before it.
    A helper is an untimed stat of the same file, because a record can wait for one other only.
    """
    is_main = np.ones(len(first), bool)
    is_main[1:] = first[1:] != first[:-1]
    helpers = rows[first[~is_main]].copy()
    helpers["operation"] = CODES["stat"]
    helpers["operation_id"] = NO_ID
    helpers["handle"], helpers["other"], helpers["error"] = -1, -1, 0
    helpers["flags"] = UNTIMED
    everything = np.concatenate([helpers, rows])
    source = np.concatenate([first[~is_main], np.arange(len(rows))])
    rank = np.concatenate([np.zeros(len(helpers)), np.ones(len(rows))])
    order = np.lexsort((rank, source, lane[source]))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    after = np.full(len(order), NONE, np.int64)
    of_row = position[len(helpers) :]
    after[: len(helpers)] = of_row[second[~is_main]]
    after[len(helpers) + first[is_main]] = of_row[second[is_main]]
    chosen, lanes_in_order = everything[order], lane[source][order]
    records = _encoded(chosen, lanes_in_order)
    records["after"] = after[order]
    return records, chosen, lanes_in_order


def _encoded(rows: Rows, lane: Integers) -> npt.NDArray[np.void]:
    """Return the records of rows that stand in the order of the plan."""
    records = file_plan.new_records(len(rows))
    operation = rows["operation"]
    begin_ns = rows["start_ns"].min()
    records["start_ns"] = rows["start_ns"] - begin_ns
    # A lane begins when it began; a helper takes the think time of the record that it stands for.
    before = np.full(len(rows), begin_ns)
    before[1:] = np.where(lane[1:] == lane[:-1], rows["end_ns"][:-1], begin_ns)
    records["think_ns"] = np.maximum(rows["start_ns"] - before, 0)
    for name in ("file", "other", "handle"):
        records[name] = np.where(rows[name] < 0, NONE, rows[name])
    at_own = np.isin(operation, PLACED) & (rows["offset"] < 0)
    records["offset"] = np.where(rows["offset"] < 0, 0, rows["offset"]).astype(np.uint64)
    records["offset"][at_own] = file_plan.AT_POSITION
    longest = np.where(np.isin(operation, TRANSFERS), file_plan.MAX_TRANSFER_BYTES, NO_ID)
    records["length"] = np.clip(rows["length"], 0, longest)
    records["operation_id"] = rows["operation_id"]
    records["expected_error"] = rows["error"]
    is_open = np.isin(operation, OPENS)
    # An open that is to fail needs a handle nevertheless: one a lane.
    failing = is_open & (rows["handle"] < 0)
    records["handle"][failing] = rows["handle"].max() + 1 + lane[failing]
    kept = np.where(is_open, OPEN_FLAGS, UNTIMED)
    kept[operation == CODES["create"]] |= file_plan.EXCLUSIVE
    records["flags"] = rows["flags"] & kept
    records["operation"] = operation
    return records

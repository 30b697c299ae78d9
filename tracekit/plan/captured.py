"""Compiles a captured trace of file operations into a file plan."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracekit.errors import InputError
from tracekit.plan.captured_rows import Rows, read_rows
from tracekit.plan.captured_tree import Tree, build_tree
from tracekit.plan.file_table import NONE, FileTable
from tracekit.plan.file_waits import Flags, Integers, Uses, lanes, waits
from tracekit.plan.files import (
    APPEND,
    AT_POSITION,
    CODES,
    DIRECT,
    EXCLUSIVE,
    MAX_TRANSFER_BYTES,
    SYNC,
    TRUNCATE,
    UNTIMED,
    FilePlanWriter,
    Setting,
    new_records,
)
from tracekit.store import TraceFolder

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
    """Files that were there, with a size that nothing tells: they are made empty."""
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
    records, order = _records(rows, lane, first, second)
    counts = _write(plan, records, order, table=tree.table)
    counts["open"] = counts.get("open", 0) - adopted
    counts["stat"] = counts.get("stat", 0) - order.added
    is_cut = np.isin(rows["operation"], TRANSFERS) & (rows["length"] > MAX_TRANSFER_BYTES)
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
    plan: Path, records: npt.NDArray[np.void], order: _Order, *, table: FileTable
) -> dict[str, int]:
    """Write the plan; return its operations by name."""
    bounds = np.searchsorted(order.lane, np.arange(int(order.lane[-1]) + 2)).tolist()
    with plan.open("wb") as file:
        writer = FilePlanWriter(file)
        for low, high in pairwise(bounds):
            writer.thread(int(order.pid[low]), int(order.tid[low]))
            writer.append(records[low:high])
        return writer.finish(table, Setting())


def _with_opens(rows: Rows) -> tuple[Rows, int]:
    """Return the rows with an untimed open before the first use of a handle never seen opened.

    Handles are numbered from 0 afterwards.
    """
    used = np.flatnonzero(rows["handle"] >= 0)
    numbers, first, place = np.unique(rows["handle"][used], return_index=True, return_inverse=True)
    rows["handle"][used] = place
    first_row = used[first]
    is_open = np.isin(rows["operation"][first_row], OPENS)
    missing = first_row[~is_open]
    if len(numbers) > (1 << 24):
        raise InputError("more than 16,777,216 files were opened", hint="replay with --limit")
    opens = rows[missing].copy()
    opens["operation"] = CODES["open"]
    opens["operation_id"] = NO_ID
    opens["end_ns"] = opens["start_ns"]
    opens["error"] = 0
    opens["other"], opens["length"] = -1, 0
    opens["flags"] = (opens["flags"] & (DIRECT | SYNC | APPEND)) | UNTIMED
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
    changes |= is_open & ((rows["flags"] & TRUNCATE) != 0)
    by_name = (~has_handle | is_open) & (rows["file"] >= 0)
    has_other = rows["other"] >= 0
    # Who opens a file sees what was written by those that had closed it.
    is_written = np.zeros(int(rows["handle"].max()) + 2, bool)
    is_written[rows["handle"][np.isin(operation, [CODES[name] for name in WRITES])]] = True
    is_written[-1] = False
    ends_writing = (operation == CODES["close"]) & is_written[rows["handle"]]
    # Names come behind the handles in the numbers of things.
    base = int(rows["handle"].max()) + 1
    parents = tree.parents(rows["file"])
    other_parents = tree.parents(rows["other"])
    is_source = operation != CODES["link"]
    parts: list[tuple[Flags, Integers, Flags]] = [
        (has_handle, rows["handle"], ends_handle),
        (by_name, base + rows["file"], changes & is_done & is_source),
        (ends_writing, base + rows["file"], ends_writing),
        (has_other, base + rows["other"], changes & is_done),
        (by_name & (parents >= 0), base + parents, np.zeros(len(rows), bool)),
        (has_other & (other_parents >= 0), base + other_parents, np.zeros(len(rows), bool)),
    ]
    return Uses(
        np.concatenate([number[chosen] for chosen, _, _ in parts]),
        np.concatenate([thing[chosen] for chosen, thing, _ in parts]),
        np.concatenate([change[chosen] for chosen, _, change in parts]),
    )


@dataclass(frozen=True)
class _Order:
    """Of the records, in the order of the plan."""

    lane: Integers
    pid: Integers
    tid: Integers
    added: int
    """Records that only wait."""


def _records(
    rows: Rows, lane: Integers, first: Integers, second: Integers
) -> tuple[npt.NDArray[np.void], _Order]:
    """Return the records lane by lane; one that waits for several threads gets helpers before it.

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
    return records, _Order(lanes_in_order, chosen["pid"], chosen["tid"], len(helpers))


def _encoded(rows: Rows, lane: Integers) -> npt.NDArray[np.void]:
    """Return the records of rows that stand in the order of the plan."""
    records = new_records(len(rows))
    operation = rows["operation"]
    begin_ns = rows["start_ns"] - rows["start_ns"].min()
    records["start_ns"] = begin_ns
    # A lane begins when it began; a helper takes the think time of the record that it stands for.
    before = np.zeros(len(rows), np.int64)
    before[1:] = np.where(lane[1:] == lane[:-1], rows["end_ns"][:-1], rows["start_ns"].min())
    before[:1] = rows["start_ns"].min()
    records["think_ns"] = np.maximum(rows["start_ns"] - before, 0)
    for name in ("file", "other", "handle"):
        records[name] = np.where(rows[name] < 0, NONE, rows[name])
    at_own = np.isin(operation, PLACED) & (rows["offset"] < 0)
    records["offset"] = np.where(rows["offset"] < 0, 0, rows["offset"]).astype(np.uint64)
    records["offset"][at_own] = AT_POSITION
    longest = np.where(np.isin(operation, TRANSFERS), MAX_TRANSFER_BYTES, NO_ID)
    records["length"] = np.clip(rows["length"], 0, longest)
    records["operation_id"] = rows["operation_id"]
    records["expected_error"] = rows["error"]
    is_open = np.isin(operation, OPENS)
    # An open that is to fail needs a handle nevertheless: one a lane.
    failing = is_open & (rows["handle"] < 0)
    records["handle"][failing] = rows["handle"].max() + 1 + lane[failing]
    kept = np.where(is_open, DIRECT | SYNC | APPEND | EXCLUSIVE | TRUNCATE | UNTIMED, UNTIMED)
    records["flags"] = rows["flags"] & kept
    records["flags"] &= np.where(operation == CODES["open"], 0xFFFF ^ EXCLUSIVE, 0xFFFF).astype(
        np.uint16
    )
    records["operation"] = operation
    return records

"""A personality as a plan of a flow: files, directories, and the operations of each thread."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.arrow import Integers
from tracekit.errors import InputError
from tracekit.plans import file_plan as plan
from tracekit.plans import flow_plan
from tracekit.plans.file_plan import CODES, NONE, FileTable, Medium
from tracekit.plans.flow_plan import FlowParts, flow_bytes, new_ops
from tracekit.store import beside
from tracekit.workload.flow import (
    LIMITS,
    MOVES_DATA,
    FileSet,
    Flow,
    Loop,
    Operation,
    Personality,
    works_on_files,
)
from tracekit.workload.random_values import RandomValue, Value

LEAVES = "/leaves"  # of the set of a file set's leaf directories; no name has a slash
DIRECTORIES = "/directories"


def draw_sizes(files: FileSet, rng: np.random.Generator) -> Integers:
    """Return the size of each file in bytes."""
    if isinstance(files.size, RandomValue):
        return files.size.values(rng.random(files.count))
    return np.full(files.count, files.size, np.int64)


@dataclass
class Tree:
    """The directories of a file set, made as filebench makes them, and what is in them."""

    files: FileSet
    rng: np.random.Generator
    directories: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    leaves: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Fill the tree: the root takes directories until all is in them."""
        files = self.files
        if isinstance(files.width, RandomValue):
            self.widths = files.width.table(flow_plan.TABLE_VALUES)
            width = self.widths.mean()
        else:
            width = files.width
        entries = files.count + files.leaf_directories
        self.mean_depth = math.log(entries) / math.log(max(int(width), 2))
        self.directories.append(files.name)
        for there, most in ((self.paths, files.count), (self.leaves, files.leaf_directories)):
            number = 0
            while len(there) < most:
                number += 1
                name = f"{'d' if there is self.leaves else ''}{number:08d}"
                self._fill(f"{files.name}/{name}", 1, there, most)

    def _drawn(self, mean: float) -> float:
        shape = self.files.width_shape
        return float(self.rng.gamma(shape, mean / shape)) if shape > 0 else mean

    def _fill(self, path: str, above: int, there: list[str], most: int) -> None:
        """Make a directory: the deepest have files or leaves, the others directories."""
        self.directories.append(path)
        is_deepest = above + 1 >= max(int(self._drawn(self.mean_depth)), 1)
        width = self.files.width
        wide = (
            float(self.rng.choice(self.widths))
            if isinstance(width, RandomValue)
            else self._drawn(width)
        )
        for number in range(1, math.ceil(wide or 1) + 1):
            if len(there) >= most:
                return
            below = f"{path}/{number:08d}"
            if is_deepest:
                there.append(below)
            else:
                self._fill(below, above + 1, there, most)


@dataclass
class Layout:
    """The table of files, and the plan's numbers of the files of each set."""

    table: FileTable = field(default_factory=FileTable)
    sets: dict[str, list[int]] = field(default_factory=dict)
    needed_bytes: int = 0
    least_bytes: dict[str, int] = field(default_factory=dict)
    """Of each set's files."""
    most_bytes: dict[str, int] = field(default_factory=dict)


def lay_out(personality: Personality, seed: int) -> Layout:
    """Return where all files are, which of them are there, and how large they are to be."""
    layout = Layout()
    for place, files in enumerate(personality.file_sets):
        rng = np.random.default_rng([seed, 1, place])
        sizes, tree = draw_sizes(files, rng), Tree(files, rng)
        table = layout.table
        for path in tree.directories:
            if table.number(path) is None:
                table.add(path, kind="directory")
        there = _present(files.count, files.present_ratio, rng)
        layout.sets[files.name] = [
            table.add(path, size_bytes=size, there=is_there)
            for path, size, is_there in zip(tree.paths, sizes.tolist(), there, strict=True)
        ]
        leaves = _present(files.leaf_directories, files.present_ratio, rng)
        layout.sets[files.name + LEAVES] = [
            table.add(path, kind="directory", there=is_there)
            for path, is_there in zip(tree.leaves, leaves, strict=True)
        ]
        layout.sets[files.name + DIRECTORIES] = [
            number for path in tree.directories if (number := table.number(path)) is not None
        ]
        layout.needed_bytes += int(sizes.sum())
        layout.least_bytes[files.name] = int(sizes.min(initial=0))
        layout.most_bytes[files.name] = int(sizes.max(initial=0))
    return layout


def _present(count: int, ratio: float, rng: np.random.Generator) -> list[bool]:
    """Return which of `count` are there: a share, at random."""
    there: list[bool] = (rng.permutation(count) < round(count * ratio)).tolist()
    return there


@dataclass
class _Row:
    """An operation of a thread, by numbers."""

    op: Operation
    kind: str
    iters: Value = 1
    link: int = NONE
    set_name: str | None = None
    other: int = NONE


@dataclass
class _Draft:
    """The operations of one thread, from the number `first` on."""

    first: int
    number: int
    """Of the thread whose descriptors it uses."""
    rows: list[_Row] = field(default_factory=list)

    def add(self, flow: Flow) -> None:
        """Add operations; loops become a beginning and an end."""
        for one in flow:
            number = self.first + len(self.rows)
            if isinstance(one, Loop):
                nothing = Operation("loop", "")
                self.rows.append(begin := _Row(nothing, "loop", one.iters))
                self.add(one.body)
                begin.link = self.first + len(self.rows)
                self.rows.append(_Row(nothing, "loop end", link=number))
                continue
            link = NONE
            if one.kind in MOVES_DATA and one.files is not None:
                self.rows.append(_Row(one, "template", set_name=one.files))
                link = number
            self.rows.append(_Row(one, one.kind, one.iters, link, _set_of(one)))

    def find_targets(self, everywhere: dict[str, int]) -> None:
        """Link limits to their target in the thread, and posts to the first of any thread."""
        own = {
            row.op.label: self.first + at
            for at, row in reversed(list(enumerate(self.rows)))
            if row.kind == row.op.kind
        }
        for row in self.rows:
            if row.op.target is not None and row.kind == row.op.kind:
                row.link = (own if row.kind in LIMITS else everywhere)[row.op.target]


def _set_of(one: Operation) -> str | None:
    if one.files is None:
        return None
    parts = {"makedir": LEAVES, "removedir": LEAVES, "listdir": DIRECTORIES}
    return one.files + parts.get(one.kind, "")


@dataclass(frozen=True)
class Made:
    """What a plan holds: operations of the flows by call, and bytes of the files at once."""

    operations: dict[str, int]
    files: int
    needed_bytes: int


class _Writer:
    """Makes the arrays of all threads."""

    def __init__(self, personality: Personality, layout: Layout, *, seed: int) -> None:
        self.personality, self.layout = personality, layout
        self.labels = personality.labels
        fds = [1, *(fd for group in personality.groups for fd in _fds(group.flow))]
        self.parts = FlowParts(
            seed,
            personality.events_per_second,
            personality.end,
            max(fds),
            sum(group.threads * group.writers for group in personality.groups),
        )
        self._set_numbers: dict[str, int] = {}
        self._tables: dict[RandomValue, int] = {}
        self.most_transfer = 1

    def set_number(self, name: str) -> int:
        """Return the number of a set, which must have members."""
        if name not in self._set_numbers:
            if not self.layout.sets[name]:
                kind = "leaf directories" if name.endswith(LEAVES) else "files"
                raise InputError(
                    f"{self.personality.name}: the file set {name.partition('/')[0]} has no {kind}",
                    hint="give it some (entries, leafdirs), or leave the operation out",
                )
            self._set_numbers[name] = len(self.parts.sets)
            self.parts.sets.append(self.layout.sets[name])
        return self._set_numbers[name]

    def put(self, op: Any, name: str, *, value: Value) -> None:
        """Write a value, drawn ones as a table."""
        if not isinstance(value, RandomValue):
            op[name] = value
            return
        if value not in self._tables:
            self._tables[value] = len(self.parts.tables)
            self.parts.tables.append(value.table(flow_plan.TABLE_VALUES).astype(np.uint64))
        op[f"{name}_table"] = self._tables[value]

    def thread(self, draft: _Draft) -> tuple[Any, Any]:
        """Return the records and operations of a thread."""
        records, ops = plan.new_records(len(draft.rows)), new_ops(len(draft.rows))
        for row, record, op in zip(draft.rows, records, ops, strict=True):
            one = row.op
            op["kind"] = flow_plan.KINDS.index(row.kind)
            op["link"], op["other"] = row.link, row.other
            op["fd"], op["source_fd"] = one.fd, one.source_fd
            op["working_set_bytes"], op["highwater"] = one.working_set, one.highwater
            op["flags"] = _flow_flags(one)
            self.put(op, "iters", value=row.iters)
            for name in ("size", "value"):
                self.put(op, name, value=getattr(one, name))
            if one.index is not None:
                self.put(op, "index", value=one.index)
            if row.set_name is not None:
                op["set"] = self.set_number(row.set_name)
                record["file"] = self.layout.sets[row.set_name][0]
            self._record(record, row, draft.number)
        return records, ops

    def _record(self, record: Any, row: _Row, number: int) -> None:
        one = row.op
        record["operation"] = flow_plan.OPERATION_OF[row.kind]
        if row.kind == "fsync" and one.is_data_sync:
            record["operation"] = CODES["fdatasync"]
        record["handle"] = number * self.parts.fds + one.fd
        if works_on_files(row.kind):
            record["step"] = self.labels.index(one.label)
        if record["file"] == NONE and row.kind in ("deletefile", "statfile"):
            record["file"] = 0  # chosen by the descriptor
        if row.kind in ("template", "openfile", "createfile") and one.files is not None:
            access = self.personality.file_set(one.files).access
            record["flags"] = (
                (plan.DIRECT if one.is_direct else 0)
                | (plan.SYNC if one.is_sync else 0)
                | {"read": plan.READ, "write": plan.WRITE}.get(access, 0)
            )
        if one.kind in MOVES_DATA:
            self.most_transfer = max(self.most_transfer, self._longest(one))

    def _longest(self, one: Operation) -> int:
        """Return the most bytes of a call; raise InputError for more than there can be."""
        size = one.size
        if isinstance(size, RandomValue):
            table = self.parts.tables[self._tables[size]]
            least, longest = int(table.min()), int(table.max())
        else:
            least = longest = size
        if least == 0 and one.kind in ("readwholefile", "writewholefile"):
            files = max(self.layout.most_bytes.values(), default=0)
            longest = max(longest, one.working_set, files)
        if longest > plan.MAX_TRANSFER_BYTES:
            raise InputError(
                f"{self.personality.name}: {one.label} has calls of {longest:,} bytes; more than"
                " 64 MiB cannot be moved in one",
                hint="give it a size of calls (iosize)",
            )
        return longest


def _flow_flags(one: Operation) -> int:
    chosen = (
        (one.is_random, flow_plan.RANDOM),
        (one.rotates, flow_plan.ROTATES),
        (one.index is not None, flow_plan.INDEXED),
        (one.is_blocking, flow_plan.BLOCKING),
        (one.spares_open, flow_plan.SPARES_OPEN),
        (one.no_readahead, flow_plan.NO_READAHEAD),
    )
    return sum(flag for is_set, flag in chosen if is_set)


def _fds(flow: Flow) -> Iterator[int]:
    """Yield how many descriptors each operation needs its thread to have."""
    for one in flow:
        if isinstance(one, Loop):
            yield from _fds(one.body)
        else:
            yield flow_plan.MOST_FDS if one.rotates else max(one.fd, one.source_fd) + 1


def _drafts(personality: Personality) -> list[_Draft]:
    drafts: list[_Draft] = []
    first = 0
    for group in personality.groups:
        for _ in range(group.threads):
            drafts.append(draft := _Draft(first, len(drafts)))
            draft.add(group.flow)
            first += len(draft.rows)
    everywhere: dict[str, int] = {}
    last: dict[str, _Row] = {}
    for draft in drafts:
        for at, row in enumerate(draft.rows):
            if row.kind in ("semblock", "block"):
                everywhere.setdefault(row.op.label, draft.first + at)
                if row.op.label in last:
                    last[row.op.label].other = draft.first + at
                last[row.op.label] = row
    for draft in drafts:
        draft.find_targets(everywhere)
    return [*drafts, *_writers(personality, drafts, first)]


def _writers(personality: Personality, drafts: Sequence[_Draft], first: int) -> Iterator[_Draft]:
    """Yield the threads that perform the asynchronous writes of others, which count as theirs."""
    counts = (group.writers for group in personality.groups for _ in range(group.threads))
    for owner, writers in zip(drafts, counts, strict=True):
        rows = [
            _Row(row.op, "aio writer", set_name=row.set_name, other=owner.number)
            for row in owner.rows
            if row.kind == "aiowrite"
        ]
        for _ in range(writers):
            yield _Draft(first, owner.number, rows)
            first += len(rows)


def write_personality(
    personality: Personality, path: Path, *, seed: int = 0, medium: Medium | None = None
) -> Made:
    """Write the plan of a personality; `seed` draws sizes, places and what is drawn in the run.

    Raises InputError for a set without files and for calls that are too long.
    """
    layout = lay_out(personality, seed)
    writer = _Writer(personality, layout, seed=seed)
    drafts = _drafts(personality)
    with beside(path) as part, part.open("wb") as file:
        out = plan.FilePlanWriter(file)
        all_ops = []
        for draft in drafts:
            records, ops = writer.thread(draft)
            records["operation_id"] = draft.first + np.arange(len(records))
            all_ops.append(ops)
            out.thread()
            out.append(records)
        ops = np.concatenate(all_ops)
        setting = plan.Setting(
            writer.labels,
            True,
            layout.needed_bytes,
            medium,
            flow=flow_bytes(writer.parts, ops),
            handles=writer.parts.fds * personality.threads,
            transfer_bytes=writer.most_transfer,
        )
        counts = out.finish(layout.table, setting)
    return Made(counts, len(layout.table), layout.needed_bytes)

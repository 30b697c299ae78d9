"""A placement as a plan sees it: which blocks are on NVM, and how requests are cut for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from tracekit.arrow import Integers
from tracekit.errors import UsageError
from tracekit.model.answer import (
    BEST,
    BY_UNITS,
    choose_placement,
    read_recommendation,
    resolved,
)
from tracekit.model.best_placement import OnNvm, read_best
from tracekit.model.block_orders import TouchedBlocks, blocks_in_order, read_blocks
from tracekit.model.unit_answer import read_units
from tracekit.plans.block_plan import AFTER_MAX, FLUSH, PREFLUSH
from tracekit.store import TraceFolder
from tracekit.tables import ROLES
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES


@dataclass(frozen=True)
class Pieces:
    """Arrays of one entry a piece, in the order of their requests; a flush has no sectors."""

    row: Integers
    """Its request."""
    sector: Integers
    """Of the traced device, or of NVM."""
    end: Integers
    """The sector behind it."""
    operation: Integers
    flags: Integers
    is_nvm: npt.NDArray[np.bool_]

    def take(self, chosen: npt.NDArray[np.bool_] | Integers) -> Pieces:
        """Return the chosen pieces."""
        return Pieces(*(getattr(self, part.name)[chosen] for part in fields(self)))


def together(parts: list[Pieces]) -> Pieces:
    """Put pieces in the order of their requests; those of one request stay as they stand."""
    joined = Pieces(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Pieces)))
    return joined.take(np.argsort(joined.row, kind="stable"))


def no_rows() -> Integers:
    """Return an array of nothing, with which a stream of rows begins."""
    return np.empty(0, np.int64)


@dataclass
class Steps:
    """Turns what a request waited for, counted in requests, into records of the plan."""

    records: int = 0
    ends: Integers = field(default_factory=no_rows)
    """The last record of each of the latest requests."""

    def add(
        self, row: Integers, after: Integers, *, think_ns: Integers
    ) -> tuple[Integers, Integers]:
        """Return `after` and think time by record, for pieces of `row` of the next requests.

        A request waits for the last piece of another; one too far back is not waited for.
        """
        counts = np.bincount(row, minlength=len(after))
        ends = np.concatenate([self.ends, self.records + np.cumsum(counts) - 1])
        waited = ends[len(self.ends) + np.arange(len(after)) - after]
        steps = self.records + np.arange(len(row)) - waited[row]
        is_waiting = (after[row] > 0) & (steps <= AFTER_MAX)
        self.records += len(row)
        self.ends = ends[-AFTER_MAX:]
        return np.where(is_waiting, steps, 0), np.where(is_waiting, think_ns[row], 0)


BLOCK_SECTORS = BLOCK_BYTES // SECTOR_BYTES
CHUNK_BLOCKS = 1 << 20


@dataclass(frozen=True)
class _Moved:
    """Blocks of one device and role that are on NVM, in order; the first lies at block `slot`."""

    blocks: Integers
    slot: int


NOTHING = _Moved(no_rows(), 0)


@dataclass
class Placed:
    """The blocks of a placement, each with its place on NVM.

    A block is on NVM for the requests of its role. Blocks of one role and device lie there in the
    order of their addresses without gaps, so what a request has there is one piece. A flush goes to
    each device that holds blocks of its role.
    """

    moved: Mapping[tuple[str, str], _Moved]
    on_nvm: Mapping[str, str]
    """By role: none, part or all of its touched blocks."""
    cut_requests: int = 0
    pieces: int = 0

    def split(self, device: str, role: str, *, pieces: Pieces) -> Pieces:
        """Cut requests of one device and role, one piece each as they come."""
        is_bare = pieces.end == pieces.sector
        data = self._split_data(device, role, pieces.take(~is_bare))
        flushes = pieces.take(is_bare)
        state = self.on_nvm[role]
        if state == "none":
            return together([data, flushes])
        on_nvm = replace(flushes, is_nvm=np.ones(len(flushes.row), bool))
        if state == "all":
            return together([*_flushed(data, (True,)), on_nvm])
        return together([*_flushed(data, (False, True)), flushes, on_nvm])

    def _split_data(self, device: str, role: str, pieces: Pieces) -> Pieces:
        moved = self.moved.get((device, role), NOTHING)
        first, last = pieces.sector // BLOCK_SECTORS, (pieces.end - 1) // BLOCK_SECTORS
        low = np.searchsorted(moved.blocks, first)
        count = np.searchsorted(moved.blocks, last, side="right") - low
        is_whole = count == last - first + 1
        shift = np.where(is_whole, (moved.slot + low - first) * BLOCK_SECTORS, 0)
        is_cut = (count > 0) & ~is_whole
        whole = replace(
            pieces, sector=pieces.sector + shift, end=pieces.end + shift, is_nvm=is_whole
        ).take(~is_cut)
        self.cut_requests += int(is_cut.sum())
        groups = _chunks(np.flatnonzero(is_cut), last - first + 1)
        parts = [_cut(moved, pieces.take(group)) for group in groups]
        self.pieces += sum(len(part.row) for part in parts)
        return together([whole, *parts])


def _flushed(data: Pieces, devices: Sequence[bool]) -> Iterator[Pieces]:
    """Yield the flushes of writes with a flush before them on devices that they do not go to, data.

    `devices` (True: NVM) are flushed, each once: by the write's first piece there, if it has one.
    """
    has_flush = (data.flags & PREFLUSH) != 0
    flushes = np.zeros(len(data.row), bool)
    for on_nvm in devices:
        there = _firsts(data.row, has_flush & (data.is_nvm == on_nvm))
        flushes[there] = True
        missing = data.take(_firsts(data.row, has_flush & ~np.isin(data.row, data.row[there])))
        zeroes = np.zeros(len(missing.row), np.int64)
        is_nvm = np.full(len(missing.row), on_nvm)
        yield Pieces(missing.row, zeroes, zeroes, zeroes + FLUSH, zeroes, is_nvm)
    yield replace(data, flags=np.where(flushes, data.flags, data.flags & ~PREFLUSH))


def _firsts(row: Integers, chosen: npt.NDArray[np.bool_]) -> Integers:
    """Return the positions of each request's first piece among the chosen ones."""
    positions = np.flatnonzero(chosen)
    found: Integers = positions[np.diff(row[positions], prepend=-1) != 0]
    return found


def _chunks(rows: Integers, blocks: Integers) -> Iterator[Integers]:
    """Take requests apart into groups of about CHUNK_BLOCKS blocks."""
    group = np.cumsum(blocks[rows]) // CHUNK_BLOCKS
    for one in np.unique(group):
        yield rows[group == one]


def _cut(moved: _Moved, pieces: Pieces) -> Pieces:
    """Cut requests that are on both devices, by looking at each of their blocks."""
    first, last = pieces.sector // BLOCK_SECTORS, (pieces.end - 1) // BLOCK_SECTORS
    count = last - first + 1
    request = np.repeat(np.arange(len(count)), count)
    block = np.arange(len(request)) - np.repeat(np.cumsum(count) - count - first, count)
    place = np.searchsorted(moved.blocks, block)
    is_nvm = moved.blocks[np.minimum(place, len(moved.blocks) - 1)] == block
    is_start = np.ones(len(block), bool)
    is_start[1:] = (request[1:] != request[:-1]) | (is_nvm[1:] != is_nvm[:-1])
    begin = np.flatnonzero(is_start)
    behind = np.append(begin[1:], len(block)) - 1
    found = pieces.take(request[begin])
    shift = np.where(is_nvm[begin], (moved.slot + place[begin] - block[begin]) * BLOCK_SECTORS, 0)
    parts = replace(
        found,
        sector=np.maximum(block[begin] * BLOCK_SECTORS, found.sector) + shift,
        end=np.minimum((block[behind] + 1) * BLOCK_SECTORS, found.end) + shift,
        is_nvm=is_nvm[begin],
    )
    return _joined(parts, request[begin])


def _joined(parts: Pieces, request: Integers) -> Pieces:
    """Join what each request has on NVM: there it is one after the other."""
    firsts = _firsts(request, parts.is_nvm)
    sectors = np.bincount(request, (parts.end - parts.sector) * parts.is_nvm).astype(np.int64)
    end = parts.end.copy()
    end[firsts] = parts.sector[firsts] + sectors[request[firsts]]
    is_kept = ~parts.is_nvm
    is_kept[firsts] = True
    return replace(parts, end=end).take(is_kept)


def place(touched: TouchedBlocks, coverage: str, *, blocks: Mapping[str, int]) -> Placed:
    """Choose the first `blocks` of each role in the order of a coverage, as the models do."""
    moved: dict[tuple[str, str], _Moved] = {}
    on_nvm = {}
    slot = 0
    for role in ROLES:
        wanted = blocks.get(role, 0)
        chosen = np.sort(blocks_in_order(touched, role, coverage=coverage)[:wanted])
        total = int(touched.role_blocks()[ROLES.index(role)])
        on_nvm[role] = "none" if not len(chosen) else "all" if len(chosen) == total else "part"
        for name, keys in touched.by_device(chosen):
            moved[name, role] = _Moved(keys, slot)
            slot += len(keys)
    return Placed(moved, on_nvm)


def place_blocks(touched: TouchedBlocks, on_nvm: OnNvm) -> Placed:
    """Place these blocks for requests of all roles, on NVM in the order of their addresses."""
    moved: dict[tuple[str, str], _Moved] = {}
    slot = 0
    for name, blocks in touched.by_device(np.flatnonzero(on_nvm)):
        moved |= {(name, role): _Moved(blocks, slot) for role in ROLES}
        slot += len(blocks)
    placed = np.bincount(touched.role, on_nvm, minlength=len(ROLES))
    states = {
        role: "none" if not count else "all" if count == whole else "part"
        for role, count, whole in zip(ROLES, placed, touched.role_blocks(), strict=True)
    }
    return Placed(moved, states)


def place_answer(folder: TraceFolder, wanted: str) -> Placed:
    """Return the blocks of a recommended placement."""
    advice = read_recommendation(folder)
    wanted = resolved(advice, wanted)
    if wanted in (BEST, BY_UNITS):
        touched = read_blocks(folder.require("blocks", made_by="classify"))
        read = read_best if wanted == BEST else read_units
        return place_blocks(touched, read(folder, touched))
    answer = choose_placement(advice, wanted)
    if not any(answer.blocks.values()):
        raise UsageError(
            f"--placement {wanted}: the answer is to leave everything on the base device",
            hint="replay without --placement",
        )
    touched = read_blocks(folder.require("blocks", made_by="classify"))
    return place(touched, advice.coverage, blocks=answer.blocks)

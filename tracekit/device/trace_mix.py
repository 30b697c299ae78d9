"""What requests cost a device among others, in the order of a trace.

A request takes longer behind others of another kind than behind its like: caches, the worker of a
loop device and the commits of the file system below it are shared. So the requests of a trace's
windows are run one after the other, all on one device, as the model charges them: merged ones
together, in issue order. Each part of the cost (setup, time a byte, flush, FUA) is fitted to what
they took: their sum by operation is then that of the measurement. The windows are every other part
of the trace; the rest is what a prediction is compared with.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple
from msgspec.structs import replace as replace_fields

from tracekit._native.players import run_program
from tracekit.device.fit import RATE_MAX_MIB_S, Fitted
from tracekit.device.steps import LEAST, are_clear
from tracekit.device.target import TargetOptions, open_target
from tracekit.devices import Profile, finds_writes
from tracekit.errors import InputError, PartialError
from tracekit.metadata import Record
from tracekit.model.timed_requests import has_issue_times
from tracekit.plans import Records, block_plan
from tracekit.plans.block_plan import FLUSH, FUA, OPERATIONS, PREFLUSH, READ, WRITE
from tracekit.replay.compiler import PlanOptions, compile_plan
from tracekit.replay.completions import STATUSES, read_records
from tracekit.replay.player import Schedule
from tracekit.replay.routes import DEFAULT
from tracekit.replay.windows import choose_windows, halves, only_windows
from tracekit.stolen_time import StealWatch, Stretches
from tracekit.store import TraceFolder
from tracekit.units import MIB, PAGE_BYTES, SECTOR_BYTES

KIND = "trace"
PASSES_MAX = 8
"""Times the windows are run, so that no single commit of a file system below decides."""
LEAST_US = 0.001
PRIOR = 0.1
"""What was measured alone has the weight of so many requests: it decides what these leave open."""
SETUP_MARGIN = 0.999
MOST_FASTER = 2.0
"""How many times as fast as alone data may go in the mix, whatever its few lengths seem to say."""
PAGE_SECTORS = PAGE_BYTES // SECTOR_BYTES
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class MixCell(Record):
    """Requests of one kind, and what they took on average."""

    operation: str
    length_bytes: int
    is_preflush: bool
    is_fua: bool
    is_sequential: bool
    """Goes on where the last read or write ended."""
    requests: int
    mean_ns: float
    is_empty: bool = False
    """Flushes a device to which nothing was written since its last flush (flush_cost.h)."""


@dataclass(frozen=True)
class TraceMix:
    """The trace whose windows are run, and for about how long."""

    folder: TraceFolder
    seconds: float = 10.0

    def __post_init__(self) -> None:
        """Check that there are requests."""
        self.folder.require("requests", made_by="parse")

    @property
    def total(self) -> int:
        """Requests in the windows that may be measured."""
        measured, _ = halves(self.folder.info.count("requests"))
        return sum(map(len, measured))

    def requests_for(self, mean_ns: float) -> int:
        """Return how many requests take the seconds: some of the windows, or all a few times."""
        count = math.ceil(self.seconds * 1e9 / mean_ns)
        if count < self.total:
            return max(count, min(self.total, LEAST))
        return self.total * min(count // self.total, PASSES_MAX)

    def write_plan(self, path: Path, requests: int, *, size_bytes: int) -> int:
        """Write a plan of about so many requests of the windows; return how many it has.

        All are due at once. What lies beyond the device is put on it, at the same offset in a page.
        Where the windows have fewer they are run several times, one behind the other.
        """
        total = self.folder.info.count("requests")
        measured, _ = halves(total)
        level = "issued" if has_issue_times(self.folder.table("requests")) else "queued"
        with only_windows(
            self.folder, choose_windows(total, requests, among=measured), place=path.parent
        ) as part:
            compiled = path.with_suffix(".compiled")
            compile_plan(part, compiled, options=PlanOptions(level))
        once = np.array(block_plan.map_records(compiled))
        records = _placed(np.tile(once, max(1, requests // self.total)), size_bytes)
        compiled.unlink()
        if not len(records):
            raise InputError(
                f"{self.folder.path}: no request of the trace is as short as the device",
                hint="choose a larger --size",
            )
        tables = block_plan.Tables(
            labels=(DEFAULT,),
            needed_bytes=(size_bytes,),
            extents=(block_plan.Extent("device", 0, size_bytes // SECTOR_BYTES, 0, 0),),
            trace_sha256=bytes(32),
            level=level,
        )
        with block_plan.open_new(path) as out:
            writer = block_plan.PlanWriter(out)
            writer.append(records)
            writer.finish(tables)
        return len(records)


def _placed(records: Records, size_bytes: int) -> Records:
    """Return the records numbered, due at once, and within the device."""
    records = records[records["length_sectors"] <= size_bytes // SECTOR_BYTES]
    found = np.zeros(len(records), block_plan.RECORD)
    for name in ("sector", "length_sectors", "operation", "flags"):
        found[name] = records[name]
    found["request_id"] = np.arange(len(records))
    last = size_bytes // SECTOR_BYTES - found["length_sectors"].astype(np.int64)
    sector = found["sector"].astype(np.int64)
    within = np.maximum(last // PAGE_SECTORS * PAGE_SECTORS, PAGE_SECTORS)
    moved = np.where(last < PAGE_SECTORS, 0, sector % within)
    found["sector"] = np.where(sector <= last, sector, moved)
    return found


CELL_FLAGS = ("is_preflush", "is_fua", "is_sequential", "is_empty")


def cells_of(plan: Path, completions: Path, *, stolen: Stretches | None = None) -> list[MixCell]:
    """Return what the requests of a run took, by kind; of those that were done.

    Without those of `stolen` stretches of time, in ns from the run's start.
    """
    records = np.array(block_plan.map_records(plan))
    took = np.full(len(records), np.nan)
    for rows in read_records(completions):
        done = rows[rows["status"] == STATUSES.index("done")]
        if stolen is not None:
            done = done[are_clear(done, stolen)]
        took[done["request_id"].astype(np.int64)] = done["complete_ns"] - done["submit_ns"]
    keys = _keys_of(records)
    is_charged = np.isfinite(took) & np.isin(records["operation"], (READ, WRITE, FLUSH))
    kinds, which = np.unique(keys[is_charged], axis=0, return_inverse=True)
    counts = np.bincount(which.ravel(), minlength=len(kinds))
    sums = np.bincount(which.ravel(), took[is_charged], minlength=len(kinds))
    return [
        MixCell(
            operation=OPERATIONS[operation],
            length_bytes=sectors * SECTOR_BYTES,
            **dict(zip(CELL_FLAGS, map(bool, flags), strict=True)),
            requests=count,
            mean_ns=mean_ns,
        )
        for (operation, sectors, *flags), count, mean_ns in zip(
            kinds.tolist(), counts.tolist(), (sums / counts).tolist(), strict=True
        )
    ]


def _keys_of(records: Records) -> npt.NDArray[np.int64]:
    """Return what makes the kind of each request: operation, length and CELL_FLAGS."""
    is_write, is_flush = (records["operation"] == one for one in (WRITE, FLUSH))
    is_preflush, is_fua = (records["flags"] & flag != 0 for flag in (PREFLUSH, FUA))
    is_flush |= is_preflush
    is_empty = is_flush & ~finds_writes(is_flush, is_write & ~is_fua)
    columns = (records["operation"], records["length_sectors"], is_preflush, is_fua)
    return np.column_stack([*columns, _continues(records), is_empty]).astype(np.int64)


def _continues(records: Records) -> npt.NDArray[np.bool_]:
    """Return which reads and writes begin where the last one before them ended."""
    places = np.flatnonzero(np.isin(records["operation"], (READ, WRITE)))
    sector = records["sector"][places].astype(np.int64)
    ends = sector + records["length_sectors"][places]
    found = np.zeros(len(records), bool)
    found[places[1:]] = sector[1:] == ends[:-1]
    return found


def pooled(mixes: Sequence[Sequence[MixCell]]) -> list[MixCell]:
    """Return the kinds of several measurements, each with the median of its means."""
    kinds: dict[tuple[object, ...], list[MixCell]] = {}
    for cell in (cell for cells in mixes for cell in cells):
        kind = replace_fields(cell, requests=0, mean_ns=0.0)
        kinds.setdefault(astuple(kind), []).append(cell)
    return [
        replace_fields(
            cells[0],
            requests=sum(one.requests for one in cells),
            mean_ns=float(np.median([one.mean_ns for one in cells])),
        )
        for cells in kinds.values()
    ]


OWN = ("read_latency_us", "write_latency_us", "read_mib_s", "write_mib_s", "flush_us", "fua_us")
SEQUENTIAL, EMPTY = "sequential_setup_us", "empty_flush_us"
ALONE = "_alone"
"""Behind the name of a parameter: as measured among requests of one kind."""
PARTS = 8
(SETUP, BYTES, FLUSHED, FORCED, CONTINUED, EMPTIED) = (slice(0, 2), slice(2, 4), 4, 5, 6, 7)
"""Where the parts of the cost stand, in ns: of reads and writes the setups, then the bytes.

An empty flush costs EMPTIED, another one FLUSHED more.
"""


def in_mix(fitted: Sequence[Fitted], cells: Sequence[MixCell]) -> list[Fitted]:
    """Return the parameters as they are among the trace's requests, then what they were alone."""
    alone = {one.parameter: one.value for one in fitted}
    if not cells or any(key not in alone for key in OWN):
        return list(fitted)
    values = fit_cells(alone, cells)
    return [
        *(replaced(one, values) for one in fitted),
        *(
            Fitted(one.parameter + ALONE, one.value, one.spread_ratio, is_in_profile=False)
            for one in fitted
            if one.parameter in values
        ),
    ]


def replaced(one: Fitted, values: Mapping[str, float]) -> Fitted:
    """Return a parameter with its value in the mix, if it has one; its spread is not known."""
    if one.parameter not in values:
        return one
    return Fitted(one.parameter, values[one.parameter], None, is_in_profile=one.is_in_profile)


def fit_cells(alone: Mapping[str, float], cells: Sequence[MixCell]) -> dict[str, float]:
    """Return the keys of a profile with the least squares of what requests took.

    Each request counts once. What the requests leave open, as the rate where all are of one
    length, stays near what was measured alone.
    """
    known = _parts(alone)
    found = _solved(known, cells, keys=alone)
    if SEQUENTIAL in alone and found[CONTINUED] >= found[SETUP].min():
        # What continues is no cheaper there: it costs a setup like the others.
        found = _solved(known, cells, keys={*alone} - {SEQUENTIAL})
        found[CONTINUED] = SETUP_MARGIN * found[SETUP].min()
    byte_ns = np.maximum(found[BYTES], 1e9 / MIB / RATE_MAX_MIB_S)
    page_us = np.maximum(found[SETUP] + PAGE_BYTES * byte_ns, LEAST_US * 1e3) / 1e3
    flush_us = (found[FLUSHED] + found[EMPTIED]) / 1e3
    values = (*page_us, *(1e9 / MIB / byte_ns), flush_us, found[FORCED] / 1e3)
    told = dict(zip(OWN, map(float, values), strict=True))
    parts = {SEQUENTIAL: CONTINUED, EMPTY: EMPTIED}
    return told | {key: float(found[part] / 1e3) for key, part in parts.items() if key in alone}


def _parts(alone: Mapping[str, float]) -> Floats:
    """Return the parts of the cost that a profile's keys state."""
    read_us, write_us, read_mib_s, write_mib_s, flush_us, fua_us = (alone[key] for key in OWN)
    byte_ns = 1e9 / MIB / np.array([read_mib_s, write_mib_s])
    setup_ns = np.maximum(np.array([read_us, write_us]) * 1e3 - PAGE_BYTES * byte_ns, 0.0)
    empty_us = alone.get(EMPTY, 0.0)
    rest_us = np.array([flush_us - empty_us, fua_us, alone.get(SEQUENTIAL, 0.0), empty_us])
    return np.concatenate([setup_ns, byte_ns, rest_us * 1e3])


def model_ns(cells: Sequence[MixCell], profile: Profile) -> float:
    """Return what requests take by a profile, one after the other."""
    stated = {key: getattr(profile, key) for key in (*OWN, SEQUENTIAL, EMPTY)}
    alone = {key: float(value) for key, value in stated.items() if value is not None}
    rows = np.array([_row(one, keys=alone) for one in cells])
    return float(np.array([one.requests for one in cells]) @ rows @ _parts(alone))


def _solved(known: Floats, cells: Sequence[MixCell], *, keys: Container[str]) -> Floats:
    from scipy.optimize import nnls

    rows = np.array([_row(cell, keys=keys) for cell in cells])
    mean_ns = np.array([cell.mean_ns for cell in cells])
    counts = np.array([cell.requests for cell in cells], float)
    usual_ns = float(np.average(mean_ns, weights=counts))
    scale = np.maximum(known, usual_ns)
    scale[BYTES] = known[BYTES]
    weights = np.sqrt(counts)
    prior = np.eye(PARTS) * PRIOR * usual_ns
    design = np.vstack([rows * scale * weights[:, None], prior])
    wanted = np.concatenate([mean_ns * weights, prior @ (known / scale)])
    least = np.zeros(PARTS)
    least[BYTES] = known[BYTES] / MOST_FASTER
    found = nnls(design, wanted - design @ (least / scale))[0]
    return np.asarray(found * scale + least, np.float64)


def _row(cell: MixCell, *, keys: Container[str]) -> Floats:
    """Return how often a request has each part of the cost, on a device with these keys."""
    row = np.zeros(PARTS)
    is_flush = cell.operation == OPERATIONS[FLUSH] or cell.is_preflush
    row[EMPTIED] = is_flush and EMPTY in keys
    row[FLUSHED] = is_flush and not (cell.is_empty and EMPTY in keys)
    row[FORCED] = cell.is_fua
    if cell.operation != OPERATIONS[FLUSH]:
        number = int(cell.operation == OPERATIONS[WRITE])
        row[BYTES][number] = cell.length_bytes
        if cell.is_sequential and SEQUENTIAL in keys:
            row[CONTINUED] = 1
        else:
            row[SETUP][number] = 1
    return row


class Slices:
    """Requests of one half of a trace, on one device, one after the other."""

    def __init__(
        self, options: TargetOptions, mix: TraceMix, *, requests: int, place: Path
    ) -> None:
        """Write their plan into a folder; nothing is run."""
        target = open_target(options, place, made=None)
        self._player = replace(
            target.player, schedule=Schedule("fast"), depth=1, threads=1, no_calibration=True
        )
        self._plan, self._done = place / "slice.plan", place / "slice.completions"
        mix.write_plan(self._plan, requests, size_bytes=target.size_bytes)

    def measure(self) -> list[MixCell]:
        """Run them; return what they took, by kind, but those meanwhile time was stolen."""
        words = [*self._player.words(), "--completions", str(self._done)]
        with StealWatch() as watch:
            outcome = run_program(self._plan, self._done.with_suffix(".json"), arguments=words)
        if outcome.summary["outcome"] == "interrupted":
            raise PartialError(
                "interrupted between two replays: nothing can be judged",
                hint="run the same command again",
            )
        stolen = watch.found().since(outcome.summary["clock"]["start_ns"])
        found = cells_of(self._plan, self._done, stolen=stolen) or cells_of(self._plan, self._done)
        self._done.unlink()
        if not found:
            raise InputError(f"{self._player.target[0]}: no request between two replays was done")
        return found


def slowness(cells: Sequence[MixCell], profile: Profile) -> float:
    """Return what requests took, as a multiple of what they take by a profile."""
    return sum(one.requests * one.mean_ns for one in cells) / model_ns(cells, profile)

"""The answer by whole units: which to place, what they take and save, and why none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tracekit.arrow import Integers, number_column, read_whole, word_array
from tracekit.devices import Profile
from tracekit.errors import UsageError
from tracekit.metadata import Region
from tracekit.model.answer import WORTH_RATIO, HeldOut, saved_ratio
from tracekit.model.best_placement import OnNvm, checked_blocks, extents, time_ps
from tracekit.model.block_orders import TouchedBlocks
from tracekit.model.placement import ChargedTrace, distinct, to_ns
from tracekit.model.placement_units import (
    EXTENT,
    ROLE,
    UnitChoice,
    Units,
    find_units,
)
from tracekit.model.run_sample import LongTrace, halves_of, requests_of
from tracekit.model.unit_charges import Charges, find_charges
from tracekit.model.unit_records import PlacedUnit, UnitAnswer, UnitPoint
from tracekit.model.unit_search import Chain, find_placement
from tracekit.store import TraceFolder
from tracekit.tables import ROLE_NAMES, UNIT_BLOCKS, UNITS
from tracekit.units import BLOCK_BYTES, PS_PER_NS, counted, format_duration, format_size

TABLE, BLOCKS = "simulations/units", "simulations/unit_blocks"
FINER_PARTS = 16
SHOWN_POINTS, SHOWN_UNITS, NAMED_UNITS = 32, 16, 4


def place_units(
    trace: ChargedTrace, choice: UnitChoice, *, regions: Sequence[Region], capacity_bytes: int
) -> tuple[UnitAnswer, HeldOut | None, dict[str, pa.Table]]:
    """Return the answer by whole units at a capacity, its held-out score, all units and blocks."""
    units = find_units(trace, choice, regions=regions)
    charges = find_charges(units, regions)
    chain = find_placement(trace, units, charges=charges, capacity=capacity_bytes)
    savings_ns = np.rint(chain.savings_ps(charges.bytes) / PS_PER_NS).astype(np.int64)
    chosen = chain.order[: chain.placed]
    known = units.unit_of >= 0
    touched = np.bincount(units.unit_of[known], minlength=len(units))
    base_ps, elapsed_ps = int(chain.times_ps[0]), chain.least_ps
    answer = UnitAnswer(
        unit=choice.kind,
        extent_bytes=choice.extent_bytes,
        is_default=choice.is_default,
        capacity_bytes=capacity_bytes,
        placed_count=chain.placed,
        unit_count=len(units),
        bytes=int(units.bytes[chosen].sum()),
        taken_bytes=charges.of(chosen),
        reason="" if chain.placed else _reason(units, charges, capacity_bytes, to_ns(base_ps)),
        touched_bytes=int(touched[chosen].sum()) * BLOCK_BYTES,
        outside_bytes=int(np.count_nonzero(~known)) * BLOCK_BYTES,
        along_bytes=units.along_blocks(chosen) * BLOCK_BYTES,
        base_elapsed_ns=to_ns(base_ps),
        elapsed_ns=to_ns(elapsed_ps),
        gain_ratio=saved_ratio(elapsed_ps, base_ps),
        placed=_placed(units, chosen, savings_ns)[:SHOWN_UNITS],
        curve=_curve(charges, chain),
        skipped_rows=units.skipped_rows,
        linked_files=units.linked_files,
    )
    answer.finer_bytes, answer.finer_gain_ratio = _finer(trace, choice, answer, regions=regions)
    on_nvm = units.placed_blocks(chosen)
    held_out = _hold_out(trace, units, charges, on_nvm, answer) if chain.placed else None
    tables = _table(units, charges, savings_ns, chosen), extents(trace.touched, on_nvm)
    return answer, held_out, dict(zip((TABLE, BLOCKS), tables, strict=True))


def _hold_out(
    trace: ChargedTrace, units: Units, charges: Charges, on_nvm: OnNvm, found: UnitAnswer
) -> HeldOut | None:
    """Score units on the second half of the requests, and those that the first half would choose.

    None for a trace of which neither all nor a sample is in memory.
    """
    parts = halves_of(trace)
    if parts is None:
        return None
    before, second = parts
    chain = find_placement(before, units, charges=charges, capacity=found.capacity_bytes)
    early = units.placed_blocks(chain.order[: chain.placed])
    alone_ps, placed_ps = time_ps(second, on_nvm)
    _, early_ps = time_ps(second, early)
    return HeldOut(
        requests=requests_of(second),
        gain_ratio=saved_ratio(placed_ps, alone_ps),
        chosen_before_ratio=saved_ratio(early_ps, alone_ps),
        units=found.title,
    )


def read_units(folder: TraceFolder, touched: TouchedBlocks) -> OnNvm:
    """Return the touched blocks of the placed units; UsageError where no unit is placed."""
    file = folder.table(BLOCKS)
    table = read_whole(file) if folder.has(BLOCKS) else None
    if table is None or not len(table):
        what = "places no unit" if table is not None else "is not by units"
        raise UsageError(
            f"--placement units: the answer {what}",
            hint="run recommend with --unit, or choose --placement best",
        )
    return checked_blocks(file, table, touched=touched)


def _finer(
    trace: ChargedTrace, choice: UnitChoice, answer: UnitAnswer, *, regions: Sequence[Region]
) -> tuple[int, float]:
    """Return the size and gain of extents of a FINER_PARTS-th, where they save more.

    Tried where the size is not the user's, and a pass over the trace takes little.
    """
    size = max(choice.extent_bytes // FINER_PARTS, BLOCK_BYTES)
    if not choice.is_default or size == choice.extent_bytes or isinstance(trace, LongTrace):
        return 0, 0.0
    units = find_units(trace, replace(choice, extent_bytes=size), regions=regions)
    charges = find_charges(units, regions)
    chain = find_placement(trace, units, charges=charges, capacity=answer.capacity_bytes)
    gain = 1 - chain.least_ps / max(int(chain.times_ps[0]), 1)
    return (size, gain) if gain >= answer.gain_ratio + WORTH_RATIO else (0, 0.0)


def _table(units: Units, charges: Charges, savings_ns: Integers, chosen: Integers) -> pa.Table:
    known = units.unit_of[units.unit_of >= 0]
    is_placed = np.zeros(len(units), bool)
    is_placed[chosen] = True
    numbers = [
        *(units.first_blocks, np.bincount(known, minlength=len(units)), units.bytes),
        *(units.along_bytes, charges.bytes, savings_ns, is_placed),
    ]
    words = [word_array(one) for one in (units.kinds, units.names, units.devices)]
    return pa.Table.from_arrays([*words, *map(number_column, numbers)], schema=UNITS)


def _reason(units: Units, charges: Charges, capacity_bytes: int, base_ns: int) -> str:
    """Return why nothing is placed: there is no unit, none fits, or none saves time."""
    if not len(units):
        outside = len(units.unit_of) * BLOCK_BYTES
        touched = f"no unit has any of the {format_size(outside)} that the trace touched"
        return touched if outside else "the trace touched no block"
    alone = charges.alone
    if int(alone.min()) > capacity_bytes:
        least = int(alone.argmin())
        more = int(alone[least]) - int(units.bytes[least])
        parts = f", {format_size(more)} of it beside its own bytes" if more else ""
        return (
            f"none of {len(units):,} fits, the least, {unit_title(units.names[least])}, takes"
            f" {format_size(int(alone[least]))} as it is carried out{parts}"
        )
    fitting = int(np.count_nonzero(alone <= capacity_bytes))
    return (
        f"{fitting:,} of {len(units):,} would fit, and none takes less than its"
        f" {format_duration(base_ns)}"
    )


def no_units() -> dict[str, pa.Table]:
    """Return the tables of an answer without units."""
    schemas = {TABLE: UNITS, BLOCKS: UNIT_BLOCKS}
    return {name: pa.Table.from_batches([], schema) for name, schema in schemas.items()}


def _placed(units: Units, chosen: Integers, savings_ns: Integers) -> list[PlacedUnit]:
    """Return the placed units by falling saving, adjacent extents as one."""
    order = sorted(chosen.tolist(), key=lambda one: (units.devices[one], units.first_blocks[one]))
    found: list[PlacedUnit] = []
    firsts: list[int] = []
    end = (None, -1)
    for one in order:
        name, device, first = units.names[one], units.devices[one], int(units.first_blocks[one])
        size, saving = int(units.bytes[one]), int(savings_ns[one])
        if units.kinds[one] == EXTENT and end == (device, first):
            last = found[-1]
            last.bytes += size
            last.saving_ns += saving
            number = (first * BLOCK_BYTES) // size
            last.name = f"{device} extents {firsts[-1]} to {number}"
        else:
            found.append(PlacedUnit(name=name, device=device, bytes=size, saving_ns=saving))
            firsts.append(first * BLOCK_BYTES // size)
        end = (device, first + size // BLOCK_BYTES)
    return sorted(found, key=lambda one: -one.saving_ns)


def _curve(charges: Charges, chain: Chain) -> list[UnitPoint]:
    """Return some beginnings of the order, each with the least time up to what it takes."""
    sizes = charges.cumulative(chain.order)[chain.counts]
    least = np.minimum.accumulate(chain.times_ps)
    base_ps = int(least[0])
    shown = distinct(
        [np.linspace(0, len(sizes) - 1, min(SHOWN_POINTS, len(sizes))).astype(np.int64)]
    )
    return [
        UnitPoint(
            capacity_bytes=int(sizes[one]),
            units=int(chain.counts[chain.times_ps[: one + 1].argmin()]),
            elapsed_ns=to_ns(int(least[one])),
            gain_ratio=(base_ps - int(least[one])) / base_ps if base_ps else 0.0,
        )
        for one in shown.tolist()
    ]


def headline(found: UnitAnswer, *, nvm: Profile, measure: str) -> str:
    """Return the sentence of the answer by units."""
    given = f"With {format_size(found.capacity_bytes)} of {nvm.name} and only whole {found.title}"
    if not found.placed_count:
        return f"{given}, leave everything on the base device: {found.reason}.{_left_out(found)}"
    names = [unit_title(one.name) for one in found.placed[:NAMED_UNITS]]
    more = ", ..." if len(found.placed) > NAMED_UNITS else ""
    is_more = found.taken_bytes > found.bytes
    taken = f", {format_size(found.taken_bytes)} as carried out" if is_more else ""
    return (
        f"{given}, place {found.placed_count:,} of {found.unit_count:,}"
        f" ({format_size(found.bytes)}{taken}: {', '.join(names)}{more}): {measure} falls by"
        f" {found.gain_ratio:.1%}, from {format_duration(found.base_elapsed_ns)} to"
        f" {format_duration(found.elapsed_ns)}.{_along(found)}{_left_out(found)}"
    )


def _left_out(found: UnitAnswer) -> str:
    """Return what of the table of files is no unit."""
    rows, files = found.skipped_rows, found.linked_files
    parts = [f"{counted(rows, 'row')} of other devices"] if rows else []
    if files:
        parts.append(f"{counted(files, 'file')} with a second name elsewhere")
    return f" Left out: {' and '.join(parts)}." if parts else ""


def unit_title(name: str) -> str:
    """Return what a sentence calls a unit."""
    return ROLE_NAMES.get(name, name)


def _along(found: UnitAnswer) -> str:
    """Return what goes along, and how that is known."""
    if not found.along_bytes:
        return ""
    size = format_size(found.along_bytes)
    if found.unit == ROLE:
        return f" {size} that lies in the file system goes along."
    return f" Assumed: {size} of metadata and journal go along, by the files requested before them."


def with_units(
    lines: list[str], found: UnitAnswer, *, nvm: Profile, is_open: bool, pays: bool
) -> list[str]:
    """Return the headline with the units' sentence first.

    Where extents are the default because roles are not known, the reason is said, and sentences by
    role are left out where none pays.
    """
    measure = "mean response time" if is_open else "elapsed I/O time"
    first = headline(found, nvm=nvm, measure=measure)
    if not found.is_default:
        return [first, *lines]
    why = (
        "Most of the time is of requests without a role, so the answer is by extents; set roles"
        " with tracekit classify --role."
    )
    if found.finer_bytes:
        size = format_size(found.finer_bytes)
        why += (
            f" Smaller extents save more, where they can be moved: those of {size}"
            f" {found.finer_gain_ratio:.1%} (--unit extent={size.replace(' ', '')})."
        )
    return [first, why, *(lines if pays else [])]

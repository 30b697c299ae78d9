"""Which whole units to place at a capacity, each set of them timed exactly.

Units are ordered by what they save per byte that they are charged: first by the shares of the bound
of single blocks and by their accesses, then by what they saved in the order before. One pass over
the trace times every beginning of an order. The best of these is improved by exchanges. Of few
units every set that fits is timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain as chained
from itertools import combinations, islice, product

import numpy as np

from tracekit._native import placement as native
from tracekit._native.best_placement import BestKernel, BestSize
from tracekit.arrow import Floats, Integers
from tracekit.devices import device_cost
from tracekit.model.best_placement import rounds, setup_of
from tracekit.model.block_orders import OrderedBlocks
from tracekit.model.placement import ChargedTrace, distinct
from tracekit.model.placement_units import Units
from tracekit.model.run_sample import LongTrace
from tracekit.model.unit_charges import Charges
from tracekit.tables import ROLES

ROUNDS = 2
POINTS, OPEN_POINTS = 1024, 64
KNAPSACK_STEPS, KNAPSACK_UNITS = 1000, 2000
MOST_SHARED = 4
"""Of more costs that units share, all are paid."""
WORK = 16_000_000
"""Requests and units looked at to time single sets: about 0.3 s."""
MOST_SETS, MOST_CHAINS = 1024, 6
"""Most sets of which each is timed, and most passes where each needs one."""
NEAR = 6
"""Units on each side of the choice that are exchanged."""


@dataclass(frozen=True)
class Chain:
    """Times with the first units of an order on NVM; the first count is 0, the base alone."""

    order: Integers
    counts: Integers
    times_ps: Integers
    placed: int = 0
    """How many of the first units are chosen."""

    @property
    def least_ps(self) -> int:
        """Return the time with the chosen ones on NVM."""
        return int(self.times_ps[np.searchsorted(self.counts, self.placed)])

    def savings_ps(self, unit_bytes: Integers) -> Floats:
        """Return what each unit saved when it moved; of several at once by their bytes."""
        found = np.zeros(len(self.order))
        steps = -np.diff(self.times_ps).astype(float)
        group = np.searchsorted(self.counts[1:], np.arange(len(self.order)), side="right")
        sizes = unit_bytes[self.order].astype(float)
        found[self.order] = steps[group] * sizes / np.bincount(group, sizes)[group]
        return found


def time_chain(trace: ChargedTrace, units: Units, *, order: Integers, exact: int) -> Chain:
    """Time the beginnings of an order of units in one pass; `exact` of its units are chosen."""
    most, count = (OPEN_POINTS if trace.is_open else POINTS), len(order)
    counts = np.arange(1, count + 1)
    if count > most:
        spread = np.linspace(1, count, most).astype(np.int64)
        counts = distinct([spread, *([exact] if exact else [])])
    never = len(counts)
    point_of = np.full(len(units) + 1, never, np.uint16)  # the last is of no unit
    point_of[order] = np.searchsorted(counts, np.arange(count), side="right")
    blocks = np.zeros(len(units.unit_of), np.dtype(native.BLOCK))
    blocks["role"] = trace.touched.role
    blocks["point"] = never
    point = point_of[units.unit_of]
    if units.taken_with is not None:
        point = np.minimum(point, point_of[units.taken_with])
    blocks["point"][:, native.OPTIMAL] = point
    scenarios = np.zeros(1 + never, np.dtype(native.SCENARIO))
    scenarios["order"][1:] = native.OPTIMAL
    scenarios["limit"][1:] = np.arange(1, never + 1)[:, np.newaxis]
    ordered = OrderedBlocks(blocks, np.zeros((len(ROLES), never), np.int64))
    result = native.simulate(trace.simulation(ordered, scenarios), trace.rows())
    times = result.service_ps
    if trace.is_open:
        times = [one // max(result.responses, 1) for one in result.answer_ps]
    return Chain(order, np.append(0, counts), np.array(times, np.int64), exact)


def choose_units(value: Floats, charges: Charges, *, capacity: int) -> Integers:
    """Return the units that are worth most within a capacity, whatever of the shared they pay."""
    shared = charges.shared
    sizes = range(len(shared) + 1) if len(shared) <= MOST_SHARED else [len(shared)]
    found = np.zeros(0, np.int64)
    every = chained.from_iterable(combinations(range(len(shared)), size) for size in sizes)
    for paid, margin in product(every, {0, charges.most_divided}):
        left = capacity - margin - int(shared[[*paid]].sum())
        is_open = np.isin(charges.group, [-1, *paid])
        chosen = fill(np.where(is_open, value, 0.0), charges.bytes, capacity=left)
        if value[chosen].sum() > value[found].sum() and charges.of(chosen) <= capacity:
            found = chosen
    return found


def fill(value: Floats, unit_bytes: Integers, *, capacity: int) -> Integers:
    """Return the units that are worth most within a capacity.

    By value per byte, skipping what does not fit; where that is no proof (few units of different
    sizes), the better of this and the knapsack's solution with sizes rounded up.
    """
    density = value / unit_bytes
    by_density = np.lexsort((np.arange(len(value)), -density))
    able = by_density[(value[by_density] > 0) & (unit_bytes[by_density] <= capacity)]
    if not len(able):
        return able
    if int(unit_bytes[able].min()) == int(unit_bytes[able].max()):
        return able[: capacity // int(unit_bytes[able[0]])]
    taken, left = [], capacity
    for one, size in zip(able.tolist(), unit_bytes[able].tolist(), strict=True):
        if size <= left:
            taken.append(one)
            left -= size
    greedy = np.array(taken, np.int64)
    if len(able) > KNAPSACK_UNITS:
        return greedy
    other = _knapsack(value, unit_bytes, able, capacity)
    return other if value[other].sum() > value[greedy].sum() else greedy


def _knapsack(value: Floats, unit_bytes: Integers, able: Integers, capacity: int) -> Integers:
    """Solve the knapsack, exactly unless that takes more than KNAPSACK_STEPS steps of capacity."""
    step = max(-(-capacity // KNAPSACK_STEPS), int(np.gcd.reduce(unit_bytes[able])))
    room = capacity // step
    sizes = -(-unit_bytes[able] // step)
    best = np.zeros(room + 1)
    takes = np.zeros((len(able), room + 1), bool)
    for place, (one, size) in enumerate(zip(able.tolist(), sizes.tolist(), strict=True)):
        if size <= room:
            with_it = best[: room + 1 - size] + value[one]
            takes[place, size:] = with_it > best[size:]
            best[size:] = np.maximum(best[size:], with_it)
    chosen, left = [], room
    for place in range(len(able) - 1, -1, -1):
        if takes[place, left]:
            chosen.append(int(able[place]))
            left -= int(sizes[place])
    return np.array(chosen[::-1], np.int64)


def find_placement(trace: ChargedTrace, units: Units, *, charges: Charges, capacity: int) -> Chain:
    """Return the best chain found, with how many of its first units to place.

    Nothing placed is among what is compared, so the answer is never worse than the base alone.
    """
    with _timing(trace, units) as sets:
        best = _by_savings(trace, units, charges, sets, capacity=capacity)
        found = _improved(trace, units, charges, sets, best=best, capacity=capacity)
    if {*found.tolist()} == {*best.order[: best.placed].tolist()}:
        return best
    order = _order(found, best.savings_ps(charges.bytes) / charges.bytes)
    other = time_chain(trace, units, order=order, exact=len(found))
    return other if other.least_ps <= best.least_ps else best


def _by_savings(
    trace: ChargedTrace, units: Units, charges: Charges, sets: Sets | None, *, capacity: int
) -> Chain:
    best: Chain | None = None
    seen: list[Integers] = []
    for start in _starts(trace, units, sets):
        value = start
        for _ in range(ROUNDS):
            chosen = choose_units(value, charges, capacity=capacity)
            order = _order(chosen, value / charges.bytes)
            if any(np.array_equal(order, one) for one in seen):
                break
            seen.append(order)
            chain = time_chain(trace, units, order=order, exact=len(chosen))
            fitting = np.flatnonzero(chain.counts <= len(chosen))
            at = int(chain.times_ps[fitting].argmin())
            if best is None or int(chain.times_ps[at]) < best.least_ps:
                best = replace(chain, placed=int(chain.counts[at]))
            value = chain.savings_ps(charges.bytes)
    assert best is not None  # noqa: S101 - there is a first round
    return best


def _starts(trace: ChargedTrace, units: Units, sets: Sets | None) -> Iterator[Floats]:
    """Yield what each unit is worth before any order of them was timed."""
    owner = units.owner_of
    if sets is not None:
        yield sets.weights(owner)
    known = owner >= 0
    accesses = trace.touched.accesses[known].astype(float)
    yield np.bincount(owner[known], accesses, minlength=len(units)).astype(float)


def _order(chosen: Integers, density: Floats) -> Integers:
    """Return an order of all units: the chosen ones, then the others by falling density."""
    rest = np.setdiff1d(np.arange(len(density)), chosen)
    rest = rest[np.argsort(-density[rest], kind="stable")]
    return np.append(chosen, rest).astype(np.int64)


@dataclass
class Sets:
    """A trace that was read once, and the time of any set of its units."""

    units: Units
    kernel: BestKernel
    size: BestSize

    def time_ps(self, chosen: Sequence[int]) -> int:
        """Return the time with these units on NVM."""
        return self.kernel.time_ps(self.units.placed_blocks(np.array(chosen, np.int64)))

    def weights(self, owner: Integers) -> Floats:
        """Return the shares of the bound of single blocks, summed by the unit of each block."""
        self.kernel.weigh(rounds(self.size, 1))
        starts = self.kernel.group_starts(self.size.groups)
        sizes = np.diff(starts, append=len(owner))
        shares = self.kernel.values(self.size.groups) * sizes
        known = owner[starts] >= 0
        found = np.bincount(owner[starts][known], shares[known], minlength=len(self.units))
        return found.astype(float)

    @property
    def affordable(self) -> int:
        """How many sets can be timed."""
        return min(WORK // (self.size.pairs + len(self.units.unit_of) + 1), MOST_SETS)


def can_time_sets(trace: ChargedTrace) -> bool:
    """Say whether requests come one after the other, and only the base device has a head."""
    nvm = device_cost(trace.devices.nvm)
    return not trace.is_open and nvm.latency_ps == nvm.sequential_ps


@contextmanager
def _timing(trace: ChargedTrace, units: Units) -> Iterator[Sets | None]:
    """Yield what times single sets, of a long trace on its sample.

    None where a set needs a pass of its own over the trace.
    """
    if not can_time_sets(trace):
        yield None
        return
    along = units.unit_of if units.taken_with is None else units.taken_with
    is_new = (np.diff(units.unit_of) != 0) | (np.diff(along) != 0)
    cuts = np.append(False, is_new)[: len(along)]
    part = trace.sample() if isinstance(trace, LongTrace) else trace
    with BestKernel(setup_of(part)) as kernel:
        for rows in part.rows():
            kernel.add(rows)
        yield Sets(units, kernel, kernel.finish(cuts.astype(np.uint8)))


def _improved(
    trace: ChargedTrace,
    units: Units,
    charges: Charges,
    sets: Sets | None,
    *,
    best: Chain,
    capacity: int,
) -> Integers:
    """Return the best set of all that fit, or a better one by exchanges where they are too many."""
    chosen = best.order[: best.placed]
    able = np.flatnonzero(charges.alone <= capacity).tolist()
    if not able:
        return chosen
    most = MOST_SETS if sets is None else sets.affordable
    fitting = _fitting(able, charges, capacity=capacity, most=most)
    times_ps: Sequence[int] = []
    if sets is None:
        times_ps = _times_by_chains(trace, units, fitting)
    elif fitting:
        times_ps = [sets.time_ps(one) for one in fitting]
    else:
        value = best.savings_ps(charges.bytes)
        return _exchanged(sets, charges, chosen=chosen, value=value, capacity=capacity)
    if not times_ps:
        return chosen
    ranks = [(ps, charges.of(one), one) for ps, one in zip(times_ps, fitting, strict=True)]
    return np.array(min(ranks)[2], np.int64)


Set = tuple[int, ...]


def _fitting(able: Sequence[int], charges: Charges, *, capacity: int, most: int) -> list[Set]:
    """Return every set of units that fits, small ones first; none if they may be too many."""
    if 1 << min(len(able), 30) > most:
        return []
    sets = chained.from_iterable(combinations(able, size) for size in range(len(able) + 1))
    return [one for one in sets if charges.of(one) <= capacity]


def _times_by_chains(trace: ChargedTrace, units: Units, sets: Sequence[Set]) -> list[int]:
    """Return the time of each set, in a pass for all that contain each other; [] if too many."""
    chains: list[list[int]] = []
    for place, one in enumerate(sets):
        holding = (chain for chain in chains if {*sets[chain[-1]]} <= {*one})
        chain = next(holding, None)
        if chain is None:
            chains.append([place])
        else:
            chain.append(place)
    if len(chains) > MOST_CHAINS:
        return []
    times_ps = [0] * len(sets)
    for chain in chains:
        # Of units that are in none of the sets, some of these would have no point of their own.
        every = chained.from_iterable(sets[place] for place in chain)
        order = np.array([*dict.fromkeys(every)], np.int64)
        timed = time_chain(trace, units, order=order, exact=0)
        for place in chain:
            times_ps[place] = int(timed.times_ps[len(sets[place])])
    return times_ps


def _exchanged(
    sets: Sets, charges: Charges, *, chosen: Integers, value: Floats, capacity: int
) -> Integers:
    """Return what exchanges make of a choice, as long as one helps and there is work left."""
    best = {*chosen.tolist()}
    least_ps = sets.time_ps([*best])
    left = sets.affordable
    is_better = True
    while is_better:
        is_better = False
        for other in islice(_near(best, charges, value, capacity=capacity), left):
            left -= 1
            elapsed_ps = sets.time_ps([*other])
            if elapsed_ps < least_ps:
                best, least_ps, is_better = other, elapsed_ps, True
                break
    return np.array(sorted(best), np.int64)


def _near(best: set[int], charges: Charges, value: Floats, *, capacity: int) -> Iterator[set[int]]:
    """Yield sets that differ by few units and fit, what promises most first."""
    is_in = np.zeros(len(value), bool)
    is_in[[*best]] = True
    others, mine = np.flatnonzero(~is_in & (charges.alone <= capacity)), np.flatnonzero(is_in)
    density = value / charges.bytes
    come = _some(_ends(others, -density[others], -value[others]))
    go = _some(_ends(mine, density[mine], -charges.bytes[mine].astype(float)))
    worth = value.tolist()
    gains, losses = ([sum(worth[n] for n in some) for some in of] for of in (come, go))
    counts = np.add.outer([*map(len, come)], [*map(len, go)])
    moves = np.flatnonzero((counts > 0) & (counts < 4))
    lost = np.subtract.outer(losses, gains).T.ravel()[moves]
    for move in moves[np.argsort(lost, kind="stable")].tolist():
        new, out = come[move // len(go)], go[move % len(go)]
        found = best - {*out} | {*new}
        if charges.of(sorted(found)) <= capacity:
            yield found


def _some(units: Sequence[int]) -> list[Set]:
    """Return every set of at most two units."""
    return [*chained.from_iterable(combinations(units, size) for size in range(3))]


def _ends(units: Integers, *keys: Floats) -> list[int]:
    """Return the first units by each of some keys."""
    firsts = (units[np.argsort(key, kind="stable")][:NEAR].tolist() for key in keys)
    return list(dict.fromkeys(chained.from_iterable(firsts)))

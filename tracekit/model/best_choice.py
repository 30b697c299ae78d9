"""The best placement for `recommend`: what it must not be worse than, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tracekit.arrow import Integers
from tracekit.devices import Profile
from tracekit.model import answer as choice
from tracekit.model.answer import PLACED_BYTES, Cut, Grid, Recommendation
from tracekit.model.best_long import find_long
from tracekit.model.best_placement import (
    BEFORE,
    MOST_CAPACITIES,
    TABLE,
    Found,
    OnNvm,
    Rival,
    Search,
    best_at,
    extents,
    searching,
    time_ps,
)
from tracekit.model.best_records import BestPlacement, Regret
from tracekit.model.best_regret import (
    DEARER_RATIO,
    FRAGILE_RATIO,
    ROBUSTER_RATIO,
    can_compare,
    regrets,
)
from tracekit.model.block_orders import blocks_in_order, hottest_first
from tracekit.model.placement import COVERAGES, ChargedTrace, Curves, to_ns
from tracekit.model.run_sample import LongTrace
from tracekit.tables import MOST_ACCESSED, ROLE_NAMES
from tracekit.units import counted, format_duration, format_size

HEADLINE_PARTS, OTHER_PARTS = 4, 80
"""The shares of the work that the headline's capacity, and each other one, may take."""
OPEN_RIVALS = 3


@dataclass
class Rivals:
    """The placements of roles and by accesses, as sets of blocks."""

    trace: ChargedTrace
    curves: Curves
    is_mixed: bool  # some blocks are touched by several roles, which orders of roles place in part
    _orders: dict[tuple[str, str], Integers] = field(default_factory=dict)

    def at(self, index: int) -> Iterator[Rival]:
        """Yield the best placement of roles by each coverage, and the most accessed blocks."""
        is_comparable = not self.curves.is_open
        for coverage in COVERAGES:
            _, *found = choice.candidates(self.curves, coverage)
            if not found:
                continue
            one = min(found, key=lambda each: int(each.elapsed_ps[index]))
            shares = {role: int(blocks[index]) for role, blocks in one.blocks.items()}
            name = f"{one.placement}, {coverage}"
            known = int(one.elapsed_ps[index]) if is_comparable and not self.is_mixed else None
            yield Rival(name, self._placed(coverage, shares), known)
        capacity = int(self.curves.points[index])
        known_ps = self.curves.base_total_ps + int(self.curves.optimal_ps[index])
        everything = self._placed(MOST_ACCESSED, {MOST_ACCESSED: capacity})
        yield Rival(MOST_ACCESSED, everything, known_ps if is_comparable else None)

    def forget(self) -> None:
        """Free the orders."""
        self._orders.clear()

    def _placed(self, coverage: str, shares: dict[str, int]) -> OnNvm:
        on_nvm = np.zeros(len(self.trace.touched.keys), np.uint8)
        for role, count in shares.items():
            on_nvm[self._order(coverage, role)[:count]] = 1
        return on_nvm

    def _order(self, coverage: str, role: str) -> Integers:
        key = coverage, role
        if key not in self._orders:
            touched = self.trace.touched
            self._orders[key] = (
                hottest_first(touched)
                if coverage == MOST_ACCESSED
                else blocks_in_order(touched, role, coverage=coverage)
            )
        return self._orders[key]


@dataclass(frozen=True)
class Best:
    """The best placement and the extents of the headline's."""

    placement: BestPlacement
    table: pa.Table


def find_best(
    trace: ChargedTrace, curves: Curves, *, grid: Grid, cut: Cut, is_mixed: bool
) -> Best | None:
    """Return the best placement, None where nothing is there to place."""
    if not curves.base_total_ps or not len(trace.touched.keys) or not curves.points[grid.headline]:
        return None
    rivals = Rivals(trace, curves, is_mixed)
    others: list[Found] = []
    compared: list[Regret] = []
    if isinstance(trace, LongTrace):
        capacity, known = _at(rivals, grid.headline, [])
        rivals.forget()
        chosen = headline = find_long(trace, capacity, rivals=known)
    else:
        with searching(trace) as search:
            others = _others(search, rivals, grid)
            before = [one for one in others if one.capacity <= curves.points[grid.headline]]
            capacity, known = _at(rivals, grid.headline, before[-1:])
            headline = search.find(capacity, known, parts=HEADLINE_PARTS)
            chosen, compared = _robust(search, headline, known, cut)
    chosen = _timed(trace, chosen, known)
    base_ps = curves.base_total_ps
    others = [one for one in others if one.capacity != chosen.capacity]
    table = extents(trace.touched, chosen.on_nvm)
    at = [best_at(trace.touched, one, base_ps=base_ps) for one in [*others, chosen]]
    found = BestPlacement(
        answer=at[-1],
        answers=[] if trace.is_open else sorted(at, key=lambda one: one.capacity_bytes),
        extents=len(table),
        table=TABLE,
        orders_ns={name: to_ns(ps) for name, ps in headline.orders_ps.items()},
        regrets=compared,
        fragile_ratio=FRAGILE_RATIO,
        fastest_ns=to_ns(headline.elapsed_ps)
        if compared and chosen.order != headline.order
        else None,
    )
    return Best(found, table)


def _others(search: Search, rivals: Rivals, grid: Grid) -> list[Found]:
    """Return the best placements at about MOST_CAPACITIES of the shown ones, as work allows."""
    points = rivals.curves.points
    shown = [int(index) for index in grid.shown if points[index]]
    count = 0 if rivals.curves.is_open else min(len(shown), search.affordable(MOST_CAPACITIES))
    found: list[Found] = []
    for place in np.linspace(0, len(shown) - 1, count).round().astype(int):
        capacity, known = _at(rivals, shown[place], found[-1:])
        found.append(search.find(capacity, known, parts=OTHER_PARTS))
    return found


def _at(rivals: Rivals, index: int, before: list[Found]) -> tuple[int, list[Rival]]:
    """Return a point's capacity and its rivals; the best one of a smaller capacity fits, too."""
    others = [Rival(BEFORE, one.on_nvm, one.elapsed_ps) for one in before]
    return int(rivals.curves.points[index]), [*rivals.at(index), *others]


def _robust(
    search: Search, best: Found, rivals: list[Rival], cut: Cut
) -> tuple[Found, list[Regret]]:
    """Return the placement of the least regret where the best one is fragile.

    Of those that take little longer, and no longer than what it must not be worse than.
    """
    known_ps = [one.elapsed_ps for one in rivals if one.elapsed_ps is not None]
    most_ps = min([int((1 + DEARER_RATIO) * best.elapsed_ps), *known_ps])
    placements = {best.order: best}
    if not can_compare(search):
        return best, []
    for name, values in search.orders.items():
        elapsed_ps, on_nvm = search.kernel.choose(best.capacity, values, steps=0)
        if name not in placements and elapsed_ps <= most_ps:
            placements[name] = replace(
                best, on_nvm=on_nvm, elapsed_ps=elapsed_ps, order=name, is_exchanged=False
            )
    sets = {name: one.on_nvm for name, one in placements.items()}
    compared = regrets(search, best.capacity, placements=sets, cut=cut)
    own = next((one.worst_ratio for one in compared if one.placement == best.order), 0.0)
    if own <= FRAGILE_RATIO or compared[0].worst_ratio > ROBUSTER_RATIO * own:
        return best, compared
    return placements[compared[0].placement], compared


def _timed(trace: ChargedTrace, found: Found, rivals: list[Rival]) -> Found:
    """Return the placement with its time by the model of all others.

    That decides with queues, and of a long trace, where rivals' times are estimates.
    """
    quiet = replace(trace, on_rows=None)
    found = replace(found, elapsed_ps=time_ps(quiet, found.on_nvm)[1])
    if trace.is_open:
        found = replace(found, bound_ps=None)
        rivals = rivals[:OPEN_RIVALS]
    elif isinstance(trace, LongTrace):
        # Of the others the sample says that they take longer.
        rivals = [one for one in rivals if one.elapsed_ps and one.elapsed_ps < found.elapsed_ps]
    else:
        return found
    for one in rivals:
        elapsed_ps = time_ps(quiet, one.on_nvm)[1]
        if elapsed_ps < found.elapsed_ps:
            found = replace(
                found, on_nvm=one.on_nvm, elapsed_ps=elapsed_ps, order=one.name, is_exchanged=False
            )
    return found


def add_best(advice: Recommendation, nvm: Profile) -> None:
    """Add to the headline what to place block by block, how good that is, and whether robust.

    Where there is no other answer it comes first.
    """
    best = advice.best_placement
    if best is None:
        return
    sentences = [" ".join(_sentences(best, advice, nvm))]
    is_first = advice.answer.placement == "base" and advice.units is None
    place = 0 if is_first and best.answer.gain_ratio > 0 else len(advice.headline)
    advice.headline[place:place] = sentences


def _sentences(best: BestPlacement, advice: Recommendation, nvm: Profile) -> Iterator[str]:
    one = best.answer
    if one.gain_ratio <= 0:
        yield f"No placement of single blocks saves time either{near(one.gap_ratio)}."
        return
    parts = " and ".join(
        f"{format_size(size)} of {f'the {ROLE_NAMES[role]}' if role in PLACED_BYTES else role}"
        for role, size in one.role_bytes.items()
    )
    runs = counted(best.extents, "extent")
    other, what = advice.answer.elapsed_ns, "roles"
    if advice.units is not None:
        other, what = advice.units.elapsed_ns, advice.units.title
    ahead = 1 - one.elapsed_ns / other if other else 0.0
    more = f", {ahead:.1%} less than by {what}" if ahead >= choice.WORTH_RATIO else ""
    yield (
        f"Block by block, {parts} ({runs}, in {best.table}) on {format_size(one.capacity_bytes)} of"
        f" {nvm.name} take {format_duration(one.elapsed_ns)}, a gain of {one.gain_ratio:.1%}{more}"
        f"{near(one.gap_ratio)}."
    )
    yield from _of_regret(best)


LOOSE_RATIO = 0.5
"""A bound that is farther away says nothing of a placement."""


def near(gap_ratio: float | None) -> str:
    """Return how close a placement is to the bound, which is a ratio of the bound."""
    if gap_ratio is None:
        return ""
    if gap_ratio > LOOSE_RATIO:
        return "; how close that is to the best possible is not known, the bound is too loose"
    return f"; it is within {max(gap_ratio, 0.001):.1%} of the best possible"


def _of_regret(best: BestPlacement) -> Iterator[str]:
    if not best.regrets:
        return
    own = next((one for one in best.regrets if one.placement == best.answer.order), None)
    if own is None:
        return
    worst = f"{choice.longer(own.worst_ratio)} the best placement there ({own.worst_case})"
    yield f"On other devices and in windows of the trace it takes {worst}, at worst."
    if best.fastest_ns is not None:
        yield f"The fastest one, with {format_duration(best.fastest_ns)}, is less robust there."

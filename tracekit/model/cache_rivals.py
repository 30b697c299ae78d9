"""Caches as rivals of a placement: the same trace, devices and capacity, each with its defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from msgspec import to_builtins

from tracekit.errors import UsageError
from tracekit.metadata import Record
from tracekit.model.answer import (
    ANSWER,
    BEST,
    Answer,
    Recommendation,
    charged_trace,
    choose_answer,
    placement_name,
    read_recommendation,
)
from tracekit.model.placement import ChargedTrace
from tracekit.model.rival_kinds import SOURCES, CacheTimes, RivalRow, compete
from tracekit.model.rival_sample import SAMPLES, choose_parts, compete_on_samples
from tracekit.store import TraceFolder, write_results
from tracekit.tables import RIVALS
from tracekit.units import format_duration, format_size

TABLE = "simulations/rivals"
RESULT = "simulations/rivals.json"
NOTHING = "The trace has no read and no write: there is nothing to cache."


class RivalsResult(Record):
    """The content of simulations/rivals.json."""

    capacity_bytes: int
    base_profile: str
    nvm_profile: str
    placement: str
    """The quickest of the capacity: of roles, or `best` block by block."""
    placement_elapsed_ns: int
    base_elapsed_ns: int
    headline: list[str]
    caches: list[RivalRow]
    """As in the table."""
    too_small: list[str]
    assumptions: list[str]


def simulate_rivals(
    folder: TraceFolder,
    *,
    placement: str = ANSWER,
    on_rows: Callable[[int], None] | None = None,
) -> RivalsResult:
    """Write simulations/rivals and its JSON; return the latter's content.

    UsageError for a recommendation with queueing, which has no elapsed time to compare with.
    """
    advice = read_recommendation(folder)
    if advice.is_open:
        raise UsageError(
            "the recommendation is of response times with queueing, caches have elapsed times",
            hint="run recommend without --queueing open",
        )
    answer = choose_answer(advice, placement)
    trace = replace(charged_trace(folder, advice), on_rows=on_rows)
    rows, too_small = compete(trace, answer.capacity_bytes)
    is_empty = not any(one.requests for one in advice.roles.values())
    placed, static = quickest(advice, answer)
    result = RivalsResult(
        capacity_bytes=answer.capacity_bytes,
        base_profile=advice.base_profile,
        nvm_profile=advice.nvm_profile,
        placement=placed,
        placement_elapsed_ns=static.elapsed_ns,
        base_elapsed_ns=answer.base_elapsed_ns,
        headline=[NOTHING] if is_empty else headline(rows, static),
        caches=rows,
        too_small=[] if is_empty else too_small,
        assumptions=list(SOURCES),
    )
    table = pa.Table.from_pylist([to_builtins(row) for row in rows], RIVALS)
    write_results(folder, RESULT, result=result, tables={TABLE: table})
    return result


def add_caches(advice: Recommendation, trace: ChargedTrace) -> None:
    """Add what each cache of the answer's capacity takes; the headline names one that is better."""
    requests = sum(one.requests for one in advice.roles.values())
    answer = advice.answer
    if advice.is_open or not requests or not answer.capacity_bytes:
        return
    parts = choose_parts(requests, answer.capacity_bytes)
    if parts > 1:
        advice.assumptions.append(
            f"caches are simulated on {SAMPLES} samples, each of 1/{parts:,} of the capacity and of"
            " the regions of 1 MiB; +-: two standard errors; tracekit simulate rivals takes all"
            " requests"
        )
        advice.caches, missing = compete_on_samples(
            trace, answer.capacity_bytes, base_ns=answer.base_elapsed_ns, parts=parts
        )
        if missing:
            advice.assumptions.append(
                f"not compared, as a sample has no requests for them: {', '.join(missing)}"
            )
    else:
        rows, _ = compete(trace, answer.capacity_bytes)
        names = CacheTimes.__struct_fields__
        advice.caches = [CacheTimes(**{one: getattr(row, one) for one in names}) for row in rows]
    advice.headline += better(advice.caches, quickest(advice, answer)[1])


@dataclass(frozen=True)
class Static:
    """A placement that caches of its capacity are compared with."""

    name: str
    capacity_bytes: int
    elapsed_ns: int

    @property
    def takes(self) -> str:
        """What a sentence says of it."""
        return f"{self.name} takes {format_duration(self.elapsed_ns)} of I/O"


def quickest(advice: Recommendation, answer: Answer) -> tuple[str, Static]:
    """Return the quickest placement of an answer's capacity, and its name: of roles, or `best`."""
    size = answer.capacity_bytes
    best = advice.best_placement
    known = [best.answer, *best.answers] if best is not None else []
    least_ns = min(
        (one.elapsed_ns for one in known if one.capacity_bytes == size), default=answer.elapsed_ns
    )
    if least_ns < answer.elapsed_ns:
        return BEST, Static("the best placement, block by block,", size, least_ns)
    name = f"the placement ({placement_name(answer.placement)})"
    return answer.placement, Static(name, size, answer.elapsed_ns)


def firsts(rows: Sequence[CacheTimes]) -> list[CacheTimes]:
    """Return the quickest cache, its own work included, and if it needs a pool the next without."""
    found = sorted(rows, key=lambda row: row.busy_ns + row.error_ns)
    others = [one for one in found if not one.needs_pool]
    return found[:1] + (others[:1] if found and found[0].needs_pool else [])


def beating(rows: Sequence[CacheTimes], static: Static) -> list[tuple[str, CacheTimes]]:
    """Return the caches of `firsts` that beat a placement, each with its sentence."""
    size = format_size(static.capacity_bytes)
    found = [one for one in firsts(rows) if one.busy_ns + one.error_ns < static.elapsed_ns]
    return [
        (
            f"Without a pool of ZFS, {one.title} beats it: {one.times}."
            if number
            else f"With {size}, {one.title} beats the placement: {one.times}; {static.takes}.",
            one,
        )
        for number, one in enumerate(found)
    ]


def better(rows: Sequence[CacheTimes], static: Static) -> list[str]:
    """Name the cache that beats a placement by most, its own work included, if one does."""
    return [line for line, _ in beating(rows, static)]


def headline(rows: Sequence[CacheTimes], static: Static) -> list[str]:
    """Say which cache beats a placement, or that none does; also without a pool of ZFS."""
    size = format_size(static.capacity_bytes)
    if not rows:
        return [f"{size} are too small for each of the caches."]
    lines, named = better(rows, static), firsts(rows)
    if not lines:
        takes = f"{static.takes}, {named[0].title} {named[0].times}"
        lines = [f"With {size} no cache beats the placement: {takes}."]
    rest = (
        f"Without a pool of ZFS, none does; {one.title} takes {one.times}." for one in named[1:]
    )
    return [*lines, *rest][: len(named)]

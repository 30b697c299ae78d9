"""The computation behind `tracekit simulate tiers`: all mixes, static and dynamic, and the sweeps.

Static: the whole trace is known and each extent is placed once. Dynamic: nothing is known at first,
and after each window extents move within a bandwidth.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit._native.tiering import MAX_SUMMED_TIERS, Migration, Tiering
from tracekit.arrow import Integers
from tracekit.errors import UsageError
from tracekit.model.tier_mixes import (
    Extents,
    Mixes,
    Moving,
    Outcome,
    Tier,
    all_mixes,
    best,
    dynamic_latency_us,
    latencies_us,
    outcome,
    static_outcome,
    static_shares,
    transfer_time_us,
)
from tracekit.model.timings import check_count, read_changes
from tracekit.model.what_if import RATE_KEYS, TIER_KEYS, WhatIf
from tracekit.units import BLOCK_BYTES, MIB, SECTOR_BYTES

# Of the whole system; all but the first two matter to dynamic tiering only.
COST_KEYS = ("migration_cost", "promotion_cost", "demotion_cost")
SYSTEM_KEYS = ("extent_bytes", "capacity_bytes", "window_s", "migration_mib_s", *COST_KEYS)
DYNAMIC_KEYS = SYSTEM_KEYS[2:]
VARY_KEYS = TIER_KEYS + RATE_KEYS
HINT = "such as ssd-pcm.read_latency_us=0.25,4 or extent_bytes=0.5,2"
# Work of dynamic tiering, in extents looked at: one core does 50 million a second.
MAX_WORK = 30_000_000_000
CHUNK_WORK = 20_000_000
# Work of the loop that more than four tiers need: two minutes on one core.
MAX_LOOP_WORK = 10_000_000_000
STEPS = 4


@dataclass(frozen=True)
class Vary:
    """A parameter of one tier, or of the whole system (tier None), times a factor."""

    tier: str | None
    parameter: str
    factor: float


def parse_vary(texts: Sequence[str]) -> tuple[Vary, ...]:
    """Return the user's TIER.KEY=FACTOR,... and KEY=FACTOR,..., each once, in their order.

    UsageError names a key or factor that cannot be; whether the tier is one is `check_vary`'s.
    """
    known = f"a tier, a point and one of {', '.join(VARY_KEYS)}, or one of {', '.join(SYSTEM_KEYS)}"
    found = read_changes(
        texts, lambda tier, key: key in (VARY_KEYS if tier else SYSTEM_KEYS), known=known, hint=HINT
    )
    changes = tuple(dict.fromkeys(Vary(tier or None, key, factor) for tier, key, factor in found))
    check_count(changes)
    return changes


def check_vary(
    changes: Sequence[Vary], tiers: Sequence[str], *, is_dynamic: bool, charges_migration: bool
) -> None:
    """Raise UsageError for a tier that is not in the mix, or a key that changes nothing."""
    for change in changes:
        if change.tier is not None and change.tier not in tiers:
            raise UsageError(
                f"--vary: '{change.tier}' is not one of the tiers",
                hint=f"they are {', '.join(tiers)}",
            )
        if change.parameter in DYNAMIC_KEYS and not is_dynamic:
            raise UsageError(
                f"--vary: {change.parameter} changes dynamic tiering only", hint="add --dynamic"
            )
        if change.parameter in COST_KEYS and not charges_migration:
            raise UsageError(
                f"--vary: {change.parameter} changes nothing while moving delays no request",
                hint="add --charge-migration",
            )


def check_rates(tiers: Sequence[Tier], changes: Sequence[Vary], *, is_needed: bool) -> None:
    """Raise UsageError where a bandwidth that is changed, or needed to move extents, is unknown."""
    wanted = {(change.tier, change.parameter) for change in changes}
    for tier in tiers:
        for key in RATE_KEYS:
            if getattr(tier, key) is None and (is_needed or (tier.name, key) in wanted):
                raise UsageError(
                    f"the tier '{tier.name}' has no {key}",
                    hint=f"give it in the what-if's [devices.{tier.name}], or what it is like",
                )


@dataclass(frozen=True)
class TierOptions:
    """What the user chose."""

    extent_bytes: int = 1 << 30
    tiers: tuple[str, ...] = ()  # fast to slow; empty: the what-if's, else the study's
    step_percent: int = 1
    amount: str = "bytes"
    rounding: str = "floor"
    capacity_bytes: int | None = None  # of the system; None: what the trace touched
    is_dynamic: bool = False
    window_s: float = 7200.0
    migration_mib_s: float = 41.0
    charges_migration: bool = False
    moves_by: str = "latency"  # of 4 KiB at a time, or the bandwidth of the tiers
    migration_cost: float = 1.0  # times the time of moving, where it is charged
    promotion_cost: float = 1.0  # times that, for moves to a faster tier
    demotion_cost: float = 1.0
    vary: tuple[Vary, ...] = ()
    what_if: Path | None = None
    profiles: Path | None = None

    @property
    def window_ns(self) -> int:
        """Length of a window of dynamic tiering."""
        return round(self.window_s * 1e9)


@dataclass(frozen=True)
class Dynamic:
    """Dynamic tiering of all mixes: outcome, and the records of `native.tiering.Migration`."""

    outcome: Outcome
    records: Integers


@dataclass(frozen=True)
class Change:
    """One point of the sensitivity sweeps: a changed parameter, and what is best then."""

    vary: Vary
    method: str
    value: float
    with_first: int  # index of the best mix with some of the first tier
    iops_per_price: tuple[float, float]  # of that mix, and of the best without the first tier
    moved_bytes: tuple[int, int] | None  # promoted and demoted with that mix, dynamic


@dataclass(frozen=True)
class Study:
    """Everything that was computed, for the tables and the answer."""

    options: TierOptions
    what_if: WhatIf
    tiers: Sequence[Tier]
    extents: Extents
    capacity_extents: int
    mixes: Mixes
    shares: NDArray[np.void]
    static: Outcome
    dynamic: Dynamic | None
    changes: Sequence[Change] = ()


Step = Callable[[str, int, int], None]


def make_study(
    options: TierOptions, what_if: WhatIf, *, tiers: Sequence[Tier], extents: Extents, on_step: Step
) -> Study:
    """Evaluate every mix; UsageError when that is too much work or the capacity too small."""
    on_step("every mix, static", 1, STEPS)
    capacity, mixes = capacity_mixes(options, len(tiers), extents=extents)
    sweeps = len(tiers) * len(TIER_KEYS) * len(what_if.factors) + len(options.vary)
    _check_loop(len(tiers), len(mixes.shares) * len(extents.number) * (1 + sweeps))
    shares = static_shares(tiers, extents.reads, writes=extents.writes, mixes=mixes)
    static = static_outcome(tiers, mixes, shares=shares)
    dynamic = None
    if options.is_dynamic:
        dynamic = dynamic_tiering(options, tiers, extents=extents, mixes=mixes, on_step=on_step)
    return Study(options, what_if, tiers, extents, capacity, mixes, shares, static, dynamic)


def capacity_mixes(options: TierOptions, tier_count: int, *, extents: Extents) -> tuple[int, Mixes]:
    """Return the capacity in extents and all mixes of it; UsageError when it is too small."""
    touched = capacity = len(extents.number)
    if options.capacity_bytes is not None:
        capacity = options.capacity_bytes // options.extent_bytes
        if not touched <= capacity < 1 << 31:
            raise UsageError(
                f"--capacity holds {capacity:,} extents, the trace touches {touched:,}",
                hint="leave it out for exactly what the trace touched",
            )
    return capacity, all_mixes(
        tier_count, step_percent=options.step_percent, extents=capacity, rounding=options.rounding
    )


def _check_loop(tier_count: int, work: int) -> None:
    """Raise UsageError when mixes that are not looked up in sums would take too long."""
    if tier_count > MAX_SUMMED_TIERS and work > MAX_LOOP_WORK:
        raise UsageError(
            f"{tier_count} tiers with so many mixes and extents would take long",
            hint="take a larger --step or --extent, or at most four tiers",
        )


def moving(options: TierOptions, tiers: Sequence[Tier]) -> Moving | None:
    """Return what moving one extent costs, None unless moves are charged.

    Traffic in bytes stands for 4 KiB at a time, so a time of moving counts once for each byte of
    4 KiB. Every tier must have its bandwidths where these say how long a move takes.
    """
    if not options.charges_migration:
        return None
    units = 1.0 if options.amount == "requests" else float(BLOCK_BYTES)
    if options.moves_by == "latency":
        times_us = latencies_us(tiers) * (options.extent_bytes / BLOCK_BYTES)
    else:
        rates = [(tier.read_mib_s or math.inf, tier.write_mib_s or math.inf) for tier in tiers]
        times_us = transfer_time_us(options.extent_bytes, 1.0) / np.array(rates)
    read, write = (times_us * units * options.migration_cost).T
    return Moving(read, write, options.promotion_cost, options.demotion_cost)


def window_moves(options: TierOptions) -> int:
    """Return how many extents can move in one window."""
    window_bytes = options.migration_mib_s * MIB * options.window_ns / 1e9
    return int(window_bytes // options.extent_bytes)


def migration(study: Study) -> Migration:
    """Return the dynamic model of a study, to be closed by the caller."""
    return _migration(study.options, study.tiers, study.extents)


def placement(study: Study, mix: int) -> NDArray[np.uint8]:
    """Return the tier of each extent in one mix, static."""
    extents = study.extents
    with Tiering(latencies_us(study.tiers), extents.reads, writes=extents.writes) as model:
        return model.place(study.mixes.places[mix, :-1])


def _migration(options: TierOptions, tiers: Sequence[Tier], extents: Extents) -> Migration:
    return Migration(
        latencies_us(tiers),
        extents.windows,
        extent_count=len(extents.number),
        window_moves=window_moves(options),
    )


def dynamic_work(extents: Extents) -> int:
    """Return the work of one mix, in extents looked at."""
    windows = extents.windows
    return len(windows.extent) + (len(windows.first_item) - 1) * len(extents.number)


def dynamic_tiering(
    options: TierOptions, tiers: Sequence[Tier], *, extents: Extents, mixes: Mixes, on_step: Step
) -> Dynamic:
    """Return what every mix gives when extents move; UsageError when that is too much work."""
    work_each = dynamic_work(extents)
    count = len(mixes.shares)
    if work_each * count > MAX_WORK:
        raise UsageError(
            f"{count:,} mixes of {len(extents.number):,} extents in"
            f" {len(extents.windows.first_item) - 1:,} windows would take long",
            hint="take a larger --step, --extent or --window",
        )
    # In parts, so that all cores work, progress is shown and Ctrl-C ends it.
    chunk = max(1, CHUNK_WORK // work_each)
    chunks = [mixes.places[first : first + chunk] for first in range(0, count, chunk)]
    parts = []
    cores = len(os.sched_getaffinity(0))
    with _migration(options, tiers, extents) as model, ThreadPoolExecutor(cores) as pool:
        for part in pool.map(model.totals, chunks):
            parts.append(part)
            on_step(f"{len(parts) / len(chunks):.0%} of the mixes, dynamic", 2, STEPS)
    records = np.concatenate(parts)
    latency_us = dynamic_latency_us(tiers, records, moving=moving(options, tiers))
    return Dynamic(outcome(tiers, mixes, latency_us=latency_us), records)


Read = Callable[[TierOptions], Extents]


def varied_options(
    options: TierOptions, vary: Vary, *, capacity_bytes: int | None = None
) -> TierOptions:
    """Return the options with a parameter of the system changed; unchanged for one of a tier.

    `capacity_bytes` is the capacity that is used when none is given; without it the capacity of
    options that give none stays what the trace touched.
    """
    factor = vary.factor
    if vary.parameter == "extent_bytes":
        sectors = max(1, round(options.extent_bytes * factor / SECTOR_BYTES))
        return replace(options, extent_bytes=sectors * SECTOR_BYTES)
    if vary.parameter == "capacity_bytes":
        given = options.capacity_bytes or capacity_bytes
        return replace(options, capacity_bytes=None if given is None else round(given * factor))
    if vary.parameter == "window_s":
        return replace(options, window_s=options.window_s * factor)
    if vary.parameter == "migration_mib_s":
        return replace(options, migration_mib_s=options.migration_mib_s * factor)
    if vary.parameter in COST_KEYS:
        return replace(options, **{vary.parameter: getattr(options, vary.parameter) * factor})
    return options


def sweeps(study: Study, *, read: Read, on_step: Step) -> list[Change]:
    """Return the best mixes under each change, of each method that it concerns.

    The what-if's factors are static; what the user varies is also dynamic where that was asked
    for. `read` gives the traffic for other extents or windows. UsageError for too much work.
    """
    usual = [
        Vary(tier.name, key, factor)
        for tier in study.tiers
        for key in TIER_KEYS
        for factor in study.what_if.factors
    ]
    wanted = list(dict.fromkeys([*usual, *study.options.vary]))
    _check_work(study)
    return [
        change for vary in wanted for change in _changes(study, vary, read=read, on_step=on_step)
    ]


def _check_work(study: Study) -> None:
    """Raise UsageError when moving extents once more for each change would take long."""
    work = dynamic_work(study.extents) * len(study.mixes.shares) * (1 + len(study.options.vary))
    if study.dynamic is not None and work > MAX_WORK:
        raise UsageError(
            "--vary: so many changes of dynamic tiering would take long",
            hint="vary less, or take a larger --step, --extent or --window",
        )


def _changes(study: Study, vary: Vary, *, read: Read, on_step: Step) -> list[Change]:
    before = study.options
    capacity_bytes = study.capacity_extents * before.extent_bytes
    options = varied_options(before, vary, capacity_bytes=capacity_bytes)
    tiers, value = _tiers(study.tiers, vary)
    if vary.tier is None:
        value = float(getattr(options, vary.parameter))
    extents = study.extents
    if vary.parameter in ("extent_bytes", "window_s"):
        extents = read(options)
    _capacity, mixes = capacity_mixes(options, len(tiers), extents=extents)
    outcomes: dict[str, Outcome] = {}
    if vary.parameter not in DYNAMIC_KEYS:
        shares = static_shares(tiers, extents.reads, writes=extents.writes, mixes=mixes)
        outcomes["static"] = static_outcome(tiers, mixes, shares=shares)
    moved = None
    if options.is_dynamic and vary in options.vary:
        moved = dynamic_tiering(options, tiers, extents=extents, mixes=mixes, on_step=on_step)
        outcomes["dynamic"] = moved.outcome
    found = []
    for method, found_outcome in outcomes.items():
        values = found_outcome.iops_per_price
        winner = best(values, mixes.shares[:, 0] > 0)
        without = best(values, mixes.shares[:, 0] == 0)
        pair = (float(values[winner]), float(values[without]))
        bytes_moved = None
        if moved is not None and method == "dynamic":
            promoted, demoted = moved.records[winner, -2:].tolist()
            bytes_moved = (promoted * options.extent_bytes, demoted * options.extent_bytes)
        found.append(Change(vary, method, value, winner, pair, bytes_moved))
    return found


def _tiers(tiers: Sequence[Tier], vary: Vary) -> tuple[list[Tier], float]:
    """Return the tiers with the change, and the changed value (0 for the system's)."""
    changed, value = list(tiers), 0.0
    for number, tier in enumerate(tiers):
        if tier.name == vary.tier:
            changed[number] = tier.changed(vary.parameter, vary.factor)
            value = getattr(changed[number], vary.parameter)
    return changed, value

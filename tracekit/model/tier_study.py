"""The computation behind `tracekit simulate tiers`: all mixes, static and dynamic, and the sweeps.

Static: the whole trace is known and each extent is placed once. Dynamic: nothing is known at first,
and after each window extents move within a bandwidth.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit._native.tiering import (
    MAX_SUMMED_TIERS,
    MAX_TIERS,
    MIN_TIERS,
    SHARE,
    Migration,
    Tiering,
)
from tracekit.arrow import Integers
from tracekit.errors import UsageError
from tracekit.model import tier_mixes
from tracekit.model.changes import Change, read_changes
from tracekit.model.tier_mixes import (
    LARGEST_REMAINDER,
    Extents,
    Mixes,
    Moving,
    Outcome,
    Tier,
    latencies_us,
)
from tracekit.model.what_if import RATE_KEYS, TIER_KEYS, WhatIf
from tracekit.units import BLOCK_BYTES, MIB, SECTOR_BYTES, format_size

# Of the whole system; all but the first two matter to dynamic tiering only.
COST_KEYS = ("migration_cost", "promotion_cost", "demotion_cost")
SYSTEM_KEYS = ("extent_bytes", "capacity_bytes", "window_s", "migration_mib_s", *COST_KEYS)
DYNAMIC_KEYS = SYSTEM_KEYS[2:]
VARY_KEYS = TIER_KEYS + RATE_KEYS
HINT = "such as ssd-pcm.read_latency_us=0.25,4 or extent_bytes=0.5,2"
MIN_EXTENT_BYTES = 1 << 16
MAX_EXTENT_BYTES = 1 << 49
# Work of dynamic tiering, in extents looked at: one core does 50 million a second.
MAX_WORK = 30_000_000_000
CHUNK_WORK = 20_000_000
# Work of the loop that more than four tiers need: two minutes on one core.
MAX_LOOP_WORK = 10_000_000_000
STEPS = 4
Step = Callable[[str, int, int], None]


@dataclass(frozen=True)
class TierOptions:
    """What the user chose."""

    extent_bytes: int = 1 << 30
    tiers: tuple[str, ...] = ()  # fast to slow; empty: the what-if's, else the study's
    step_percent: int = 1
    amount: str = "bytes"
    rounding: str = LARGEST_REMAINDER
    capacity_bytes: int | None = None  # of the system; None: what the trace touched
    is_dynamic: bool = False
    window_s: float = 7200.0
    migration_mib_s: float = 41.0
    charges_migration: bool = False
    moves_by: str = "latency"  # of 4 KiB at a time, or the bandwidth of the tiers
    migration_cost: float = 1.0  # times the time of moving, where it is charged
    promotion_cost: float = 1.0  # times that, for moves to a faster tier
    demotion_cost: float = 1.0
    vary: tuple[Change, ...] = ()
    what_if: Path | None = None
    profiles: Path | None = None

    @property
    def window_ns(self) -> int:
        """Length of a window of dynamic tiering."""
        return round(self.window_s * 1e9)

    @property
    def window_moves(self) -> int:
        """How many extents can move in one window."""
        window_bytes = self.migration_mib_s * MIB * self.window_ns / 1e9
        return int(window_bytes // self.extent_bytes)

    def varied(self, change: Change, *, capacity_bytes: int | None = None) -> TierOptions:
        """Return the options with a parameter of the system changed; unchanged for one of a tier.

        `capacity_bytes` is the capacity that is used when none is given; without it the capacity
        of options that give none stays what the trace touched.
        """
        key, factor = change.parameter, change.factor
        if change.device is not None:
            return self
        if key == "extent_bytes":
            sectors = max(1, round(self.extent_bytes * factor / SECTOR_BYTES))
            return replace(self, extent_bytes=sectors * SECTOR_BYTES)
        if key == "capacity_bytes":
            given = self.capacity_bytes or capacity_bytes
            return replace(self, capacity_bytes=given and round(given * factor))
        return replace(self, **{key: getattr(self, key) * factor})


def check_options(options: TierOptions, names: Sequence[str]) -> None:
    """Raise UsageError for options that make no sense, before anything is read."""
    if not MIN_TIERS <= len(names) <= MAX_TIERS or len(set(names)) < len(names):
        raise UsageError(
            f"--tiers: {', '.join(names)} are not {MIN_TIERS} to {MAX_TIERS} different tiers",
            hint="name them from fast to slow, for example ssd-pcm,ssd-emlc,hdd-15k",
        )
    extent = options.extent_bytes
    if not MIN_EXTENT_BYTES <= extent <= MAX_EXTENT_BYTES or extent % SECTOR_BYTES:
        raise UsageError(
            f"--extent is {format_size(extent)}",
            hint="from 64KiB to 512TiB are possible, in whole sectors of 512 bytes",
        )
    if 100 % options.step_percent:
        raise UsageError(
            f"--step: 100% is no multiple of {options.step_percent}%",
            hint="take 1, 2, 4, 5, 10, 20, 25 or 50",
        )
    costs = {f"--{key.replace('_', '-')}": getattr(options, key) for key in COST_KEYS}
    limits = [("--window", options.window_s, 1e-3, 1e9)]
    limits += [("--migration", options.migration_mib_s, 1e-3, 1e9)]
    for name, value, least, most in limits + [(name, cost, 0, 1e6) for name, cost in costs.items()]:
        if not least <= value <= most:
            hint = f"from {least:g} to {most:.0f} are possible"
            raise UsageError(f"{name} is {value:g}", hint=hint)
    unused = [name for name, cost in costs.items() if cost != 1]
    unused += ["--move-by"] if options.moves_by == "bandwidth" else []
    if unused and not options.charges_migration:
        raise UsageError(
            f"{unused[0]} changes nothing while moving delays no request",
            hint="add --charge-migration",
        )
    _check_dynamic(options)


def _check_dynamic(options: TierOptions) -> None:
    for name, key in (("--window", "window_s"), ("--migration", "migration_mib_s")):
        if not options.is_dynamic and getattr(options, key) != getattr(TierOptions, key):
            raise UsageError(f"{name} is of dynamic tiering only", hint="add --dynamic")
    if options.is_dynamic and options.window_moves < 1:
        raise UsageError(
            f"no extent of {format_size(options.extent_bytes)} can move within a window at"
            f" {options.migration_mib_s:g} MiB/s",
            hint="take a smaller --extent, a longer --window or more --migration",
        )


def parse_vary(texts: Sequence[str]) -> tuple[Change, ...]:
    """Return the user's TIER.KEY=FACTOR,... and KEY=FACTOR,..., each once, in their order.

    UsageError names a key or factor that cannot be; whether the tier is one is `check_vary`'s.
    """
    known = f"a tier, a point and one of {', '.join(VARY_KEYS)}, or one of {', '.join(SYSTEM_KEYS)}"
    return read_changes(
        texts, lambda tier, key: key in (VARY_KEYS if tier else SYSTEM_KEYS), known=known, hint=HINT
    )


def check_vary(options: TierOptions, names: Sequence[str]) -> None:
    """Raise UsageError for a tier that is not in the mix, or a key that changes nothing."""
    for change in options.vary:
        if change.device is not None and change.device not in names:
            raise UsageError(
                f"--vary: '{change.device}' is not one of the tiers",
                hint=f"they are {', '.join(names)}",
            )
        if change.parameter in DYNAMIC_KEYS and not options.is_dynamic:
            raise UsageError(
                f"--vary: {change.parameter} changes dynamic tiering only", hint="add --dynamic"
            )
        if change.parameter in COST_KEYS and not options.charges_migration:
            raise UsageError(
                f"--vary: {change.parameter} changes nothing while moving delays no request",
                hint="add --charge-migration",
            )
        check_options(options.varied(change), names)


def check_rates(options: TierOptions, tiers: Sequence[Tier]) -> None:
    """Raise UsageError where a bandwidth that is changed, or needed to move extents, is unknown."""
    is_needed = options.charges_migration and options.moves_by == "bandwidth"
    wanted = {(change.device, change.parameter) for change in options.vary}
    for tier in tiers:
        for key in RATE_KEYS:
            if getattr(tier, key) is None and (is_needed or (tier.name, key) in wanted):
                raise UsageError(
                    f"the tier '{tier.name}' has no {key}",
                    hint=f"give it in the what-if's [devices.{tier.name}], or what it is like",
                )


@dataclass(frozen=True)
class ChangedOutcome:
    """One point of the sensitivity sweeps: a changed parameter, and what is best then."""

    change: Change
    method: str
    value: float
    with_first: int  # index of the best mix with some of the first tier
    iops_per_price: tuple[float, float]  # of that mix, and of the best without the first tier
    moved_bytes: tuple[int, int] | None  # promoted and demoted with that mix, dynamic


@dataclass(frozen=True)
class Study:
    """What every mix of some tiers gives under the traffic of some extents."""

    options: TierOptions
    tiers: Sequence[Tier]
    extents: Extents
    capacity_extents: int
    mixes: Mixes
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)  # by method: static, dynamic
    shares: NDArray[np.void] = field(default_factory=lambda: np.zeros(0, SHARE))  # static
    # Those of `native.tiering.Migration`, dynamic.
    records: Integers = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    currency: str = ""
    changes: Sequence[ChangedOutcome] = ()

    @property
    def mix_work(self) -> int:
        """The work of dynamic tiering for one mix, in extents looked at."""
        windows = self.extents.windows
        return len(windows.extent) + (len(windows.first_item) - 1) * len(self.extents.number)

    @property
    def moving(self) -> Moving | None:
        """What moving one extent costs, None unless moves are charged.

        Traffic in bytes stands for 4 KiB at a time, so a time of moving counts once for each byte
        of 4 KiB. Every tier must have its bandwidths where these say how long a move takes.
        """
        options = self.options
        if not options.charges_migration:
            return None
        units = 1.0 if options.amount == "requests" else float(BLOCK_BYTES)
        if options.moves_by == "latency":
            times_us = latencies_us(self.tiers) * (options.extent_bytes / BLOCK_BYTES)
        else:
            rates = [
                (one.read_mib_s or math.inf, one.write_mib_s or math.inf) for one in self.tiers
            ]
            times_us = tier_mixes.transfer_time_us(options.extent_bytes, 1.0) / np.array(rates)
        read, write = (times_us * units * options.migration_cost).T
        return Moving(read, write, options.promotion_cost, options.demotion_cost)

    def migration(self) -> Migration:
        """Return the dynamic model, to be closed by the caller."""
        return Migration(
            latencies_us(self.tiers),
            self.extents.windows,
            extent_count=len(self.extents.number),
            window_moves=self.options.window_moves,
        )

    def placement(self, mix: int) -> NDArray[np.uint8]:
        """Return the tier of each extent in one mix, static."""
        extents = self.extents
        with Tiering(latencies_us(self.tiers), extents.reads, writes=extents.writes) as model:
            return model.place(self.mixes.places[mix, :-1])


def make_study(
    options: TierOptions, what_if: WhatIf, *, tiers: Sequence[Tier], extents: Extents, on_step: Step
) -> Study:
    """Evaluate every mix; UsageError when that is too much work or the capacity too small."""
    on_step("every mix, static", 1, STEPS)
    study = replace(_new_study(options, tiers, extents), currency=what_if.currency)
    sweeps = len(tiers) * len(TIER_KEYS) * len(what_if.factors) + len(options.vary)
    work = len(study.mixes.shares) * len(extents.number) * (1 + sweeps)
    # With more tiers mixes are not looked up in sums.
    if len(tiers) > MAX_SUMMED_TIERS and work > MAX_LOOP_WORK:
        raise UsageError(
            f"{len(tiers)} tiers with so many mixes and extents would take long",
            hint="take a larger --step or --extent, or at most four tiers",
        )
    study = _static(study)
    return _dynamic(study, on_step) if options.is_dynamic else study


def _new_study(options: TierOptions, tiers: Sequence[Tier], extents: Extents) -> Study:
    """Return all mixes, not evaluated; UsageError when the capacity is too small."""
    touched = capacity = len(extents.number)
    if options.capacity_bytes is not None:
        capacity = options.capacity_bytes // options.extent_bytes
        if not touched <= capacity < 1 << 31:
            raise UsageError(
                f"--capacity holds {capacity:,} extents, the trace touches {touched:,}",
                hint="leave it out for exactly what the trace touched",
            )
    mixes = tier_mixes.all_mixes(
        len(tiers), step_percent=options.step_percent, extents=capacity, rounding=options.rounding
    )
    return Study(options, tiers, extents, capacity, mixes)


def _static(study: Study) -> Study:
    tiers, extents, mixes = study.tiers, study.extents, study.mixes
    shares = tier_mixes.static_shares(tiers, extents.reads, writes=extents.writes, mixes=mixes)
    outcome = tier_mixes.static_outcome(tiers, mixes, shares=shares)
    return replace(study, shares=shares, outcomes={"static": outcome})


def _dynamic(study: Study, on_step: Step) -> Study:
    """Add what every mix gives when extents move; UsageError when that is too much work."""
    extents, mixes, count = study.extents, study.mixes, len(study.mixes.shares)
    if study.mix_work * count > MAX_WORK:
        raise UsageError(
            f"{count:,} mixes of {len(extents.number):,} extents in"
            f" {len(extents.windows.first_item) - 1:,} windows would take long",
            hint="take a larger --step, --extent or --window",
        )
    # In parts, so that all cores work, progress is shown and Ctrl-C ends it.
    chunk = max(1, CHUNK_WORK // study.mix_work)
    chunks = [mixes.places[first : first + chunk] for first in range(0, count, chunk)]
    parts = []
    with study.migration() as model, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for part in pool.map(model.totals, chunks):
            parts.append(part)
            on_step(f"{len(parts) / len(chunks):.0%} of the mixes, dynamic", 2, STEPS)
    records = np.concatenate(parts)
    latency_us = tier_mixes.dynamic_latency_us(study.tiers, records, moving=study.moving)
    outcome = tier_mixes.outcome(study.tiers, mixes, latency_us=latency_us)
    return replace(study, records=records, outcomes={**study.outcomes, "dynamic": outcome})


Read = Callable[[TierOptions], Extents]


def sweeps(
    study: Study, factors: Sequence[float], *, read: Read, on_step: Step
) -> list[ChangedOutcome]:
    """Return the best mixes under each change, of each method that it concerns.

    The what-if's `factors` are static; what the user varies is also dynamic where that was asked
    for. `read` gives the traffic for other extents or windows. UsageError for too much work.
    """
    vary = study.options.vary
    work = study.mix_work * len(study.mixes.shares) * (1 + len(vary))
    if "dynamic" in study.outcomes and work > MAX_WORK:
        raise UsageError(
            "--vary: so many changes of dynamic tiering would take long",
            hint="vary less, or take a larger --step, --extent or --window",
        )
    usual = [
        Change(tier.name, key, factor)
        for tier in study.tiers
        for key in TIER_KEYS
        for factor in factors
    ]
    wanted = dict.fromkeys([*usual, *vary])
    return [one for change in wanted for one in _changed(study, change, read, on_step)]


def _changed(study: Study, change: Change, read: Read, on_step: Step) -> Iterator[ChangedOutcome]:
    """Yield what is best with the change, by method."""
    options = study.options.varied(
        change, capacity_bytes=study.capacity_extents * study.options.extent_bytes
    )
    key, is_varied = change.parameter, change in options.vary
    tiers = [
        tier.changed(key, change.factor) if tier.name == change.device else tier
        for tier in study.tiers
    ]
    owner = next((tier for tier in tiers if tier.name == change.device), options)
    extents = read(options) if key in ("extent_bytes", "window_s") else study.extents
    changed = _new_study(options, tiers, extents)
    if key not in DYNAMIC_KEYS:
        changed = _static(changed)
    if options.is_dynamic and is_varied:
        changed = _dynamic(changed, on_step)
    for method, outcome in changed.outcomes.items():
        values, mixes = outcome.iops_per_price, changed.mixes
        winner, without = mixes.best(values, first=True), mixes.best(values, first=False)
        pair = (float(values[winner]), float(values[without]))
        moved = None
        if method == "dynamic":
            promoted, demoted = changed.records[winner, -2:].tolist()
            moved = (promoted * options.extent_bytes, demoted * options.extent_bytes)
        value = float(getattr(owner, key))
        yield ChangedOutcome(change, method, value, winner, pair, moved)

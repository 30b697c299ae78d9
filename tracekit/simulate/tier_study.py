"""The computation behind `tracekit simulate tiers`: all mixes, static and dynamic, and the sweeps.

Static: the whole trace is known and each extent is placed once. Dynamic: nothing is known at first,
and after each window extents move within a bandwidth.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import UsageError
from tracekit.native.tiering import MAX_SUMMED_TIERS, Migration, Tiering
from tracekit.simulate.extents import Extents
from tracekit.simulate.mixes import (
    Mixes,
    Moving,
    Outcome,
    Tier,
    all_mixes,
    dynamic_latency_us,
    latencies_us,
    outcome,
    static_outcome,
    static_shares,
    transfer_time_us,
)
from tracekit.simulate.tier_vary import Vary
from tracekit.simulate.what_if import TIER_KEYS, WhatIf

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIB = 1 << 20
BLOCK_BYTES = 4096
# Work of dynamic tiering, in extents looked at: one core does 50 million a second.
MAX_WORK = 30_000_000_000
CHUNK_WORK = 20_000_000
# Work of the loop that more than four tiers need: two minutes on one core.
MAX_LOOP_WORK = 10_000_000_000


@dataclass(frozen=True)
class Options:
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
    records: NDArray[np.int64]


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

    options: Options
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
STEPS = 4


def make_study(
    options: Options, what_if: WhatIf, *, tiers: Sequence[Tier], extents: Extents, on_step: Step
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


def capacity_mixes(options: Options, tier_count: int, *, extents: Extents) -> tuple[int, Mixes]:
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
        tier_count,
        step_percent=options.step_percent,
        extents=capacity,
        rounding=options.rounding,
    )


def _check_loop(tier_count: int, work: int) -> None:
    """Raise UsageError when mixes that are not looked up in sums would take too long."""
    if tier_count > MAX_SUMMED_TIERS and work > MAX_LOOP_WORK:
        raise UsageError(
            f"{tier_count} tiers with so many mixes and extents would take long",
            hint="take a larger --step or --extent, or at most four tiers",
        )


def moving(options: Options, tiers: Sequence[Tier]) -> Moving | None:
    """Return what moving one extent costs, None unless moves are charged.

    Traffic in bytes stands for 4 KiB at a time, so a time of moving counts once for each byte of
    4 KiB. Every tier must have its bandwidths where these say how long a move takes.
    """
    import numpy as np

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


def window_moves(options: Options) -> int:
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


def _migration(options: Options, tiers: Sequence[Tier], extents: Extents) -> Migration:
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
    options: Options, tiers: Sequence[Tier], *, extents: Extents, mixes: Mixes, on_step: Step
) -> Dynamic:
    """Return what every mix gives when extents move; UsageError when that is too much work."""
    import numpy as np

    work_each = dynamic_work(extents)
    count = len(mixes.shares)
    if work_each * count > MAX_WORK:
        raise UsageError(
            f"{count:,} mixes of {len(extents.number):,} extents in"
            f" {len(extents.windows.first_item) - 1:,} windows would take long",
            hint="take a larger --step, --extent or --window",
        )
    # In parts, so that all cores work, progress is seen and Ctrl-C is heard.
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

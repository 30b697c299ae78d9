"""What is best when one parameter of tiering is another: the what-if's factors, and `--vary`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tracekit.errors import UsageError
from tracekit.schema import SECTOR_BYTES
from tracekit.simulate.extents import Extents
from tracekit.simulate.mixes import Outcome, Tier, best, static_outcome, static_shares
from tracekit.simulate.tier_study import (
    MAX_WORK,
    Change,
    Options,
    Step,
    Study,
    capacity_mixes,
    dynamic_tiering,
    dynamic_work,
)
from tracekit.simulate.tier_vary import COST_KEYS, DYNAMIC_KEYS, Vary
from tracekit.simulate.what_if import TIER_KEYS

Read = Callable[[Options], Extents]


def varied_options(options: Options, vary: Vary, *, capacity_bytes: int | None = None) -> Options:
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
    asked = study.options.vary
    usual = [
        Vary(tier.name, key, factor)
        for tier in study.tiers
        for key in TIER_KEYS
        for factor in study.what_if.factors
    ]
    wanted = list(dict.fromkeys([*usual, *asked]))
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
    for method, outcome in outcomes.items():
        values = outcome.iops_per_price
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

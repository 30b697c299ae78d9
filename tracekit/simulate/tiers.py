"""What mixes of storage tiers give for their price (study B, section 4): the whole command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tracekit.errors import UsageError
from tracekit.native.tiering import MAX_TIERS, MIN_TIERS
from tracekit.profiles import load_profiles
from tracekit.schema import SECTOR_BYTES
from tracekit.simulate.extents import Extents, read_extents
from tracekit.simulate.tier_answer import answer
from tracekit.simulate.tier_study import STEPS, Options, Step, make_study, window_moves
from tracekit.simulate.tier_sweeps import sweeps, varied_options
from tracekit.simulate.tier_tables import NAMES, tables
from tracekit.simulate.tier_vary import COST_KEYS, check_rates, check_vary
from tracekit.simulate.what_if import choose_tiers, read_what_if
from tracekit.sizes import format_size
from tracekit.store import TraceFolder, write_json, write_table

STUDY_TIERS = ("ssd-pcm", "ssd-emlc", "hdd-15k")
MIN_EXTENT_BYTES = 1 << 16
MAX_EXTENT_BYTES = 1 << 49
RESULT = "simulations/tiers.json"


def _silent(_name: str, _number: int, _total: int) -> None:
    """Tell nobody of a step."""


def simulate_tiers(
    folder: TraceFolder, options: Options, *, on_step: Step = _silent
) -> dict[str, Any]:
    """Write simulations/tiers*.parquet and tiers.json; return the latter's content.

    Tables of an earlier run that this one does not make are removed.
    """
    what_if = read_what_if(options.what_if, load_profiles(options.profiles))
    names = options.tiers or what_if.tiers or STUDY_TIERS
    _check(options, names)
    check_vary(
        options.vary,
        names,
        is_dynamic=options.is_dynamic,
        charges_migration=options.charges_migration,
    )
    for vary in options.vary:
        _check(varied_options(options, vary), names)
    tiers = choose_tiers(names, what_if, own_profiles=options.profiles)
    by_rate = options.charges_migration and options.moves_by == "bandwidth"
    check_rates(tiers, options.vary, is_needed=by_rate)
    on_step("traffic of each extent", 0, STEPS)
    extents = _read(folder, options)
    study = make_study(options, what_if, tiers=tiers, extents=extents, on_step=on_step)
    on_step("sensitivity", 3, STEPS)
    changes = sweeps(study, read=lambda other: _read(folder, other), on_step=on_step)
    study = replace(study, changes=changes)
    result = answer(study)
    made = tables(study, result)
    (folder.path / "simulations").mkdir(exist_ok=True)
    for name in NAMES:
        if name in made:
            write_table(folder.table(f"simulations/{name}"), made[name])
        else:
            folder.table(f"simulations/{name}").unlink(missing_ok=True)
    write_json(folder.path / RESULT, result)
    return result


def _read(folder: TraceFolder, options: Options) -> Extents:
    return read_extents(
        folder,
        extent_bytes=options.extent_bytes,
        window_ns=options.window_ns if options.is_dynamic else None,
        amount=options.amount,
    )


def _check(options: Options, names: Sequence[str]) -> None:
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
            f"--step: 100 % is no multiple of {options.step_percent} %",
            hint="take 1, 2, 4, 5, 10, 20, 25 or 50",
        )
    for name, value in (("--window", options.window_s), ("--migration", options.migration_mib_s)):
        if not 0.001 <= value <= 1e9:
            raise UsageError(f"{name} is {value:g}", hint="from 0.001 to 1000000000 are possible")
    _check_moving(options)
    if options.is_dynamic and window_moves(options) < 1:
        raise UsageError(
            f"no extent of {format_size(extent)} can move within a window at"
            f" {options.migration_mib_s:g} MiB/s",
            hint="take a smaller --extent, a longer --window or more --migration",
        )


def _check_moving(options: Options) -> None:
    for key in COST_KEYS:
        cost = getattr(options, key)
        if not 0 <= cost <= 1e6:
            raise UsageError(
                f"--{key.replace('_', '-')} is {cost:g}", hint="from 0 to 1000000 are possible"
            )
        if cost != 1 and not options.charges_migration:
            raise UsageError(
                f"--{key.replace('_', '-')} changes nothing while moving delays no request",
                hint="add --charge-migration",
            )
    if options.moves_by == "bandwidth" and not options.charges_migration:
        raise UsageError(
            "--move-by changes nothing while moving delays no request",
            hint="add --charge-migration",
        )

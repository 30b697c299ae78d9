"""What mixes of storage tiers give for their price (study B, section 4): the whole command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import UNSET, UnsetType, to_builtins
from numpy.typing import NDArray

from tracekit._native.tiering import MAX_TIERS, MIN_TIERS, TIER_VALUES
from tracekit.arrow import Integers
from tracekit.devices import load_profiles
from tracekit.errors import UsageError
from tracekit.metadata import Record
from tracekit.model.tier_mixes import (
    Extents,
    Mixes,
    Outcome,
    Tier,
    best,
    dynamic_latency_us,
    read_extents,
)
from tracekit.model.tier_study import (
    COST_KEYS,
    STEPS,
    Step,
    Study,
    TierOptions,
    check_rates,
    check_vary,
    make_study,
    migration,
    moving,
    placement,
    sweeps,
    varied_options,
    window_moves,
)
from tracekit.model.what_if import choose_tiers, read_what_if
from tracekit.store import TraceFolder, write_results
from tracekit.tables import (
    ROLES,
    TIERS,
    TIERS_EXTENTS,
    TIERS_KEY,
    TIERS_SENSITIVITY,
    TIERS_SKEW,
    TIERS_WINDOWS,
)
from tracekit.units import SECTOR_BYTES, format_size

NAMES = ("tiers", "tiers_key", "tiers_extents", "tiers_skew", "tiers_sensitivity", "tiers_windows")
SKEW_POINTS = 200
STUDY_TIERS = ("ssd-pcm", "ssd-emlc", "hdd-15k")
MIN_EXTENT_BYTES = 1 << 16
MAX_EXTENT_BYTES = 1 << 49
RESULT = "simulations/tiers.json"


class Configuration(Record):
    """One mix worth naming; moved bytes only where extents move."""

    index: int
    mix: str
    share_ratio: dict[str, float]
    price_per_gb: float
    price_total: float
    latency_avg_ns: float
    iops: float
    iops_per_price: float
    promoted_bytes: int | UnsetType = UNSET
    demoted_bytes: int | UnsetType = UNSET


Configurations = dict[str, dict[str, Configuration]]
"""Configurations by method (static or dynamic) and name."""


class TiersResult(Record):
    """The content of simulations/tiers.json, as docs/design.md describes it."""

    headline: list[str]
    tiers: list[Tier]
    price_unit: str
    extent_bytes: int
    extents: int
    capacity_extents: int
    amount: str
    reads: int
    writes: int
    step_ratio: float
    rounding: str
    mixes: int
    window_ns: int | None
    windows: int | None
    migration_mib_s: float | None
    window_moves: int | None
    charges_migration: bool | None
    configurations: Configurations
    left_out: dict[str, int]
    assumptions: list[str]


def answer(study: Study) -> TiersResult:
    """Return what mixes give; windows and moves are None without dynamic tiering."""
    options, is_dynamic = study.options, study.dynamic is not None
    methods = {name: configurations(study, outcome) for name, outcome in outcomes(study).items()}
    if study.dynamic is not None:
        for one in methods["dynamic"].values():
            moved = study.dynamic.records[one.index, -2:] * options.extent_bytes
            one.promoted_bytes, one.demoted_bytes = moved.tolist()
    return TiersResult(
        headline=_headline(study, methods),
        tiers=list(study.tiers),
        price_unit=price_unit(study),
        extent_bytes=options.extent_bytes,
        extents=len(study.extents.number),
        capacity_extents=study.capacity_extents,
        amount=options.amount,
        reads=int(study.extents.reads.sum()),
        writes=int(study.extents.writes.sum()),
        step_ratio=options.step_percent / 100,
        rounding=options.rounding,
        mixes=len(study.mixes.shares),
        window_ns=options.window_ns if is_dynamic else None,
        windows=len(study.extents.window_numbers) if is_dynamic else None,
        migration_mib_s=options.migration_mib_s if is_dynamic else None,
        window_moves=window_moves(options) if is_dynamic else None,
        charges_migration=options.charges_migration if is_dynamic else None,
        configurations=methods,
        left_out=study.extents.left_out,
        assumptions=_assumptions(study),
    )


def outcomes(study: Study) -> dict[str, Outcome]:
    """Return the outcome of each method that was computed."""
    found = {"static": study.static}
    if study.dynamic is not None:
        found["dynamic"] = study.dynamic.outcome
    return found


def price_unit(study: Study) -> str:
    """Return what a price of 1 means."""
    return f"{study.what_if.currency} per GB" if study.what_if.currency else "relative"


def configurations(study: Study, outcome: Outcome) -> dict[str, Configuration]:
    """Return the mixes worth naming: each tier alone, the best, and the best without the first."""
    shares = study.mixes.shares
    indices = {f"all {tier.name}": _pure(shares, number) for number, tier in enumerate(study.tiers)}
    first = study.tiers[0].name
    values = outcome.iops_per_price
    indices["best"] = best(values)
    indices[f"best without {first}"] = best(values, shares[:, 0] == 0)
    indices[f"best with {first}"] = best(values, shares[:, 0] > 0)
    return {name: _configuration(study, outcome, index) for name, index in indices.items()}


def mix_text(tiers: Sequence[Tier], mixes: Mixes, *, index: int) -> str:
    """Write the shares of one mix: 13 % ssd-pcm, 84 % ssd-emlc, 3 % hdd-15k."""
    step = 100 / mixes.parts
    pairs = zip(tiers, mixes.shares[index].tolist(), strict=True)
    return ", ".join(f"{share * step:g} % {tier.name}" for tier, share in pairs if share)


def _pure(shares: Integers, tier: int) -> int:
    return int(np.argmax(shares[:, tier]))


def _configuration(study: Study, outcome: Outcome, index: int) -> Configuration:
    names = [tier.name for tier in study.tiers]
    price = float(outcome.price_per_gb[index])
    capacity_gb = study.capacity_extents * study.options.extent_bytes / 1e9
    return Configuration(
        index=index,
        mix=mix_text(study.tiers, study.mixes, index=index),
        share_ratio=dict(zip(names, study.mixes.ratios()[index].tolist(), strict=True)),
        price_per_gb=price,
        price_total=price * capacity_gb,
        latency_avg_ns=float(outcome.latency_us[index]) * 1e3,
        iops=float(outcome.iops[index]),
        iops_per_price=float(outcome.iops_per_price[index]),
    )


def _headline(study: Study, methods: Configurations) -> list[str]:
    first = study.tiers[0].name
    currency = study.what_if.currency
    unit = f"IOPS per {currency}/GB" if currency else "IOPS per unit of price"
    lines = []
    for method, named in methods.items():
        without, with_first = named[f"best without {first}"], named[f"best with {first}"]
        gain = with_first.iops_per_price / without.iops_per_price - 1
        word = "gain" if gain >= 0 else "loss"
        begin = method.capitalize()
        lines += [
            f"{begin}: without {first} the best mix is {_sentence(without, unit)}.",
            f"{begin}: with {first} it is {_sentence(with_first, unit)},"
            f" a {word} of {abs(gain) * 100:.1f} %.",
        ]
        promoted, demoted = with_first.promoted_bytes, with_first.demoted_bytes
        if promoted is not UNSET and demoted is not UNSET:
            lines.append(
                f"{begin}: that mix moves {format_size(promoted)} to faster tiers and"
                f" {format_size(demoted)} to slower ones."
            )
    return lines


def _sentence(one: Configuration, unit: str) -> str:
    latency_us = one.latency_avg_ns / 1e3
    return f"{one.mix}: {one.iops_per_price:,.1f} {unit}, {latency_us:,.1f} us on average"


def _assumptions(study: Study) -> list[str]:
    """Return what the study leaves open and how it was decided."""
    options = study.options
    counted = {
        "bytes": "traffic is counted in bytes, each 4 KiB at the latency of 4 KiB",
        "requests": "each request counts once, whatever its length, where it begins",
    }[options.amount]
    base = "what the trace touched" if options.capacity_bytes is None else "as given"
    found = [
        f"{counted}; requests as they were queued",
        f"the capacity is {base}: {study.capacity_extents:,} extents of"
        f" {format_size(options.extent_bytes)}; shares are rounded by {options.rounding}, the rest"
        f" is {study.tiers[-1].name}",
        "static: the whole trace is known, each extent is placed once (Algorithm 1 of the study)",
    ]
    if study.dynamic is not None:
        cost = "delays no request"
        if options.charges_migration:
            how = {"latency": "4 KiB at a time", "bandwidth": "at the tiers' bandwidths"}
            cost = f"is charged to the requests, {how[options.moves_by]}"
        found.append(
            f"dynamic: extents begin on the slowest tier, in the order of their addresses, as far"
            f" as they fit; after each window up to {window_moves(options):,} extents move; moving"
            f" {cost}"
        )
    impossible = study.extents.left_out.get("impossible", 0)
    if impossible:
        found.append(f"left out: {impossible:,} requests with a place or length that no disk has")
    return found


def tables(study: Study, result: TiersResult) -> dict[str, Any]:
    """Return the Arrow tables by name; tiers_windows only of dynamic tiering."""
    made = {
        "tiers": _mixes(study),
        "tiers_key": _key(result),
        "tiers_extents": _extents(study, result.configurations["static"]["best"].index),
        "tiers_skew": _skew(study),
        "tiers_sensitivity": _sensitivity(study),
    }
    if study.dynamic is not None:
        made["tiers_windows"] = _windows(study, result.configurations["dynamic"])
    return made


def _table(schema: Any, columns: Sequence[Any]) -> Any:
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _lists(values: NDArray[Any]) -> Any:
    """Return an Arrow column with the rows of a matrix as lists."""
    rows, width = values.shape
    offsets = pa.array(np.arange(0, rows * width + 1, width, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values).ravel()))


def _mixes(study: Study) -> Any:
    static, dynamic = study.static, study.dynamic
    moved: list[Any] = [[None] * len(study.mixes.shares)] * 4
    if dynamic is not None:
        extent_bytes = study.options.extent_bytes
        moved = [
            dynamic.outcome.latency_us * 1e3,
            dynamic.outcome.iops_per_price,
            dynamic.records[:, -2] * extent_bytes,
            dynamic.records[:, -1] * extent_bytes,
        ]
    return _table(
        TIERS,
        [
            _lists(study.mixes.ratios()),
            _lists(study.shares["extents"]),
            static.price_per_gb,
            static.latency_us * 1e3,
            static.iops,
            static.iops_per_price,
            *moved,
        ],
    )


def _key(result: TiersResult) -> Any:
    rows = [
        {"configuration": name, "method": method}
        | to_builtins(one)
        | {"share_ratio": list(one.share_ratio.values())}
        for method, named in result.configurations.items()
        for name, one in named.items()
    ]
    return pa.Table.from_pylist(rows, TIERS_KEY)


def _extents(study: Study, mix: int) -> Any:
    extents = study.extents
    sectors = study.options.extent_bytes // SECTOR_BYTES
    names = np.array([tier.name for tier in study.tiers], object)
    devices = np.array(extents.devices, object)
    return _table(
        TIERS_EXTENTS,
        [
            devices[extents.device],
            extents.number,
            extents.number * sectors,
            extents.reads,
            extents.writes,
            names[placement(study, mix)],
        ],
    )


def _skew(study: Study) -> Any:
    extents = study.extents
    curves = {("all", "read"): extents.reads, ("all", "write"): extents.writes}
    for number, role in enumerate(ROLES):
        is_own = (extents.role_reads[number] > 0) | (extents.role_writes[number] > 0)
        if is_own.any():
            curves[role, "read"] = extents.role_reads[number][is_own]
            curves[role, "write"] = extents.role_writes[number][is_own]
    rows = [
        {"role": role, "operation": operation, **point}
        for (role, operation), amounts in curves.items()
        for point in _curve(amounts)
    ]
    return pa.Table.from_pylist(rows, TIERS_SKEW)


def _curve(amounts: Integers) -> list[dict[str, Any]]:
    """Return about SKEW_POINTS points of the share that the busiest extents take."""
    total = int(amounts.sum())
    if not total:
        return []
    taken = np.sort(amounts)[::-1].cumsum()
    count = len(amounts)
    places = np.unique(np.linspace(1, count, min(count, SKEW_POINTS)).round().astype(int))
    return [
        {
            "extent_count": place,
            "capacity_ratio": place / count,
            "traffic_ratio": int(taken[place - 1]) / total,
        }
        for place in places.tolist()
    ]


def _sensitivity(study: Study) -> Any:
    ratios = study.mixes.ratios()
    rows = [
        {
            "tier": change.vary.tier,
            "parameter": change.vary.parameter,
            "factor": change.vary.factor,
            "value": change.value,
            "method": change.method,
            "mix": mix_text(study.tiers, study.mixes, index=change.with_first),
            "share_ratio": ratios[change.with_first].tolist(),
            "iops_per_price": with_first,
            "without_iops_per_price": without,
            "gain_ratio": with_first / without - 1,
            "promoted_bytes": change.moved_bytes and change.moved_bytes[0],
            "demoted_bytes": change.moved_bytes and change.moved_bytes[1],
        }
        for change in study.changes
        for with_first, without in [change.iops_per_price]
    ]
    return pa.Table.from_pylist(rows, TIERS_SENSITIVITY)


def _windows(study: Study, configurations: Mapping[str, Configuration]) -> Any:
    """Return the windows of the best dynamic mix, and of the best without the first tier."""
    chosen = {name: one.index for name, one in configurations.items() if "best" in name}
    with migration(study) as model:
        parts = [
            _one_mix(study, name, model.windows(study.mixes.places[index]))
            for name, index in chosen.items()
        ]
    return pa.concat_tables(parts)


def _one_mix(study: Study, name: str, records: Integers) -> Any:
    width = TIER_VALUES * len(study.tiers)
    latency_us = dynamic_latency_us(study.tiers, records, moving=moving(study.options, study.tiers))
    moved_bytes = records[:, -2:] * study.options.extent_bytes
    return _table(
        TIERS_WINDOWS,
        [
            [name] * len(records),
            study.extents.window_numbers * study.options.window_ns,
            _lists(records[:, 0:width:TIER_VALUES]),
            _lists(records[:, 1:width:TIER_VALUES]),
            latency_us * 1e3,
            moved_bytes[:, 0],
            moved_bytes[:, 1],
        ],
    )


def simulate_tiers(
    folder: TraceFolder, options: TierOptions, *, on_step: Step = lambda *_: None
) -> TiersResult:
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
    for name in NAMES:
        if name not in made:
            folder.table(f"simulations/{name}").unlink(missing_ok=True)
    places = {f"simulations/{name}": table for name, table in made.items()}
    write_results(folder, RESULT, result=result, tables=places)
    return result


def _read(folder: TraceFolder, options: TierOptions) -> Extents:
    return read_extents(
        folder,
        extent_bytes=options.extent_bytes,
        window_ns=options.window_ns if options.is_dynamic else None,
        amount=options.amount,
    )


def _check(options: TierOptions, names: Sequence[str]) -> None:
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


def _check_moving(options: TierOptions) -> None:
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

"""What mixes of storage tiers give for their price (study B, section 4): the whole command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import UNSET, UnsetType, to_builtins
from numpy.typing import NDArray

from tracekit import tables
from tracekit._native.tiering import TIER_VALUES
from tracekit.arrow import Integers
from tracekit.devices import load_profiles
from tracekit.errors import UsageError
from tracekit.metadata import Record
from tracekit.model.tier_mixes import (
    LARGEST_REMAINDER,
    Extents,
    Outcome,
    Tier,
    dynamic_latency_us,
    read_extents,
)
from tracekit.model.tier_study import (
    MIN_EXTENT_BYTES,
    STEPS,
    Step,
    Study,
    TierOptions,
    check_options,
    check_rates,
    check_vary,
    make_study,
    sweeps,
)
from tracekit.model.what_if import choose_tiers, read_what_if
from tracekit.store import TraceFolder, write_results
from tracekit.units import SECTOR_BYTES, format_duration, format_size

NAMES = ("tiers", "tiers_key", "tiers_extents", "tiers_skew", "tiers_sensitivity", "tiers_windows")
SKEW_POINTS = 200
STUDY_TIERS = ("ssd-pcm", "ssd-emlc", "hdd-15k")
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
    """The content of simulations/tiers.json, as docs/models.md describes it."""

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
    options, is_dynamic = study.options, "dynamic" in study.outcomes
    methods = {name: _configurations(study, outcome) for name, outcome in study.outcomes.items()}
    for one in methods.get("dynamic", {}).values():
        moved = study.records[one.index, -2:] * options.extent_bytes
        one.promoted_bytes, one.demoted_bytes = moved.tolist()
    return TiersResult(
        headline=_headline(study, methods),
        tiers=list(study.tiers),
        price_unit=f"{study.currency} per GB" if study.currency else "relative",
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
        window_moves=options.window_moves if is_dynamic else None,
        charges_migration=options.charges_migration if is_dynamic else None,
        configurations=methods,
        left_out=study.extents.left_out,
        assumptions=_assumptions(study),
    )


def _configurations(study: Study, outcome: Outcome) -> dict[str, Configuration]:
    """Return the mixes worth naming: each tier alone, the best, and the best without the first."""
    shares, values = study.mixes.shares, outcome.iops_per_price
    alone = shares.argmax(axis=0).tolist()
    indices = {f"all {tier.name}": alone[at] for at, tier in enumerate(study.tiers)}
    first = study.tiers[0].name
    indices["best"] = study.mixes.best(values)
    indices[f"best without {first}"] = study.mixes.best(values, first=False)
    indices[f"best with {first}"] = study.mixes.best(values, first=True)
    return {name: _configuration(study, outcome, index) for name, index in indices.items()}


def _mix_text(study: Study, index: int) -> str:
    """Write the shares of one mix: 13% ssd-pcm, 84% ssd-emlc, 3% hdd-15k."""
    pairs = zip(study.tiers, study.mixes.shares[index].tolist(), strict=True)
    step = 100 / study.mixes.parts
    return ", ".join(f"{share * step:g}% {tier.name}" for tier, share in pairs if share)


def _configuration(study: Study, outcome: Outcome, index: int) -> Configuration:
    names = [tier.name for tier in study.tiers]
    price = float(outcome.price_per_gb[index])
    capacity_gb = study.capacity_extents * study.options.extent_bytes / 1e9
    return Configuration(
        index=index,
        mix=_mix_text(study, index),
        share_ratio=dict(zip(names, study.mixes.ratios()[index].tolist(), strict=True)),
        price_per_gb=price,
        price_total=price * capacity_gb,
        latency_avg_ns=float(outcome.latency_us[index]) * 1e3,
        iops=float(outcome.iops[index]),
        iops_per_price=float(outcome.iops_per_price[index]),
    )


def _headline(study: Study, methods: Configurations) -> list[str]:
    first = study.tiers[0].name
    unit = f"IOPS per {study.currency}/GB" if study.currency else "IOPS per unit of price"
    lines = [*_too_few(study), *_one_window(study, methods)]
    for method, named in methods.items():
        without, with_first = named[f"best without {first}"], named[f"best with {first}"]
        gain = with_first.iops_per_price / without.iops_per_price - 1
        word = "gain" if gain >= 0 else "loss"
        begin = method.capitalize()
        lines += [
            f"{begin}: without {first} the best mix is {_sentence(without, unit)}.",
            f"{begin}: with {first} it is {_sentence(with_first, unit)},"
            f" a {word} of {abs(gain) * 100:.1f}%.",
        ]
        promoted, demoted = with_first.promoted_bytes, with_first.demoted_bytes
        if promoted is not UNSET and demoted is not UNSET:
            lines.append(
                f"{begin}: that mix moves {format_size(promoted)} to faster tiers and"
                f" {format_size(demoted)} to slower ones."
            )
    return lines


def _too_few(study: Study) -> Iterator[str]:
    """Yield that a step between mixes is less than an extent, and which extents would do."""
    count, size, parts = study.capacity_extents, study.options.extent_bytes, study.mixes.parts
    if count >= parts:
        return
    less = max(1 << (count * size // parts).bit_length() - 1, MIN_EXTENT_BYTES)
    hint = f"; take smaller ones, --extent {format_size(less).replace(' ', '')} or less"
    extents = "extent" if count == 1 else "extents"
    yield (
        f"The capacity is {count:,} {extents} of {format_size(size)}, too few for mixes in steps of"
        f" {100 // parts}%, which hold whole extents{hint if less < size else ''}."
    )


def _one_window(study: Study, methods: Configurations) -> Iterator[str]:
    """Yield that there is nothing to move by: extents move between windows."""
    if "dynamic" in methods and len(study.extents.window_numbers) < 2:
        yield (
            f"Dynamic: the whole trace is in one window of"
            f" {format_duration(study.options.window_ns)}, so nothing can move; take a shorter"
            " --window."
        )


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
    rest = f"the rest is {study.tiers[-1].name}"
    if options.rounding == LARGEST_REMAINDER:
        rest = "a mix holds at least one extent of each of its tiers and is paid for by extents"
    found = [
        f"{counted}; requests as they were queued",
        f"the capacity is {base}: {study.capacity_extents:,} extents of"
        f" {format_size(options.extent_bytes)}; shares are rounded by {options.rounding}, {rest}",
        "static: the whole trace is known, each extent is placed once (Algorithm 1 of the study)",
    ]
    if "dynamic" in study.outcomes:
        cost = "delays no request"
        if options.charges_migration:
            how = {"latency": "4 KiB at a time", "bandwidth": "at the tiers' bandwidths"}
            cost = f"is charged to the requests, {how[options.moves_by]}"
        found.append(
            f"dynamic: extents begin on the slowest tier, in the order of their addresses, as far"
            f" as they fit; after each window up to {options.window_moves:,} extents move; moving"
            f" {cost}"
        )
    impossible = study.extents.left_out.get("impossible", 0)
    if impossible:
        found.append(f"left out: {impossible:,} requests with a place or length that no disk has")
    return found


def _tables(study: Study, result: TiersResult) -> dict[str, Any]:
    """Return the Arrow tables by name; tiers_windows only of dynamic tiering."""
    made = {
        "tiers": _mixes(study),
        "tiers_key": _key(result),
        "tiers_extents": _extents(study, result.configurations["static"]["best"].index),
        "tiers_skew": _skew(study.extents),
        "tiers_sensitivity": _sensitivity(study),
    }
    if "dynamic" in study.outcomes:
        # Of the best dynamic mix, and of the best without the first tier.
        named = result.configurations["dynamic"].items()
        with study.migration() as model:
            windows = [
                _windows(study, name, model.windows(study.mixes.places[one.index]))
                for name, one in named
                if "best" in name
            ]
        made["tiers_windows"] = pa.concat_tables(windows)
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
    static, dynamic = study.outcomes["static"], study.outcomes.get("dynamic")
    moved: list[Any] = [[None] * len(study.mixes.shares)] * 4
    if dynamic is not None:
        moved_bytes = study.records[:, -2:] * study.options.extent_bytes
        moved = [dynamic.latency_us * 1e3, dynamic.iops_per_price, *moved_bytes.T]
    columns = [
        _lists(study.mixes.ratios()),
        _lists(study.shares["extents"]),
        static.price_per_gb,
        static.latency_us * 1e3,
        static.iops,
        static.iops_per_price,
    ]
    return _table(tables.TIERS, [*columns, *moved])


def _key(result: TiersResult) -> Any:
    rows = [
        {"configuration": name, "method": method}
        | to_builtins(one)
        | {"share_ratio": list(one.share_ratio.values())}
        for method, named in result.configurations.items()
        for name, one in named.items()
    ]
    return pa.Table.from_pylist(rows, tables.TIERS_KEY)


def _extents(study: Study, mix: int) -> Any:
    extents = study.extents
    names = np.array([tier.name for tier in study.tiers], object)
    columns = [
        np.array(extents.devices, object)[extents.device],
        extents.number,
        extents.number * (study.options.extent_bytes // SECTOR_BYTES),
        extents.reads,
        extents.writes,
        names[study.placement(mix)],
    ]
    return _table(tables.TIERS_EXTENTS, columns)


def _skew(extents: Extents) -> Any:
    traffic = {("all", "read"): extents.reads, ("all", "write"): extents.writes}
    for role, reads, writes in zip(
        tables.ROLES, extents.role_reads, extents.role_writes, strict=True
    ):
        is_own = (reads > 0) | (writes > 0)
        if is_own.any():
            traffic |= {(role, "read"): reads[is_own], (role, "write"): writes[is_own]}
    rows = [
        {"role": role, "operation": operation, **point}
        for (role, operation), amounts in traffic.items()
        for point in _curve(amounts)
    ]
    return pa.Table.from_pylist(rows, tables.TIERS_SKEW)


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
            "tier": one.change.device,
            "parameter": one.change.parameter,
            "factor": one.change.factor,
            "value": one.value,
            "method": one.method,
            "mix": _mix_text(study, one.with_first),
            "share_ratio": ratios[one.with_first].tolist(),
            "iops_per_price": one.iops_per_price[0],
            "without_iops_per_price": one.iops_per_price[1],
            "gain_ratio": one.iops_per_price[0] / one.iops_per_price[1] - 1,
            "promoted_bytes": one.moved_bytes and one.moved_bytes[0],
            "demoted_bytes": one.moved_bytes and one.moved_bytes[1],
        }
        for one in study.changes
    ]
    return pa.Table.from_pylist(rows, tables.TIERS_SENSITIVITY)


def _check_order(tiers: Sequence[Tier]) -> None:
    """Raise UsageError for tiers from slow to fast."""
    first, last = tiers[0], tiers[-1]
    if first.read_latency_us > last.read_latency_us and (
        first.write_latency_us > last.write_latency_us
    ):
        raise UsageError(
            f"--tiers: {first.name} is slower than {last.name}",
            hint="name the tiers from fast to slow",
        )


def _windows(study: Study, name: str, records: Integers) -> Any:
    """Return the windows of one mix."""
    width = TIER_VALUES * len(study.tiers)
    columns = [
        [name] * len(records),
        study.extents.window_numbers * study.options.window_ns,
        _lists(records[:, 0:width:TIER_VALUES]),
        _lists(records[:, 1:width:TIER_VALUES]),
        dynamic_latency_us(study.tiers, records, moving=study.moving) * 1e3,
        *(records[:, -2:] * study.options.extent_bytes).T,
    ]
    return _table(tables.TIERS_WINDOWS, columns)


def simulate_tiers(
    folder: TraceFolder, options: TierOptions, *, on_step: Step = lambda *_: None
) -> TiersResult:
    """Write simulations/tiers*.parquet and tiers.json; return the latter's content.

    Tables of an earlier run that this one does not make are removed.
    """
    folder.require_known(what="simulate tiers")
    what_if = read_what_if(options.what_if, load_profiles(options.profiles))
    names = options.tiers or what_if.tiers or STUDY_TIERS
    check_options(options, names)
    check_vary(options, names)
    tiers = choose_tiers(names, what_if, own_profiles=options.profiles)
    _check_order(tiers)
    check_rates(options, tiers)
    on_step("traffic of each extent", 0, STEPS)
    extents = _read(folder, options)
    study = make_study(options, what_if, tiers=tiers, extents=extents, on_step=on_step)
    on_step("sensitivity", 3, STEPS)
    changes = sweeps(
        study, what_if.factors, read=lambda other: _read(folder, other), on_step=on_step
    )
    study = replace(study, changes=changes)
    result = answer(study)
    made = _tables(study, result)
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

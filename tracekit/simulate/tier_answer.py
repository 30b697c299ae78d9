"""The answer of `tracekit simulate tiers`: the best mixes, what the first tier gains, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tracekit.simulate.mixes import Mixes, Outcome, Tier, best
from tracekit.simulate.tier_study import Dynamic, Study, window_moves
from tracekit.sizes import format_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

METHODS = ("static", "dynamic")


def answer(study: Study) -> dict[str, Any]:
    """Return the content of simulations/tiers.json, as docs/design.md describes it."""
    options = study.options
    methods = {name: configurations(study, outcome) for name, outcome in outcomes(study).items()}
    if study.dynamic is not None:
        for one in methods["dynamic"].values():
            one.update(_moved(study, study.dynamic, one["index"]))
    return {
        "headline": _headline(study, methods),
        "tiers": [asdict(tier) for tier in study.tiers],
        "price_unit": price_unit(study),
        "extent_bytes": options.extent_bytes,
        "extents": len(study.extents.number),
        "capacity_extents": study.capacity_extents,
        "amount": options.amount,
        "reads": int(study.extents.reads.sum()),
        "writes": int(study.extents.writes.sum()),
        "step_ratio": options.step_percent / 100,
        "rounding": options.rounding,
        "mixes": len(study.mixes.shares),
        "window_ns": options.window_ns if study.dynamic else None,
        "windows": len(study.extents.window_numbers) if study.dynamic else None,
        "migration_mib_s": options.migration_mib_s if study.dynamic else None,
        "window_moves": window_moves(options) if study.dynamic else None,
        "charges_migration": options.charges_migration if study.dynamic else None,
        "configurations": methods,
        "left_out": study.extents.left_out,
        "assumptions": _assumptions(study),
    }


def outcomes(study: Study) -> dict[str, Outcome]:
    """Return the outcome of each method that was computed."""
    found = {"static": study.static}
    if study.dynamic is not None:
        found["dynamic"] = study.dynamic.outcome
    return found


def price_unit(study: Study) -> str:
    """Return what a price of 1 means."""
    return f"{study.what_if.currency} per GB" if study.what_if.currency else "relative"


def configurations(study: Study, outcome: Outcome) -> dict[str, dict[str, Any]]:
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


def _pure(shares: NDArray[np.int64], tier: int) -> int:
    import numpy as np

    return int(np.argmax(shares[:, tier]))


def _configuration(study: Study, outcome: Outcome, index: int) -> dict[str, Any]:
    names = [tier.name for tier in study.tiers]
    price = float(outcome.price_per_gb[index])
    capacity_gb = study.capacity_extents * study.options.extent_bytes / 1e9
    return {
        "index": index,
        "mix": mix_text(study.tiers, study.mixes, index=index),
        "share_ratio": dict(zip(names, study.mixes.ratios()[index].tolist(), strict=True)),
        "price_per_gb": price,
        "price_total": price * capacity_gb,
        "latency_avg_ns": float(outcome.latency_us[index]) * 1e3,
        "iops": float(outcome.iops[index]),
        "iops_per_price": float(outcome.iops_per_price[index]),
    }


def _moved(study: Study, dynamic: Dynamic, mix: int) -> dict[str, int]:
    """Return the bytes that one mix moved in each direction."""
    promoted, demoted = dynamic.records[mix, -2:].tolist()
    extent_bytes = study.options.extent_bytes
    return {"promoted_bytes": promoted * extent_bytes, "demoted_bytes": demoted * extent_bytes}


def _headline(study: Study, methods: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    first = study.tiers[0].name
    currency = study.what_if.currency
    unit = f"IOPS per {currency}/GB" if currency else "IOPS per unit of price"
    lines = []
    for method, named in methods.items():
        without, with_first = named[f"best without {first}"], named[f"best with {first}"]
        gain = with_first["iops_per_price"] / without["iops_per_price"] - 1
        word = "gain" if gain >= 0 else "loss"
        begin = method.capitalize()
        lines += [
            f"{begin}: without {first} the best mix is {_sentence(without, unit)}.",
            f"{begin}: with {first} it is {_sentence(with_first, unit)},"
            f" a {word} of {abs(gain) * 100:.1f} %.",
        ]
        if "promoted_bytes" in with_first:
            lines.append(
                f"{begin}: that mix moves {format_size(with_first['promoted_bytes'])} to faster"
                f" tiers and {format_size(with_first['demoted_bytes'])} to slower ones."
            )
    return lines


def _sentence(one: dict[str, Any], unit: str) -> str:
    latency_us = one["latency_avg_ns"] / 1e3
    value = one["iops_per_price"]
    return f"{one['mix']}: {value:,.1f} {unit}, {latency_us:,.1f} us on average"


def _assumptions(study: Study) -> list[str]:
    """Say what the study leaves open and how it was decided."""
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

"""A what-if: a small TOML file of devices and prices, described in docs/what-if.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tracekit.devices import (
    KNOWN,
    Profile,
    checked_number,
    choose_profile,
    load_profiles,
    suggest,
)
from tracekit.errors import InputError
from tracekit.model.tier_mixes import Tier
from tracekit.toml_files import Place, check_keys, load_toml

AS_ASKED = "as asked"  # the name of the memory whose times are the options
KEYS = ("tiers", "currency", "factors", "price_per_gb", "endurance_cycles", "devices", "nvram")
TIER_KEYS = ("read_latency_us", "write_latency_us", "price_per_gb")
RATE_KEYS = ("read_mib_s", "write_mib_s")  # of a tier they may be missing
FACTORS = (0.5, 2.0)
MAX_FACTORS = 16


@dataclass(frozen=True)
class Times:
    """Nanoseconds of an access to an open row, and of what a miss adds."""

    hit_ns: float = 12.5
    read_ns: float = 55.0
    write_ns: float = 150.0
    dram_ns: float = 25.0

    def nvram(self, accesses: int, *, row_reads: float, row_writes: float) -> float:
        """Return the time in ns of accesses through buffers that open and write back rows."""
        return accesses * self.hit_ns + row_reads * self.read_ns + row_writes * self.write_ns

    def dram(self, accesses: int, row_reads: float) -> float:
        """Return the time in ns of accesses to DRAM that opens so many rows."""
        return accesses * self.hit_ns + row_reads * self.dram_ns

    def unbuffered(self, reads: int, writes: int) -> float:
        """Return the time in ns of accesses without buffers."""
        return (reads + writes) * self.hit_ns + reads * self.read_ns + writes * self.write_ns


TIME_KEYS = tuple(one.name for one in fields(Times))


def fault(key: str, value: float) -> str | None:
    """Return what is wrong with a time, or None; an access to an open row takes some time."""
    least = "above 0" if key == "hit_ns" else "from 0"
    if math.isfinite(value) and value >= 0 and (key != "hit_ns" or value > 0):
        return None
    return f"{value} is not a time {least}"


@dataclass(frozen=True)
class WhatIf:
    """What a file asks for; without a file everything is as in the profiles."""

    tiers: tuple[str, ...] = ()
    currency: str = ""
    factors: tuple[float, ...] = FACTORS
    prices: Mapping[str, float] = field(default_factory=dict)
    devices: Mapping[str, Tier] = field(default_factory=dict)
    endurance: Mapping[str, float] = field(default_factory=dict)
    nvram: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # some of TIME_KEYS
    file: Path | None = None


def read_what_if(file: Path | None, profiles: Mapping[str, Profile]) -> WhatIf:
    """Read a what-if file; InputError names file, table, key and value for what is wrong in it."""
    if file is None:
        return WhatIf()
    text, content = load_toml(file)
    top = Place(file, text)
    check_keys(content, KEYS, place=top)
    places = {key: top.at(key, words=f": [{key}]") for key in ("price_per_gb", "endurance_cycles")}
    tables, prices, given, nvram = (
        _table(content.get(key, {}), top.at(key, words=f": {key}"), hint=f"write it as [{key}]")
        for key in ("devices", *places, "nvram")
    )
    devices = {name: _device(top, name, table, profiles) for name, table in tables.items()}
    known = [*devices, *profiles]
    check_keys(prices, known, place=places["price_per_gb"])
    check_keys(given, known, place=places["endurance_cycles"])
    currency, tiers = content.get("currency", ""), content.get("tiers", [])
    for name, table in tables.items():
        if currency and "price_per_gb" not in table and name not in prices:
            raise _no_price(top.at("devices", name, words=""), name, currency)
    is_currency = isinstance(currency, str) and len(currency) <= 8 and currency.isprintable()
    _need(is_currency, top.at("currency", words=": currency"), currency, 'a name such as "EUR"')
    is_names = isinstance(tiers, list) and all(isinstance(name, str) for name in tiers)
    _need(is_names, top.at("tiers", words=": tiers"), tiers, "a list of names")
    return WhatIf(
        tiers=tuple(tiers),
        currency=currency,
        factors=_factors(top, content.get("factors", list(FACTORS))),
        prices={
            name: _positive(places["price_per_gb"].at(name), "price_per_gb", one)
            for name, one in prices.items()
        },
        devices=devices,
        endurance=_endurance(top, tables, given, profiles),
        nvram={name: _row_times(top, name, table) for name, table in nvram.items()},
        file=file,
    )


def _need(is_right: bool, place: Place, value: object, what: str, hint: str = "") -> None:
    if not is_right:
        raise InputError(f"{place} is {value!r}, not {what}", hint=hint)


def _table(value: Any, place: Place, *, hint: str = "") -> dict[str, Any]:
    _need(isinstance(value, dict), place, value, "a table", hint)
    table: dict[str, Any] = value
    return table


def choose_tiers(names: Sequence[str], what_if: WhatIf, *, own_profiles: Path | None) -> list[Tier]:
    """Return the tiers by name, of the what-if's devices, else of the profiles.

    UsageError names an unknown tier; InputError one without a price in the currency.
    """
    profiles = load_profiles(own_profiles)
    tiers = []
    for name in names:
        tier = what_if.devices.get(name)
        if tier is None:
            profile = choose_profile(profiles, name)
            tier = Tier(name, **{key: getattr(profile, key) for key in TIER_KEYS + RATE_KEYS})
            if what_if.currency and name not in what_if.prices:
                raise _no_price(what_if.file, name, what_if.currency)
        tiers.append(replace(tier, price_per_gb=what_if.prices.get(name, tier.price_per_gb)))
    return tiers


def _no_price(place: Place | Path | None, name: str, currency: Any) -> InputError:
    return InputError(
        f"{place}: the price of '{name}' in {currency} is missing",
        hint=f"add it to [price_per_gb]: {name} = 1.23",
    )


def _factors(place: Place, factors: Any) -> tuple[float, ...]:
    place = place.at("factors", words=": factors")
    is_list = isinstance(factors, list) and len(factors) <= MAX_FACTORS
    _need(is_list, place, factors, f"a list of up to {MAX_FACTORS} numbers")
    for factor in factors:
        is_number = isinstance(factor, int | float) and not isinstance(factor, bool)
        if not is_number or not 1e-3 <= factor <= 1e3:
            raise InputError(f"{place}: {factor!r} is not a number from 0.001 to 1000")
    return tuple(float(factor) for factor in factors)


def _endurance(
    top: Place,
    tables: Mapping[str, Any],
    given: Mapping[str, Any],
    profiles: Mapping[str, Profile],
) -> dict[str, float]:
    """Return the cycles of each device that states them, or whose `like` profile does."""
    likes = {name: profiles[table["like"]] for name, table in tables.items() if "like" in table}
    cycles = {name: like.endurance_cycles for name, like in likes.items()}
    cycles |= {name: t["endurance_cycles"] for name, t in tables.items() if "endurance_cycles" in t}
    return {
        name: checked_number(
            top.at("endurance_cycles", name, words=f": [endurance_cycles], key '{name}'")
            if name in given
            else top.at("devices", name, "endurance_cycles", words=f": [devices.{name}]"),
            "endurance_cycles",
            value=one,
        )
        for name, one in {**cycles, **given}.items()
        if one is not None
    }


def _row_times(top: Place, name: str, table: Any) -> dict[str, float]:
    """Return the times that a memory with row buffers is given, in ns."""
    place = top.at("nvram", name, words=f": [nvram.{name}]")
    check_keys(_table(table, place), TIME_KEYS, place=place)
    if name == AS_ASKED:
        raise InputError(f"{place}: the options have this name", hint="give it another")
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{place.on(key)}: {key}: {value!r} is not a number")
        if wrong := fault(key, float(value)):
            raise InputError(f"{place.on(key)}: {key}: {wrong}")
    return {key: float(value) for key, value in table.items()}


def _positive(place: Place, key: str, value: Any) -> float:
    number = checked_number(place, key, value=value)
    if number == 0:
        raise InputError(f"{place}: 0 would give endless IOPS")
    return number


def _device(top: Place, name: str, table: Any, profiles: Mapping[str, Profile]) -> Tier:
    place = top.at("devices", name, words=f": [devices.{name}]")
    check_keys(_table(table, place), ("like", *KNOWN), place=place)
    like = table.get("like")
    if "like" in table and (not isinstance(like, str) or like not in profiles):
        raise InputError(
            f"{place.on('like')}: like: there is no device profile {like!r}",
            hint=suggest(str(like), profiles),
        )
    keys = TIER_KEYS + RATE_KEYS
    values = {key: getattr(profiles[like], key) for key in keys} if like else {}
    values |= {key: _positive(place.at(key), key, table[key]) for key in keys if key in table}
    missing = [key for key in TIER_KEYS if key not in values]
    if missing:
        raise InputError(
            f"{place} has no key '{missing[0]}'",
            hint='give it, or take another device\'s values with like = "..."',
        )
    return Tier(name, **values)

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
    check_keys,
    checked_number,
    choose_profile,
    load_profiles,
    load_toml,
    suggest,
)
from tracekit.errors import InputError
from tracekit.model.tier_mixes import Tier

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

    def nvram(self, reads: int, writes: int, *, read_misses: float, write_misses: float) -> float:
        """Return the time in ns of accesses through buffers."""
        misses = read_misses + write_misses
        return (reads + writes) * self.hit_ns + misses * self.read_ns + write_misses * self.write_ns

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
    content = load_toml(file)
    check_keys(content, KEYS, place=f"{file}")
    tables = _table(file, content, "devices")
    devices = {
        name: _device(file, name, table=table, profiles=profiles) for name, table in tables.items()
    }
    prices = {
        name: _price(file, name, price, known=[*devices, *profiles])
        for name, price in _table(file, content, "price_per_gb").items()
    }
    currency = content.get("currency", "")
    for name, table in tables.items():
        if currency and "price_per_gb" not in table and name not in prices:
            raise _no_price(file, name, currency)
    if not isinstance(currency, str) or len(currency) > 8 or not currency.isprintable():
        raise InputError(f'{file}: currency is {currency!r}, not a name such as "EUR"')
    return WhatIf(
        tiers=_names(file, content.get("tiers", [])),
        currency=currency,
        factors=_factors(file, content.get("factors", list(FACTORS))),
        prices=prices,
        devices=devices,
        endurance=_endurance(file, content, profiles),
        nvram={
            name: _row_times(file, name, table)
            for name, table in _table(file, content, "nvram").items()
        },
        file=file,
    )


def choose_tiers(names: Sequence[str], what_if: WhatIf, *, own_profiles: Path | None) -> list[Tier]:
    """Return the tiers by name, of the what-if's devices, else of the profiles.

    UsageError names an unknown tier; InputError one without a price in the currency.
    """
    profiles = load_profiles(own_profiles)
    return [_tier(name, what_if, profiles) for name in names]


def _tier(name: str, what_if: WhatIf, profiles: Mapping[str, Profile]) -> Tier:
    tier = what_if.devices.get(name)
    if tier is None:
        tier = _as_tier(choose_profile(profiles, name))
        if what_if.currency and name not in what_if.prices:
            raise _no_price(what_if.file, name, what_if.currency)
    price = what_if.prices.get(name, tier.price_per_gb)
    return replace(tier, price_per_gb=price)


def _no_price(file: Path | None, name: str, currency: Any) -> InputError:
    return InputError(
        f"{file}: the price of '{name}' in {currency} is missing",
        hint=f"add it to [price_per_gb]: {name} = 1.23",
    )


def _as_tier(profile: Profile) -> Tier:
    return Tier(profile.name, **{key: getattr(profile, key) for key in TIER_KEYS + RATE_KEYS})


def _table(file: Path, content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = content.get(key, {})
    if not isinstance(table, dict):
        raise InputError(f"{file}: {key} is {table!r}, not a table", hint=f"write it as [{key}]")
    return table


def _names(file: Path, names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{file}: tiers is {names!r}, not a list of names")
    return tuple(names)


def _factors(file: Path, factors: Any) -> tuple[float, ...]:
    if not isinstance(factors, list) or len(factors) > MAX_FACTORS:
        raise InputError(
            f"{file}: factors is {factors!r}, not a list of up to {MAX_FACTORS} numbers"
        )
    for factor in factors:
        is_number = isinstance(factor, int | float) and not isinstance(factor, bool)
        if not is_number or not 1e-3 <= factor <= 1e3:
            raise InputError(f"{file}: factors: {factor!r} is not a number from 0.001 to 1000")
    return tuple(float(factor) for factor in factors)


def _price(file: Path, name: str, price: Any, *, known: Sequence[str]) -> float:
    check_keys({name: price}, known, place=f"{file}: [price_per_gb]")
    return _positive(file, name, "price_per_gb", price)


def _endurance(
    file: Path, content: Mapping[str, Any], profiles: Mapping[str, Profile]
) -> dict[str, float]:
    """Return the cycles of each device that states them, or whose `like` profile does."""
    devices, given = _table(file, content, "devices"), _table(file, content, "endurance_cycles")
    check_keys(given, [*devices, *profiles], place=f"{file}: [endurance_cycles]")
    found = {}
    for name, table in devices.items():
        like = profiles[table["like"]].endurance_cycles if "like" in table else None
        found[name] = table.get("endurance_cycles", like)
    return {
        name: checked_number(file, name, key="endurance_cycles", value=cycles)
        for name, cycles in (found | {**given}).items()
        if cycles is not None
    }


def _row_times(file: Path, name: str, table: Any) -> dict[str, float]:
    """Return the times that a memory with row buffers is given, in ns."""
    place = f"{file}: [nvram.{name}]"
    if not isinstance(table, dict):
        raise InputError(f"{place} is {table!r}, not a table")
    if name == AS_ASKED:
        raise InputError(f"{place}: the options have this name", hint="give it another")
    check_keys(table, TIME_KEYS, place=place)
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{place}: {key}: {value!r} is not a number")
        if wrong := fault(key, float(value)):
            raise InputError(f"{place}: {key}: {wrong}")
    return {key: float(value) for key, value in table.items()}


def _positive(file: Path, name: str, key: str, value: Any) -> float:
    number = checked_number(file, name, key=key, value=value)
    if number == 0:
        raise InputError(f"{file}: profile [{name}], key '{key}': 0 would give endless IOPS")
    return number


def _device(file: Path, name: str, *, table: Any, profiles: Mapping[str, Profile]) -> Tier:
    place = f"{file}: [devices.{name}]"
    if not isinstance(table, dict):
        raise InputError(f"{place} is {table!r}, not a table")
    check_keys(table, ("like", *KNOWN), place=place)
    values: dict[str, float] = {}
    if "like" in table:
        values.update(_like(place, table["like"], profiles))
    given = [key for key in TIER_KEYS + RATE_KEYS if key in table]
    values |= {key: _positive(file, name, key, table[key]) for key in given}
    missing = [key for key in TIER_KEYS if key not in values]
    if missing:
        raise InputError(
            f"{place} has no key '{missing[0]}'",
            hint='give it, or take another device\'s values with like = "..."',
        )
    return Tier(name, **values)


def _like(place: str, name: Any, profiles: Mapping[str, Profile]) -> dict[str, float]:
    if not isinstance(name, str) or name not in profiles:
        raise InputError(
            f"{place}: like: there is no device profile {name!r}", hint=suggest(str(name), profiles)
        )
    return {key: getattr(profiles[name], key) for key in TIER_KEYS + RATE_KEYS}

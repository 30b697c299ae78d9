"""Reads the distributions of a work profile: gaps, sizes, lengths of runs, distances."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from tracekit.workload.keys import Keys
from tracekit.workload.model import (
    CHOICES,
    CONSTANT,
    EXPONENTIAL,
    GAMMA,
    LOGNORMAL,
    QUANTILES,
    WEIBULL,
    Distribution,
)

GAPS = ("constant", "exponential", "gamma", "weibull", "lognormal", "measured")
SPREADS = ("exponential", "gamma", "lognormal")
SHAPE_MOST = 1e4
US = 1000.0


def by_mean(kind: str, mean: float, *, shape: float) -> Distribution:
    """Return the distribution of that mean; `shape` is sigma of a lognormal one."""
    if kind == "constant":
        return Distribution(CONSTANT, mean)
    if kind == "exponential":
        return Distribution(EXPONENTIAL, mean)
    if kind == "gamma":
        return Distribution(GAMMA, mean / shape, shape)
    if kind == "weibull":
        return Distribution(WEIBULL, mean / math.gamma(1 + 1 / shape), shape)
    return Distribution(LOGNORMAL, mean * math.exp(-shape * shape / 2), shape)


def _shape(keys: Keys, kind: str) -> float:
    if kind in ("gamma", "weibull"):
        return keys.number("shape", low=0.01, high=SHAPE_MOST)
    return keys.number("sigma", low=1e-4, high=20) if kind == "lognormal" else 0.0


GAP_KEYS = ("mean", "shape", "sigma", "shares", "values_us")


def read_gap(keys: Keys, key: str) -> Distribution:
    """Return the gaps in ns of a table whose `key` names their distribution."""
    kind = keys.choice(key, GAPS)
    if kind != "measured":
        return by_mean(kind, float(keys.duration("mean")), shape=_shape(keys, kind))
    shares = keys.numbers("shares", low=0, high=1)
    values = keys.numbers("values_us", low=1e-3, high=1e15)
    _check_rising(keys, "shares", shares)
    _check_rising(keys, "values_us", values)
    if len(shares) != len(values) or len(shares) < 2:
        raise keys.wrong("values_us", f"has {len(values)} values for {len(shares)} shares")
    if shares[0] != 0 or shares[-1] != 1:
        raise keys.wrong("shares", "does not go from 0 to 1")
    return Distribution(QUANTILES, values=tuple(v * US for v in values), up_to=shares)


def _check_rising(keys: Keys, key: str, values: tuple[float, ...]) -> None:
    if any(after < before for before, after in pairwise(values)):
        raise keys.wrong(key, "falls somewhere", hint="sort it in ascending order")


def read_sizes(keys: Keys) -> tuple[Distribution, int, int]:
    """Return the sizes in bytes of the key `size`, the least and the largest of them."""
    value = keys.value("size")
    if not isinstance(value, dict):
        size = keys.size("size")
        return Distribution(CONSTANT, float(size)), size, size
    place = f"{keys.place}, key 'size'"
    if "values" in value:
        return _listed_sizes(Keys(value, place, known=("values", "weights")))
    own = Keys(value, place, known=("distribution", "mean", "shape", "sigma", "least", "most"))
    kind = own.choice("distribution", ("gamma", "lognormal"))
    spread = by_mean(kind, float(own.size("mean")), shape=_shape(own, kind))
    least, most = own.size("least"), own.size("most")
    if least > most:
        raise own.wrong("least", f"is above the largest size, {most}")
    return spread, least, most


def _listed_sizes(own: Keys) -> tuple[Distribution, int, int]:
    values = own.value("values")
    if not isinstance(values, list) or not values:
        raise own.wrong("values", "is no list of sizes", hint='such as ["4KiB", "64KiB"]')
    sizes = [own.size_of("values", value) for value in values]
    shares = own.weights("weights", len(sizes))
    found = Distribution(CHOICES, values=tuple(map(float, sizes)), up_to=shares)
    return found, min(sizes), max(sizes)


def read_count(keys: Keys, key: str) -> Distribution:
    """Return how many: a number, values with weights, or a distribution with its mean."""
    value: Any = keys.value(key)
    place = f"{keys.place}, key '{key}'"
    if not isinstance(value, dict):
        return Distribution(CONSTANT, keys.number(key, low=1, high=1e15))
    if "shares" in value:
        return _quantiles(Keys(value, place, known=("shares", "values")))
    if "values" in value:
        own = Keys(value, place, known=("values", "weights"))
        numbers = own.numbers("values", low=1, high=1e15)
        shares = own.weights("weights", len(numbers))
        return Distribution(CHOICES, values=numbers, up_to=shares)
    own = Keys(value, place, known=("distribution", "mean", "shape", "sigma"))
    kind = own.choice("distribution", SPREADS)
    return by_mean(kind, own.number("mean", low=1, high=1e15), shape=_shape(own, kind))


def _quantiles(own: Keys) -> Distribution:
    shares, values = own.numbers("shares", low=0, high=1), own.numbers("values", low=1, high=1e15)
    _check_rising(own, "shares", shares)
    _check_rising(own, "values", values)
    if len(shares) != len(values) or len(shares) < 2:
        raise own.wrong("values", f"has {len(values)} values for {len(shares)} shares")
    if shares[0] != 0 or shares[-1] != 1:
        raise own.wrong("shares", "does not go from 0 to 1")
    return Distribution(QUANTILES, values=values, up_to=shares)

"""Random numbers of a workload: distributions as tables of equally likely values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import InputError

Floats = npt.NDArray[np.float64]
FAMILIES: Mapping[str, Mapping[str, float]] = {
    "gamma": {"mean": 4096, "gamma": 1.5},
    "uniform": {"lower": 0, "upper": 1},
    "exponential": {"mean": 1},
    "normal": {"mean": 0, "sigma": 1},
    "lognormal": {"shape": 1, "scale": 1},
    "triangular": {"lower": 0, "upper": 1, "mode": 0.5},
    "weibull": {"shape": 1, "scale": 1},
    "erlang": {"shape": 1, "rate": 1},
}
"""Parameters and defaults by family, as filebench's custom variables have them."""


@dataclass(frozen=True)
class Segment:
    """A part of a table: its share in percent, and the range that is even within."""

    percent: float
    least: float
    most: float


@dataclass(frozen=True)
class RandomValue:
    """A distribution: a family with its parameters, or segments; then moved, rounded and cut."""

    family: str
    parameters: tuple[tuple[str, float], ...] = ()
    segments: tuple[Segment, ...] = ()
    offset: float = 0
    """Added to each value."""
    step: float = 0
    """What values are rounded to; 0: whole numbers, down."""
    least: float = 0
    most: float = float(1 << 62)

    def values(self, shares: Floats) -> npt.NDArray[np.int64]:
        """Return the whole values below which these shares of all lie, each share within 0 to 1."""
        drawn = self._segmented(shares) if self.segments else self._quantiles(shares)
        drawn = drawn + self.offset
        if self.step:
            drawn = np.round(drawn / self.step) * self.step
        return np.clip(drawn, max(self.least, 0), self.most).astype(np.int64)

    def table(self, count: int) -> npt.NDArray[np.int64]:
        """Return `count` equally likely values, in order."""
        return self.values((np.arange(count) + 0.5) / count)

    def _quantiles(self, shares: Floats) -> Floats:
        from scipy import stats  # imports slowly: only where a table is made

        of = dict(FAMILIES[self.family]) | dict(self.parameters)
        shape, scale = of.get("shape", 1), of.get("scale", 1)
        width = of.get("upper", 1) - of.get("lower", 0)
        mean = of.get("mean", 1)
        found: Any = {
            "gamma": lambda: stats.gamma(of["gamma"], scale=mean / of["gamma"]),
            "uniform": lambda: stats.uniform(of["lower"], width),
            "exponential": lambda: stats.expon(scale=mean),
            "normal": lambda: stats.norm(mean, of["sigma"]),
            "lognormal": lambda: stats.lognorm(shape, scale=np.exp(scale)),
            "triangular": lambda: stats.triang(
                (of["mode"] - of["lower"]) / width, of["lower"], width
            ),
            "weibull": lambda: stats.weibull_min(shape, scale=scale),
            "erlang": lambda: stats.gamma(shape, scale=of["rate"] / shape),
        }[self.family]
        values: Floats = np.asarray(found().ppf(shares), np.float64)
        return values

    def _segmented(self, shares: Floats) -> Floats:
        edges = np.cumsum([0, *(one.percent / 100 for one in self.segments)])
        heights = np.array([(one.least, one.most) for one in self.segments])
        at = np.clip(np.searchsorted(edges, shares, side="right") - 1, 0, len(heights) - 1)
        width = np.maximum(np.diff(edges)[at], 1e-300)
        inside = (shares - edges[at]) / width
        found: Floats = heights[at, 0] + inside * (heights[at, 1] - heights[at, 0])
        return found


Value = int | RandomValue
LARGEST = float(1 << 62)


def check_family(family: str, parameters: Mapping[str, float], *, place: str) -> None:
    """Raise InputError for a family or parameters that filebench does not have either."""
    if family not in FAMILIES:
        raise InputError(
            f"{place}: there is no distribution '{family}'", hint=f"one of {', '.join(FAMILIES)}"
        )
    of = dict(FAMILIES[family]) | dict(parameters)
    for name, value in parameters.items():
        if name not in FAMILIES[family]:
            known = ", ".join(FAMILIES[family])
            raise InputError(f"{place}: {family} has no parameter '{name}'", hint=f"it has {known}")
        if not abs(value) <= LARGEST or (name == "scale" and family == "lognormal" and value > 43):
            raise InputError(
                f"{place}: '{name}' of {family} is {value:g}",
                hint="that is too large, or no number",
            )
        if name not in ("lower", "upper", "mode", "mean", "scale") and value <= 0:
            raise InputError(f"{place}: '{name}' of {family} is {value:g}", hint="it is above 0")
    if "upper" in of and not of["lower"] < of["upper"]:
        raise InputError(f"{place}: 'lower' of {family} is not below 'upper'")
    if "mode" in of and not of["lower"] <= of["mode"] <= of["upper"]:
        raise InputError(
            f"{place}: 'mode' of {family} is {of['mode']:g}", hint="it is from 'lower' to 'upper'"
        )
    if family in ("gamma", "exponential") and of["mean"] <= 0:
        raise InputError(f"{place}: 'mean' of {family} is {of['mean']:g}", hint="it is above 0")

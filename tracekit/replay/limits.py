"""Limits of a replay, as `--budget` and `--certify` take them: MEASURE=LIMIT."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracekit.errors import UsageError
from tracekit.units import format_duration, parse_duration

Number = int | float
NS, RATIO, REQUESTS = "ns", "ratio", "requests"
PERCENTILES = ("p50", "p90", "p99", "p99.9")
STEPS = (*PERCENTILES, "max", "mean")
WHOLE = ("duration", "drift")
COUNTS = ("errors", "lost", "order", "merged", "split")
BUDGET: Mapping[str, tuple[str, ...]] = dict.fromkeys((*STEPS, *WHOLE), (NS,))
CERTIFY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*PERCENTILES, "max"), (NS,)),
    **dict.fromkeys(WHOLE, (NS, RATIO)),
    **dict.fromkeys(COUNTS, (REQUESTS, RATIO)),
}
"""The measures of each option, and the units that a limit of each may have."""
_SHARE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?%")
_COUNT = re.compile(r"\d{1,18}")


@dataclass(frozen=True)
class Limit:
    """The most that a measure may be, in ns, as a ratio, or in requests."""

    measure: str
    value: Number
    unit: str


def parse_limits(
    entries: Sequence[str], units: Mapping[str, tuple[str, ...]], *, option: str
) -> dict[str, Limit]:
    """Return the limits by measure, from entries such as p99=50us, drift=0.1% and errors=0."""
    form = "TIME" if units is BUDGET else "LIMIT"
    found = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        if not equals or name not in units:
            raise UsageError(
                f"{option} {entry}: not MEASURE={form}",
                hint=f"a measure is one of {', '.join(units)}; for example p99=50us",
            )
        found[name] = _limit(name, text, units[name], option=f"{option} {name}")
    return found


def _limit(name: str, text: str, units: tuple[str, ...], *, option: str) -> Limit:
    if RATIO in units and (share := _SHARE.fullmatch(text)):
        return Limit(name, float(share[1]) / 100, RATIO)
    if NS in units:
        return Limit(name, parse_duration(text, option=option), NS)
    if not _COUNT.fullmatch(text):
        raise UsageError(
            f"{option}: '{text}' is not a number of requests", hint="write for example 0 or 0.1%"
        )
    return Limit(name, int(text), REQUESTS)


def parse_certify(entries: Sequence[str]) -> dict[str, Limit]:
    """Return the limits of `--certify`: entries with commas between limits, each measure once.

    Of `errors` and `lost` none are allowed unless a limit is given.
    """
    parts = [part.strip() for entry in entries for part in entry.split(",")]
    found = parse_limits(parts, CERTIFY, option="--certify")
    if len(found) < len(parts):
        raise UsageError(f"--certify {','.join(parts)}: a measure has two limits")
    implied = {name: Limit(name, 0, REQUESTS) for name in ("errors", "lost")} if found else {}
    return {**found, **{name: one for name, one in implied.items() if name not in found}}


def is_timed(measure: str) -> bool:
    """Say whether a measure is of times, which a run as fast as possible does not have."""
    return measure not in COUNTS


def format_value(value: Number, unit: str) -> str:
    """Write a value or a limit: 33.1 us, 0.1 %, 12."""
    if unit == NS:
        return format_duration(value)
    return f"{value:,}" if unit == REQUESTS else f"{value * 100:.3g}%"

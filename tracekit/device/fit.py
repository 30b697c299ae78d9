"""Fits a device profile to what was measured.

The model is that of the emulated engine and of `recommend`: a request costs a setup and its bytes
at a rate, and `parallelism` requests are served at once, so that at depth d a device with lanes L
does min(d, L) / mean cost requests a second. The latencies, a flush and FUA are means, as in study
B. All else is a difference or a ratio of measurements and taken of medians, because one pause of
the machine would be many times as large. The means are the medians of the means of parts, for the
same reason; where even that is far from the median, or a rate is none that a device can have,
nothing is fitted.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from msgspec import to_builtins

from tracekit.devices import (
    KNOWN,
    MAX_PARALLELISM,
    MEAN_FACTOR,
    REPEATED,
    REQUIRED,
    Profile,
    choose_profile,
    load_profiles,
    mean_of,
    transfer_us,
)
from tracekit.errors import UsageError
from tracekit.escapes import escape
from tracekit.metadata import Record
from tracekit.store import beside
from tracekit.units import MIB, PAGE_BYTES, format_duration, format_size

RATE_MAX_MIB_S = 1e7
SAME = 0.9
"""A sequential setup of more than this share of a random one counts as the same, and so does an
empty flush of more than this share of another."""
LEAST_SHARE = 0.01
"""FUA costs something when it adds this share of a plain write or more."""

Result = Mapping[str, Any]


class Fitted(Record):
    """A parameter as measured, and how far off it may be: a row of the table device_fit."""

    parameter: str
    value: float
    spread_ratio: float | None
    known_value: float | None = None
    """Of the profile that was emulated."""
    error_ratio: float | None = None
    is_in_profile: bool = True


def fit(results: Sequence[Result]) -> list[Fitted]:
    """Return the parameters that the finished steps show, in the order of a profile's keys."""
    found = [
        *_means(results, "read"),
        *_means(results, "write"),
        *_rate(results, "read"),
        *_rate(results, "write"),
    ]
    values = {one.parameter: one.value for one in found}
    found += _sequential(results, values)
    return [*found, *_flushes(results), *_fua(results), *_parallelism(results, values)]


def _flushes(results: Sequence[Result]) -> Iterator[Fitted]:
    """Yield what a flush takes behind a write, and what it takes behind a read, if that is less."""
    for flush in _latencies(results, "flush", "flush"):
        flush_ns = mean_ns_of(flush)
        yield Fitted("flush_us", flush_ns / 1e3, _error_of(flush))
        for empty in _latencies(results, "empty_flush", "flush"):
            if mean_ns_of(empty) < SAME * flush_ns:
                yield Fitted("empty_flush_us", mean_ns_of(empty) / 1e3, _error_of(empty))


def compare(fitted: Sequence[Fitted], profile: Profile) -> None:
    """Add what an emulated device has of the parameters, and how far off they are."""
    lanes = profile.parallelism or 1.0
    known = {
        "read_median_us": profile.read_latency_us,
        "write_median_us": profile.write_latency_us,
        "parallelism": lanes,
        "read_parallelism": lanes,
        "write_parallelism": lanes,
        "write_read_ratio": profile.write_latency_us / profile.read_latency_us,
    }
    stated = {key: getattr(profile, key) for key in REPEATED}
    for one in fitted:
        one.known_value = real = (stated | known).get(one.parameter)
        one.error_ratio = (one.value - real) / real if real else None


def _chosen(results: Sequence[Result], kind: str) -> list[Result]:
    return [result for result in results if result["step"]["kind"] == kind]


def _latencies(results: Sequence[Result], kind: str, operation: str) -> list[Result]:
    """Return what an operation took in each step of a kind that has requests of it."""
    found = [result["operations"].get(operation) for result in _chosen(results, kind)]
    return [latency for latency in found if latency is not None and latency["requests"]]


def _error_of(latency: Result) -> float | None:
    """Return the standard error of a mean, relative, of a run whose requests depend on others."""
    if not latency["mean_ns"] or latency["error_ns"] is None:
        return None
    return float(latency["error_ns"] / latency["mean_ns"])


def mean_ns_of(latency: Result) -> float:
    """Return the mean that a few pauses do not change."""
    robust = latency["robust_mean_ns"]
    return float(latency["mean_ns"] if robust is None else robust)


FAR_FROM_MEDIAN = 4.0
ENOUGH = 200
"""Requests from which a mean that is far from the median is no accident."""


def mean_fault(result: Result) -> str | None:
    """Return why the mean of a step of random requests is not the device's; None: it may be."""
    kind = result["step"]["kind"]
    if not kind.startswith("random_"):
        return None
    for latency in _latencies([result], kind, kind.removeprefix("random_")):
        mean_ns, median_ns = mean_ns_of(latency), latency["p50_ns"]
        if latency["requests"] >= ENOUGH and mean_ns > FAR_FROM_MEDIAN * max(median_ns, 1):
            return (
                f"the mean of the {kind.replace('_', ' ')}s is {mean_ns / max(median_ns, 1):.1f}"
                f" times their median, {format_duration(median_ns)}, and not by a few pauses"
            )
    return None


RATE_ABOVE_COPY = 2.0
LEAST_OF_LONGEST = 0.1


def rate_fault(
    fitted: Sequence[Fitted], results: Sequence[Result], *, copy_mib_s: float
) -> tuple[str, str] | None:
    """Return the operation whose rate no device can have, and why; None where both may be.

    `copy_mib_s` is what this machine copies in memory: no data comes or goes several times as fast.
    A rate must also make up some of the time of the longest requests, of which it is told.
    """
    for one in fitted:
        operation = one.parameter.removesuffix("_mib_s")
        if operation == one.parameter:
            continue
        if one.value > RATE_ABOVE_COPY * copy_mib_s:
            return operation, (
                f"{operation}s at {one.value:,.0f} MiB/s: memory itself is copied at"
                f" {copy_mib_s:,.0f} MiB/s here"
            )
        length, time_ns = max(
            (result["step"]["length_bytes"], latency["p50_ns"])
            for result in results
            for latency in _latencies([result], "size", operation)
        )
        share = length / MIB / one.value * 1e9 / max(time_ns, 1)
        if share < LEAST_OF_LONGEST:
            return operation, (
                f"{operation}s at {one.value:,.0f} MiB/s would take {share:.0%} of the"
                f" {format_duration(time_ns)} of {format_size(length)}: that cannot be told"
            )
    return None


def memory_copy_mib_s(size_bytes: int = 32 << 20, repeats: int = 32) -> float:
    """Return how fast this machine copies memory: the best of many, the first are far slower."""
    source = np.ones(size_bytes, np.uint8)
    target = np.empty_like(source)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return size_bytes / MIB / min(times)


def _means(results: Sequence[Result], operation: str) -> Iterator[Fitted]:
    for latency in _latencies(results, f"random_{operation}", operation):
        yield Fitted(f"{operation}_latency_us", mean_ns_of(latency) / 1e3, _error_of(latency))
        median_us = latency["p50_ns"] / 1e3
        yield Fitted(f"{operation}_median_us", median_us, None, is_in_profile=False)


PROBABILITIES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 0.99999)
LEAST_BEYOND = 5
"""Requests beyond a quantile, so that it is not one pause of the machine."""


def measured_quantiles(
    results: Sequence[Result], values: Mapping[str, float]
) -> dict[str, list[list[float]]]:
    """Return the distributions of the random 4 KiB requests, as keys of a profile, in us.

    One whose few quantiles do not have the latency of the profile's `values` is left out.
    """
    found = {}
    for operation in ("read", "write"):
        for latency in _latencies(results, f"random_{operation}", operation):
            quantiles, mean_us = _quantiles(latency), values[f"{operation}_latency_us"]
            if 1 / MEAN_FACTOR < mean_of([(p, us) for p, us in quantiles]) / mean_us < MEAN_FACTOR:
                found[f"{operation}_quantiles_us"] = quantiles
    return found


CELL_KINDS = ("surface", "mixed")
LEAST_OF_CELL = 20


def measured_cells(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the distributions by operation, length, depth and share of writes, for a profile."""
    return [
        {
            "operation": operation,
            **{key: result["step"][key] for key in ("length_bytes", "depth", "write_ratio")},
            "requests": latency["requests"],
            "quantiles_us": [[p, float(f"{us:.4g}")] for p, us in _quantiles(latency)],
        }
        for kind in CELL_KINDS
        for result in _chosen(results, kind)
        for operation in ("read", "write")
        for latency in _latencies([result], kind, operation)
        if latency["requests"] >= LEAST_OF_CELL
    ]


def _quantiles(latency: Result) -> list[list[float]]:
    count = latency["requests"]
    _, counts, highs = (np.array(column) for column in zip(*latency["histogram"], strict=True))
    seen = np.cumsum(counts)
    shares = [p for p in PROBABILITIES if (1 - p) * count >= LEAST_BEYOND]
    ranks = np.maximum(np.ceil(np.array(shares) * count), 1)
    times_ns = highs[np.searchsorted(seen, ranks)]
    points = [(0.0, latency["min_ns"]), *zip(shares, times_ns.tolist(), strict=True)]
    return [[p, max(ns, 1) / 1e3] for p, ns in [*points, (1.0, latency["max_ns"])]]


def _rate(results: Sequence[Result], operation: str) -> Iterator[Fitted]:
    """Yield the rate of the line through the median latencies of several lengths.

    Least squares of relative distances, setup and time a byte both from 0 up.
    """
    from scipy.optimize import nnls

    points = [
        (result["step"]["length_bytes"], latency["p50_ns"])
        for result in results
        for latency in _latencies([result], "size", operation)
        if latency["p50_ns"]
    ]
    if len(points) < 2:
        return
    lengths, times = (np.array(column, float) for column in zip(*points, strict=True))
    (_, byte_ns), distance = nnls(
        np.column_stack([1 / times, lengths / times]), np.ones(len(points))
    )
    if byte_ns <= 0:
        # Longer requests took no longer: the rate is at least that of the longest.
        byte_ns = float(np.min(times / lengths))
    means = [mean_ns_of(one) for one in _latencies(results, f"random_{operation}", operation)]
    mean_ns = float((means or [times[lengths.argmin()]])[0])
    # The setup that a profile has is the latency less 4 KiB at the rate: never below 0.
    byte_ns = min(byte_ns, mean_ns / PAGE_BYTES * 0.99)
    rate = float(min(1e9 / byte_ns / MIB, RATE_MAX_MIB_S))
    yield Fitted(f"{operation}_mib_s", rate, float(distance / math.sqrt(len(points))))


def _sequential(results: Sequence[Result], values: Mapping[str, float]) -> Iterator[Fitted]:
    """Yield the setup of a request that goes on where the one before ended, if it is another."""
    found, setups = [], []
    for operation in ("read", "write"):
        rate, latency_us = (values.get(f"{operation}_{key}") for key in ("mib_s", "latency_us"))
        if rate is None or latency_us is None:
            continue
        page_us = transfer_us(rate)
        for latency in _latencies(results, "sequential", operation):
            found.append(max(latency["p50_ns"] / 1e3 - page_us, 0.0))
            setups.append(max(latency_us - page_us, 0.0))
    # A profile has one for reads and writes; what is not clearly shorter is no other.
    if found and max(found) < SAME * min(setups):
        middle = sum(found) / len(found)
        spread = None if not middle else (max(found) - min(found)) / 2 / middle
        yield Fitted("sequential_setup_us", middle, spread)


def _fua(results: Sequence[Result]) -> Iterator[Fitted]:
    """Yield what FUA adds to a write of the same length, 0 where that is next to nothing.

    Of means, as what it adds may be rare and long: a file system's commit below a loop device.
    """
    plain = [mean_ns_of(latency) for latency in _latencies(results, "random_write", "write")]
    for forced in _latencies(results, "fua", "write") if plain else []:
        added_ns = mean_ns_of(forced) - plain[0]
        added_us = added_ns / 1e3 if added_ns > LEAST_SHARE * plain[0] else 0.0
        yield Fitted("fua_us", added_us, _error_of(forced))


def _parallelism(results: Sequence[Result], values: Mapping[str, float]) -> Iterator[Fitted]:
    """Yield the lanes whose surface comes closest, and those of reads and of writes alone."""
    cells = {
        (step["depth"], step["write_ratio"]): result["usual_iops"]
        for result in _chosen(results, "surface")
        for step in [result["step"]]
        if result["usual_iops"] > 0
    }
    read_s, write_s = (_cost_s(results, cells, name) for name in ("read", "write"))
    costs = [
        (depth, share * (write_s or 0) + (1 - share) * (read_s or 0), iops)
        for (depth, share), iops in cells.items()
        if (read_s is not None or share == 1) and (write_s is not None or share == 0)
    ]
    if not costs:
        return
    lanes, distance = closest_lanes(costs)
    yield Fitted("parallelism", float(lanes), distance)
    for name, share, cost_s in (("read", 0.0, read_s), ("write", 1.0, write_s)):
        most = max((iops for (_, ratio), iops in cells.items() if ratio == share), default=None)
        if most is not None and cost_s is not None:
            yield Fitted(f"{name}_parallelism", most * cost_s, None, is_in_profile=False)
    read_us, write_us = (values.get(f"{name}_latency_us") for name in ("read", "write"))
    if read_us and write_us is not None:
        yield Fitted("write_read_ratio", write_us / read_us, None, is_in_profile=False)


def _cost_s(
    results: Sequence[Result], cells: Mapping[tuple[int, float], float], operation: str
) -> float | None:
    """Return how long one request takes when it is alone, from the rate of such steps.

    The shorter of the long step and the surface's own cell: what else the machine does only adds.
    """
    rates = [result["usual_iops"] for result in _chosen(results, f"random_{operation}")]
    alone = cells.get((1, 1.0 if operation == "write" else 0.0))
    rates += [] if alone is None else [alone]
    return 1 / max(rates) if rates and max(rates) > 0 else None


def closest_lanes(costs: Sequence[tuple[int, float, float]]) -> tuple[int, float]:
    """Return the lanes of the closest surface and its distance, from (depth, cost in s, IOPS).

    The distance is the mean of |ln(measured / model)|, with model min(depth, lanes) / cost: cells
    that the machine disturbed do not count for more than others, as in a sum of squares.
    """
    depth, cost_s, iops = (np.array(column, float) for column in zip(*costs, strict=True))
    lanes = np.arange(1, MAX_PARALLELISM + 1)[:, None]
    distance = np.abs(np.log(iops * cost_s / np.minimum(depth, lanes))).mean(axis=1)
    best = int(distance.argmin())
    return best + 1, float(distance[best])


NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def checked_name(name: str, *, path: Path | None, device: str) -> str:
    """Return the profile's name: the one given, else after the device or the target."""
    if name and not NAME.fullmatch(name):
        raise UsageError(
            f"--name {name!r}: not a profile's name",
            hint="letters, digits, - and _; at most 64",
        )
    given = name or (f"{device}-measured" if device else "" if path is None else path.name)
    return re.sub(r"[^A-Za-z0-9_-]+", "-", given).strip("-")[:64] or "measured"


def complete(
    measured: Mapping[str, float], *, like: str, profiles: Path | None, price_per_gb: float | None
) -> tuple[dict[str, float], list[str], list[str]]:
    """Return a profile's values, which of them are of the profile `like`, and which are missing.

    What is not measured is taken from `like`; without it the price is 1.
    """
    values = {key: value for key, value in measured.items() if key in KNOWN}
    if price_per_gb is not None:
        values["price_per_gb"] = price_per_gb
    base = choose_profile(load_profiles(profiles), like) if like else None
    taken = []
    for key in REQUIRED:
        if key not in values and base is not None:
            values[key] = float(getattr(base, key))
            taken.append(key)
    if base is None:
        values.setdefault("price_per_gb", 1.0)
    return values, taken, [key for key in REQUIRED if key not in values]


COMMENT = """\
# Measured by tracekit characterize-device; what each figure is worth is in the table
# device_fit. price_per_gb is not measured. For --profiles of every command.
"""


def write_profile(
    file: Path,
    name: str,
    *,
    values: Mapping[str, float],
    about: str,
    tables: Mapping[str, Sequence[Any]] | None = None,
) -> Profile:
    """Write the profile, with six digits, and return it as every command will read it."""
    content = {name: {"about": escape(about), **_rounded(values), **(tables or {})}}
    write_tables(file, content)
    return load_profiles(file)[name]


def write_tables(file: Path, content: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a file of profiles."""
    with beside(file) as part:
        part.write_text(COMMENT + tomli_w.dumps(content), encoding="utf-8")


ABOVE = 1 + 1e-5
"""What is this much more is more with six digits, too."""


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values with six digits; none comes out shorter than what it has in it."""
    rounded = {key: float(f"{values[key]:.6g}") for key in KNOWN if key in values}
    for operation in ("read", "write"):
        rate, key = rounded.get(f"{operation}_mib_s"), f"{operation}_latency_us"
        if not rate or key not in rounded:
            continue
        page_us = transfer_us(rate)
        if rounded[key] < page_us:
            rounded[key] = float(f"{page_us * ABOVE:.6g}")
        setup_us = rounded[key] - page_us
        if rounded.get("sequential_setup_us", 0.0) > setup_us:
            rounded["sequential_setup_us"] = float(f"{setup_us / ABOVE:.6g}")
    return {key: int(one) if one.is_integer() else one for key, one in rounded.items()}


MIDDLE_MARGIN = 0.999  # of the setups, so that rounding puts nothing above them


def medians_of(found: Sequence[Profile]) -> dict[str, float]:
    """Return the keys of a profile with the median of what each part of a request took."""
    values = {key: float(np.median([getattr(one, key) for one in found])) for key in REQUIRED}
    setups = []
    for operation in ("write", "read"):
        byte_us = [1 / getattr(one, f"{operation}_mib_s") for one in found]
        setups.append(float(np.median([getattr(one, f"{operation}_setup_us") for one in found])))
        values[f"{operation}_mib_s"] = 1 / float(np.median(byte_us))
        page_us = transfer_us(values[f"{operation}_mib_s"])
        values[f"{operation}_latency_us"] = setups[-1] + page_us
    known = [one.sequential_setup_us for one in found if one.sequential_setup_us is not None]
    if len(known) > len(found) / 2:
        values["sequential_setup_us"] = min(float(np.median(known)), MIDDLE_MARGIN * min(setups))
    if sum(one.empty_flush_us is not None for one in found) > len(found) / 2:
        values["empty_flush_us"] = float(np.median([_empty_us(one) for one in found]))
    values["parallelism"] = float(np.median([one.parallelism or 1 for one in found])) // 1
    return values


def middle_of(found: Sequence[Profile], values: Mapping[str, float]) -> dict[str, Any]:
    """Return a profile with these values of a device that was measured several times, as a table.

    Distributions have the form of the measurement in the middle; beside them stands what each
    measurement found.
    """
    tables = dict[str, Any]()
    for operation in ("write", "read"):
        middle = sorted(found, key=attrgetter(f"{operation}_latency_us"))[len(found) // 2]
        if quantiles := getattr(middle, key := f"{operation}_quantiles_us"):
            ratio = values[f"{operation}_latency_us"] / getattr(middle, f"{operation}_latency_us")
            tables[key] = [[p, us * ratio] for p, us in quantiles]
    if middle.distributions:
        tables["distributions"] = [to_builtins(one) for one in middle.distributions]
    if len(found) > 1:
        tables["repeats"] = [_repeat(one, known=values) for one in found]
    return {"about": f"{middle.about}; {len(found)} times", **_rounded(values), **tables}


def _empty_us(one: Profile) -> float:
    return one.flush_us if one.empty_flush_us is None else one.empty_flush_us


def _repeat(one: Profile, *, known: Container[str]) -> dict[str, float]:
    """Return what one measurement found; what continues costs the setup where it was no less."""
    values = {key: getattr(one, key) for key in REQUIRED}
    if "empty_flush_us" in known:
        values["empty_flush_us"] = _empty_us(one)
    if "sequential_setup_us" in known:
        least_us = MIDDLE_MARGIN * min(one.read_setup_us, one.write_setup_us)
        values["sequential_setup_us"] = min(one.sequential_setup_us or least_us, least_us)
    return _rounded(values)

"""What a measurement of a device found, in words: the headline, and what may be wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tracekit.device.fit import Fitted, mean_ns_of
from tracekit.device.trace_mix import ALONE, MixCell
from tracekit.escapes import shell_word
from tracekit.metadata import Record
from tracekit.units import format_duration, format_size

Result = Mapping[str, Any]
OVERRUN_SHARE = 0.01
PAUSED = 1.05
SAME_RATE, FAR_RATE = 2.0, 8.0
"""How many times as fast the same requests were once as another time: more than the first of these
is told, more than the second refused."""


class Steady(Record):
    """Whether the device was steady before it was measured, by SNIA's PTS."""

    rounds: int
    requests: int
    """Of a round of random 4 KiB writes; the PTS has a minute."""
    range_ratio: float | None
    slope_ratio: float | None
    is_reached: bool


class DeviceAnswer(Record):
    """The content of device.json: what was measured, and the profile fitted to it."""

    target: str | None
    kind: str
    device: str | None
    """The profile that was emulated."""
    engine: str
    is_direct: bool
    is_emulated: bool
    may_write: bool
    confirm_with: str | None
    size_bytes: int
    steps: int
    failed: int
    is_filled: bool
    scale: float
    seed: int
    resumed: int
    fit: list[Fitted]
    name: str
    taken: list[str]
    missing: list[str]
    profile: str | None
    warnings: list[str] = msgspec.field(default_factory=list)
    headline: list[str] = msgspec.field(default_factory=list)
    filled_ratio: float = 0.0
    """Bytes written in sequence before, of the size."""
    steady: Steady | None = None
    left_out_ratio: float = 0.0
    """Of the requests, or of the trace's, whichever is more: time was stolen meanwhile."""
    distributions: int = 0
    """Cells of operation, length, depth and share of writes in the profile."""
    mix: list[MixCell] = msgspec.field(default_factory=list)
    """What the requests of a trace took, by kind."""


def headline(device: DeviceAnswer, results: Sequence[Result]) -> list[str]:
    """Return the lines that the command prints and the report opens with."""
    return [*_prepared(device), *_latencies(results), *_surface(results), *_fit(device)]


def _prepared(device: DeviceAnswer) -> Iterator[str]:
    """Yield what was done to the device before it was measured."""
    if device.is_emulated or not (device.filled_ratio or device.steady):
        return
    filled = f"filled {device.filled_ratio:.3g} times in sequence"
    if device.steady is None:
        yield f"before measuring: {filled}"
        return
    one = device.steady
    figures = f"range {_percent(one.range_ratio)}, slope {_percent(one.slope_ratio)} of the average"
    verdict = "steady" if one.is_reached else "not steady"
    yield (
        f"before measuring: {filled}, then {one.rounds} rounds of {one.requests:,} random 4 KiB"
        f" writes: {verdict} ({figures} over the last five; SNIA PTS allows 20% and 10%)"
    )


def _percent(ratio: float | None) -> str:
    return "not known" if ratio is None else f"{ratio:.1%}"


def _latencies(results: Sequence[Result]) -> Iterator[str]:
    for _, operation, one in random_steps(results):
        mean_ns, deviation_ns = one["mean_ns"], one["deviation_ns"]
        yield (
            f"{one['requests']:,} random 4 KiB {operation}s, one at a time:"
            f" mean {format_duration(mean_ns)}, standard deviation {format_duration(deviation_ns)}"
            f" ({deviation_ns / max(mean_ns, 1):.0%} of it), maximum"
            f" {format_duration(one['max_ns'])}"
        )


def random_steps(results: Sequence[Result]) -> Iterator[tuple[Result, str, Result]]:
    """Yield each step of random requests one at a time, its operation and what that took."""
    for result in results:
        operation = result["step"]["kind"].removeprefix("random_")
        if operation != result["step"]["kind"] and operation in result["operations"]:
            yield result, operation, result["operations"][operation]


def _surface(results: Sequence[Result]) -> Iterator[str]:
    cells = [result for result in results if result["step"]["kind"] == "surface"]
    if not cells:
        return
    shown = [
        f"{cell['usual_iops']:,.0f} ({cell['step']['write_ratio']:.0%} writes, depth"
        f" {cell['step']['depth']})"
        for choose in (min, max)
        for cell in [choose(cells, key=lambda cell: float(cell["usual_iops"]))]
    ]
    yield f"IOPS over write share and depth: from {' to '.join(shown)}"


def _fit(device: DeviceAnswer) -> Iterator[str]:
    values = {one.parameter: one for one in device.fit}
    lanes, asymmetry = values.get("parallelism"), values.get("write_read_ratio")
    if lanes is not None:
        yield (
            f"requests served at once: {lanes.value:.0f}; the surface of that is"
            f" {lanes.spread_ratio:.0%} off on average"
        )
    if asymmetry is not None:
        yield f"a write takes {asymmetry.value:.3g} times as long as a read"
    if device.profile:
        yield f"device profile [{device.name}]: {device.profile} in this folder, for --profiles"
    else:
        yield (
            f"no device profile: {', '.join(device.missing)} not measured; --like PROFILE"
            " takes them from another"
        )
    yield from _of_mix(device)
    errors = [one for one in device.fit if one.error_ratio is not None]
    if errors:
        shown = ", ".join(f"{one.parameter} {one.error_ratio:+.1%}" for one in errors)
        yield f"off what was emulated ({device.device}): {shown}"


def _of_mix(device: DeviceAnswer) -> Iterator[str]:
    """Yield what requests cost among those of the trace, and what they cost among their like."""
    values = {one.parameter: one.value for one in device.fit}
    shown = [
        f"{text} {format_duration(us * 1e3)} ({format_duration(alone_us * 1e3)})"
        for key, text in MIX_SHOWN.items()
        for us, alone_us in ((values.get(key), values.get(key + ALONE)),)
        if us is not None and alone_us is not None
    ]
    if shown:
        yield (
            "among the requests of the trace, of which the profile is, and among their like in"
            f" brackets: {', '.join(shown)}"
        )


MIX_SHOWN = {
    "read_latency_us": "4 KiB read",
    "write_latency_us": "written",
    "flush_us": "flush",
    "fua_us": "FUA added",
}


def warnings_of(device: DeviceAnswer, results: Sequence[Result]) -> Iterator[str]:
    """Yield what may be wrong with the figures, each with what to do."""
    if not device.may_write:
        yield (
            "only what reads was measured, on what the device held; to write there:"
            f" --write-to {shell_word(device.confirm_with or '')} (everything on it is lost)"
        )
    elif not device.is_filled and not device.is_emulated:
        yield "the device was not filled before: what was never written may be read from nowhere"
    if device.steady is not None and not device.steady.is_reached:
        yield (
            f"the device was not steady after {device.steady.rounds} rounds: what it does under a"
            " lasting load is not known; fill it more, or close other load"
        )
    yield from _cached(device)
    if device.resumed:
        yield (
            f"measured in {device.resumed + 1} parts: the device rested between preconditioning"
            " and what followed"
        )
    if device.taken:
        names = ", ".join(device.taken)
        yield f"not measured, taken from the profile that --like names: {names}"
    if device.failed:
        yield f"{device.failed:,} requests failed and are in no latency"
    yield from _left_out(device)
    yield from _late(results)
    yield from _pauses(results)
    if not device.is_emulated:
        yield from measured_twice(results)
    most = max((r["step"]["depth"] for r in results if r["step"]["kind"] == "surface"), default=0)
    lanes = next((one.value for one in device.fit if one.parameter == "parallelism"), None)
    if lanes is not None and lanes >= most > 1:
        yield (
            f"IOPS still grow at depth {most}: the device serves at least that many at"
            f" once; measure with larger --depths ({format_size(device.size_bytes)} were used)"
        )


def _cached(device: DeviceAnswer) -> Iterator[str]:
    if not device.is_direct and device.kind != "none":
        yield (
            "these are times of the page cache, not of the device: O_DIRECT was not asked for, or"
            " is not possible there"
        )


def _left_out(device: DeviceAnswer) -> Iterator[str]:
    if device.left_out_ratio:
        yield (
            f"{device.left_out_ratio:.1%} of the requests are left out, as the hypervisor took time"
            " of the processors meanwhile"
        )


def _late(results: Sequence[Result]) -> Iterator[str]:
    late = [r for r in results if r["overruns"] > OVERRUN_SHARE * r["step"]["requests"]]
    if late:
        yield (
            f"in {len(late)} steps the data took longer to move than the emulated device takes:"
            " use a faster target, or none"
        )
    if behind := sum(result["is_emulation_late"] for result in results):
        yield (
            f"in {behind} of {len(results)} steps the emulation was too late: these times are not"
            " the device's alone; close other load, or use `chrt -f 10`"
        )


def measured_twice(results: Sequence[Result]) -> Iterator[str]:
    """Yield where the long step and the surface's own cell of the same requests do not agree."""
    for _, fault, ratio in _twice(results):
        if ratio > SAME_RATE:
            yield f"{fault}; something else used the device or this machine: measure again"


def twice_fault(results: Sequence[Result]) -> tuple[int, str] | None:
    """Return the step from which two measurements of the same are no figures of a device, and why.

    None: they may be.
    """
    return next(((at, fault) for at, fault, ratio in _twice(results) if ratio > FAR_RATE), None)


def _twice(results: Sequence[Result]) -> Iterator[tuple[int, str, float]]:
    """Yield what was measured twice: the first step's number, both rates, and how far they are."""
    for at, first in enumerate(results):
        for _, operation, _ in random_steps([first]):
            asked = {**first["step"], "kind": "surface"}
            for cell in results:
                if {**cell["step"], "requests": asked["requests"]} != asked:
                    continue
                rates = first["usual_iops"], cell["usual_iops"]
                fault = (
                    f"the same random {operation}s were measured twice and do not agree:"
                    f" {rates[0]:,.0f} and then {rates[1]:,.0f} a second"
                )
                yield at, fault, max(rates) / max(min(rates), 1e-9)


def _pauses(results: Sequence[Result]) -> Iterator[str]:
    for result, operation, one in random_steps(results):
        if one["mean_ns"] >= PAUSED * one["p50_ns"]:
            yield (
                f"the mean of the random {operation}s is {one['mean_ns'] / one['p50_ns'] - 1:.0%}"
                f" above their median, {format_duration(one['p50_ns'])}: the device or this machine"
                f" paused ({result['steal_ratio']:.1%} of its CPU time was stolen meanwhile); the"
                f" profile has {format_duration(mean_ns_of(one))}, the median over parts of the run"
            )

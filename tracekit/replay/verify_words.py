"""The sentences of `verify-placement` and `prove` about a verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tracekit.model.answer import placement_name
from tracekit.repeats import LEVEL
from tracekit.replay.player import EMULATED
from tracekit.tables import ROLE_NAMES
from tracekit.units import format_duration, format_size

SELF_TEST = (
    "This was a self-test: the devices were emulated from the very profiles that the model used,"
    " which proves the model's sums and the placement of each block, not the profiles. Give a"
    " --target for each to prove those."
)
WHAT = {
    "serial": "the replay of",
    "open": "the mean response, each request replayed at its time, of",
}


def says(result: Mapping[str, Any]) -> list[str]:
    """Return the sentences of the command and the report."""
    predicted, measured, answer = result["predicted"], result["measured"], result["answer"]
    part, own, by = f"all {result['requests']:,} requests", "", _by_measurements(predicted)
    if result["requests"] < result["trace_requests"]:
        count = result["windows"]
        part = (
            f"{result['requests']:,} of {result['trace_requests']:,} requests, in {count}"
            f" {'window' if count == 1 else 'windows'},"
        )
        spread_of = f", {by}," if by else ""
        own = f" (the model says {_change(predicted['gain_ratio'])}{spread_of} for them)"
        by = ""  # it is of these windows, and not of what was published
    spread = ""
    if measured["repeats"] > 1:
        spread = (
            f" ({_change(measured['gain_low_ratio'])} to {_change(measured['gain_high_ratio'])}"
            f" in {measured['repeats']} repeats{_confident(measured)})"
        )
    what = WHAT[result.get("queueing", "serial")]
    return [
        f"{_verdict(result)}: with {format_size(answer['capacity_bytes'])} of"
        f" {result['nvm_profile']} {what} {part} took"
        f" {_change(measured['gain_ratio'])} time{spread}, published was"
        f" {_change(result['published_ratio'])}{f' ({by})' if by else ''};"
        f" {_points(result['gain_error_ratio'])} apart,"
        f" {_points(result['tolerance_ratio'])} are allowed{own}.",
        f"On the base device alone: {format_duration(measured['base_ns'])}, predicted"
        f" {_predicted(predicted, 'base_ns')} ({_signed(result['base_error_ratio'])});"
        f" as placed: {format_duration(measured['placed_ns'])}, predicted"
        f" {_predicted(predicted, 'placed_ns')} ({_signed(result['placed_error_ratio'])});"
        f" {result['time_tolerance_ratio']:.0%} are allowed.{_of_roles(result)}",
        *_of_runner_up(result),
        *_of_speeds(result),
        *_of_requests(result),
        *_of_emulation(result),
    ]


def _verdict(result: Mapping[str, Any]) -> str:
    if result["is_held"] is None:
        why = result["reason"] or result["emulation_late"]
        return f"Cannot tell whether the prediction holds, since {why}"
    why = f" ({result['reason']})" if result["reason"] else ""
    return f"The prediction {'held' if result['is_held'] else 'did not hold'}{why}"


def _of_requests(result: Mapping[str, Any]) -> Iterator[str]:
    if result.get("left_out_ratio"):
        yield (
            f"{result['left_out_ratio']:.1%} of the replayed requests count with what they took in"
            " other repeats, as the hypervisor took time of the processors meanwhile."
        )
    if result["cut_requests"]:
        yield (
            f"{result['cut_requests']:,} requests were on both devices and replayed in"
            f" {result['pieces']:,} pieces, one by one, as the model charges them."
        )


def _predicted(predicted: Mapping[str, Any], key: str) -> str:
    """Return a time, and between what it is by each measurement of the devices."""
    found = sorted(one[key] for one in predicted.get("repeats", ()))
    ends = f" ({format_duration(found[0])} to {format_duration(found[-1])})" if found else ""
    return f"{format_duration(predicted[key])}{ends}"


def _by_measurements(predicted: Mapping[str, Any]) -> str:
    """Return between what the gain is by each measurement of the devices."""
    gains = sorted(1 - one["placed_ns"] / one["base_ns"] for one in predicted.get("repeats", ()))
    if not gains:
        return ""
    ends = f"{_change(gains[0])} to {_change(gains[-1])}"
    return f"{ends} by each of {len(gains)} measurements of the devices"


def _of_roles(result: Mapping[str, Any]) -> str:
    """Return how far each role is off on the base device, whose errors count one by one."""
    predicted, measured = result["predicted"]["role_ns"], result["measured"]["role_ns"]
    parts = [
        f"{ROLE_NAMES[role]} {_signed(measured.get(role, 0.0) / expected - 1)}"
        for role, expected in predicted.items()
        if expected
    ]
    return f" By role: {', '.join(parts)}." if len(parts) > 1 and measured else ""


def _of_runner_up(result: Mapping[str, Any]) -> Iterator[str]:
    found = result["runner_up"]
    if found is None:
        return
    ahead = found["ahead_ratio"]
    ends = [found["ahead_low_ratio"], found["ahead_high_ratio"]]
    spread = "" if None in ends else f" ({LEVEL:.0%} confidence: {ends[0]:+.1%} to {ends[1]:+.1%})"
    yield (
        f"The runner-up, {placement_name(found['placement'])}, took"
        f" {format_duration(found['measured_ns'])}, predicted"
        f" {format_duration(found['predicted_ns'])}: the answer is {ahead:+.1%} ahead{spread},"
        f" predicted {found['predicted_ahead_ratio']:+.1%}."
    )


def _of_speeds(result: Mapping[str, Any]) -> Iterator[str]:
    found = result.get("interleaved")
    if found is None:
        return
    base, nvm = (
        f"{one['ratio']:.0%} ({one['low_ratio']:.0%} to {one['high_ratio']:.0%})"
        for one in (found["base"], found["nvm"])
    )
    yield (
        "Between the replays the other half's requests took"
        f" {base} of what the profile says on the base device, {nvm} on the NVM: prediction and"
        f" replays are those at the middle of these speeds. As they were the replays took"
        f" {_change(found['as_it_was']['gain_ratio'])} time as placed"
        f"{_confident(found['as_it_was'])}."
    )


def _of_emulation(result: Mapping[str, Any]) -> Iterator[str]:
    if (late := result.get("emulation_late")) and result["is_held"] is not None:
        yield f"But {late}; without that the verdict is the same."
    if result["engine"] == EMULATED:
        yield SELF_TEST


def _confident(measured: Mapping[str, Any]) -> str:
    low, high = (measured.get(f"gain_confident_{end}_ratio") for end in ("low", "high"))
    if low is None or high is None:
        return ""
    return f"; {LEVEL:.0%} confidence: {_change(low)} to {_change(high)}"


def _change(gain_ratio: float) -> str:
    return f"{abs(gain_ratio):.1%} {'less' if gain_ratio >= 0 else 'more'}"


def _points(ratio: float) -> str:
    return f"{abs(ratio) * 100:.1f} points"


def _signed(ratio: float | None) -> str:
    return "no time" if ratio is None else f"{ratio:+.1%}"

"""What a verification found, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.sizes import format_duration, format_size


def says(result: Mapping[str, Any]) -> list[str]:
    """Return the sentences of the command and the report."""
    predicted, measured, answer = result["predicted"], result["measured"], result["answer"]
    part = (
        f"the first {result['requests']:,} of {result['trace_requests']:,} requests"
        if result["requests"] < result["trace_requests"]
        else f"all {result['requests']:,} requests"
    )
    verdict = "held" if result["is_held"] else "did not hold"
    spread = ""
    if measured["repeats"] > 1:
        spread = (
            f" ({_change(measured['gain_low_ratio'])} to {_change(measured['gain_high_ratio'])}"
            f" in {measured['repeats']} repeats)"
        )
    found = [
        f"The prediction {verdict}: with {format_size(answer['capacity_bytes'])} of"
        f" {result['nvm_profile']} {_took(result)} {part} took"
        f" {_change(measured['gain_ratio'])} time{spread}, the model says"
        f" {_change(predicted['gain_ratio'])} for them;"
        f" {_points(result['gain_error_ratio'])} apart,"
        f" {_points(result['tolerance_ratio'])} are allowed.",
        f"On the base device alone: {format_duration(measured['base_ns'])}, predicted"
        f" {format_duration(predicted['base_ns'])} ({_signed(result['base_error_ratio'])});"
        f" as placed: {format_duration(measured['placed_ns'])}, predicted"
        f" {format_duration(predicted['placed_ns'])} ({_signed(result['placed_error_ratio'])}).",
    ]
    if result["cut_requests"]:
        found.append(
            f"{result['cut_requests']:,} requests were on both devices and replayed in"
            f" {result['pieces']:,} pieces, one by one; the model charges each device once."
        )
    if result["engine"] == "emulated":
        found.append(
            "The devices were emulated from the very profiles that the model used: this proves the"
            " model's sums and the placement of each block, not the profiles. Give a --target for"
            " each to prove those."
        )
    return found


def _took(result: Mapping[str, Any]) -> str:
    if result.get("queueing", "serial") == "open":
        return "the mean response, each request replayed at its time, of"
    return "the replay of"


def _change(gain_ratio: float) -> str:
    return f"{abs(gain_ratio):.1%} {'less' if gain_ratio >= 0 else 'more'}"


def _points(ratio: float) -> str:
    return f"{abs(ratio) * 100:.1f} points"


def _signed(ratio: float | None) -> str:
    return "no time" if ratio is None else f"{ratio:+.1%}"

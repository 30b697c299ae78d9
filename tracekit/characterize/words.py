"""A characterization in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracekit.sizes import format_duration, format_size

Result = Mapping[str, Any]
OVERRUN_SHARE = 0.01
PAUSED = 1.05


def headline(told: Result, results: Sequence[Result]) -> list[str]:
    """Return the lines that the command prints and the report opens with."""
    return [*_latencies(results), *_surface(results), *_fit(told), *_known(told)]


def warnings(told: Result, results: Sequence[Result]) -> list[str]:
    """Return what may be wrong with the figures, each with what to do."""
    return list(_doubts(told, results))


def _latencies(results: Sequence[Result]) -> Iterator[str]:
    for result in results:
        kind = result["step"]["kind"]
        if kind not in ("random_write", "random_read"):
            continue
        one = result["operations"][kind.removeprefix("random_")]
        yield (
            f"{one['requests']:,} random 4 KiB {kind.removeprefix('random_')}s, one at a time:"
            f" mean {format_duration(one['mean_ns'])}, standard deviation"
            f" {format_duration(one['deviation_ns'])}"
            f" ({one['deviation_ns'] / max(one['mean_ns'], 1):.0%} of it),"
            f" maximum {format_duration(one['max_ns'])}"
        )


def _surface(results: Sequence[Result]) -> Iterator[str]:
    cells = [result for result in results if result["step"]["kind"] == "surface"]
    if not cells:
        return
    best = max(cells, key=lambda cell: float(cell["usual_iops"]))
    least = min(cells, key=lambda cell: float(cell["usual_iops"]))
    yield (
        f"IOPS over write share and depth: from {least['usual_iops']:,.0f} ({_cell(least)}) to"
        f" {best['usual_iops']:,.0f} ({_cell(best)})"
    )


def _cell(result: Result) -> str:
    step = result["step"]
    return f"{step['write_ratio']:.0%} writes, depth {step['depth']}"


def _fit(told: Result) -> Iterator[str]:
    values = {one["parameter"]: one for one in told["fit"]}
    lanes = values.get("parallelism")
    if lanes is not None:
        yield (
            f"requests served at once: {lanes['value']:.0f}; the surface of that is"
            f" {lanes['spread_ratio']:.0%} off on average"
        )
    asymmetry = values.get("write_read_ratio")
    if asymmetry is not None:
        yield f"a write takes {asymmetry['value']:.3g} times as long as a read"
    if told["profile"]:
        yield f"device profile [{told['name']}]: {told['profile']} in this folder, for --profiles"
    else:
        yield (
            f"no device profile: {', '.join(told['missing'])} not measured; --like PROFILE"
            " takes them from another"
        )


def _known(told: Result) -> Iterator[str]:
    errors = [one for one in told["fit"] if one["error_ratio"] is not None]
    if errors:
        shown = ", ".join(f"{one['parameter']} {one['error_ratio']:+.1%}" for one in errors)
        yield f"off what was emulated ({told['device']}): {shown}"


def _doubts(told: Result, results: Sequence[Result]) -> Iterator[str]:
    if not told["may_write"]:
        token = told["confirm_with"]
        yield (
            "only what reads was measured, on what the device held; to write there:"
            f" --write-to {token} (everything on it is lost)"
        )
    elif not told["is_filled"] and not told["is_emulated"]:
        yield "the device was not filled before: what was never written may be read from nowhere"
    if not told["is_direct"] and told["kind"] != "none":
        yield "O_DIRECT is not possible there: these are times of the page cache"
    if told["resumed"]:
        yield (
            f"measured in {told['resumed'] + 1} parts: the device rested between preconditioning"
            " and what followed"
        )
    if told["taken"]:
        yield f"not measured, taken from the profile that --like names: {', '.join(told['taken'])}"
    if told["failed"]:
        yield f"{told['failed']:,} requests failed and are in no latency"
    late = [r for r in results if r["overruns"] > OVERRUN_SHARE * r["step"]["requests"]]
    if late:
        yield (
            f"in {len(late)} steps the data took longer to move than the emulated device takes:"
            " use a faster target, or none"
        )
    yield from _pauses(results)
    yield from _unsaturated(told, results)


def _pauses(results: Sequence[Result]) -> Iterator[str]:
    for result in results:
        kind = result["step"]["kind"]
        is_told = kind in ("random_write", "random_read")
        one = result["operations"].get(kind.removeprefix("random_"))
        if not is_told or one is None or one["mean_ns"] < PAUSED * one["p50_ns"]:
            continue
        yield (
            f"the mean of the {kind.replace('_', ' ')}s is {one['mean_ns'] / one['p50_ns'] - 1:.0%}"
            f" above their median, {format_duration(one['p50_ns'])}: the device or this machine"
            f" paused ({result['steal_ratio']:.1%} of its CPU time was stolen meanwhile)"
        )


def _unsaturated(told: Result, results: Sequence[Result]) -> Iterator[str]:
    depths = [r["step"]["depth"] for r in results if r["step"]["kind"] == "surface"]
    lanes = next((one["value"] for one in told["fit"] if one["parameter"] == "parallelism"), None)
    if depths and lanes is not None and lanes >= max(depths) > 1:
        yield (
            f"IOPS still grow at depth {max(depths)}: the device serves at least that many at"
            f" once; measure with larger --depths ({format_size(told['size_bytes'])} were used)"
        )

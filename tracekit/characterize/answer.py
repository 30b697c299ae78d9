"""Writes what was measured: three tables, the profile, and device.json."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracekit.characterize.fit import Fitted, fit, known_values
from tracekit.characterize.latencies import bucket_low
from tracekit.characterize.profile import checked_name, complete, write_profile
from tracekit.characterize.state import State
from tracekit.characterize.target import Target
from tracekit.characterize.words import headline, warnings
from tracekit.plan.file import OPERATIONS
from tracekit.profiles import choose_profile, load_profiles
from tracekit.schema.device import DEVICE_FIT, DEVICE_LATENCY, DEVICE_STEPS
from tracekit.store import TraceFolder, write_json, write_table

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.characterize.stage import Options

HISTOGRAMS = ("random_write", "random_read")
PROFILE = "device/profile.toml"
RESULT = "device/device.json"
Rows = Iterator[dict[str, Any]]


def write_answer(
    folder: TraceFolder, state: State, *, target: Target, options: Options
) -> dict[str, Any]:
    """Write tables, profile and device.json; return the content of the last."""
    fitted = fit(state.results)
    known = {} if not options.asked.device else known_values(_emulated(options))
    rows = list(_fit_rows(fitted, known))
    write_table(folder.table("device/device_steps"), _table(_steps(state.results), DEVICE_STEPS))
    write_table(
        folder.table("device/device_latency"), _table(_buckets(state.results), DEVICE_LATENCY)
    )
    write_table(folder.table("device/device_fit"), _table(iter(rows), DEVICE_FIT))
    result = _facts(state, target, options)
    result |= {"fit": rows, **_profile(folder, fitted, options)}
    result["warnings"] = warnings(result, state.results)
    result["headline"] = headline(result, state.results)
    write_json(folder.path / RESULT, result)
    return result


def _emulated(options: Options) -> Any:
    return choose_profile(load_profiles(options.asked.profiles), options.asked.device)


def _facts(state: State, target: Target, options: Options) -> dict[str, Any]:
    kinds = {result["step"]["kind"] for result in state.results}
    return {
        "target": None if options.asked.path is None else str(options.asked.path),
        "kind": target.told["kind"],
        "device": options.asked.device or None,
        "engine": state.results[-1]["engine"],
        "is_direct": all(result["is_direct"] for result in state.results),
        "is_emulated": bool(options.asked.device),
        "may_write": target.may_write,
        "confirm_with": target.told.get("confirm_with"),
        "size_bytes": target.size_bytes,
        "steps": len(state.results),
        "failed": sum(result["operations"]["all"]["failed"] for result in state.results),
        "is_filled": "fill" in kinds,
        "scale": options.amounts.scale,
        "seed": options.seed,
        "resumed": state.resumed,
    }


def _profile(folder: TraceFolder, fitted: Sequence[Fitted], options: Options) -> dict[str, Any]:
    """Write the profile if all of it is known; say what was taken from another or is missing."""
    name = checked_name(options.name, path=options.asked.path, device=options.asked.device)
    measured = {one.parameter: one.value for one in fitted if one.is_in_profile}
    values, taken, missing = complete(
        measured,
        like=options.like,
        profiles=options.asked.profiles,
        price_per_gb=options.price_per_gb,
    )
    told: dict[str, Any] = {"name": name, "taken": taken, "missing": missing, "profile": None}
    if not missing:
        what = options.asked.device or str(options.asked.path)
        about = f"measured: {what}" + (f"; {', '.join(taken)} of {options.like}" if taken else "")
        write_profile(folder.path / PROFILE, name, values=values, about=about)
        told["profile"] = PROFILE
    return told


def _fit_rows(fitted: Sequence[Fitted], known: Mapping[str, float]) -> Rows:
    for one in fitted:
        real = known.get(one.parameter)
        yield {
            "parameter": one.parameter,
            "value": one.value,
            "spread_ratio": one.spread_ratio,
            "known_value": real,
            "error_ratio": None if not real else (one.value - real) / real,
            "is_in_profile": one.is_in_profile,
        }


def _steps(results: Sequence[Mapping[str, Any]]) -> Rows:
    for number, result in enumerate(results):
        step = result["step"]
        for operation in ("all", *OPERATIONS):
            told = result["operations"].get(operation)
            if told is None:
                continue
            seconds = max(result["elapsed_ns"], 1) / 1e9
            yield {
                "step": number,
                **{key: step[key] for key in ("kind", "write_ratio", "depth", "length_bytes")},
                "operation": operation,
                "elapsed_ns": result["elapsed_ns"],
                "iops": told["requests"] / seconds,
                "usual_iops": result["usual_iops"] if operation == "all" else None,
                **{key: value for key, value in told.items() if key != "histogram"},
            }


def _buckets(results: Sequence[Mapping[str, Any]]) -> Rows:
    for number, result in enumerate(results):
        kind = result["step"]["kind"]
        if kind not in HISTOGRAMS:
            continue
        operation = kind.removeprefix("random_")
        told = result["operations"].get(operation, {"histogram": [], "requests": 0})
        for bucket, count, _ in told["histogram"]:
            yield {
                "step": number,
                "kind": kind,
                "operation": operation,
                "low_ns": bucket_low(bucket),
                "high_ns": bucket_low(bucket + 1),
                "requests": count,
                "requests_ratio": count / told["requests"],
            }


def _table(rows: Rows, columns: pa.Schema) -> pa.Table:
    """Return the rows as a table; a number that is not finite would be a mistake of ours."""
    import pyarrow as pa

    found = list(rows)
    for row in found:
        for value in row.values():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{row} has a number that is not finite")
    return pa.table({name: [row[name] for row in found] for name in columns.names}, columns)

"""Does the recommendation hold on other devices, in each part of the trace, at other capacities?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.devices import Profile
from tracekit.errors import UsageError
from tracekit.model.answer import (
    ANSWER,
    Answer,
    choose_answer,
    find_answers,
    read_recommendation,
    to_ns,
)
from tracekit.model.block_orders import TouchedBlocks, read_blocks
from tracekit.model.event_simulation import needs_walk, sweep_walked
from tracekit.model.gain_range import GainRange, gain_range
from tracekit.model.placement import Curves, sweep
from tracekit.model.timings import LARGEST_FACTOR, LEAST_FACTOR, OPEN, Variant, variants
from tracekit.model.windows import choose_cut, windows
from tracekit.store import TraceFolder, write_json, write_table
from tracekit.tables import PLACEMENT_NAMES, SENSITIVITY
from tracekit.units import BLOCK_BYTES, format_duration, format_size

DEVICES = {"base": "the base device", "nvm": "the NVM"}


def headline(answer: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on devices, one on windows, and one on capacities."""
    changed = [row for row in rows if row["kind"] == "parameter" and row["requests"]]
    parts = [row for row in rows if row["kind"] == "window" and row["requests"]]
    given = f"With {format_size(answer['capacity_bytes'])}, {PLACEMENT_NAMES[answer['placement']]}"
    found = [f"{given} saves {answer['gain_ratio']:.1%} of the base device's time."]
    if changed:
        least, most = min(changed, key=gain_of), max(changed, key=gain_of)
        found.append(
            f"{_held(changed)} of {len(changed)} changed devices it is still the best answer; the"
            f" gain is {gain_of(least):.1%} ({parameter_name(least)}) to {gain_of(most):.1%}"
            f" ({parameter_name(most)})."
        )
    if parts:
        least, most = min(parts, key=gain_of), max(parts, key=gain_of)
        found.append(
            f"{_held(parts)} of {len(parts)} windows it is the best answer; it"
            f" {_saving(gain_of(least))} in the worst of them ({window_name(least)}) and"
            f" {_saving(gain_of(most))} in the best ({window_name(most)})."
        )
    others = sorted({row["placement"] for row in [*changed, *parts] if not row["holds"]})
    if others:
        found.append(f"Otherwise better: {', '.join(PLACEMENT_NAMES[name] for name in others)}.")
    return [*found, *_sensitivity_words_capacities(rows)]


def gain_of(row: Mapping[str, Any]) -> float:
    """Return the gain of the recommended shares, or of the best where these were not timed."""
    kept = row["kept_gain_ratio"]
    return float(row["gain_ratio"] if kept is None else kept)


def parameter_name(row: Mapping[str, Any]) -> str:
    """Name a change: `read setup of the NVM x 2`."""
    words = str(row["parameter"]).replace("_", " ")
    return f"{words} of {DEVICES[row['device']]} x {row['factor']:g}"


def window_name(row: Mapping[str, Any]) -> str:
    """Name a window: `window 3, from 12 s`."""
    if row["window"] == 1:
        return "window 1, from the start"
    began = f", from {format_duration(row['start_ns'])}" if row["start_ns"] else ""
    return f"window {row['window']}{began}"


def _saving(gain_ratio: float) -> str:
    """Say what a window gains, or that it takes longer than on the base device alone."""
    if gain_ratio < 0:
        return f"takes {-gain_ratio:.1%} more time than the base device alone"
    return f"saves {gain_ratio:.1%} of the time"


def _held(rows: Sequence[Mapping[str, Any]]) -> str:
    return (
        f"On {sum(row['holds'] for row in rows)}"
        if rows[0]["kind"] == "parameter"
        else (f"In {sum(row['holds'] for row in rows)}")
    )


def _sensitivity_words_capacities(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    sizes = [row for row in rows if row["kind"] == "capacity"]
    same = [row["capacity_bytes"] for row in sizes if row["holds"]]
    if not same:
        return []
    if len(same) == len(sizes):
        return ["It is the answer at every capacity."]
    return [f"It is the answer from {format_size(min(same))} to {format_size(max(same))}, at"
            f" {len(same)} of {len(sizes)} capacities."]  # fmt: skip


TABLE = "simulations/sensitivity"
RESULT = "simulations/sensitivity.json"
POINTS = 256
FACTORS = (0.5, 2.0)
KINDS = ("parameter", "window")
SHARES = {"fs": "fs_bytes", "journal": "journal_bytes", "swap": "swap_bytes"}


@dataclass(frozen=True)
class SensitivityOptions:
    """Which answer is tried, by what factors devices change; None for windows: chosen."""

    placement: str = ANSWER
    factors: tuple[float, ...] = FACTORS
    windows: str | None = None  # how many, or how long one is

    def __post_init__(self) -> None:
        """Check the factors."""
        for factor in self.factors:
            if not LEAST_FACTOR <= factor <= LARGEST_FACTOR or factor == 1:
                raise UsageError(
                    f"--factors {factor:g}: not between {LEAST_FACTOR:g} and {LARGEST_FACTOR:g},"
                    " or 1",
                    hint="for example --factors 0.5,2",
                )
        if not self.factors:
            raise UsageError("--factors: no factor", hint="for example --factors 0.5,2")


@dataclass(frozen=True)
class _Question:
    """What stays the same in every variant."""

    touched: TouchedBlocks
    advice: Mapping[str, Any]
    answer: Mapping[str, Any]
    points: NDArray[np.int64]

    @property
    def profiles(self) -> tuple[Profile, Profile]:
        base, nvm = (Profile(**profile) for profile in self.advice["profiles"])
        return base, nvm

    def ask(self, requests: Path, profiles: tuple[Profile, Profile]) -> dict[str, Any]:
        """Return the time of the base, of the recommended shares, and the best answer."""
        is_open = self.advice.get("queueing") == OPEN
        is_issued = self.advice["level"] == "issued"
        if needs_walk(profiles, is_open=is_open):
            curves = sweep_walked(
                (requests, self.touched),
                points=self.points,
                devices=profiles,
                is_issued=is_issued,
                is_open=is_open,
                on_rows=None,
            )
        else:
            curves = sweep(
                requests,
                self.touched,
                points=self.points,
                devices=profiles,
                is_issued=is_issued,
            )
        coverage = self.advice["coverage"]
        best = find_answers(curves, coverage).by_point[self._index(self.answer["capacity_bytes"])]
        kept_ns = None if curves.walked else self._kept_ns(curves)
        return _row(best, kept_ns, requests=sum(curves.totals.requests), told=self.answer)

    def _index(self, size_bytes: int) -> int:
        return int(np.searchsorted(self.points, size_bytes // BLOCK_BYTES))

    def _kept_ns(self, curves: Curves) -> int:
        change_ps = sum(
            int(curves.change_ps[self.advice["coverage"], role][self._index(self.answer[key])])
            for role, key in SHARES.items()
            if self.answer[key]
        )
        return to_ns(curves.base_total_ps + change_ps)


def simulate_sensitivity(
    folder: TraceFolder,
    options: SensitivityOptions,
    *,
    on_step: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Write simulations/sensitivity and its JSON; return the latter's content."""
    advice = read_recommendation(folder)
    answer = choose_answer(advice, options.placement)
    requests = folder.require("requests", made_by="parse")
    touched = read_blocks(folder.require("blocks", made_by="classify"))
    question = _Question(touched, advice, answer, _points(answer))
    cut = choose_cut(folder, options.windows)
    with windows(folder, cut) as (parts, timeless):
        changed = list(variants(question.profiles, options.factors))
        steps = _Steps(1 + len(changed) + len(parts), on_step)
        rows = [{"kind": "recommended", **steps.ask("as it is", question, requests=requests)}]
        for variant in changed:
            rows.append(_of_variant(variant, steps, question, requests))
        for part, table in parts:
            found = steps.ask("window", question, requests=table)
            place = {"window": part.number, "start_ns": part.start_ns, "end_ns": part.end_ns}
            rows.append({"kind": "window", **place, **found})
    if any(row["kept_ns"] is None for row in rows):
        told = {**advice, "answer": answer}
        keep(rows, gain_range((requests, touched), cut, result=told, factors=options.factors))
    rows += list(_capacities(advice, answer))
    result = _result(advice, answer, rows) | {
        "window_ns": cut.length_ns,
        "window_requests": cut.requests,
        "factors": list(options.factors),
        "requests_without_time": timeless,
    }
    (folder.path / "simulations").mkdir(exist_ok=True)
    write_table(folder.table(TABLE), _table(rows))
    write_json(folder.path / RESULT, result)
    return result


@dataclass
class _Steps:
    """Asks, and tells how far it is."""

    total: int
    on_step: Callable[[str, int, int], None] | None
    done: int = 0

    def ask(
        self,
        name: str,
        question: _Question,
        *,
        requests: Path,
        profiles: tuple[Profile, Profile] | None = None,
    ) -> dict[str, Any]:
        if self.on_step is not None:
            self.on_step(name, self.done, self.total)
        self.done += 1
        return question.ask(requests, profiles or question.profiles)


def _of_variant(
    variant: Variant, steps: _Steps, question: _Question, requests: Path
) -> dict[str, Any]:
    found = steps.ask("device", question, requests=requests, profiles=variant.of(question.profiles))
    named = {"device": variant.device, "parameter": variant.parameter, "factor": variant.factor}
    return {"kind": "parameter", **named, **found}


def _points(answer: Mapping[str, Any]) -> NDArray[np.int64]:
    """Return the capacities at which splits are tried: the shares, the whole, and some between."""
    end = answer["capacity_bytes"] // BLOCK_BYTES
    shares = [answer[key] // BLOCK_BYTES for key in SHARES.values()]
    even = np.rint(np.linspace(0, end, min(POINTS, end + 1))).astype(np.int64)
    return np.unique(np.concatenate([even, np.array([0, end, *shares], np.int64)]))


def _row(
    best: Answer, kept_ns: int | None, *, requests: int, told: Mapping[str, Any]
) -> dict[str, Any]:
    base_ns = best.base_elapsed_ns
    return {
        "capacity_bytes": best.capacity_bytes,
        "requests": requests,
        "base_ns": base_ns,
        "kept_ns": kept_ns,
        "kept_gain_ratio": None if kept_ns is None else _gain(kept_ns, base_ns),
        "placement": best.placement,
        "gain_ratio": best.gain_ratio,
        "holds": best.placement == told["placement"],
    }


def keep(rows: list[dict[str, Any]], found: GainRange | None) -> None:
    """Give rows of models that walk the time of the recommended shares, all from one pass."""
    if found is None:
        return
    gains: dict[object, float] = {"recommended": found.gain_ratio}
    gains |= {(one.device, one.parameter, one.factor): one.gain_ratio for one in found.parts}
    gains |= {one.window: one.gain_ratio for one in found.windows}
    for row in rows:
        key = {
            "recommended": "recommended",
            "parameter": (row.get("device"), row.get("parameter"), row.get("factor")),
            "window": row.get("window"),
        }[row["kind"]]
        if key in gains:
            row["kept_gain_ratio"] = gains[key]
            row["kept_ns"] = round(row["base_ns"] * (1 - gains[key]))


def _gain(time_ns: int, base_ns: int) -> float:
    return 1 - time_ns / base_ns if base_ns else 0.0


def _capacities(advice: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the answers at the other capacities, as the recommendation has them."""
    requests = sum(role["requests"] for role in advice["roles"].values())
    for other in advice["answers"]:
        yield {
            "kind": "capacity",
            "capacity_bytes": other["capacity_bytes"],
            "requests": requests,
            "base_ns": other["base_elapsed_ns"],
            "placement": other["placement"],
            "gain_ratio": other["gain_ratio"],
            "holds": other["placement"] == answer["placement"],
        }


def _result(
    advice: Mapping[str, Any], answer: Mapping[str, Any], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    tried = [row for row in rows if row["kind"] in ("parameter", "window") and row["requests"]]
    gains = {kind: _range(row for row in tried if row["kind"] == kind) for kind in KINDS}
    return {
        "answer": dict(answer),
        "base_profile": advice["base_profile"],
        "nvm_profile": advice["nvm_profile"],
        "gain_ratio": answer["gain_ratio"],
        "gain_range": {kind: found for kind, found in gains.items() if found},
        "held": sum(row["holds"] for row in tried),
        "tried": len(tried),
        "headline": headline(answer, rows),
    }


def _range(rows: Iterator[dict[str, Any]]) -> list[float] | None:
    """Return the least and the largest gain of the recommendation's own shares."""
    gains = [
        row["gain_ratio"] if row["kept_gain_ratio"] is None else row["kept_gain_ratio"]
        for row in rows
    ]
    return [min(gains), max(gains)] if gains else None


def _table(rows: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(rows, SENSITIVITY)

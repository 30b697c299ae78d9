"""How much a recommendation would gain on other devices, and in each window of the trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tracekit.native.placement import PLACED_ROLES, Rows
from tracekit.profiles import Profile
from tracekit.recommend.counted import Counter, Placed, counters
from tracekit.recommend.models import OPEN
from tracekit.schema import BLOCK_BYTES, ROLES
from tracekit.simulate.block_orders import TouchedBlocks
from tracekit.simulate.columns import ahead
from tracekit.simulate.placement import read_rows
from tracekit.simulate.variants import Variant, variants
from tracekit.simulate.windows import Cut, Cutter

FACTORS = (0.5, 2.0)


@dataclass(frozen=True)
class PartGain:
    """Gain where one part of one device takes `factor` times as long."""

    gain_ratio: float
    device: str
    parameter: str
    factor: float


@dataclass(frozen=True)
class WindowGain:
    """Gain in one window, were it a trace of its own."""

    gain_ratio: float
    window: int
    start_ns: int | None
    end_ns: int | None
    requests: int


@dataclass(frozen=True)
class GainRange:
    """Gains of the answer's shares, one a changed part and one a window that has requests."""

    gain_ratio: float  # on the devices as they are
    parts: tuple[PartGain, ...]
    windows: tuple[WindowGain, ...]
    cut: Cut
    factors: tuple[float, ...]

    def told(self) -> dict[str, Any]:
        """Return the least and the most, over all and by kind, as recommendation.json has them."""
        found: dict[str, Any] = {"factors": list(self.factors), "cut": asdict(self.cut)}
        every: tuple[PartGain | WindowGain, ...] = (*self.parts, *self.windows)
        for name, gains in (("parameter", self.parts), ("window", self.windows)):
            found[name] = _ends(gains) if gains else None
        low, high = _least(every), _most(every)
        return {"low_ratio": low.gain_ratio, "high_ratio": high.gain_ratio, **found}


def gain_range(
    trace: tuple[Path, TouchedBlocks],
    cut: Cut,
    *,
    result: Mapping[str, Any],
    factors: tuple[float, ...] = FACTORS,
) -> GainRange | None:
    """Return the range of a recommendation, from one pass; None where nothing is placed.

    `trace` is requests.parquet and its blocks, `result` the content of recommendation.json.
    """
    answer = result["answer"]
    if answer["placement"] == "base":
        return None
    base, nvm = (Profile(**profile) for profile in result["profiles"])
    changes = list(variants((base, nvm), factors))
    placed = Placed(
        touched=trace[1],
        shares={role: answer[f"{role}_bytes"] // BLOCK_BYTES for role in ROLES[:PLACED_ROLES]},
        coverage=result["coverage"],
        devices=[(base, nvm), *(change.of((base, nvm)) for change in changes)],
        is_issued=result["level"] == "issued",
        is_open=result.get("queueing") == OPEN,
    )
    with counters(placed) as (whole, part):
        batches = ahead(read_rows(trace[0], trace[1].device_names))
        windows = tuple(_windows(batches, whole, part, cut))
        gains = whole.finish()
    if gains is None:
        return None
    parts = zip(changes, gains[1:], strict=True)
    found = tuple(_part(change, gain) for change, gain in parts)
    return GainRange(gains[0], found, windows, cut, factors)


def _windows(
    batches: Iterator[Rows], whole: Counter, part: Counter, cut: Cut
) -> Iterator[WindowGain]:
    """Give the whole trace to one counter, and yield what the other gains in each window."""
    import numpy as np

    cutter = Cutter(cut)
    current: int | None = None
    for rows in batches:
        whole.add(rows)
        time_ns = np.where(rows.queue_ns < 0, rows.issue_ns, rows.queue_ns)
        for number, begin, end in cutter.parts(time_ns):
            if current is not None and current != number:
                yield from _closed(part, cutter, current)
            current = number
            part.add(_slice(rows, begin, end))
    yield from _closed(part, cutter, current)


def _closed(part: Counter, cutter: Cutter, number: int | None) -> Iterator[WindowGain]:
    gains = part.finish()
    if gains is not None and number is not None:
        one = cutter.window(number)
        yield WindowGain(gains[0], one.number, one.start_ns, one.end_ns, one.requests)


def _slice(rows: Rows, begin: int, end: int) -> Rows:
    if end - begin == len(rows.request_id):
        return rows
    return Rows(**{one.name: getattr(rows, one.name)[begin:end] for one in fields(Rows)})


def _part(change: Variant, gain_ratio: float) -> PartGain:
    return PartGain(gain_ratio, change.device, change.parameter, change.factor)


def _ends(gains: tuple[PartGain | WindowGain, ...]) -> dict[str, Any]:
    return {"tried": len(gains), "low": asdict(_least(gains)), "high": asdict(_most(gains))}


def _least(gains: tuple[PartGain | WindowGain, ...]) -> PartGain | WindowGain:
    return min(gains, key=lambda one: one.gain_ratio)


def _most(gains: tuple[PartGain | WindowGain, ...]) -> PartGain | WindowGain:
    return max(gains, key=lambda one: one.gain_ratio)

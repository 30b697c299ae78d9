"""How much a recommendation would gain on other devices, and in each window of the trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tracekit.native.ledger import Counts, Ledger
from tracekit.native.placement import PLACED_ROLES, Rows
from tracekit.profiles import Profile
from tracekit.recommend.answer import Answer, saved_ratio
from tracekit.recommend.models import OPEN
from tracekit.schema import BLOCK_BYTES, ROLES
from tracekit.simulate.block_orders import TouchedBlocks
from tracekit.simulate.columns import ahead
from tracekit.simulate.ledger import disks_of, hold, time_ps
from tracekit.simulate.placement import read_rows
from tracekit.simulate.variants import Variant, variants
from tracekit.simulate.windows import Cut, Cutter, Window, choose_cut
from tracekit.store import TraceFolder

FACTORS = (0.5, 2.0)
Pair = tuple[Counts, Counts]


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

    parts: tuple[PartGain, ...]
    windows: tuple[WindowGain, ...]
    cut: Cut
    factors: tuple[float, ...] = FACTORS

    def told(self) -> dict[str, Any]:
        """Return the least and the most, over all and by kind, as recommendation.json has them."""
        found: dict[str, Any] = {"factors": list(self.factors), "cut": asdict(self.cut)}
        every: tuple[PartGain | WindowGain, ...] = (*self.parts, *self.windows)
        for name, gains in (("parameter", self.parts), ("window", self.windows)):
            found[name] = _ends(gains) if gains else None
        low, high = _least(every), _most(every)
        return {"low_ratio": low.gain_ratio, "high_ratio": high.gain_ratio, **found}


def found_range(
    folder: TraceFolder, trace: tuple[Path, TouchedBlocks], *, result: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the range of a recommendation; None where nothing is placed, and with queues."""
    if result["queueing"] == OPEN or result["answer"]["placement"] == "base":
        return None
    base, nvm = (Profile(**profile) for profile in result["profiles"])
    return gain_range(
        trace,
        Answer(**result["answer"]),
        profiles=(base, nvm),
        coverage=result["coverage"],
        is_issued=result["level"] == "issued",
        cut=choose_cut(folder),
    ).told()


def gain_range(
    trace: tuple[Path, TouchedBlocks],
    answer: Answer,
    *,
    profiles: tuple[Profile, Profile],
    coverage: str,
    is_issued: bool,
    cut: Cut,
) -> GainRange:
    """Count the requests of the answer's placement once, and price them for each change.

    For models that serve one request after the other.
    """
    changes = list(variants(profiles, FACTORS))
    disks = disks_of([profiles, *(change.of(profiles) for change in changes)])
    shares = {
        role: getattr(answer, f"{role}_bytes") // BLOCK_BYTES for role in ROLES[:PLACED_ROLES]
    }
    held = hold(trace[1], shares, coverage=coverage, is_issued=is_issued, disks=disks)

    def gain(counts: Pair, devices: tuple[Profile, Profile]) -> float:
        alone_ps, placed_ps = (time_ps(one, devices, disks=disks) for one in counts)
        return saved_ratio(placed_ps, alone_ps)

    counts = _Counts(cut)
    with Ledger(held) as whole, Ledger(held) as part:
        total = counts.read(
            ahead(read_rows(trace[0], trace[1].device_names)), whole=whole, part=part
        )
    return GainRange(
        tuple(_part(change, gain(total, change.of(profiles))) for change in changes),
        tuple(_window(one, gain(pair, profiles)) for one, pair in counts.windows),
        cut,
    )


class _Counts:
    """Reads a trace into a ledger of all of it, and one of each window after the other."""

    def __init__(self, cut: Cut) -> None:
        self._cutter = Cutter(cut)
        self._number: int | None = None
        self.windows: list[tuple[Window, Pair]] = []

    def read(self, batches: Iterator[Rows], *, whole: Ledger, part: Ledger) -> Pair:
        import numpy as np

        for rows in batches:
            whole.add(rows)
            time_ns = np.where(rows.queue_ns < 0, rows.issue_ns, rows.queue_ns)
            for number, begin, end in self._cutter.parts(time_ns):
                if number != self._number:
                    self._close(part)
                    self._number = number
                part.add(_slice(rows, begin, end))
        self._close(part)
        return whole.finish()

    def _close(self, part: Ledger) -> None:
        if self._number is None:
            return
        pair = part.finish()
        if not pair[0].is_empty:
            self.windows.append((self._cutter.window(self._number), pair))


def _slice(rows: Rows, begin: int, end: int) -> Rows:
    if end - begin == len(rows.request_id):
        return rows
    return Rows(**{one.name: getattr(rows, one.name)[begin:end] for one in fields(Rows)})


def _part(change: Variant, gain_ratio: float) -> PartGain:
    return PartGain(gain_ratio, change.device, change.parameter, change.factor)


def _window(one: Window, gain_ratio: float) -> WindowGain:
    return WindowGain(gain_ratio, one.number, one.start_ns, one.end_ns, one.requests)


def _ends(gains: tuple[PartGain | WindowGain, ...]) -> dict[str, Any]:
    return {"tried": len(gains), "low": asdict(_least(gains)), "high": asdict(_most(gains))}


def _least(gains: tuple[PartGain | WindowGain, ...]) -> PartGain | WindowGain:
    return min(gains, key=lambda one: one.gain_ratio)


def _most(gains: tuple[PartGain | WindowGain, ...]) -> PartGain | WindowGain:
    return max(gains, key=lambda one: one.gain_ratio)

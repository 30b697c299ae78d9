"""How much a recommendation would gain were a device faster or slower than its profile says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tracekit.native.placement import PLACED_ROLES
from tracekit.profiles import Profile
from tracekit.recommend.answer import Answer
from tracekit.schema import BLOCK_BYTES, ROLES
from tracekit.simulate.block_orders import TouchedBlocks
from tracekit.simulate.placement import sweep

FACTORS = (0.5, 2.0)
RATES = ("read_mib_s", "write_mib_s")
TIMES = ("read_latency_us", "write_latency_us", "flush_us", "fua_us", "sequential_setup_us")


@dataclass(frozen=True)
class GainRange:
    """Gain of the same shares with the NVM twice and half as fast against the base device."""

    low_ratio: float
    high_ratio: float
    factors: tuple[float, ...] = FACTORS


def gain_range(
    trace: tuple[Path, TouchedBlocks],
    answer: Answer,
    *,
    profiles: tuple[Profile, Profile],
    coverage: str,
    is_issued: bool,
) -> GainRange:
    """Charge the trace again with NVM that takes half and twice as long.

    A gain is a ratio of times, so it is the same whether the NVM is twice as slow or the base
    device twice as fast.
    """
    blocks = {
        role: getattr(answer, f"{role}_bytes") // BLOCK_BYTES for role in ROLES[:PLACED_ROLES]
    }
    base, nvm = profiles
    gains = [
        _gain(trace, (base, scaled(nvm, factor)), blocks, coverage=coverage, is_issued=is_issued)
        for factor in FACTORS
    ]
    return GainRange(min(gains), max(gains))


def scaled(profile: Profile, factor: float) -> Profile:
    """Return a device of constant costs that takes `factor` times as long for everything."""
    known = asdict(profile)
    values = {name: known[name] * factor for name in TIMES if known[name] is not None}
    return replace(profile, **values, **{name: known[name] / factor for name in RATES})


def _gain(
    trace: tuple[Path, TouchedBlocks],
    profiles: tuple[Profile, Profile],
    blocks: Mapping[str, int],
    *,
    coverage: str,
    is_issued: bool,
) -> float:
    import numpy as np

    points = np.unique(np.array([0, *blocks.values()], np.int64))
    curves = sweep(*trace, points=points, devices=profiles, is_issued=is_issued)
    change_ps = sum(
        int(curves.change_ps[coverage, role][np.searchsorted(points, count)])
        for role, count in blocks.items()
        if count
    )
    return -change_ps / curves.base_total_ps if curves.base_total_ps else 0.0

"""Which pair of one cost is best when a device is faster, slower, cheaper or dearer than said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracekit.errors import UsageError
from tracekit.profiles import Profile
from tracekit.schema.cache import CACHE_SENSITIVITY
from tracekit.simulate.cache_grid import even_pairs
from tracekit.simulate.cache_plane import Devices, Pair
from tracekit.simulate.variants import read_factor

LEVELS = ("pcm", "flash", "base")
KEYS = ("read_latency_us", "write_latency_us", "price_per_gb")
MEASURES = ("read_latency_avg", "io_time")
FACTORS = (0.5, 2.0)
# Those of study B, section 5.
STUDIED = tuple(("pcm", key, FACTORS) for key in KEYS)
# What is less is said to be nothing.
LEAST_GAIN_RATIO = 5e-4
MOST_CHANGES = 64
HINT = "such as pcm.read_latency_us=0.25,4"


@dataclass(frozen=True)
class Change:
    """A parameter of one of the levels, times a factor; 1 of the first is as the profiles say."""

    level: str
    key: str
    factor: float

    @property
    def parameter(self) -> str:
        """Its name as the user writes it."""
        return f"{self.level}.{self.key}"

    def of(self, devices: Devices) -> Devices:
        """Return the devices with it changed; a page of any size takes `factor` times as long."""
        profile: Profile = getattr(devices, self.level)
        values = {self.key: getattr(profile, self.key) * self.factor}
        if self.key != "price_per_gb":
            rate = self.key.replace("latency_us", "mib_s")
            values[rate] = getattr(profile, rate) / self.factor
        changed = {self.level: replace(profile, **values)}
        return Devices(
            changed.get("pcm", devices.pcm),
            changed.get("flash", devices.flash),
            changed.get("base", devices.base),
            devices.page_bytes,
        )


def parse_changes(texts: Sequence[str]) -> tuple[Change, ...]:
    """Return those of study B and the user's LEVEL.KEY=FACTOR,..., each once, in this order.

    UsageError names a level, key or factor that cannot be.
    """
    wanted = [*STUDIED, *(_parse(text) for text in texts)]
    changes = [Change(level, key, factor) for level, key, factors in wanted for factor in factors]
    changes = list(dict.fromkeys(changes))
    if len(changes) > MOST_CHANGES:
        raise UsageError(f"--vary: {len(changes)} changes are more than {MOST_CHANGES}")
    return tuple(changes)


def _parse(text: str) -> tuple[str, str, tuple[float, ...]]:
    name, equals, factors = text.partition("=")
    level, _, key = name.strip().partition(".")
    if not equals or level not in LEVELS or key not in KEYS:
        known = f"one of {', '.join(LEVELS)}, a point, one of {', '.join(KEYS)}"
        raise UsageError(f"--vary: there is no parameter '{name}' in '{text}'", hint=known)
    if key == "price_per_gb" and level == "base":
        raise UsageError(f"--vary: {name}: what is behind the caches is not bought", hint=HINT)
    return level, key, tuple(read_factor(text, factor, hint=HINT) for factor in factors.split(","))


def price_ratios(devices: Devices, changes: Sequence[Change]) -> list[float]:
    """Return the price ratios of PCM to flash that occur, that of the profiles first."""
    changed = [change.of(devices).price_ratio for change in changes]
    return list(dict.fromkeys([devices.price_ratio, *changed]))


def sensitivity_table(
    devices: Devices,
    changes: Sequence[Change],
    *,
    budgets: Sequence[int],
    pair_at: Callable[[int, int], Pair],
) -> Any:
    """Return the best pair of each budget (in pages of flash) under each change, by each measure.

    The rows of the devices as they are have no parameter and the factor 1.
    """
    import pyarrow as pa

    rows: list[Mapping[str, Any]] = []
    for change in (None, *changes):
        for budget in budgets:
            rows += _rows(devices, change, budget=budget, pair_at=pair_at)
    return pa.Table.from_pylist(rows, CACHE_SENSITIVITY)


def _rows(
    devices: Devices, change: Change | None, *, budget: int, pair_at: Callable[[int, int], Pair]
) -> Iterator[dict[str, Any]]:
    varied = devices if change is None else change.of(devices)
    # What is left of a page of PCM buys nothing: less flash without PCM is no split.
    pairs = [
        pair for pair in even_pairs(budget, varied.price_ratio) if pair[0] or pair[1] == budget
    ]
    found = [(pcm, flash, pair_at(pcm, flash)) for pcm, flash in pairs]
    for measure in MEASURES:
        values = [_value(measure, pair, varied) for _, _, pair in found]
        timed = [(value, at) for at, value in enumerate(values) if value is not None]
        if not timed:
            continue
        best_ns, at = min(timed)
        flash_ns = timed[0][0]
        yield {
            "measure": measure,
            "parameter": None if change is None else change.parameter,
            "factor": 1.0 if change is None else change.factor,
            "even_flash_bytes": budget * devices.page_bytes,
            "pcm_price_in_flash": varied.price_ratio,
            "pcm_bytes": found[at][0] * devices.page_bytes,
            "flash_bytes": found[at][1] * devices.page_bytes,
            "best_ns": best_ns,
            "flash_alone_ns": flash_ns,
            "gain_ratio": 1 - best_ns / flash_ns if flash_ns else 0.0,
        }


def _value(measure: str, pair: Pair, devices: Devices) -> float | None:
    if measure == "io_time":
        return pair.io_time_ns(devices)
    return pair.read_latency_ns(devices)

"""A PCM cache above a flash cache: counts, latency and time for every pair of sizes.

Two exclusive LRU levels with demotion contain together what one LRU of both sizes contains, and
the fast one what an LRU of its size contains; so one pass of stack distances gives the whole plane
where writes go through. Other policies, other ways of writing and inclusive levels are simulated
pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native import caches
from tracekit.devices import Profile
from tracekit.errors import UsageError
from tracekit.model.cache_passes import even_pairs, parts
from tracekit.model.changes import Change, read_changes
from tracekit.model.miss_ratio_curve import HitCounts
from tracekit.tables import CACHE_SENSITIVITY
from tracekit.units import MIB

LEVELS = ("pcm", "flash", "base")
KEYS = ("read_latency_us", "write_latency_us", "price_per_gb")
FACTORS = (0.5, 2.0)
# Those of study B, section 5.
STUDIED = [Change("pcm", key, factor) for key in KEYS for factor in FACTORS]
# A smaller gain is reported as none.
LEAST_GAIN_RATIO = 5e-4
HINT = "such as pcm.read_latency_us=0.25,4"


@dataclass(frozen=True)
class Devices:
    """PCM, flash and what is behind both, with the page that is moved."""

    pcm: Profile
    flash: Profile
    base: Profile
    page_bytes: int

    def read_us(self, device: Profile) -> float:
        """Return the time to read a page."""
        return device.read_setup_us + self.page_bytes / MIB / device.read_mib_s * 1e6

    def write_us(self, device: Profile) -> float:
        """Return the time to write a page."""
        return device.write_setup_us + self.page_bytes / MIB / device.write_mib_s * 1e6

    @property
    def price_ratio(self) -> float:
        """Price of a gigabyte of PCM, in gigabytes of flash."""
        return self.pcm.price_per_gb / self.flash.price_per_gb

    def changed(self, change: Change) -> Devices:
        """Return the devices with a change; a page of any size takes `factor` times as long."""
        level, key = str(change.device), change.parameter
        profile: Profile = getattr(self, level)
        values = {key: getattr(profile, key) * change.factor}
        if key != "price_per_gb":
            rate = key.replace("latency_us", "mib_s")
            values[rate] = getattr(profile, rate) / change.factor
        changed: dict[str, Any] = {level: replace(profile, **values)}
        return replace(self, **changed)


@dataclass(frozen=True)
class Pair:
    """What two levels did, in pages; sampled counts are estimates."""

    reads: float
    writes: float
    pcm_read_hits: float
    flash_read_hits: float
    pcm_writes: float
    flash_writes: float
    base_writes: float
    dirty_pages: float = 0.0  # at the end newer in a level than behind both

    @property
    def base_reads(self) -> float:
        """Reads that neither level had."""
        return max(0.0, self.reads - self.pcm_read_hits - self.flash_read_hits)

    def read_latency_ns(self, devices: Devices) -> float | None:
        """Return the mean time of a read where it was found; None without reads."""
        if not self.reads:
            return None
        return self._read_us(devices) / self.reads * 1e3

    def io_time_ns(self, devices: Devices) -> float:
        """Return the time of all reads and writes of all three devices, one after the other."""
        written = self.pcm_writes * devices.write_us(devices.pcm)
        written += self.flash_writes * devices.write_us(devices.flash)
        written += self.base_writes * devices.write_us(devices.base)
        return (self._read_us(devices) + written) * 1e3

    def _read_us(self, devices: Devices) -> float:
        return (
            self.pcm_read_hits * devices.read_us(devices.pcm)
            + self.flash_read_hits * devices.read_us(devices.flash)
            + self.base_reads * devices.read_us(devices.base)
        )


def exclusive_pair(
    counts: HitCounts, pages: tuple[int, int], *, writes_allocate: bool = True
) -> Pair:
    """Return what exclusive LRU levels of these sizes do, from one pass; writes go through.

    A page that is not in the fast level is written to it when it comes, and one that is when it is
    written. What comes to a full fast level demotes a page to the slow one, which writes it there;
    the fast level is full when it has taken in as many pages as it can. Without write allocation
    a write is written where the page is.
    """
    pcm, flash = pages
    reads, writes = counts.references[0::2].sum(), counts.references[1::2].sum()
    in_pcm, in_both = counts.at(pcm), counts.at(pcm + flash)
    read_hits = (in_pcm[0::2].sum(), in_both[0::2].sum())
    write_hits = (in_pcm[1::2].sum(), in_both[1::2].sum())
    comings = reads - read_hits[0] + (writes - write_hits[0]) * writes_allocate
    allocated = counts.cold.sum() if writes_allocate else counts.cold[0::2].sum()
    if pcm == 0:
        missed = reads - read_hits[1] + (writes - write_hits[1]) * writes_allocate
        flash_writes = (missed + write_hits[1]) if flash else 0.0
        return Pair(reads, writes, 0.0, read_hits[1], 0.0, flash_writes, writes)
    demoted = comings - min(pcm, allocated) if flash else 0.0
    in_place = 0.0 if writes_allocate else write_hits[1] - write_hits[0]
    return Pair(
        reads,
        writes,
        read_hits[0],
        read_hits[1] - read_hits[0],
        comings + write_hits[0],
        max(0.0, demoted + in_place),
        writes,
    )


def pair_of(counts: caches.TwoLevelCounts) -> Pair:
    """Return the counts of the explicit simulation as those of a pair."""
    return Pair(
        counts.references[0],
        counts.references[1],
        counts.fast_hits[0],
        counts.slow_hits[0],
        counts.fills[0] + counts.updates[0],
        counts.fills[1] + counts.updates[1],
        counts.base_writes,
        counts.dirty,
    )


def simulated_pair(setup: caches.TwoLevelSetup, runs: NDArray[np.void]) -> Pair:
    """Return what two levels of any policies and arrangement do, reference by reference."""
    with caches.TwoLevel(setup) as cache:
        for part in parts(runs):
            cache.add(part)
        return pair_of(cache.read())


def simulate_policies(
    setups: Sequence[caches.CacheSetup],
    runs: NDArray[np.void],
    *,
    on_step: Callable[[str, int, int], None],
) -> Iterator[caches.CacheCounts]:
    """Go through the runs once for each setup; those of one policy share its future."""
    future: NDArray[np.uint32] | None = None
    for at, setup in enumerate(setups):
        on_step(f"{setup.policy}, {setup.capacity:,} pages", at, len(setups))
        if setup.policy != "optimum":
            future = None
        elif future is None:
            future = caches.next_uses(setup, runs)
        with caches.Cache(setup) as cache:
            done = 0
            for part in parts(runs):
                count = int(part["count"].sum()) if future is not None else 0
                cache.add(part, None if future is None else future[done : done + count])
                done += count
            yield cache.read()


def parse_changes(texts: Sequence[str]) -> tuple[Change, ...]:
    """Return those of study B and the user's LEVEL.KEY=FACTOR,..., each once, in this order.

    UsageError names a level, key or factor that cannot be.
    """
    for text in texts:
        if text.partition("=")[0].strip() == "base.price_per_gb":
            raise UsageError("--vary: what is behind the caches is not bought", hint=HINT)
    known = f"one of {', '.join(LEVELS)}, a point, one of {', '.join(KEYS)}"
    return read_changes(
        texts,
        lambda level, key: level in LEVELS and key in KEYS,
        known=known,
        hint=HINT,
        first=STUDIED,
    )


def price_ratios(devices: Devices, changes: Sequence[Change]) -> list[float]:
    """Return the price ratios of PCM to flash that occur, that of the profiles first."""
    changed = [devices.changed(change).price_ratio for change in changes]
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
    rows = [
        row
        for change in (None, *changes)
        for budget in budgets
        for row in _rows(devices, change, budget=budget, pair_at=pair_at)
    ]
    return pa.Table.from_pylist(rows, CACHE_SENSITIVITY)


def _rows(
    devices: Devices, change: Change | None, *, budget: int, pair_at: Callable[[int, int], Pair]
) -> Iterator[dict[str, Any]]:
    varied = devices if change is None else devices.changed(change)
    # What is left of a page of PCM buys nothing: less flash without PCM is no split.
    pairs = [
        pair for pair in even_pairs(budget, varied.price_ratio) if pair[0] or pair[1] == budget
    ]
    found = [pair_at(*pair) for pair in pairs]
    measured: dict[str, list[float | None]] = {
        "read_latency_avg": [pair.read_latency_ns(varied) for pair in found],
        "io_time": [pair.io_time_ns(varied) for pair in found],
    }
    for measure, values in measured.items():
        timed = [(value, at) for at, value in enumerate(values) if value is not None]
        if not timed:
            continue
        best_ns, at = min(timed)
        flash_ns = timed[0][0]
        yield {
            "measure": measure,
            "parameter": change and f"{change.device}.{change.parameter}",
            "factor": 1.0 if change is None else change.factor,
            "even_flash_bytes": budget * devices.page_bytes,
            "pcm_price_in_flash": varied.price_ratio,
            "pcm_bytes": pairs[at][0] * devices.page_bytes,
            "flash_bytes": pairs[at][1] * devices.page_bytes,
            "best_ns": best_ns,
            "flash_alone_ns": flash_ns,
            "gain_ratio": 1 - best_ns / flash_ns if flash_ns else 0.0,
        }

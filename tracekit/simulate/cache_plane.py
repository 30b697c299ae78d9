"""A PCM cache above a flash cache: counts, latency and time for every pair of sizes.

Two exclusive LRU levels with demotion hold together what one LRU of both sizes holds, and the fast
one what an LRU of its size holds; so one pass of stack distances gives the whole plane where
writes go through. Other policies, other ways of writing and inclusive levels are simulated pair by
pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.native.caches import TwoLevel, TwoLevelCounts, TwoLevelSetup
from tracekit.profiles import Profile
from tracekit.simulate.cache_passes import parts
from tracekit.simulate.hit_counts import HitCounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIB = 1 << 20


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
    the fast level is full when it has taken in as many pages as it holds. Without write allocation
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


def pair_of(counts: TwoLevelCounts) -> Pair:
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


def simulated_pair(setup: TwoLevelSetup, runs: NDArray[np.void]) -> Pair:
    """Return what two levels of any policies and arrangement do, reference by reference."""
    with TwoLevel(setup) as cache:
        for part in parts(runs):
            cache.add(part)
        return pair_of(cache.read())

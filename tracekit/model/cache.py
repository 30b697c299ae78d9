"""What a cache of any size would give: curves, policies and the plane of PCM above flash."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit._native.caches import (
    POLICIES,
    SHARDS_SCALE,
    WRITES,
    CacheCounts,
    CacheSetup,
    ShardsTotals,
    TwoLevelSetup,
)
from tracekit.arrow import row_count
from tracekit.devices import Profile, choose_profile, load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.metadata import VALUE_WARNINGS, Record
from tracekit.model import cache_passes, cache_plane, miniature
from tracekit.model.assumptions import warned
from tracekit.model.block_orders import read_blocks
from tracekit.model.cache_passes import Grid, OnRows, Passed
from tracekit.model.cache_plane import Devices, Pair
from tracekit.model.cache_words import headline
from tracekit.model.changes import Change
from tracekit.model.miniature import Miniature
from tracekit.model.miss_ratio_curve import Accesses, HitCounts, page_keys
from tracekit.store import TraceFolder, write_results
from tracekit.tables import CACHE_CURVE, CACHE_PLANE, CACHE_POLICIES, ROLES
from tracekit.units import BLOCK_BYTES, format_size

LEVELS = ("pcm", "flash")
LRU_LEVELS = ("lru", "lru")
# The optimum is for one level: what is best for both together is another question.
LEVEL_POLICIES = tuple(policy for policy in POLICIES if policy != "optimum")
OPERATION_ROWS = {"all": (0, 1), "read": (0,), "write": (1,)}
MOST_VOLUMES = 64
LARGEST_PAGE_BYTES = 1 << 24
# The optimum keeps four bytes for each reference: 256 MiB.
MOST_OPTIMUM_REFERENCES = 1 << 26
TABLES = ("cache_curve", "cache_policies", "cache_plane", "cache_sensitivity")
LEVEL_WRITES = {
    "through": "writes go through both",
    "back": "a write goes to the fastest level that has its page, and further down when the page"
    " leaves; what is still newer at the end is not written behind",
    "around": "writes go around both, where copies leave",
}
MINIATURE = (
    "policies of a sample are miniature simulations: the sampled pages in a cache that is as much"
    " smaller; the band of a size holds 95% by the spread of four quarters of the sample, and those"
    " of neighbouring sizes hold or miss together, as all are of the same pages"
)
PAIR_COUNTS = (
    "reads", "pcm_read_hits", "flash_read_hits", "pcm_writes", "flash_writes", "base_writes",
    "dirty_pages",
)  # fmt: skip


def parse_policies(text: str) -> tuple[str, str]:
    """Return the policies of PCM and flash in `pcm=arc,flash=fifo`; a level not named is LRU."""
    chosen: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        level, equals, policy = (word.strip() for word in part.partition("="))
        if not equals or level not in LEVELS:
            raise UsageError(
                f"--level-policy: '{part}' is not pcm=POLICY or flash=POLICY",
                hint="such as pcm=arc,flash=fifo",
            )
        if level in chosen:
            raise UsageError(f"--level-policy: '{level}' is there twice")
        chosen[level] = policy
    return check_policies((chosen.get("pcm", "lru"), chosen.get("flash", "lru")))


def check_policies(policies: tuple[str, str]) -> tuple[str, str]:
    """Return the policies if two levels can have them; raise UsageError."""
    for policy in policies:
        if policy not in LEVEL_POLICIES:
            raise UsageError(
                f"--level-policy: no level can have '{policy}'",
                hint=f"choose from {', '.join(LEVEL_POLICIES)}",
            )
    return policies


def level_words(levels: str, policies: tuple[str, str], *, writes: str = "through") -> str:
    """Return how two levels are arranged, such as: exclusive levels, arc above fifo, write-back."""
    words = [f"{levels} levels"]
    if policies != LRU_LEVELS:
        words.append(f"{policies[0]} above {policies[1]}")
    if writes != "through":
        words.append(f"write-{writes}")
    return ", ".join(words)


@dataclass(frozen=True)
class CacheOptions:
    """What the user chose; sizes in bytes."""

    page_bytes: int = BLOCK_BYTES
    sizes_bytes: tuple[int, ...] = ()
    policies: tuple[str, ...] = POLICIES
    writes: str = "through"
    writes_allocate: bool = True
    levels: str = "exclusive"
    level_policies: tuple[str, str] = LRU_LEVELS  # of PCM and of flash
    level_writes: str = "through"
    volumes: int = 4  # most devices with curves of their own
    sample_rate: float | None = None
    sample_pages: int | None = None
    pcm: str = "ssd-pcm"
    flash: str = "ssd-emlc"
    base: str = "network-storage"
    profiles: Path | None = None
    changes: tuple[Change, ...] = field(default_factory=lambda: cache_plane.parse_changes(()))

    @property
    def is_sampled(self) -> bool:
        """Whether the curves come from a sample."""
        return self.sample_rate is not None or self.sample_pages is not None

    @property
    def is_one_pass(self) -> bool:
        """Whether stack distances give the plane; else each pair is simulated."""
        is_lru = self.levels == "exclusive" and self.level_policies == LRU_LEVELS
        return is_lru and self.level_writes == "through"

    @property
    def is_allocating(self) -> bool:
        """Whether a missed write brings its page into the cache."""
        return self.writes_allocate and self.writes != "around"


def check(options: CacheOptions) -> None:
    """Raise UsageError for options that cannot be."""
    page = options.page_bytes
    if not BLOCK_BYTES <= page <= LARGEST_PAGE_BYTES or page & (page - 1):
        raise UsageError(f"--page: {page} bytes are not a power of two from 4KiB to 16MiB")
    small = [size for size in options.sizes_bytes if 0 < size < page]
    if small:
        raise UsageError(
            f"--sizes: {small[0]} bytes are less than a page", hint=f"a page has {page} bytes"
        )
    unknown = [policy for policy in options.policies if policy not in POLICIES]
    if unknown:
        raise UsageError(
            f"--policy: there is no '{unknown[0]}'", hint=f"choose from {', '.join(POLICIES)}"
        )
    rate = options.sample_rate
    if rate is not None and not 1 / SHARDS_SCALE <= rate <= 1:
        raise UsageError(f"--sample-rate: {rate} is not between 0.0000001 and 1")
    if not 0 <= options.volumes <= MOST_VOLUMES:
        raise UsageError(f"--volumes: {options.volumes} is not between 0 and {MOST_VOLUMES}")
    if options.sample_pages is not None and not 1 <= options.sample_pages < 1 << 28:
        raise UsageError(f"--samples: {options.sample_pages} is not between 1 and 268435455")
    if options.is_sampled and not options.is_allocating:
        raise UsageError("a sample cannot tell what writes that do not allocate would do")
    check_policies(options.level_policies)
    if options.level_writes not in WRITES:
        raise UsageError(f"--level-write: there is no '{options.level_writes}'")
    if options.is_sampled and not options.is_one_pass:
        what = level_words(options.levels, options.level_policies, writes=options.level_writes)
        raise UsageError(
            f"--levels, --level-policy and --level-write: {what} need every request, not a sample"
        )


class Volumes(Record):
    """Devices with curves of their own, and how many others are together."""

    named: list[str]
    others: int


class SampleFacts(Record):
    """What a sample was taken of."""

    references: int
    pages: int
    rate: float
    memory_bytes: int


class LeftOut(Record):
    """Requests without a possible place, policies that were not simulated, devices of a sample."""

    impossible: int
    policies: list[str]
    volumes: int
    small_sizes: int = 0  # of the policies: the sample has too few pages for them


class CacheResult(Record):
    """The content of simulations/cache.json."""

    page_bytes: int
    writes: str
    is_write_allocating: bool
    levels: str
    level_policies: list[str]
    level_writes: str
    reads: int
    write_references: int
    pages: int | None
    volumes: Volumes
    sample: SampleFacts | None
    left_out: LeftOut
    price_ratio: float
    profiles: list[Profile]
    headline: list[str]
    assumptions: list[str]


OnStep = Callable[[str, int, int], None]


def simulate_cache(
    folder: TraceFolder,
    options: CacheOptions,
    *,
    on_rows: OnRows = None,
    on_step: OnStep = lambda *_: None,
) -> CacheResult:
    """Write the TABLES and cache.json to simulations/; return the latter's content.

    InputError when there is nothing to read or write. Policies of a sample are miniatures.
    """
    check(options)
    known = load_profiles(options.profiles)
    names = (options.pcm, options.flash, options.base)
    pcm, flash, base = (choose_profile(known, name) for name in names)
    devices = Devices(pcm, flash, base, options.page_bytes)
    found = _pass(folder, options, devices, on_rows)
    grid, passed = found.grid, found.passed
    if not passed.shared.references.sum():
        raise InputError(f"{folder.path} has no reads and no writes: there is nothing to cache")
    pair_at = _pair_finder(options, grid, passed, on_step)
    tables = {
        "cache_curve": curve_table(passed, grid, page_bytes=options.page_bytes),
        "cache_policies": _policies_table(options, found, on_step),
        "cache_plane": plane_table(grid, devices, options=options, pair_at=pair_at),
        "cache_sensitivity": cache_plane.sensitivity_table(
            devices, options.changes, budgets=grid.axis[1:], pair_at=pair_at
        ),
    }
    result = _result(options, devices, found, tables)
    result.headline[:0] = warned(folder.info, VALUE_WARNINGS)
    places = {f"simulations/{name}": table for name, table in tables.items()}
    write_results(folder, "simulations/cache.json", result=result, tables=places)
    return result


@dataclass(frozen=True)
class Found:
    """The sizes, what one pass counted, and of a sample the miniature for the policies."""

    grid: Grid
    passed: Passed
    sample: Miniature | None = None


def _pass(folder: TraceFolder, options: CacheOptions, devices: Devices, on_rows: OnRows) -> Found:
    requests = folder.require("requests", made_by="parse")
    blocks = folder.require("blocks", made_by="classify")
    page_bytes, allocates = options.page_bytes, options.is_allocating
    ratios = cache_plane.price_ratios(devices, options.changes)

    def grid_for(footprint: int) -> Grid:
        return cache_passes.make_grid(
            max(1, footprint), options.sizes_bytes, page_bytes=page_bytes, price_ratios=ratios
        )

    if options.is_sampled:
        # How many larger pages the blocks lie in is not known without reading them all.
        grid = grid_for(row_count(blocks))
        rate, limit = options.sample_rate or 1.0, options.sample_pages or 0
        accesses = Accesses(requests, page_bytes)
        passed = cache_passes.sampled_pass(
            accesses, grid, rate=rate, page_limit=limit, on_rows=on_rows
        )
        again = Accesses(requests, page_bytes)
        return Found(grid, passed, _miniature(passed, again, on_rows))
    pages = page_keys(read_blocks(blocks), page_bytes)
    grid = grid_for(len(pages.keys))
    accesses = Accesses(requests, page_bytes, pages.device_names, pages.first_keys)
    passed = cache_passes.exact_pass(
        accesses, pages, grid=grid, writes_allocate=allocates, on_rows=on_rows
    )
    volumes = cache_passes.volume_curves(
        passed.runs, pages, grid=grid, writes_allocate=allocates, most=options.volumes
    )
    return Found(grid, replace(passed, volumes=volumes))


def _miniature(passed: Passed, accesses: Accesses, on_rows: OnRows) -> Miniature | None:
    """Read the requests again, for the pages that the sample had in the end."""
    shards, found = passed.shared.shards, passed.shared.references
    if shards is None or not found.sum():
        return None
    totals = (int(found[0::2].sum()), int(found[1::2].sum()))
    return miniature.take(accesses, threshold=shards.threshold, references=totals, on_rows=on_rows)


def _skipped(options: CacheOptions, found: Found) -> list[str]:
    """Return the policies that cannot be simulated: the optimum of too many references."""
    count = found.passed.shared.references.sum()
    if found.sample is not None:
        count = len(found.sample.whole.runs)
    is_too_long = count > MOST_OPTIMUM_REFERENCES
    return [policy for policy in options.policies if policy == "optimum" and is_too_long]


def _setups(options: CacheOptions, found: Found) -> list[CacheSetup]:
    """Return the caches to simulate: each policy at each size that a sample is enough for."""
    skipped, pages = _skipped(options, found), found.passed.page_count
    return [
        CacheSetup(pages, size, policy, options.writes, options.is_allocating)
        for policy in options.policies
        if policy not in skipped
        for size in found.grid.axis
        if found.sample is None or found.sample.fits(size, policy)
    ]


def _small_sizes(options: CacheOptions, grid: Grid, small: Miniature) -> int:
    """Return for how many sizes and policies the sample has too few pages."""
    return sum(not small.fits(size, one) for size in grid.axis for one in options.policies)


def _pair_finder(
    options: CacheOptions, grid: Grid, passed: Passed, on_step: OnStep
) -> Callable[[int, int], Pair]:
    """Return what gives a pair of sizes: in closed form if it can be, else simulated once."""

    @functools.cache
    def pair_at(pcm: int, flash: int) -> Pair:
        pages = (pcm, flash)
        if options.is_one_pass:
            return cache_plane.exclusive_pair(
                passed.shared, pages, writes_allocate=options.is_allocating
            )
        done = pair_at.cache_info().currsize
        on_step(f"PCM {pcm:,}, flash {flash:,} pages", done, grid.pair_count)
        setup = TwoLevelSetup(
            passed.page_count,
            pages,
            options.level_policies,
            is_inclusive=options.levels == "inclusive",
            writes_allocate=options.is_allocating,
            writes=options.level_writes,
        )
        return cache_plane.simulated_pair(setup, passed.runs)

    return pair_at


def _result(
    options: CacheOptions, devices: Devices, found: Found, tables: dict[str, pa.Table]
) -> CacheResult:
    passed, small = found.passed, found.sample
    shared, shards = passed.shared, passed.shared.shards
    names = [each.name for each in passed.volumes if each.name is not None]
    others = sum(each.devices for each in passed.volumes if each.name is None)
    lost = passed.sampled_devices if passed.sampled_devices > 1 and options.volumes > 0 else 0
    return CacheResult(
        page_bytes=options.page_bytes,
        writes=options.writes,
        is_write_allocating=options.is_allocating,
        levels=options.levels,
        level_policies=list(options.level_policies),
        level_writes=options.level_writes,
        reads=int(shared.references[0::2].sum()),
        write_references=int(shared.references[1::2].sum()),
        pages=passed.page_count or None,
        volumes=Volumes(named=names, others=others),
        sample=None if shards is None else _sample(shards),
        left_out=LeftOut(
            impossible=passed.impossible,
            policies=_skipped(options, found),
            volumes=lost,
            small_sizes=0 if small is None else _small_sizes(options, found.grid, small),
        ),
        price_ratio=devices.price_ratio,
        profiles=[devices.pcm, devices.flash, devices.base],
        headline=headline(
            tables,
            devices,
            of_reads=not options.is_allocating,
            sampled_pages=None if shards is None else shards.pages,
        ),
        assumptions=assumptions(options, devices),
    )


def _sample(shards: ShardsTotals) -> SampleFacts:
    return SampleFacts(
        references=shards.sampled,
        pages=shards.pages,
        rate=shards.threshold / SHARDS_SCALE,
        memory_bytes=shards.memory_bytes,
    )


def assumptions(options: CacheOptions, devices: Devices) -> list[str]:
    """Return what the numbers rest on, one sentence each."""
    allocation = "a missed write brings its page into the cache"
    if not options.is_allocating:
        allocation = "a write neither brings its page into the cache nor makes it younger"
    sampled = [MINIATURE] if options.is_sampled and options.policies else []
    levels = (devices.pcm, devices.flash, devices.base)
    reads, writes = (
        [f"{time_us(level):.1f}" for level in levels]
        for time_us in (devices.read_us, devices.write_us)
    )
    return [
        f"pages of {format_size(options.page_bytes)}; a request refers to each page it touches, as"
        " queued, in queue order; flushes and discards to none",
        f"policies write {options.writes}; {allocation}",
        *sampled,
        f"two levels are {options.levels}, PCM is {options.level_policies[0]} and flash"
        f" {options.level_policies[1]}, and {LEVEL_WRITES[options.level_writes]}; a page that"
        " leaves an exclusive PCM level is written to flash; reading what goes down is not counted",
        "the mean read latency is of the device that had the page; bringing pages in is not in it,"
        " but in the I/O time, which adds all reads and writes of the three devices",
        f"a page is read in {reads[0]}, {reads[1]} and {reads[2]} us and written in {writes[0]},"
        f" {writes[1]} and {writes[2]} us by {devices.pcm.name}, {devices.flash.name} and"
        f" {devices.base.name}",
        f"a gigabyte of {devices.pcm.name} costs as much as {devices.price_ratio:g} of"
        f" {devices.flash.name}",
    ]


def curve_table(passed: Passed, grid: Grid, *, page_bytes: int) -> Any:
    """Return the miss ratio curves: one cache for all by role, one for each role, and by device."""
    rows = list(_curve_rows("shared", passed.shared, grid, page_bytes))
    for role, counts in passed.alone.items():
        rows += _curve_rows("own", counts, grid, page_bytes, only=role)
    rows = [{**row, "scope": "all", "device": None} for row in rows]
    for volume in passed.volumes:
        for cache, counts in (("shared", volume.shared), ("own", volume.alone)):
            found = _curve_rows(cache, counts, grid, page_bytes, only="all")
            scope = "others" if volume.name is None else "one"
            rows += [{**row, "scope": scope, "device": volume.name} for row in found]
    return pa.Table.from_pylist(rows, CACHE_CURVE)


def _curve_rows(
    cache: str, counts: HitCounts, grid: Grid, page_bytes: int, *, only: str = ""
) -> Iterator[dict[str, Any]]:
    """Yield rows of the counts' rows by role; `only` all is the sum of all."""
    every = {"all": list(range(len(counts.references) // 2))}
    every |= {name: [index] for index, name in enumerate(ROLES)}
    chosen = {only: every[only]} if only else every
    columns = np.searchsorted(counts.sizes, grid.curve)
    for role, indexes in chosen.items():
        for operation, offsets in OPERATION_ROWS.items():
            rows = [2 * index + offset for index in indexes for offset in offsets]
            references = counts.references[rows].sum()
            if not references:
                continue
            low, high = counts.bounds(rows)
            ratio = counts.miss_ratios(rows)
            for size, column in zip(grid.curve, columns.tolist(), strict=True):
                yield {
                    "cache": cache,
                    "role": role,
                    "operation": operation,
                    "capacity_bytes": size * page_bytes,
                    "references": int(references),
                    "miss_ratio": float(ratio[column]),
                    "miss_ratio_low": float(low[column]),
                    "miss_ratio_high": float(high[column]),
                }


def _policies_table(options: CacheOptions, found: Found, on_step: OnStep) -> Any:
    """Return hits and traffic of each cache; from a sample with the bands of the miss ratios."""
    setups, sample, page = _setups(options, found), found.sample, options.page_bytes
    if sample is not None:
        rows = [
            _policy_row(one.setup, one.counts, page)
            | {"miss_ratio_low": one.low, "miss_ratio_high": one.high}
            for one in miniature.estimates(sample, setups, on_step=on_step)
        ]
        return pa.Table.from_pylist(rows, CACHE_POLICIES)
    simulated = cache_plane.simulate_policies(setups, found.passed.runs, on_step=on_step)
    rows = [
        _policy_row(setup, counts, page) for setup, counts in zip(setups, simulated, strict=True)
    ]
    return pa.Table.from_pylist(rows, CACHE_POLICIES)


def _policy_row(setup: CacheSetup, counts: CacheCounts, page_bytes: int) -> dict[str, Any]:
    reads, read_hits = sum(counts.references[0::2]), sum(counts.hits[0::2])
    written, write_hits = sum(counts.references[1::2]), sum(counts.hits[1::2])
    ratio = 1 - (read_hits + write_hits) / (reads + written)
    return {
        "policy": setup.policy,
        "writes": setup.writes,
        "capacity_bytes": setup.capacity * page_bytes,
        "reads": reads,
        "read_hits": read_hits,
        "write_references": written,
        "write_hits": write_hits,
        "miss_ratio": ratio,
        "miss_ratio_low": ratio,
        "miss_ratio_high": ratio,
        "read_miss_ratio": 1 - read_hits / reads if reads else None,
        "fills": counts.fills,
        "backend_reads": counts.backend_reads,
        "backend_writes": counts.backend_writes,
        "dirty_pages": counts.dirty,
    }


def plane_table(
    grid: Grid, devices: Devices, *, options: CacheOptions, pair_at: Callable[[int, int], Pair]
) -> Any:
    """Return latency and time of each pair of sizes."""
    page = devices.page_bytes
    rows = [
        {
            "levels": options.levels,
            "pcm_policy": options.level_policies[0],
            "flash_policy": options.level_policies[1],
            "writes": options.level_writes,
            "pcm_bytes": pcm * page,
            "flash_bytes": flash * page,
            "even_flash_bytes": None if budget is None else budget * page,
            "price_in_flash_bytes": round((pcm * devices.price_ratio + flash) * page),
            **{name: round(getattr(pair, name)) for name in PAIR_COUNTS},
            "read_latency_avg_ns": pair.read_latency_ns(devices),
            "io_time_ns": pair.io_time_ns(devices),
        }
        for pcm, flash, budget in grid.pairs
        for pair in [pair_at(pcm, flash)]
    ]
    return pa.Table.from_pylist(rows, CACHE_PLANE)

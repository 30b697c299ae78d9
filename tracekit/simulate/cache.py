"""What a cache of any size would give: curves, policies and the plane of PCM above flash."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import InputError, UsageError
from tracekit.native.caches import POLICIES, WRITES, CacheSetup, TwoLevelSetup
from tracekit.native.curves import SHARDS_SCALE
from tracekit.profiles import choose_profile, load_profiles
from tracekit.schema import BLOCK_BYTES
from tracekit.simulate.block_orders import read_blocks
from tracekit.simulate.cache_grid import Grid, make_grid
from tracekit.simulate.cache_levels import LRU_LEVELS, check_policies, level_words
from tracekit.simulate.cache_passes import Passed, exact_pass, sampled_pass
from tracekit.simulate.cache_plane import Devices, Pair, exclusive_pair, simulated_pair
from tracekit.simulate.cache_policies import PolicyResult, simulate_policies
from tracekit.simulate.cache_sensitivity import (
    Change,
    parse_changes,
    price_ratios,
    sensitivity_table,
)
from tracekit.simulate.cache_tables import PlaneCell, curve_table, plane_table, policies_table
from tracekit.simulate.cache_volumes import Devices as VolumeDevices
from tracekit.simulate.cache_volumes import volume_curves
from tracekit.simulate.cache_words import assumptions, headline
from tracekit.simulate.columns import row_count
from tracekit.simulate.pages import page_keys
from tracekit.store import TraceFolder, write_json, write_table

if TYPE_CHECKING:
    import pyarrow as pa

MOST_VOLUMES = 64
LARGEST_PAGE_BYTES = 1 << 24
# The optimum keeps four bytes for each reference: 256 MiB.
MOST_OPTIMUM_REFERENCES = 1 << 26
TABLES = ("cache_curve", "cache_policies", "cache_plane", "cache_sensitivity")


@dataclass(frozen=True)
class Options:
    """What the user chose; sizes in bytes."""

    page_bytes: int = 4096
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
    changes: tuple[Change, ...] = field(default_factory=lambda: parse_changes(()))

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


@dataclass(frozen=True)
class Progress:
    """Who is told of rows read and of steps begun."""

    on_rows: Callable[[int], None] = lambda _rows: None
    on_step: Callable[[str, int, int], None] = lambda _name, _at, _total: None


def check(options: Options) -> None:
    """Raise UsageError for options that cannot be."""
    page = options.page_bytes
    if not BLOCK_BYTES <= page <= LARGEST_PAGE_BYTES or page & (page - 1):
        raise UsageError(f"--page: {page} bytes are not a power of two from 4KiB to 16MiB")
    unknown = [policy for policy in options.policies if policy not in POLICIES]
    if unknown:
        raise UsageError(f"--policy: there is no '{unknown[0]}'", hint=f"one of {POLICIES}")
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


def simulate_cache(
    folder: TraceFolder, options: Options, *, progress: Progress | None = None
) -> dict[str, Any]:
    """Write the TABLES and cache.json to simulations/; return what the last holds.

    InputError when there is nothing to read or write. A sample gives no policies.
    """
    check(options)
    progress = progress or Progress()
    devices = _devices(options)
    requests = folder.require("requests", made_by="parse")
    blocks = folder.require("blocks", made_by="classify")
    grid, passed = _pass(requests, blocks, options, devices, progress)
    references = int(passed.shared.references.sum())
    if not references:
        raise InputError(f"{folder.path} has no reads and no writes: there is nothing to cache")
    policies = _policies(options, grid, passed, progress)
    pair_at = _pair_finder(options, grid, passed, progress)
    cells = [PlaneCell(*pair, pair_at(*pair[:2])) for pair in grid.pairs]
    tables = {
        "cache_curve": curve_table(passed, grid, page_bytes=options.page_bytes),
        "cache_policies": policies_table(policies, options.writes, page_bytes=options.page_bytes),
        "cache_plane": plane_table(cells, devices, arrangement=options),
        "cache_sensitivity": sensitivity_table(
            devices, options.changes, budgets=grid.axis[1:], pair_at=pair_at
        ),
    }
    result = _result(options, devices, passed, tables)
    (folder.path / "simulations").mkdir(exist_ok=True)
    for name, table in tables.items():
        write_table(folder.table(f"simulations/{name}"), table)
    write_json(folder.path / "simulations" / "cache.json", result)
    return result


def _devices(options: Options) -> Devices:
    known = load_profiles(options.profiles)
    names = (options.pcm, options.flash, options.base)
    pcm, flash, base = (choose_profile(known, name) for name in names)
    return Devices(pcm, flash, base, options.page_bytes)


def _pass(
    requests: Path, blocks: Path, options: Options, devices: Devices, progress: Progress
) -> tuple[Grid, Passed]:
    def grid_for(footprint: int) -> Grid:
        return make_grid(
            max(1, footprint),
            options.sizes_bytes,
            page_bytes=options.page_bytes,
            price_ratios=price_ratios(devices, options.changes),
        )

    if options.is_sampled:
        # How many larger pages the blocks lie in is not known without reading them all.
        grid = grid_for(row_count(blocks))
        return grid, sampled_pass(
            requests,
            grid,
            page_bytes=options.page_bytes,
            rate=options.sample_rate or 1.0,
            page_limit=options.sample_pages or 0,
            on_rows=progress.on_rows,
        )
    touched = read_blocks(blocks)
    pages, first_keys, first_ranks = page_keys(touched, options.page_bytes)
    names = touched.device_names
    del touched
    grid = grid_for(len(pages))
    passed = exact_pass(
        requests,
        (names, pages, first_keys),
        grid=grid,
        page_bytes=options.page_bytes,
        writes_allocate=options.is_allocating,
        on_rows=progress.on_rows,
    )
    return grid, _with_volumes(passed, VolumeDevices(names, first_ranks), grid, options)


def _with_volumes(passed: Passed, devices: VolumeDevices, grid: Grid, options: Options) -> Passed:
    found = volume_curves(
        passed.runs,
        devices,
        page_count=passed.page_count,
        grid=grid,
        writes_allocate=options.is_allocating,
        most=options.volumes,
    )
    return replace(passed, volumes=found)


def _skipped(options: Options, passed: Passed) -> list[str]:
    """Return the policies that cannot be simulated: all from a sample, the optimum of too much."""
    if options.is_sampled:
        return list(options.policies)
    is_too_long = passed.shared.references.sum() > MOST_OPTIMUM_REFERENCES
    return [policy for policy in options.policies if policy == "optimum" and is_too_long]


def _policies(
    options: Options, grid: Grid, passed: Passed, progress: Progress
) -> list[PolicyResult]:
    skipped = _skipped(options, passed)
    chosen = [policy for policy in options.policies if policy not in skipped]
    setups = [
        CacheSetup(passed.page_count, size, policy, options.writes, options.is_allocating)
        for policy in chosen
        for size in grid.axis
    ]
    return simulate_policies(setups, passed.runs, on_step=progress.on_step)


def _pair_finder(
    options: Options, grid: Grid, passed: Passed, progress: Progress
) -> Callable[[int, int], Pair]:
    """Return what gives a pair of sizes: in closed form if it can be, else simulated once."""

    @functools.cache
    def pair_at(pcm: int, flash: int) -> Pair:
        pages = (pcm, flash)
        if options.is_one_pass:
            return exclusive_pair(passed.shared, pages, writes_allocate=options.is_allocating)
        done = pair_at.cache_info().currsize
        progress.on_step(f"PCM {pcm:,}, flash {flash:,} pages", done, grid.pair_count)
        setup = TwoLevelSetup(
            passed.page_count,
            pages,
            options.level_policies,
            is_inclusive=options.levels == "inclusive",
            writes_allocate=options.is_allocating,
            writes=options.level_writes,
        )
        return simulated_pair(setup, passed.runs)

    return pair_at


def _result(
    options: Options, devices: Devices, passed: Passed, tables: dict[str, pa.Table]
) -> dict[str, Any]:
    shared = passed.shared
    sample = None
    if shared.shards is not None:
        sample = {
            "references": shared.shards.sampled,
            "pages": shared.shards.pages,
            "rate": shared.shards.threshold / SHARDS_SCALE,
            "memory_bytes": shared.shards.memory_bytes,
        }
    has_lost_volumes = passed.sampled_devices > 1 and options.volumes > 0
    return {
        "page_bytes": options.page_bytes,
        "writes": options.writes,
        "is_write_allocating": options.is_allocating,
        "levels": options.levels,
        "level_policies": list(options.level_policies),
        "level_writes": options.level_writes,
        "reads": int(shared.references[0::2].sum()),
        "write_references": int(shared.references[1::2].sum()),
        "pages": passed.page_count or None,
        "volumes": {
            "named": [each.name for each in passed.volumes if each.name is not None],
            "others": sum(each.devices for each in passed.volumes if each.name is None),
        },
        "sample": sample,
        "left_out": {
            "impossible": passed.impossible,
            "policies": _skipped(options, passed),
            "volumes": passed.sampled_devices if has_lost_volumes else 0,
        },
        "price_ratio": devices.price_ratio,
        "profiles": [asdict(device) for device in (devices.pcm, devices.flash, devices.base)],
        "headline": headline(tables, devices),
        "assumptions": assumptions(options, devices),
    }

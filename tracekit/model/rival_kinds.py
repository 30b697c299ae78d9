"""Caches, and other uses of NVM or memory, with their defaults, and what each does with a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import repeat

import numpy as np

from tracekit._native.placement import DEVICE, Cost, Rival
from tracekit.devices import base_cost, device_cost, disk_of
from tracekit.metadata import Record
from tracekit.model.miss_ratio_curve import Pages, page_keys
from tracekit.model.placement import ChargedTrace, to_ns
from tracekit.tables import ROLES
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES, format_duration

KIB, MIB = 1 << 10, 1 << 20
SECOND_NS = 10**9
DEVICE_BLOCKS = 1 << 50
MOST_BLOCKS = (1 << 30) - 1
BLOCK_STATE_BYTES = 72
"""What a simulation keeps of a block that the trace touches."""
MOST_STATE_BYTES = 256 * MIB
CHUNK_STEP, MOST_CHUNKS = 32 * KIB, 1_000_000
ZFS = "ZFS "
LZ4_RATIO = 2.084
LZ4_PS = (4096 * 10**6 // 422, 4096 * 10**6 // 1820)
"""What a page of 4 KiB takes to be compressed and decompressed."""


@dataclass(frozen=True)
class Kind:
    """One of the rivals; see `replayer/model/rival_*.c`."""

    name: str
    kind: str  # of _native.placement.RIVALS
    mode: str
    block_bytes: int = BLOCK_BYTES
    settings: Mapping[str, int] = field(default_factory=dict)  # further ones of tk_rival_setup

    @property
    def is_memory(self) -> bool:
        """Whether it takes memory instead of NVM."""
        return self.kind == "memory"

    @property
    def least_bytes(self) -> int:
        """The smallest capacity."""
        return 2 * self.settings.get("bucket_blocks", 1) * self.block_bytes

    def of(self, capacity_bytes: int) -> Kind:
        """Return it as it is made of so much: LVM has few chunks, so that they grow."""
        if self.kind != "dm-cache":
            return self
        chunk = -(-capacity_bytes // (MOST_CHUNKS * CHUNK_STEP)) * CHUNK_STEP
        return replace(self, block_bytes=max(chunk, self.block_bytes))


def _written(*modes: str, name: str, kind: str, **settings: int) -> list[Kind]:
    block_bytes = settings.pop("block_bytes", BLOCK_BYTES)
    return [Kind(name, kind, mode, block_bytes, settings) for mode in modes]


KINDS = (
    *_written(
        "back", name="dm-writecache", kind="writecache",
        high_percent=50, low_percent=45, stale_ns=SECOND_NS, commit_blocks=65_536,
    ),
    *_written(
        *("through", "back"), name="dm-cache", kind="dm-cache",
        block_bytes=64 * KIB, high_percent=75, low_percent=75,
    ),
    *_written(
        *("through", "back"), name="bcache", kind="bcache",
        bucket_blocks=128, high_percent=10, low_percent=10, cutoff_sectors=4 * MIB // SECTOR_BYTES,
    ),
    *_written(
        *("through", "back", "around", "only"), name="Open CAS", kind="open-cas",
        cutoff_sectors=MIB // SECTOR_BYTES, stale_ns=120 * SECOND_NS,
    ),
    *_written("back", name="ZFS log", kind="log", low_percent=45, stale_ns=5 * SECOND_NS),
    *_written("alone", name="ZFS special", kind="special", high_percent=75, low_percent=75),
    *_written(
        "alone", name="ZFS special, 32K", kind="special",
        high_percent=75, low_percent=75, small_sectors=32 * KIB // SECTOR_BYTES,
    ),
    *_written("alone", name="zram", kind="memory", low_percent=100),
    *_written("alone", name="zswap", kind="memory", low_percent=90),
)  # fmt: skip
NONE = Kind("none", "memory", "alone")
"""What takes only swap: the base device alone of a trace that has none."""
THREADS = 2
IN_MEMORY = [one.name for one in KINDS if one.is_memory]
SOURCES = (
    "dm-writecache: blocks of 4 KiB, watermarks of 50 and 45%, autocommit after 1 s or 65,536"
    " blocks, each flush to both devices, as of a block device (kernel,"
    " admin-guide/device-mapper/writecache.rst)",
    "dm-cache: blocks as LVM's chunks, of 64 KiB, or of as many times 32 KiB more as make at most"
    " 1,000,000 (lvmcache(7)), policy smq, simplified: promoted by seconds of use, evicted by LRU"
    " (kernel, admin-guide/device-mapper/cache.rst)",
    "bcache: buckets of 512 KiB, sequential_cutoff of 4 MiB, writeback_percent of 10 (kernel,"
    " admin-guide/bcache.rst)",
    "Open CAS: lines of 4 KiB, ALRU with 120 s, sequential cutoff of 1 MiB when full"
    " (open-cas.com)",
    "ZFS log: forced and journal writes, to base after 5 s (zpoolconcepts(7), zfs_txg_timeout); the"
    " pool's own layout is not simulated",
    "ZFS special: what the trace marks as metadata lies there and nowhere else, from the start, in"
    " the second row also requests of at most 32 KiB (special_small_blocks) while 25% are free"
    " (zpoolconcepts(7), zfsprops(7)); the pool's own layout is not simulated",
    f"zram, zswap: only swap, in memory of the same size, not NVM; pages shrink to 1/{LZ4_RATIO}, a"
    f" page is compressed in {LZ4_PS[0] / 1e6:.1f} us and decompressed in {LZ4_PS[1] / 1e6:.1f} us,"
    " assumed for all pages (LZ4's README, Core i5-3340M); the memory is missing to nobody",
    "requests come one after the other and each device has a head; what a cache does beside them is"
    " background time, which costs nothing in the gaps between requests that arrive as traced; what"
    " finds no gap, or is under way as a request comes, delays it; what is dirty at the end is not"
    " written back",
)


class CacheTimes(Record, kw_only=True):
    """What a cache takes for a trace."""

    rival: str
    mode: str
    capacity_bytes: int
    elapsed_ns: int
    background_base_ns: int
    delayed_ns: int = 0  # of the background work: what finds no idle time
    error_ns: int = 0  # of the sum of elapsed and delayed: two standard errors; 0: no sample

    @property
    def busy_ns(self) -> int:
        """Elapsed time with the background work of the base device that finds no idle time."""
        return self.elapsed_ns + self.delayed_ns

    @property
    def needs_pool(self) -> bool:
        """Whether it is a part of a pool of ZFS."""
        return self.rival.startswith(ZFS)

    @property
    def title(self) -> str:
        """What a sentence calls it."""
        if self.mode != "alone":
            return f"{self.rival} (write-{self.mode})"
        return f"{self.rival} (in memory)" if self.rival in IN_MEMORY else self.rival

    @property
    def times(self) -> str:
        """What it takes, and where its own work finds time."""
        late_ns, idle_ns = self.delayed_ns, self.background_base_ns - self.delayed_ns
        late = f" with {format_duration(late_ns)} of its own work that finds no idle time"
        idle = f", and {format_duration(idle_ns)} of its own work while the base device is idle"
        text = format_duration(self.busy_ns)
        text += f" +- {format_duration(self.error_ns)} (from samples)" if self.error_ns else ""
        text += late if late_ns > 0 else ""
        return text + (idle if idle_ns > 0 else "")


class RivalRow(CacheTimes, kw_only=True):
    """A row of the table, as its schema describes it."""

    block_bytes: int
    background_nvm_ns: int
    reads: int
    read_hits: int
    writes: int
    write_hits: int
    bypassed: int
    fills: int
    evictions: int
    writebacks: int
    commits: int
    dirty_bytes: int


SAME_COUNTS = (
    "reads", "read_hits", "writes", "write_hits", "bypassed", "fills", "evictions", "writebacks",
    "commits",
)  # fmt: skip


def compete(
    trace: ChargedTrace, capacity_bytes: int, *, load: int = 1
) -> tuple[list[RivalRow], list[str]]:
    """Return what each cache of a capacity does with a trace, and those that it is too small for.

    They go through the requests together, as many at a time as memory allows. Each request stands
    for `load` of them where the base device is to be idle, and the capacity for as many of it.
    """
    has_swap = trace.touched.role_blocks()[ROLES.index("swap")] > 0
    known = [one.of(capacity_bytes * load) for one in KINDS if has_swap or not one.is_memory]
    fitting = [one for one in known if capacity_bytes >= one.least_bytes]
    too_small = list(dict.fromkeys(one.name for one in known if one not in fitting))
    pages = {size: page_keys(trace.touched, size) for size in {one.block_bytes for one in fitting}}
    state_bytes = BLOCK_STATE_BYTES * max(len(trace.touched.keys), 1)
    at_once = max(MOST_STATE_BYTES // state_bytes, 1)
    rows: list[RivalRow] = []
    for begin in range(0, len(fitting), at_once):
        chosen = fitting[begin : begin + at_once]
        rows += _together(trace, chosen, pages, capacity_bytes=capacity_bytes, load=load)
    return rows, too_small


def base_alone_ns(trace: ChargedTrace) -> int:
    """Return what the base device takes for a trace without swap, and without any cache."""
    pages = {BLOCK_BYTES: page_keys(trace.touched, BLOCK_BYTES)}
    (row,) = _together(trace, [NONE], pages, capacity_bytes=2 * BLOCK_BYTES, load=1)
    return row.elapsed_ns


def _together(
    trace: ChargedTrace,
    chosen: Sequence[Kind],
    pages: Mapping[int, Pages],
    *,
    capacity_bytes: int,
    load: int,
) -> list[RivalRow]:
    with ExitStack() as stack:
        kernels = [
            stack.enter_context(_rival(trace, one, pages[one.block_bytes], capacity_bytes, load))
            for one in chosen
        ]
        pool = stack.enter_context(ThreadPoolExecutor(THREADS))
        for rows in trace.rows():
            list(pool.map(Rival.add, kernels, repeat(rows)))
        counts = [kernel.finish() for kernel in kernels]
    return [
        RivalRow(
            rival=one.name,
            mode=one.mode,
            capacity_bytes=_blocks(one, capacity_bytes) * one.block_bytes,
            block_bytes=one.block_bytes,
            elapsed_ns=to_ns(found["response_ps"]),
            background_base_ns=to_ns(found["background_ps"][0]),
            delayed_ns=to_ns(found["delayed_ps"]),
            background_nvm_ns=to_ns(found["background_ps"][1]),
            dirty_bytes=found["dirty"] * one.block_bytes,
            **{name: found[name] for name in SAME_COUNTS},
        )
        for one, found in zip(chosen, counts, strict=True)
    ]


def _blocks(one: Kind, capacity_bytes: int) -> int:
    return min(capacity_bytes // one.block_bytes, MOST_BLOCKS)


def _rival(trace: ChargedTrace, one: Kind, pages: Pages, capacity_bytes: int, load: int) -> Rival:
    devices = np.zeros(len(pages.first_keys), DEVICE)
    devices["blocks"], devices["first_key"] = DEVICE_BLOCKS, pages.first_keys
    blocks, nvm = _blocks(one, capacity_bytes), device_cost(trace.devices.nvm)
    if one.is_memory:
        blocks, nvm = min(int(blocks * LZ4_RATIO), MOST_BLOCKS), memory_cost()
    return Rival(
        one.kind,
        one.mode,
        keys=pages.keys,
        devices=devices,
        as_issued=trace.is_issued,
        block_sectors=one.block_bytes // SECTOR_BYTES,
        capacity=blocks,
        base=base_cost(trace.devices.base),
        nvm=nvm,
        disk=disk_of(trace.devices.base) or {},
        flush_ps=trace.devices.flush_ps,
        load=load,
        **{"bucket_blocks": 1, "high_percent": 100, "low_percent": 100, **one.settings},
    )


def memory_cost() -> Cost:
    """Return what a page takes to be decompressed (read) and compressed (written), by sector."""
    sectors = BLOCK_BYTES // SECTOR_BYTES
    compressed_ps, decompressed_ps = (ps // sectors for ps in LZ4_PS)
    return Cost((0, 0), (0, 0), (decompressed_ps, compressed_ps), 0)

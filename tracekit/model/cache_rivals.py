"""Caches as rivals of a placement: the same trace, devices and capacity, each with its defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from msgspec import to_builtins

from tracekit._native.cache_rivals import Rival, RivalCounts, RivalSetup
from tracekit._native.placement import DEVICE
from tracekit.devices import base_cost, device_cost, disk_of
from tracekit.errors import UsageError
from tracekit.metadata import Record
from tracekit.model.answer import (
    ANSWER,
    Answer,
    charged_trace,
    choose_answer,
    placement_name,
    read_recommendation,
)
from tracekit.model.miss_ratio_curve import page_keys
from tracekit.model.placement import ChargedTrace, to_ns
from tracekit.store import TraceFolder, write_results
from tracekit.tables import CACHE_RIVALS
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES, format_duration, format_size

TABLE = "simulations/cache_rivals"
RESULT = "simulations/cache_rivals.json"
KIB, MIB = 1 << 10, 1 << 20
DEVICE_BLOCKS = 1 << 50
MOST_BLOCKS = (1 << 30) - 1


@dataclass(frozen=True)
class Kind:
    """A cache with its default parameters; see `replayer/model/rival_*.c`."""

    name: str
    kind: str  # of _native.cache_rivals.KINDS
    mode: str
    block_bytes: int = BLOCK_BYTES
    bucket_blocks: int = 1
    high_percent: int = 100
    low_percent: int = 100
    cutoff_bytes: int = 0
    stale_s: int = 0


KINDS = (
    Kind("dm-writecache", "writecache", "back", high_percent=50, low_percent=45),
    *(
        Kind("dm-cache", "dm-cache", mode, 256 * KIB, high_percent=75, low_percent=75)
        for mode in ("through", "back")
    ),
    *(
        Kind("bcache", "bcache", mode, BLOCK_BYTES, 128, 10, 10, 4 * MIB)
        for mode in ("through", "back")
    ),
    *(
        Kind("Open CAS", "open-cas", mode, cutoff_bytes=MIB, stale_s=120)
        for mode in ("through", "back", "around", "only")
    ),
    Kind("ZFS log", "log", "back", low_percent=45, stale_s=5),
)
SOURCES = (
    "dm-writecache: blocks of 4 KiB, watermarks of 50 and 45 % (kernel, admin-guide/device-mapper/"
    "writecache.rst)",
    "dm-cache: blocks of 256 KiB, policy smq, simplified: promoted by seconds of use, evicted by"
    " LRU (kernel, admin-guide/device-mapper/cache.rst)",
    "bcache: buckets of 512 KiB, sequential_cutoff of 4 MiB, writeback_percent of 10 (kernel,"
    " admin-guide/bcache.rst)",
    "Open CAS: lines of 4 KiB, ALRU with 120 s, sequential cutoff of 1 MiB when full"
    " (open-cas.com)",
    "ZFS log: forced and journal writes, to base after 5 s (zpoolconcepts(7), zfs_txg_timeout); the"
    " pool's own layout is not simulated",
    "requests come one after the other and each device has a head; what a cache does beside them is"
    " background time, which costs nothing only if the devices are idle long enough; what is dirty"
    " at the end is not written back",
)


class RivalRow(Record):
    """A row of the table, as its schema describes it."""

    rival: str
    mode: str
    capacity_bytes: int
    block_bytes: int
    elapsed_ns: int
    background_base_ns: int
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

    @property
    def busy_ns(self) -> int:
        """Elapsed time if the base device's background work delays the requests."""
        return self.elapsed_ns + self.background_base_ns

    @property
    def title(self) -> str:
        """What a sentence calls it."""
        return f"{self.rival} (write-{self.mode})"


class RivalsResult(Record):
    """The content of simulations/cache_rivals.json."""

    capacity_bytes: int
    base_profile: str
    nvm_profile: str
    placement: str
    placement_elapsed_ns: int
    base_elapsed_ns: int
    headline: list[str]
    too_small: list[str]
    assumptions: list[str]


def simulate_rivals(
    folder: TraceFolder,
    *,
    placement: str = ANSWER,
    on_rows: Callable[[int], None] | None = None,
) -> RivalsResult:
    """Write simulations/cache_rivals and its JSON; return the latter's content.

    UsageError for a recommendation with queueing, which has no elapsed time to compare with.
    """
    advice = read_recommendation(folder)
    if advice.is_open:
        raise UsageError(
            "the recommendation is of response times with queueing, caches have elapsed times",
            hint="run recommend without --queueing open",
        )
    answer = choose_answer(advice, placement)
    trace = replace(charged_trace(folder, advice), on_rows=on_rows)
    rows, too_small = compete(trace, answer.capacity_bytes)
    result = RivalsResult(
        capacity_bytes=answer.capacity_bytes,
        base_profile=advice.base_profile,
        nvm_profile=advice.nvm_profile,
        placement=answer.placement,
        placement_elapsed_ns=answer.elapsed_ns,
        base_elapsed_ns=answer.base_elapsed_ns,
        headline=headline(rows, answer),
        too_small=too_small,
        assumptions=list(SOURCES),
    )
    table = pa.Table.from_pylist([to_builtins(row) for row in rows], CACHE_RIVALS)
    write_results(folder, RESULT, result=result, tables={TABLE: table})
    return result


def compete(trace: ChargedTrace, capacity_bytes: int) -> tuple[list[RivalRow], list[str]]:
    """Return what each cache of a capacity does with a trace, and those that it is too small for.

    All go through the requests at once.
    """
    fitting = [one for one in KINDS if capacity_bytes // one.block_bytes >= 2 * one.bucket_blocks]
    too_small = list(dict.fromkeys(one.name for one in KINDS if one not in fitting))
    setups = [_setup(trace, one, capacity_bytes) for one in fitting]
    with ExitStack() as stack:
        kernels = [stack.enter_context(Rival(setup)) for setup in setups]
        for rows in trace.rows():
            for kernel in kernels:
                kernel.add(rows)
        counts = [kernel.finish() for kernel in kernels]
    found = [
        _row(one, setup, count) for one, setup, count in zip(fitting, setups, counts, strict=True)
    ]
    return found, too_small


def _setup(trace: ChargedTrace, one: Kind, capacity_bytes: int) -> RivalSetup:
    pages = page_keys(trace.touched, one.block_bytes)
    devices = np.zeros(len(pages.first_keys), DEVICE)
    devices["blocks"], devices["first_key"] = DEVICE_BLOCKS, pages.first_keys
    return RivalSetup(
        keys=pages.keys,
        devices=devices,
        is_issued=trace.is_issued,
        kind=one.kind,
        mode=one.mode,
        block_sectors=one.block_bytes // SECTOR_BYTES,
        capacity=min(capacity_bytes // one.block_bytes, MOST_BLOCKS),
        base=base_cost(trace.devices.base),
        nvm=device_cost(trace.devices.nvm),
        disk=disk_of(trace.devices.base),
        flush_ps=trace.devices.flush_ps,
        bucket_blocks=one.bucket_blocks,
        high_percent=one.high_percent,
        low_percent=one.low_percent,
        cutoff_sectors=one.cutoff_bytes // SECTOR_BYTES,
        stale_ns=one.stale_s * 10**9,
    )


SAME_COUNTS = (
    "reads", "read_hits", "writes", "write_hits", "bypassed", "fills", "evictions", "writebacks",
    "commits",
)  # fmt: skip


def _row(one: Kind, setup: RivalSetup, counts: RivalCounts) -> RivalRow:
    return RivalRow(
        rival=one.name,
        mode=one.mode,
        capacity_bytes=setup.capacity * one.block_bytes,
        block_bytes=one.block_bytes,
        elapsed_ns=to_ns(counts.response_ps),
        background_base_ns=to_ns(counts.background_ps[0]),
        background_nvm_ns=to_ns(counts.background_ps[1]),
        dirty_bytes=counts.dirty * one.block_bytes,
        **{name: getattr(counts, name) for name in SAME_COUNTS},
    )


def headline(rows: Sequence[RivalRow], answer: Answer) -> list[str]:
    """Name the cache that beats the placement, in any case or if its own work finds idle time."""
    size, name = format_size(answer.capacity_bytes), placement_name(answer.placement)
    if not rows:
        return [f"{size} are too small for each of the caches."]
    static = f"the placement ({name}) takes {format_duration(answer.elapsed_ns)} of I/O"
    sure = min(rows, key=lambda row: row.busy_ns)
    quick = min(rows, key=lambda row: row.elapsed_ns)
    lines = []
    is_sure = sure.busy_ns < answer.elapsed_ns
    if is_sure:
        lines.append(f"With {size}, {sure.title} beats the placement: {_times(sure)}; {static}.")
    if quick.elapsed_ns < answer.elapsed_ns and not (is_sure and quick is sure):
        rest = "" if is_sure else f"; {static}"
        lines.append(
            f"{quick.title} is quickest if the base device is idle long enough for what it does in"
            f" the background: {_times(quick)}{rest}."
        )
    if lines:
        return lines
    return [f"With {size} no cache beats the placement: {static}, {quick.title} {_times(quick)}."]


def _times(row: RivalRow) -> str:
    text = format_duration(row.elapsed_ns)
    if not row.background_base_ns:
        return text
    return f"{text}, and {format_duration(row.background_base_ns)} of the base device beside it"

"""Caches of the kernel and of products on NVM before the base devices: cache_rivals.h."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import enumerators, plain, struct
from tracekit._native.placement import Cost, Disk, RequestKernel

KINDS = tuple(name.replace("_", "-") for name in enumerators("tk_rival_kind", "TK_RIVAL_")[:-1])
MODES = enumerators("tk_rival_mode", "TK_RIVAL_")[:-1]


@dataclass(frozen=True)
class RivalSetup:
    """One cache; blocks are cache blocks, pairs are of base and NVM."""

    keys: NDArray[np.int64]
    devices: NDArray[np.void]  # placement.DEVICE, in cache blocks
    is_issued: bool
    kind: str  # of KINDS
    mode: str  # of MODES
    block_sectors: int
    capacity: int
    base: Cost
    nvm: Cost
    disk: Disk | None
    flush_ps: tuple[int, int]
    bucket_blocks: int = 1
    high_percent: int = 100
    low_percent: int = 100
    cutoff_sectors: int = 0
    stale_ns: int = 0


@dataclass(frozen=True)
class RivalCounts:
    """What a cache did, in cache blocks and ps; see cache_rivals.h."""

    response_ps: int
    busy_ps: tuple[int, int]
    background_ps: tuple[int, int]
    reads: int
    read_hits: int
    writes: int
    write_hits: int
    bypassed: int
    fills: int
    evictions: int
    writebacks: int
    commits: int
    dirty: int


class Rival(RequestKernel):
    """One pass of a trace through a cache."""

    kind = "tk_rival"

    def __init__(self, setup: RivalSetup) -> None:
        fields = dict(vars(setup))
        fields |= {"kind": KINDS.index(setup.kind), "mode": MODES.index(setup.mode)}
        fields |= {"as_issued": fields.pop("is_issued"), "disk": setup.disk or {}}
        counts = {"block_count": len(setup.keys), "device_count": len(setup.devices)}
        self._setup = struct("tk_rival_setup", **fields, **counts)
        what = f"{setup.kind} of {setup.capacity} blocks"
        super().__init__(self._setup, refusal=f"the model of caches refuses {what}")

    def finish(self) -> RivalCounts:
        """Charge what is still queued; return the counts."""
        self._check_rows(self._call("finish"))
        counts = struct("tk_rival_counts")
        self._call("read", struct("tk_placement_totals"), counts)
        return RivalCounts(**plain(counts))

    def _totals(self) -> dict[str, Any]:
        totals = struct("tk_placement_totals")
        self._call("read", totals, None)
        return dict(plain(totals))

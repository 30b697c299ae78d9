"""Small traces written as a classified trace folder, and a brute-force model of their cost."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit._native.placement import Cost
from tracekit.devices import DevicePair, Profile
from tracekit.model.block_orders import read_blocks
from tracekit.model.placement import ChargedTrace, Curves, sweep
from tracekit.tables import BLOCKS, REQUESTS
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

BLOCK_SECTORS = BLOCK_BYTES // SECTOR_BYTES
Block = tuple[str, int]

DISK = Profile("disk", "", 9000.0, 11000.0, 100.0, 80.0, 8000.0, 700.0, 1.0, 0.0)
NVM = Profile("nvm", "", 20.0, 90.0, 1000.0, 300.0, 3.0, 5.0, 24.0, 4.0)


@dataclass(frozen=True)
class Request:
    """One row of `requests`, as far as a placement looks at it; times in ns."""

    role: str
    sector: int
    sectors: int = 8
    operation: str = "write"
    is_fua: bool = False
    is_preflush: bool = False
    device: str = "sda"
    queue_ns: int | None = 0
    issue_ns: int | None = None
    merged_into: int | None = None

    @property
    def is_transfer(self) -> bool:
        return self.operation in ("read", "write") and self.sectors > 0

    @property
    def blocks(self) -> list[Block]:
        last = (self.sector + self.sectors - 1) // BLOCK_SECTORS
        return [(self.device, block) for block in range(self.sector // BLOCK_SECTORS, last + 1)]

    def sectors_on(self, on_nvm: set[Block]) -> int:
        every = range(self.sector, self.sector + self.sectors)
        return sum((self.device, sector // BLOCK_SECTORS) in on_nvm for sector in every)


def write_trace(folder: Path, requests: Sequence[Request], **info: Any) -> Path:
    """Write `requests` and the `blocks` that they touch, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trace.json").write_text(json.dumps({"schema": 1, "layout": [], **info}))
    filled = {"pid": 0, "cpu": 0, "error": 0, "requeue_count": 0, "split_count": 0, "depth": 1}
    flags = {"is_sync": False, "is_meta": False, "is_readahead": False}
    rows = [
        {
            **filled,
            **flags,
            **{name: getattr(request, name) for name in vars(request) if name != "sectors"},
            "request_id": number,
            "length_bytes": request.sectors * SECTOR_BYTES,
        }
        for number, request in enumerate(requests)
    ]
    named = [{field.name: row.get(field.name) for field in REQUESTS} for row in rows]
    pq.write_table(pa.Table.from_pylist(named, schema=REQUESTS), folder / "requests.parquet")
    pq.write_table(_blocks_table(requests), folder / "blocks.parquet")
    return folder


def hottest_first(requests: Iterable[Request], role: str | None = None) -> list[Block]:
    """Blocks by falling number of requests, then by address; of one role or of all."""
    touches = Counter(
        block
        for request in requests
        if request.is_transfer and role in (None, request.role)
        for block in request.blocks
    )
    return sorted(touches, key=lambda block: (-touches[block], block))


def elapsed_ps(
    requests: Sequence[Request],
    on_nvm: set[Block],
    *,
    costs: tuple[Cost, Cost],
    flush_ps: tuple[int, int],
) -> int:
    """Charge each request in the order given, with these blocks on NVM: the model in ten lines."""
    total, ends = 0, dict[str, tuple[Request, Block]]()
    for request in requests:
        if request.operation == "flush" or request.is_preflush:
            total += _flush(requests, request.role, on_nvm, flush_ps)
        if not request.is_transfer:
            continue
        op = int(request.operation == "write")
        on = (request.sectors - request.sectors_on(on_nvm), request.sectors_on(on_nvm))
        before, last = ends.get(request.device, (None, None))
        joins = before and (before.sector + before.sectors, before.role)
        for which, (sectors, cost) in enumerate(zip(on, costs, strict=True)):
            if not sectors:
                continue
            sides = {last in on_nvm, request.blocks[0] in on_nvm}
            continues = joins == (request.sector, request.role) and sides == {bool(which)}
            latency_ps = cost.sequential_ps if continues else cost.latency_ps
            total += latency_ps[op] + sectors * cost.sector_ps[op] + request.is_fua * cost.fua_ps
        ends[request.device] = (request, request.blocks[-1])
    return total


def _flush(
    requests: Sequence[Request], role: str, on_nvm: set[Block], flush_ps: tuple[int, int]
) -> int:
    blocks = set(hottest_first(requests, role))
    if not blocks & on_nvm:
        return flush_ps[0]
    return flush_ps[1] if blocks <= on_nvm else max(flush_ps)


def _blocks_table(requests: Sequence[Request]) -> pa.Table:
    found: dict[Block, dict[str, Any]] = {}
    for request in requests:
        for device, block in request.blocks if request.is_transfer else ():
            row = found.setdefault(
                (device, block),
                {"device": device, "block": block, "role": request.role, "reads": 0, "writes": 0},
            )
            row[f"{request.operation}s"] += 1
    unread = {"sectors": 8, "first_ns": 0, "last_ns": 0, "traffic_ratio": 0.0, "temperature": "hot"}
    rows = [{**found[key], **unread} for key in sorted(found)]
    return pa.Table.from_pylist(rows, schema=BLOCKS)


def swept(folder: Path, devices: tuple[Profile, Profile], *, is_issued: bool = False) -> Curves:
    """Sweep a trace at every capacity from nothing to all of its blocks."""
    touched = read_blocks(folder / "blocks.parquet")
    points = np.arange(len(touched.keys) + 1)
    pair = DevicePair(*devices)
    trace = ChargedTrace(folder / "requests.parquet", touched, pair, is_issued=is_issued)
    return sweep(trace, points)

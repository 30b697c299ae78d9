"""Small classified traces, and placement models as plain as they can be."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from hypothesis import strategies as st

from tests.traces import filled, write_folder
from tracekit.devices import DevicePair, Profile
from tracekit.model.block_orders import read_blocks
from tracekit.model.placement import ChargedTrace, Curves, curves_at
from tracekit.tables import BLOCKS, ROLES
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

BLOCK_SECTORS = BLOCK_BYTES // SECTOR_BYTES
Block = tuple[str, int]

DISK = Profile("disk", "", 9000.0, 11000.0, 100.0, 80.0, 8000.0, 700.0, 1.0, 0.0, 900.0)
NVM = Profile("nvm", "", 20.0, 90.0, 1000.0, 300.0, 3.0, 5.0, 24.0, 4.0, 1.0)


@dataclass(frozen=True)
class Request:
    """One row of `requests`, as far as a placement looks at it; times in ns."""

    role: str
    sector: int
    sectors: int = 8
    operation: str = "write"
    is_fua: bool = False
    is_preflush: bool = False
    is_meta: bool = False
    device: str = "sda"
    queue_ns: int | None = 0
    issue_ns: int | None = None
    merged_into: int | None = None
    complete_ns: int | None = None

    @property
    def is_transfer(self) -> bool:
        return self.operation in ("read", "write") and self.sectors > 0

    @property
    def leaves_work(self) -> bool:
        """Whether a flush after it has something to do."""
        return self.operation == "write" and not self.is_fua

    @property
    def blocks(self) -> list[Block]:
        last = (self.sector + self.sectors - 1) // BLOCK_SECTORS
        return [(self.device, block) for block in range(self.sector // BLOCK_SECTORS, last + 1)]

    def sectors_on(self, on_nvm: set[Block]) -> int:
        every = range(self.sector, self.sector + self.sectors)
        return sum((self.device, sector // BLOCK_SECTORS) in on_nvm for sector in every)


def write_trace(folder: Path, requests: Sequence[Request], **info: Any) -> Path:
    """Write `requests` and the `blocks` that they touch, and return the folder."""
    rows = [{**vars(one), "length_bytes": one.sectors * SECTOR_BYTES} for one in requests]
    write_folder(folder, rows, **info)
    found: dict[Block, dict[str, Any]] = {}
    for one in requests:
        for device, block in one.blocks if one.is_transfer else ():
            new = {"device": device, "block": block, "role": one.role, "reads": 0, "writes": 0}
            found.setdefault((device, block), new)[f"{one.operation}s"] += 1
    blocks = filled(BLOCKS, [found[key] for key in sorted(found)], sectors=8, temperature="hot")
    pq.write_table(blocks, folder / "blocks.parquet")
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


def on_nvm(requests: Sequence[Request], shares: Mapping[str, int]) -> set[Block]:
    """Return the hottest blocks of each role, as many as its share."""
    return {
        block for role, count in shares.items() for block in hottest_first(requests, role)[:count]
    }


def placed_blocks(requests: Sequence[Request], answer: Mapping[str, Any]) -> set[Block]:
    """Return the blocks that an answer puts on NVM."""
    roles = ("fs", "journal", "swap")
    return on_nvm(requests, {role: answer[f"{role}_bytes"] // BLOCK_BYTES for role in roles})


def gain(
    part: Sequence[Request],
    blocks: set[Block],
    pair: tuple[Profile, Profile],
    *,
    queueing: str,
    trace: Sequence[Request],
) -> float:
    """Charge the base alone and the placement for a part of a trace, request by request."""
    alone, placed = (
        model(part, held, pair, level="queued", trace=trace) for held in (set(), blocks)
    )
    if queueing == "open":
        return 1 - sum(placed.responses) / sum(alone.responses)
    return 1 - placed.service / alone.service


def hot_and_journal(count: int, journal_at: int) -> list[Request]:
    """Return requests of one block each, so that none is cut: a hot fs, and a journal."""
    found = []
    for number in range(count):
        is_journal = number % 3 == 0
        sector = journal_at + number // 3 % 40 * 8 if is_journal else number % 7 * 64
        found.append(
            Request(
                "journal" if is_journal else "fs",
                sector,
                operation="read" if number % 5 == 1 else "write",
                is_preflush=number % 30 == 0,
                queue_ns=number * 1_000_000,
                issue_ns=number * 1_000_000 + 10,
            )
        )
    return found


def blocks_by_role(requests: Iterable[Request]) -> defaultdict[str, set[Block]]:
    """All blocks that each role touches."""
    found: defaultdict[str, set[Block]] = defaultdict(set)
    for request in requests:
        found[request.role].update(request.blocks if request.is_transfer else ())
    return found


def curves_of(folder: Path, devices: tuple[Profile, Profile], **options: Any) -> Curves:
    """Return the curves of a trace at every capacity from nothing to all of its blocks."""
    touched = read_blocks(folder / "blocks.parquet")
    trace = ChargedTrace(folder / "requests.parquet", touched, DevicePair(*devices), **options)
    return curves_at(trace, np.arange(len(touched.keys) + 1))


US = 1_000_000


@dataclass
class WalkResult:
    """Times in ps."""

    service: int
    responses: list[int]
    makespan: int


def position_ps(disk: Profile, head: int | None, sector: int, *, is_write: bool) -> int:
    """Seek of Lee & Katz, half a turn; none where the head is, no seek below one track."""
    assert disk.rpm
    assert disk.capacity_gb
    assert disk.seek_track_us is not None
    assert disk.seek_average_us is not None
    assert disk.seek_full_us is not None
    if head == sector:
        return 0
    turn_s = 60 / disk.rpm
    if head is None:
        seek = round(disk.seek_average_us * US)
    elif abs(sector - head) < round(turn_s * disk.read_mib_s * (1 << 20) / 512):
        seek = 0
    else:
        x = min(abs(sector - head) / round(disk.capacity_gb * 1e9 / 512), 1.0)
        t, a, f = disk.seek_track_us, disk.seek_average_us, disk.seek_full_us
        root, linear = (15 * a - 10 * t - 5 * f) / 3, (7 * t - 15 * a + 8 * f) / 3
        seek = int(t * 1e6 + (root * 1e6) * math.sqrt(x) + (linear * 1e6) * x)
    settle = round((disk.write_settle_us or 0) * US) if is_write and seek else 0
    return seek + settle + round(turn_s * 1e6 / 2 * US)


def model(
    requests: Sequence[Request],
    on_nvm: set[Block],
    devices: tuple[Profile, Profile],
    *,
    level: str = "queued",
    trace: Sequence[Request] | None = None,
    is_by_address: bool = False,
) -> WalkResult:
    """Serve each request in the order given, which is that of arrival; `level` dates them.

    Each base disk has a head, and the NVM, on which blocks lie role by role or all by address. Data
    end no earlier than if begun after their own flush. `requests` may be a window of `trace`.
    """
    result, heads, servers = WalkResult(0, [], 0), dict[str, int](), Servers(devices)
    clock, start, written = 0, None, set[str]()
    owned = blocks_by_role(trace or requests)
    places = _places(owned, on_nvm, is_by_address=is_by_address)
    for request in requests:
        is_flush = request.operation == "flush" or request.is_preflush
        came_ns = request.issue_ns if level == "issued" else request.queue_ns
        if not (is_flush or request.is_transfer):
            continue
        if came_ns is not None:
            start = came_ns if start is None else start
            clock = max(clock, (came_ns - start) * 1000)
        jobs = [_flush_parts(request, owned, on_nvm, devices, written)] if is_flush else []
        jobs += [_transfer(request, places, devices, heads)] if request.is_transfer else []
        done = 0
        for job in jobs:
            result.service += sum(job.values())
            least = done + max(job.values()) if done else clock
            is_first = is_flush and job is jobs[0]
            part = "flush" if is_first else "data" if is_flush else request.operation
            served = (servers.serve(place, took, clock, part, done) for place, took in job.items())
            done = max(least, *served)
            written.update(job if part != "flush" and request.leaves_work else ())
        result.makespan = max(result.makespan, done)
        result.responses.append(done - clock)
    return result


def _places(
    owned: dict[str, set[Block]], on_nvm: set[Block], *, is_by_address: bool
) -> dict[Block, int]:
    """Return where each block lies on NVM: one after the other."""
    by_role = [block for role in ROLES for block in sorted(owned.get(role, set()) & on_nvm)]
    return {block: n for n, block in enumerate(sorted(on_nvm) if is_by_address else by_role)}


class Servers:
    """The servers of each place, and when its last write has ended."""

    def __init__(self, devices: tuple[Profile, Profile]) -> None:
        self.counts = [int(device.parallelism or 1) for device in devices]
        self.free = dict[str, list[int]]()
        self.written = dict[str, int]()

    def serve(self, place: str, took: int, clock: int, part: str, flushed: int) -> int:
        """Let a part of a job take its server; return when it is done.

        A flush begins when the writes before it have ended, on the server that was free last of
        those free then; so do its data when it has ended, which take their turn as they arrive.
        """
        free = self.free.setdefault(place, [0] * self.counts[place == "NVM"])
        free.sort()
        number, start = 0, max(free[0], clock)
        if part == "flush":
            start = max(start, self.written.get(place, 0))
            number = max(n for n in range(len(free)) if free[n] <= start)
        elif part == "data":
            number = max((n for n in range(len(free)) if free[n] <= flushed), default=0)
            start = max(free[number], clock)
        free[number] = start + took
        if part in ("write", "data"):
            self.written[place] = max(self.written.get(place, 0), free[number])
        return free[number]


def _flush_parts(
    request: Request,
    owned: dict[str, set[Block]],
    on_nvm: set[Block],
    devices: tuple[Profile, Profile],
    written: set[str],
) -> dict[str, int]:
    """Flush where the role has blocks; a place with nothing written since takes less."""
    blocks = owned[request.role]
    # What is only flushed is not among the trace's devices: together it is one more.
    is_known = any(device == request.device for part in owned.values() for device, _ in part)
    place = request.device if is_known else "only flushed"
    places = [place] * (not blocks & on_nvm or not blocks <= on_nvm)
    places += ["NVM"] * bool(blocks & on_nvm)
    job = {}
    for one in places:
        device = devices[one == "NVM"]
        empty_us = None if one in written else device.empty_flush_us
        job[one] = round((device.flush_us if empty_us is None else empty_us) * US)
    written.difference_update(places)
    return job


def _transfer(
    request: Request,
    places: dict[Block, int],
    devices: tuple[Profile, Profile],
    heads: dict[str, int],
) -> dict[str, int]:
    """Serve each run of sectors on the base disk, then what is on NVM, which is one run there."""
    base: list[list[int]] = []
    nvm: list[int] = []
    for sector in range(request.sector, request.sector + request.sectors):
        place = places.get((request.device, sector // 8))
        if place is not None:
            nvm.append(place * 8 + sector % 8)
        elif base and base[-1][-1] == sector - 1:
            base[-1].append(sector)
        else:
            base.append([sector])
    job: dict[str, int] = {}
    for name, device, runs in (
        (request.device, devices[0], base),
        ("NVM", devices[1], [nvm] if nvm else []),
    ):
        for run in runs:
            assert run == list(range(run[0], run[0] + len(run)))
            took = _part(request, device, run, heads.get(name), is_base=name != "NVM")
            job[name] = job.get(name, 0) + took
            heads[name] = run[-1] + 1
    return job


def _part(
    request: Request, device: Profile, run: list[int], head: int | None, *, is_base: bool
) -> int:
    """Return what a device takes for a run of sectors."""
    name = "write" if request.operation == "write" else "read"
    setup_us: float = getattr(device, f"{name}_setup_us")
    position = 0
    if device.has_head and is_base:
        setup_us = device.sequential_setup_us or 0
        position = position_ps(device, head, run[0], is_write=name == "write")
    elif head == run[0] and device.sequential_setup_us is not None:
        setup_us = device.sequential_setup_us
    rate: float = getattr(device, f"{name}_mib_s")
    transfer = len(run) * round(512 / (1 << 20) / rate * 1e12)
    fua = round(device.fua_us * US) if request.is_fua else 0
    return round(setup_us * US) + position + transfer + fua


# A disk of 0.001 GB, 1,953,125 sectors, so that the traces' distances matter; one turn is 8 ms.
HEAD = Profile(
    "head",
    "",
    15000.0,
    15500.0,
    0.25,
    0.25,
    8000.0,
    700.0,
    1.0,
    120.0,
    2500.0,
    rpm=7500.0,
    seek_track_us=800.0,
    seek_average_us=8500.0,
    seek_full_us=16000.0,
    capacity_gb=0.001,
    write_settle_us=500.0,
)

# First sector and sectors of each role's part of the disk; whole blocks, as partitions are.
PARTS = {"fs": (64, 160), "journal": (224, 96), "swap": (400, 64), "other": (464, 40)}


@st.composite
def traces(draw: st.DrawFn) -> list[Request]:
    requests: list[Request] = []
    for _ in range(draw(st.integers(0, 25))):
        before = requests[-1] if requests else None
        role = draw(st.sampled_from(sorted(PARTS)))
        first, size = PARTS[role]
        sector = first + draw(st.integers(0, size - 1))
        if before is not None and draw(st.booleans()):
            role, sector = before.role, before.sector + before.sectors
            first, size = PARTS[role]
        most = first + size - sector
        if most < 1:
            continue
        requests.append(
            Request(
                role=role,
                sector=sector,
                sectors=draw(st.integers(1, min(most, 30))),
                operation=draw(st.sampled_from(["read", "write", "write", "flush", "discard"])),
                is_fua=draw(st.booleans()),
                is_preflush=draw(st.booleans()),
                device=draw(st.sampled_from(["sda", "sda", "nvme0n1"])),
            )
        )
    return requests


def as_issued(seed: int, count: int) -> tuple[list[Request], list[Request]]:
    """Return requests as queued, many merged, and the same as issued in issue order."""
    source = random.Random(seed)  # noqa: S311 - not for secrets
    queued: list[Request] = []
    issued: list[tuple[int, int, Request]] = []
    for number in range(count):
        role = source.choice(sorted(PARTS))
        first, size = PARTS[role]
        cuts = sorted(source.sample(range(size + 1), source.randint(2, 6)))
        pieces = list(pairwise(cuts))
        carrier = source.randrange(len(pieces))
        # The carrier is queued first; the others join it at either end.
        after, before = pieces[carrier + 1 :], pieces[:carrier][::-1]
        rest = [*after, *before] if source.random() < 0.5 else [*before, *after]
        start_ns = number * 10
        issue_ns = start_ns + source.choice([10, 60, 20_000])
        operation = source.choice(["read", "write"])
        whole = Request(role, first + cuts[0], cuts[-1] - cuts[0], operation, issue_ns=issue_ns)
        identity = len(queued)
        issued.append((issue_ns, identity, whole))
        for offset, (low, high) in enumerate([pieces[carrier], *rest]):
            queued.append(
                Request(
                    role,
                    first + low,
                    high - low,
                    operation,
                    queue_ns=start_ns + offset,
                    issue_ns=issue_ns if offset == 0 else None,
                    merged_into=None if offset == 0 else identity,
                )
            )
    return queued, [whole for _, _, whole in sorted(issued, key=lambda entry: entry[:2])]

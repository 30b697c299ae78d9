"""When transfers of slower memory are over: the model beside one written anew from its definition.

Published points: Yang et al., FAST 2020, figures 4 and 5, as their data has them.
"""

import heapq
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tracekit._native.library import library, out, struct
from tracekit.plans.file_plan import AT_POSITION, MEMORY, Medium
from tracekit.sweep.slow_memories import KINDS

OPTANE, SINGLE = KINDS["optane-pmem-100"], KINDS["optane-pmem-100-single"]


@dataclass
class Model:
    """The library's, as the program uses it."""

    kind: Medium
    busy: Any = field(default_factory=lambda: out("uint64_t"))
    last: dict[tuple[int, bool], Any] = field(default_factory=dict)

    def end(self, thread: int, start_ps: int, *, write: bool, **transfer: int) -> int:
        """Return when a thread's transfer is over, in ps."""
        row = np.frombuffer(self.kind.table(), MEMORY)[0]
        ways = [
            {key: int(row[f"{way}_{key}"]) for key in ("latency_ns", "line_ps", "device_ps")}
            for way in ("read", "write")
        ]
        memory = struct("tk_slow_memory", line_bytes=int(row["line_bytes"]), ways=ways)
        last = self.last.setdefault((thread, write), struct("tk_memory_last"))
        call = struct("tk_memory_transfer", start_ps=start_ps, is_write=write, **transfer)
        return int(library().tk_slow_memory_end(memory, self.busy, last, call))


@dataclass
class Simulator:
    """The same by its definition: whole lines as sets, the device as a queue."""

    kind: Medium
    free: int = 0
    last: dict[tuple[int, bool], tuple[int, int]] = field(default_factory=dict)

    def end(self, thread: int, start_ps: int, *, write: bool, **transfer: int) -> int:
        """Return when a thread's transfer is over, in ps."""
        handle, offset, count = (transfer[key] for key in ("handle", "offset", "bytes"))
        way, size = "write" if write else "read", self.kind.line_bytes
        known, end = self.last.get((thread, write), (handle, 0))
        end = end if known == handle else 0
        offset = end if offset == AT_POSITION else offset
        lines = set(range(offset // size, -(-(offset + count) // size)))
        combined = {(end - 1) // size} & {min(lines)} if end else set()
        lines -= combined
        self.last[thread, write] = handle, offset + count
        latency, line, device = (
            int(getattr(self.kind, f"{way}_{key}"))
            for key in ("latency_ns", "line_ps", "device_ps")
        )
        turn = device * len(lines)
        start = start_ps
        if turn:
            start = max(start_ps, self.free)
            self.free = start + turn
        return start + max(latency * 1000 + line * max(len(lines) - 1, 0), turn)


@pytest.mark.parametrize("name", KINDS)
def test_transfers_end_as_the_definition_says(name: str) -> None:
    draw = np.random.default_rng(21)
    model, simulator = Model(KINDS[name]), Simulator(KINDS[name])
    now = 0
    position = [0] * 4
    for _ in range(5000):
        now += int(draw.integers(0, 200_000))
        thread, handle = int(draw.integers(4)), int(draw.integers(2))
        size = int(draw.choice([1, 63, 64, 65, 200, 256, 257, 4096, 70_000]))
        where = [AT_POSITION, position[thread], int(draw.integers(1 << 30))]
        offset = where[int(draw.integers(3))]
        position[thread] = 0 if offset == AT_POSITION else offset + size
        call = {"handle": handle, "offset": offset, "bytes": size}
        write = bool(draw.integers(2))
        assert model.end(thread, now, write=write, **call) == simulator.end(
            thread, now, write=write, **call
        )


def rate(kind: Medium, clients: int, *, size: int, write: bool) -> float:
    """Return GB/s of clients that each wait for their transfer, at places that share no line."""
    model = Model(kind)
    waiting = [(0, client) for client in range(clients)]
    count = max(20 * clients, 2000)
    for number in range(count):
        now, client = heapq.heappop(waiting)
        place = number * max(size, 4096)
        over = model.end(client, now, write=write, handle=0, offset=place, bytes=size)
        heapq.heappush(waiting, (over, client))
    return float(count * size * 1000 / max(waiting)[0])


@pytest.mark.parametrize(
    ("kind", "clients", "size", "write", "published"),
    [
        # a thread's sequential stream, and as many as fill the modules
        *((OPTANE, n, 1 << 20, False, gb_s) for n, gb_s in ((1, 2.88), (4, 11.63), (8, 21.13))),
        *((OPTANE, n, 1 << 20, True, gb_s) for n, gb_s in ((1, 4.13), (2, 8.19), (4, 12.5))),
        *((SINGLE, n, 1 << 20, False, gb_s) for n, gb_s in ((1, 2.92), (2, 5.66), (4, 6.52))),
        *((SINGLE, n, 1 << 20, True, gb_s) for n, gb_s in ((1, 2.22), (4, 2.20))),
        # of parts of lines the modules move whole ones: the knee at 256 bytes
        *((SINGLE, 64, n, False, gb_s) for n, gb_s in ((64, 1.675), (128, 3.344), (256, 6.505))),
        *((SINGLE, 64, n, True, gb_s) for n, gb_s in ((64, 0.555), (128, 1.098), (256, 2.207))),
        *((SINGLE, 64, 4096, write, gb_s) for write, gb_s in ((False, 6.559), (True, 2.231))),
    ],
)
def test_published_points_of_optane_are_met(
    kind: Medium, clients: int, size: int, write: bool, published: float
) -> None:
    assert rate(kind, clients, size=size, write=write) == pytest.approx(published, rel=0.1)


def test_small_writes_that_follow_each_other_move_a_line_once() -> None:
    kind = replace(SINGLE, write_latency_ns=0)
    model = Model(kind)
    apart = [model.end(0, 0, write=True, handle=0, offset=n * 4096, bytes=64) for n in range(64)]
    model = Model(kind)
    along = [model.end(0, 0, write=True, handle=0, offset=n * 64, bytes=64) for n in range(64)]
    assert max(apart) == 64 * kind.write_device_ps
    assert max(along) == 16 * kind.write_device_ps

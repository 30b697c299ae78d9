"""The walked placement model once more, as plain as it can be: heads, queues, one placement."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulate.placement_traces import Block, Request, hottest_first
from tracekit.devices import Profile

US = 1_000_000


@dataclass
class Result:
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
    level: str,
    trace: Sequence[Request] | None = None,
) -> Result:
    """Serve each request in the order given, which is that of arrival; `level` dates them.

    Data take their turn as they arrive, and end no earlier than if begun after their own flush.
    A role's blocks are those of `trace`, where `requests` are a window of it.
    """
    result, ends = Result(0, [], 0), dict[str, tuple[int, str, Block]]()
    heads, free, clock, start = dict[str, int](), dict[str, list[int]](), 0, None
    for request in requests:
        is_flush = request.operation == "flush" or request.is_preflush
        if not (is_flush or request.is_transfer):
            continue
        came_ns = request.issue_ns if level == "issued" else request.queue_ns
        if came_ns is not None:
            start = came_ns if start is None else start
            clock = max(clock, (came_ns - start) * 1000)
        jobs = []
        if is_flush:
            jobs.append(_flush(trace or requests, request, on_nvm, devices))
        if request.is_transfer:
            jobs.append(_transfer(request, on_nvm, devices, heads, ends))
        done = 0
        for job in jobs:
            together = is_flush and job is jobs[0]
            result.service += max(job.values()) if together else sum(job.values())
            least = done + max(job.values()) if done else clock
            done = max(least, _serve(job, clock, free=free, devices=devices))
            result.makespan = max(result.makespan, done)
        result.responses.append(done - clock)
    return result


def _serve(
    job: dict[str, int], clock: int, *, free: dict[str, list[int]], devices: tuple[Profile, Profile]
) -> int:
    """Let each part take the server of its device that is free first; return when all are done."""
    ends = []
    for place, took in job.items():
        lanes = free.setdefault(place, [0] * int(devices[place == "NVM"].parallelism or 1))
        lanes.sort()
        lanes[0] = max(lanes[0], clock) + took
        ends.append(lanes[0])
    return max(ends)


def _flush(
    requests: Sequence[Request],
    request: Request,
    on_nvm: set[Block],
    devices: tuple[Profile, Profile],
) -> dict[str, int]:
    blocks = set(hottest_first(requests, request.role))
    base, nvm = (round(device.flush_us * US) for device in devices)
    # What is only flushed is not among the trace's devices: together it is one more.
    is_known = any(one.is_transfer and one.device == request.device for one in requests)
    place = request.device if is_known else "only flushed"
    if not blocks & on_nvm:
        return {place: base}
    return {"NVM": nvm} if blocks <= on_nvm else {place: base, "NVM": nvm}


def _transfer(
    request: Request,
    on_nvm: set[Block],
    devices: tuple[Profile, Profile],
    heads: dict[str, int],
    ends: dict[str, tuple[int, str, Block]],
) -> dict[str, int]:
    sectors = range(request.sector, request.sector + request.sectors)
    held = {
        False: [s for s in sectors if (request.device, s // 8) not in on_nvm],
        True: [s for s in sectors if (request.device, s // 8) in on_nvm],
    }
    before = ends.get(request.device)
    joins = before is not None and before[:2] == (request.sector, request.role)
    sides = {before[2] in on_nvm if before else None, request.blocks[0] in on_nvm}
    job = {}
    for which, device in zip((False, True), devices, strict=True):
        if not held[which]:
            continue
        name = "write" if request.operation == "write" else "read"
        latency = getattr(device, f"{name}_setup_us")
        if joins and sides == {which} and device.sequential_setup_us is not None:
            latency = device.sequential_setup_us
        took = round(latency * US)
        if device.has_head:
            head, first = heads.get(request.device), held[which][0]
            took = round((device.sequential_setup_us or 0) * US)
            took += position_ps(device, head, first, is_write=name == "write")
            heads[request.device] = held[which][-1] + 1
        rate = getattr(device, f"{name}_mib_s")
        took += len(held[which]) * round(512 / (1 << 20) / rate * 1e12)
        took += round(device.fua_us * US) if request.is_fua else 0
        job["NVM" if which else request.device] = took
    ends[request.device] = (sectors.stop, request.role, request.blocks[-1])
    return job

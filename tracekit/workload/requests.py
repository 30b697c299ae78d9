"""The requests of a work profile: its streams as the kernel takes them, and blocks of requests."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from tracekit._native.library import constant, enumerators
from tracekit._native.workload import MOST_PLACES, NEVER_NS, Workload
from tracekit.arrow import ahead
from tracekit.durable import make_folder
from tracekit.errors import InputError, UsageError
from tracekit.free_space import Need, check_room, check_rooms
from tracekit.invoking_user import hand_over
from tracekit.plans import block_plan
from tracekit.plans.block_plan import RECORD, FinalPlanWriter
from tracekit.store import beside
from tracekit.units import MIB, SECTOR_BYTES, format_size
from tracekit.workload import model
from tracekit.workload.keys import cumulated
from tracekit.workload.model import (
    ONE,
    Arrival,
    Distribution,
    Locality,
    Profile,
    Request,
    Stream,
    expected_requests,
)

MODES = enumerators("follow_mode", "FOLLOW_")
RARE = 0.02  # of the used pages: those nearer or farther than all others
NEAR = 8  # times: as far back as another one
MASK = (1 << 64) - 1

Fields = dict[str, Any]
"""Of a structure of the kernel's."""


def open_workload(profile: Profile, seed: int) -> Workload:
    """Return the profile's requests, the same for the same seed; raise TracekitError."""
    unit = profile.sector_bytes if profile.is_direct else SECTOR_BYTES
    streams = [
        _stream(stream, unit, seed=(seed, number)) for number, stream in enumerate(profile.streams)
    ]
    return Workload(streams, name=str(profile.file))


def _stream(stream: Stream, unit: int, *, seed: tuple[int, int]) -> Fields:
    shares = cumulated([request.share for request in stream.requests])
    arrival_seed, other_seed = (_generator(seed, number) for number in range(2))
    return {
        "arrival": _arrival(stream.arrival),
        "classes": [
            _class(request, share, stream=stream, unit=unit, seed=seed)
            for request, share in zip(stream.requests, shares, strict=True)
        ],
        "class_count": len(stream.requests),
        "arrival_seed": arrival_seed,
        "seed": other_seed,
    }


def _arrival(arrival: Arrival) -> Fields:
    return {
        "gap": _dist(arrival.gap),
        "off": _dist(arrival.off or ONE),
        "burst": _dist(arrival.burst or ONE),
        "correlation": arrival.correlation,
        "has_bursts": arrival.burst is not None,
        "phase_count": len(arrival.phases),
        "phase_ns": [float(phase.duration_ns) for phase in arrival.phases],
        "phase_rates": [phase.rate for phase in arrival.phases],
    }


def _class(
    request: Request, share_to: float, *, stream: Stream, unit: int, seed: tuple[int, int]
) -> Fields:
    unit_sectors = unit // SECTOR_BYTES
    return {
        "share_to": share_to,
        "size": _dist(_in_sectors(request.size)),
        "run": _dist(request.run or ONE),
        "follow": _follow(request),
        "then": request.then or None,
        "has_runs": request.run is not None,
        "size_unit": unit_sectors,
        "size_least": max(request.least_bytes // SECTOR_BYTES, unit_sectors),
        "size_most": max(request.most_bytes // SECTOR_BYTES, unit_sectors),
        "operation": model.OPERATIONS.index(request.operation),
        "flags": sum(1 << model.FLAGS.index(flag) for flag in request.flags),
        "place": _place(request.locality, request.align_bytes, stream=stream, seed=seed),
    }


def _place(
    locality: Locality, align_bytes: int, *, stream: Stream, seed: tuple[int, int]
) -> Fields:
    return {
        "kind": locality.kind,
        "count": len(locality.blocks_to),
        "first_sector": stream.start_bytes // SECTOR_BYTES,
        "sectors": stream.size_bytes // SECTOR_BYTES,
        "align_sectors": align_bytes // SECTOR_BYTES,
        "block_sectors": locality.block_bytes // SECTOR_BYTES,
        # Popular blocks lie in the same places for all requests of a stream.
        "key": int(SeedSequence(seed, spawn_key=(2,)).generate_state(1, "u8")[0]),
        "exponent": locality.exponent,
        "blocks_to": locality.blocks_to,
        "requests_to": locality.requests_to,
        "reuse_ratio": locality.reuse_ratio,
        "distance": _dist(locality.distance),
        "most_places": MOST_PLACES,
    }


def _dist(of: Distribution) -> Fields:
    return {**vars(of), "count": len(of.values)}


def _follow(request: Request) -> Fields:
    if request.circle is not None:
        first, size = request.circle
        return {
            "mode": constant("FOLLOW_CIRCLE"),
            "circle_first": first // SECTOR_BYTES,
            "circle_sectors": size // SECTOR_BYTES,
        }
    return {
        "mode": MODES.index(request.begins or "not"),
        "is_used": request.is_used,
        "back": _back(request.locality.distance),
        "uses": request.uses or None,
    }


def _back(distance: Distribution) -> Fields:
    """Return how far back most used pages are: farther or less far ones are not meant."""
    if distance.kind != model.QUANTILES:
        return {"from": 0, "to": MASK}
    values = zip(distance.up_to, distance.values, strict=True)
    inner = [value for share, value in values if RARE <= share <= 1 - RARE]
    ends = inner or distance.values
    return {"from": int(ends[0] / NEAR), "to": int(ends[-1] * NEAR)}


def _in_sectors(sizes: Distribution) -> Distribution:
    return replace(
        sizes,
        scale=sizes.scale / SECTOR_BYTES,
        values=tuple(value / SECTOR_BYTES for value in sizes.values),
    )


def _generator(seed: tuple[int, int], number: int) -> Fields:
    """Return where one of a stream's generators starts: for its arrivals, or for all else."""
    state = PCG64(SeedSequence(seed, spawn_key=(number,))).state["state"]
    return {
        "state": (state["state"] >> 64, state["state"] & MASK),
        "increment": (state["inc"] >> 64, state["inc"] & MASK),
    }


BLOCK_RECORDS = 1 << 14
SEED_MOST = (1 << 63) - 1
DEFAULT_REQUESTS = 100_000


@dataclass(frozen=True)
class Extent:
    """How much to make: so many requests, or those before a time; `seed` gives the same again."""

    requests: int | None = None
    duration_ns: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject what cannot be."""
        if self.requests is not None and not 1 <= self.requests <= 1 << 40:
            raise UsageError(f"--requests {self.requests}: not a number from 1 to 2^40")
        if self.duration_ns == 0:
            raise UsageError("--duration 0: no time at all", hint="write for example 60s")
        if not 0 <= self.seed <= SEED_MOST:
            raise UsageError(f"--seed {self.seed}: not a number from 0 to 2^63 - 1")

    @property
    def limit(self) -> int:
        """The most requests."""
        if self.requests is not None:
            return self.requests
        return DEFAULT_REQUESTS if self.duration_ns is None else 1 << 40

    def expected_requests(self, profile: Profile) -> int:
        """Return how many requests come: exactly, or where a time ends them on average."""
        if self.duration_ns is None:
            return self.limit
        return min(self.limit, math.ceil(expected_requests(profile, self.duration_ns)))


def blocks(profile: Profile, extent: Extent) -> Iterator[NDArray[np.void]]:
    """Yield the requests as records of a plan, whose `target` is the number of their stream.

    A block is valid until the one after the next is drawn. While one is used the next is made.
    """
    until_ns = NEVER_NS if extent.duration_ns is None else extent.duration_ns
    buffers = cycle([np.zeros(BLOCK_RECORDS, RECORD) for _ in range(3)])

    def made(workload: Workload) -> Iterator[NDArray[np.void]]:
        left = extent.limit
        for buffer in buffers:
            done = workload.fill(buffer[:left], until_ns)
            left -= done
            if done:
                yield buffer[:done]
            if left == 0 or done < BLOCK_RECORDS:
                return

    with open_workload(profile, extent.seed) as workload:
        yield from ahead(made(workload))


def resized(profile: Profile, target_bytes: int) -> Profile:
    """Return the profile on a target of another size, its streams' parts in proportion.

    Parts begin and end at whole MiB; raise UsageError for a size that does not hold the requests.
    """
    if target_bytes % profile.sector_bytes:
        message = f"--target-size {target_bytes}: no multiple of the sector"
        raise UsageError(message, hint=f"sectors have {profile.sector_bytes} bytes")
    return replace(
        profile,
        target_bytes=target_bytes,
        streams=tuple(_resized(stream, profile, target_bytes) for stream in profile.streams),
    )


def _resized(stream: Stream, profile: Profile, target_bytes: int) -> Stream:
    def moved(place: int) -> int:
        if place == profile.target_bytes:
            return target_bytes
        return place * target_bytes // profile.target_bytes // MIB * MIB

    start, end = moved(stream.start_bytes), moved(stream.start_bytes + stream.size_bytes)
    needed = max(max(one.most_bytes, one.align_bytes) for one in stream.requests)
    if end - start < needed:
        raise UsageError(
            f"--target-size {format_size(target_bytes)}: of it {format_size(end - start)} are for"
            f" requests of up to {format_size(needed)}",
            hint="choose a larger one",
        )
    return replace(stream, start_bytes=start, size_bytes=end - start)


FEWER = "choose fewer --requests or a shorter --duration, or an --output on another disk"


def digest(profile: Profile) -> bytes:
    """Return the SHA-256 of the profile's text."""
    return hashlib.sha256(profile.text.encode()).digest()


def nothing(profile: Profile) -> InputError:
    """Return the error for a time in which no request comes."""
    return InputError(
        f"{profile.file}: no request comes in that time", hint="choose a longer --duration"
    )


def write_plan(
    profile: Profile,
    output: Path,
    *,
    extent: Extent,
    overwrite: bool,
    on_rows: Callable[[int], None],
) -> dict[str, Any]:
    """Write the plan; return counts and the time of the last request.

    Raise InputError when no request comes in the time, and before anything is made when
    the disk has no free space for the records; of a time, for those that come in it on average.
    """
    size_bytes = (
        block_plan.HEADER.itemsize + extent.expected_requests(profile) * block_plan.RECORD.itemsize
    )
    check_room(output, size_bytes, hint=FEWER, is_estimate=extent.duration_ns is not None)
    whole = block_plan.Extent(profile.name, 0, profile.target_bytes // SECTOR_BYTES, 0, 0)
    tables = block_plan.Tables(
        labels=("default",),
        needed_bytes=(profile.target_bytes,),
        extents=(whole,),
        trace_sha256=digest(profile),
        level="queued",
    )
    with beside(output, overwrite=overwrite) as part, block_plan.open_new(part) as out:
        writer = FinalPlanWriter(out, tables)
        for records in blocks(profile, extent):
            if len(profile.streams) > 1:
                records["target"] = 0
            writer.append(records)
            on_rows(len(records))
        if not writer.count:
            raise nothing(profile)
        totals = writer.close()
    return {
        "requests": writer.count,
        "duration_ns": totals["duration_ns"],
        "operations": {name: count for name, count in totals["operations"].items() if count},
    }


CHUNK_BYTES = 4 << 20
FREE_BYTES = 64 << 20  # that are left on a disk


def size_of(path: Path) -> int:
    """Return the bytes of a file or block device."""
    with path.open("rb") as target:
        return target.seek(0, os.SEEK_END)


def check_size(profile: Profile, path: Path) -> None:
    """Raise UsageError when a target that is there is smaller than the profile's."""
    found = size_of(path)
    if found < profile.target_bytes:
        raise UsageError(
            f"--target {path}: it has {format_size(found)}, the profile {profile.name} needs"
            f" {format_size(profile.target_bytes)}",
            hint=f"pass --target-size {found // profile.sector_bytes * profile.sector_bytes}B",
        )


def target_need(path: Path, size_bytes: int) -> Need:
    """Return what the file takes on its disk."""
    return Need(path, size_bytes, hint="choose a smaller --target-size, or a --target elsewhere")


@contextmanager
def filled_file(path: Path, size_bytes: int, *, keep: bool) -> Iterator[Path]:
    """Make a file with random content of that size, and remove it afterwards unless `keep`.

    Raise InputError before anything is written when the disk has no free space for it.
    """
    check_rooms([target_need(path, size_bytes)], spare_bytes=FREE_BYTES)
    make_folder(path.parent)
    try:
        _fill(path, size_bytes)
        hand_over(path)
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    if not keep:
        path.unlink(missing_ok=True)


def _fill(path: Path, size_bytes: int) -> None:
    content = Generator(PCG64(0))
    with path.open("xb") as target:
        for done in range(0, size_bytes, CHUNK_BYTES):
            target.write(content.bytes(min(size_bytes - done, CHUNK_BYTES)))
        target.flush()
        os.fsync(target.fileno())

"""A work profile as the kernel takes it: `struct workload_stream`, in sectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.random import PCG64, SeedSequence

from tracekit._native.library import constant, enumerators
from tracekit._native.workload import MOST_PLACES, Workload
from tracekit.units import SECTOR_BYTES
from tracekit.workload import model
from tracekit.workload.keys import cumulated
from tracekit.workload.model import ONE, Arrival, Distribution, Locality, Profile, Request, Stream

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

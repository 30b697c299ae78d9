"""The requests of a work profile: `replayer/workload/workload.h` for numpy."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracekit.errors import TracekitError
from tracekit.native import library
from tracekit.native.owned import Owned
from tracekit.workload.model import (
    ONE,
    Arrival,
    Distribution,
    Locality,
    Profile,
    Request,
    Stream,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SECTOR_BYTES = 512
OPERATIONS = ("read", "write", "flush")
FLAGS = {"fua": 1, "preflush": 2, "sync": 4, "meta": 8, "readahead": 16}
MOST_PLACES = 1 << 24  # that a class remembers: up to a GiB of memory
NEVER_NS = 1 << 62

_U8, _U16, _U32, _U64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
_F64, _POINTER = ctypes.c_double, ctypes.c_void_p


class _Dist(ctypes.Structure):
    _fields_ = [
        ("kind", _U32),
        ("count", _U32),
        ("scale", _F64),
        ("shape", _F64),
        ("values", _POINTER),
        ("up_to", _POINTER),
    ]


class _Arrival(ctypes.Structure):
    _fields_ = [
        ("gap", _Dist),
        ("off", _Dist),
        ("burst", _Dist),
        ("correlation", _F64),
        ("has_bursts", _U32),
        ("phase_count", _U32),
        ("phase_ns", _POINTER),
        ("phase_rates", _POINTER),
    ]


class _Place(ctypes.Structure):
    _fields_ = [
        ("kind", _U32),
        ("count", _U32),
        *((name, _U64) for name in ("first_sector", "sectors", "align_sectors")),
        ("block_sectors", _U64),
        ("key", _U64),
        ("exponent", _F64),
        ("blocks_to", _POINTER),
        ("requests_to", _POINTER),
        ("reuse_ratio", _F64),
        ("distance", _Dist),
        ("most_places", _U64),
    ]


class _Class(ctypes.Structure):
    _fields_ = [
        ("share_to", _F64),
        ("size", _Dist),
        ("run", _Dist),
        ("goes_on", _F64 * 2),
        ("resumes", _F64 * 2),
        ("follows", _U32),
        *((name, _U32) for name in ("has_runs", "size_unit", "size_least", "size_most")),
        ("operation", _U8),
        ("flags", _U8),
        ("unused", _U8 * 2),
        ("place", _Place),
    ]


class _Seed(ctypes.Structure):
    _fields_ = [("state", _U64 * 2), ("increment", _U64 * 2)]


class _Stream(ctypes.Structure):
    _fields_ = [
        ("arrival", _Arrival),
        ("classes", ctypes.POINTER(_Class)),
        ("class_count", _U32),
        ("unused", _U32),
        ("arrival_seed", _Seed),
        ("seed", _Seed),
    ]


@functools.cache
def _functions() -> ctypes.CDLL:
    native = library()
    native.tk_workload_new.argtypes = [_POINTER, _U32, _POINTER]
    native.tk_workload_fill.argtypes = [_POINTER, _POINTER, _U64, ctypes.c_int64]
    native.tk_workload_fill.restype = ctypes.c_int64
    native.tk_workload_free.argtypes = [_POINTER]
    native.tk_workload_free.restype = None
    return native


class Workload(Owned):
    """The requests of a profile, the same for the same `seed` however they are asked for."""

    free_function = "tk_workload_free"

    def __init__(self, profile: Profile, seed: int) -> None:
        """Raise TracekitError when the kernel refuses the profile."""
        self._native = _functions()
        self._kept: list[Any] = []  # what the kernel points to
        super().__init__()
        unit = profile.sector_bytes if profile.is_direct else SECTOR_BYTES
        streams = (_Stream * len(profile.streams))(
            *(
                self._stream(stream, unit, seed=(seed, number))
                for number, stream in enumerate(profile.streams)
            )
        )
        status = self._native.tk_workload_new(
            streams, len(profile.streams), ctypes.byref(self._handle)
        )
        if status:
            message = f"{profile.file}: no requests can be made: {os.strerror(-status)}"
            raise TracekitError(message)

    def fill(self, records: NDArray[np.void], until_ns: int = NEVER_NS) -> int:
        """Write plan records, their `target` the number of the stream; return how many.

        They are fewer than there is room for only when the next one is due at `until_ns` or later.
        """
        done = self._native.tk_workload_fill(
            self._handle, records.ctypes.data, len(records), until_ns
        )
        if done < 0:
            raise TracekitError(f"no requests could be made: {os.strerror(-done)}")
        return int(done)

    def _stream(self, stream: Stream, unit: int, *, seed: tuple[int, int]) -> _Stream:
        shares = _cumulated([request.share for request in stream.requests])
        classes = (_Class * len(stream.requests))(
            *(
                self._class(request, share, stream=stream, unit=unit, seed=(*seed, number))
                for number, (request, share) in enumerate(zip(stream.requests, shares, strict=True))
            )
        )
        self._kept.append(classes)
        arrival_seed, other_seed = _seeds(seed)
        return _Stream(
            self._arrival(stream.arrival), classes, len(classes), 0, arrival_seed, other_seed
        )

    def _arrival(self, arrival: Arrival) -> _Arrival:
        return _Arrival(
            self._dist(arrival.gap),
            self._dist(arrival.off or ONE),
            self._dist(arrival.burst or ONE),
            arrival.correlation,
            int(arrival.burst is not None),
            len(arrival.phases),
            self._table([float(phase.duration_ns) for phase in arrival.phases]),
            self._table([phase.rate for phase in arrival.phases]),
        )

    def _class(
        self, request: Request, share_to: float, *, stream: Stream, unit: int, seed: tuple[int, ...]
    ) -> _Class:
        unit_sectors = unit // SECTOR_BYTES
        return _Class(
            share_to,
            self._dist(_in_sectors(request.size)),
            self._dist(request.run or ONE),
            (_F64 * 2)(*(request.goes_on or (0, 0))),
            (_F64 * 2)(*request.resumes),
            int(request.goes_on is not None),
            int(request.run is not None),
            unit_sectors,
            max(request.least_bytes // SECTOR_BYTES, unit_sectors),
            max(request.most_bytes // SECTOR_BYTES, unit_sectors),
            OPERATIONS.index(request.operation),
            sum(FLAGS[flag] for flag in request.flags),
            (_U8 * 2)(),
            self._place(request.locality, request.align_bytes, stream=stream, seed=seed),
        )

    def _place(
        self, locality: Locality, align_bytes: int, *, stream: Stream, seed: tuple[int, ...]
    ) -> _Place:
        from numpy.random import SeedSequence

        return _Place(
            locality.kind,
            len(locality.blocks_to),
            stream.start_bytes // SECTOR_BYTES,
            stream.size_bytes // SECTOR_BYTES,
            align_bytes // SECTOR_BYTES,
            locality.block_bytes // SECTOR_BYTES,
            # Popular blocks lie in the same places for all requests of a stream.
            int(SeedSequence(seed[:2], spawn_key=(2,)).generate_state(1, "u8")[0]),
            locality.exponent,
            self._table(locality.blocks_to),
            self._table(locality.requests_to),
            locality.reuse_ratio,
            self._dist(locality.distance),
            MOST_PLACES,
        )

    def _dist(self, of: Distribution) -> _Dist:
        tables = self._table(of.values), self._table(of.up_to)
        return _Dist(of.kind, len(of.values), of.scale, of.shape, *tables)

    def _table(self, numbers: Sequence[float]) -> int | None:
        if not numbers:
            return None
        table = (_F64 * len(numbers))(*numbers)
        self._kept.append(table)
        return ctypes.addressof(table)


def _cumulated(shares: Sequence[float]) -> list[float]:
    import math

    total = math.fsum(shares)
    return [*(math.fsum(shares[: at + 1]) / total for at in range(len(shares) - 1)), 1.0]


def _in_sectors(sizes: Distribution) -> Distribution:
    from dataclasses import replace

    return replace(
        sizes,
        scale=sizes.scale / SECTOR_BYTES,
        values=tuple(value / SECTOR_BYTES for value in sizes.values),
    )


def _seeds(seed: tuple[int, int]) -> tuple[_Seed, _Seed]:
    """Return the starts of two independent generators, for arrivals and for all else."""
    from numpy.random import PCG64, SeedSequence

    def start(number: int) -> _Seed:
        state = PCG64(SeedSequence(seed, spawn_key=(number,))).state["state"]
        halves = {name: (_U64 * 2)(state[name] >> 64, state[name] & ((1 << 64) - 1))
                  for name in ("state", "inc")}  # fmt: skip
        return _Seed(halves["state"], halves["inc"])

    return start(0), start(1)

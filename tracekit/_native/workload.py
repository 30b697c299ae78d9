"""The requests of a work profile: `replayer/workload/workload.h` for numpy."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracekit._native import library
from tracekit._native import workload_layout as layout
from tracekit._native.owned import Owned
from tracekit.errors import TracekitError
from tracekit.workload.model import (
    ONE,
    QUANTILES,
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
MODES = (None, "on", "resumed", "elsewhere")
CIRCLE = len(MODES)
RARE = 0.02  # of the used pages: those nearer or farther than all others
NEAR = 8  # times: as far back as another one
MOST_PLACES = 1 << 24  # that a class remembers: up to a GiB of memory
NEVER_NS = 1 << 62


@functools.cache
def _functions() -> ctypes.CDLL:
    native = library()
    native.tk_workload_new.argtypes = [layout.POINTER, layout.U32, layout.POINTER]
    native.tk_workload_fill.argtypes = [layout.POINTER, layout.POINTER, layout.U64, ctypes.c_int64]
    native.tk_workload_fill.restype = ctypes.c_int64
    native.tk_workload_free.argtypes = [layout.POINTER]
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
        streams = (layout.Stream * len(profile.streams))(
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

    def _stream(self, stream: Stream, unit: int, *, seed: tuple[int, int]) -> layout.Stream:
        shares = _cumulated([request.share for request in stream.requests])
        classes = (layout.Class * len(stream.requests))(
            *(
                self._class(request, share, stream=stream, unit=unit, seed=(*seed, number))
                for number, (request, share) in enumerate(zip(stream.requests, shares, strict=True))
            )
        )
        self._kept.append(classes)
        arrival_seed, other_seed = _seeds(seed)
        return layout.Stream(
            self._arrival(stream.arrival), classes, len(classes), 0, arrival_seed, other_seed
        )

    def _arrival(self, arrival: Arrival) -> layout.Arrival:
        return layout.Arrival(
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
    ) -> layout.Class:
        unit_sectors = unit // SECTOR_BYTES
        return layout.Class(
            share_to,
            self._dist(_in_sectors(request.size)),
            self._dist(request.run or ONE),
            _follow(request),
            self._counts(request.then),
            int(request.run is not None),
            unit_sectors,
            max(request.least_bytes // SECTOR_BYTES, unit_sectors),
            max(request.most_bytes // SECTOR_BYTES, unit_sectors),
            OPERATIONS.index(request.operation),
            sum(FLAGS[flag] for flag in request.flags),
            (layout.U8 * 6)(),
            self._place(request.locality, request.align_bytes, stream=stream, seed=seed),
        )

    def _place(
        self, locality: Locality, align_bytes: int, *, stream: Stream, seed: tuple[int, ...]
    ) -> layout.Place:
        from numpy.random import SeedSequence

        return layout.Place(
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

    def _dist(self, of: Distribution) -> layout.Dist:
        tables = self._table(of.values), self._table(of.up_to)
        return layout.Dist(of.kind, len(of.values), of.scale, of.shape, *tables)

    def _counts(self, numbers: Sequence[int]) -> int | None:
        if not numbers:
            return None
        table = (layout.U32 * len(numbers))(*numbers)
        self._kept.append(table)
        return ctypes.addressof(table)

    def _table(self, numbers: Sequence[float]) -> int | None:
        if not numbers:
            return None
        table = (layout.F64 * len(numbers))(*numbers)
        self._kept.append(table)
        return ctypes.addressof(table)


def _follow(request: Request) -> layout.Follow:
    if request.circle is not None:
        first, size = request.circle
        return layout.Follow(CIRCLE, 0, 0, 0, first // SECTOR_BYTES, size // SECTOR_BYTES)
    mode, used = MODES.index(request.begins), int(request.is_used)
    return layout.Follow(mode, used, *_back(request.locality.distance), 0, 0)


def _back(distance: Distribution) -> tuple[int, int]:
    """Return how far back most used pages are: farther or less far ones are not meant."""
    if distance.kind != QUANTILES:
        return 0, (1 << 64) - 1
    values = zip(distance.up_to, distance.values, strict=True)
    inner = [value for share, value in values if RARE <= share <= 1 - RARE]
    ends = inner or distance.values
    return int(ends[0] / NEAR), int(ends[-1] * NEAR)


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


def _seeds(seed: tuple[int, int]) -> tuple[layout.Seed, layout.Seed]:
    """Return the starts of two independent generators, for arrivals and for all else."""
    from numpy.random import PCG64, SeedSequence

    def start(number: int) -> layout.Seed:
        state = PCG64(SeedSequence(seed, spawn_key=(number,))).state["state"]
        halves = {name: (layout.U64 * 2)(state[name] >> 64, state[name] & ((1 << 64) - 1))
                  for name in ("state", "inc")}  # fmt: skip
        return layout.Seed(halves["state"], halves["inc"])

    return start(0), start(1)

"""The requests of a work profile, some thousand at a time, made while the last ones are used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tracekit.errors import UsageError
from tracekit.sizes import format_size
from tracekit.workload.means import expected_requests
from tracekit.workload.model import Profile, Stream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_RECORDS = 1 << 14
SEED_MOST = (1 << 63) - 1
DEFAULT_REQUESTS = 100_000
MIB = 1 << 20


@dataclass(frozen=True)
class Extent:
    """How much to make: so many requests, or those before a time; `seed` gives the same again."""

    requests: int | None = None
    duration_ns: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
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

    @property
    def has_known_end(self) -> bool:
        """Whether the number of requests is known before they are made: no time ends them."""
        return self.duration_ns is None

    def expected_requests(self, profile: Profile) -> int:
        """Return how many requests come: exactly, or where a time ends them on average."""
        if self.duration_ns is None:
            return self.limit
        return min(self.limit, math.ceil(expected_requests(profile, self.duration_ns)))


def blocks(profile: Profile, extent: Extent) -> Iterator[NDArray[np.void]]:
    """Yield the requests as records of a plan, whose `target` is the number of their stream.

    A block is valid until the one after the next is asked for. While one is used the next is made.
    """
    import numpy as np

    from tracekit.native.workload import NEVER_NS, Workload
    from tracekit.plan.file import RECORD

    until_ns = NEVER_NS if extent.duration_ns is None else extent.duration_ns
    left = extent.limit
    buffers = [np.zeros(BLOCK_RECORDS, RECORD) for _ in range(3)]
    with Workload(profile, extent.seed) as workload, ThreadPoolExecutor(1) as maker:

        def begin(number: int) -> Future[int]:
            room = buffers[number % 3][: min(left, BLOCK_RECORDS)]
            return maker.submit(workload.fill, room, until_ns)

        number, made = 0, begin(0)
        while True:
            done = made.result()
            records = buffers[number % 3][:done]
            left -= done
            is_last = left == 0 or done < BLOCK_RECORDS
            number += 1
            if not is_last:
                made = begin(number)
            if done:
                yield records
            if is_last:
                return


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
    ends = (stream.start_bytes, stream.start_bytes + stream.size_bytes)
    start, end = (
        target_bytes
        if place == profile.target_bytes
        else place * target_bytes // profile.target_bytes // MIB * MIB
        for place in ends
    )
    needed = max(max(one.most_bytes, one.align_bytes) for one in stream.requests)
    if end - start < needed:
        raise UsageError(
            f"--target-size {format_size(target_bytes)}: of it {format_size(end - start)} are for"
            f" requests of up to {format_size(needed)}",
            hint="choose a larger one",
        )
    return replace(stream, start_bytes=start, size_bytes=end - start)

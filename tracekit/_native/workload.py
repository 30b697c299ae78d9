"""Requests of work profiles, sums over plans, places on targets: the library for numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import Owned, call, check, constant, dtype_of, out, struct, structs

MOST_PLACES = 1 << 24  # that are remembered: up to a GiB of memory
NEVER_NS = 1 << 62
RUN = dtype_of("struct working_set_run")
SEEN = dtype_of("struct working_set_seen")
"""What requests find: pages back and uses of their first page, requests back to the same one."""
USE_BANDS, USE_CLASSES = constant("USE_BANDS"), constant("USE_CLASSES")
"""Powers of 4 of distances in pages, powers of 2 of uses; the last ones have all above."""
FIT_POLICIES = ("refuse", "wrap", "skip", "fold", "scale", "clip")
"""In the order of the native enum."""


class Workload(Owned):
    """The requests of streams, the same however they are asked for."""

    kind = "tk_workload"
    failure = "no requests could be made"

    def __init__(self, streams: Sequence[Mapping[str, Any]], *, name: str) -> None:
        """Take fields of `struct workload_stream`; `name` is the profile's, for errors."""
        self._streams = structs("workload_stream", streams)
        refusal = f"{name}: no requests can be made"
        super().__init__(self._streams, len(streams), refusal=refusal)

    def fill(self, records: NDArray[np.void], until_ns: int = NEVER_NS) -> int:
        """Write plan records, their `target` the number of the stream; return how many.

        They are fewer than fit only when the next one is due at `until_ns` or later.
        """
        return self._check(self._call("fill", records, len(records), until_ns))


class Territory(Owned):
    """The pages of so many sectors, in the order of their last use."""

    kind = "tk_working_set"
    failure = "used pages cannot be found"

    def __init__(self, sectors: int) -> None:
        super().__init__(sectors, MOST_PLACES)

    def see(self, runs: NDArray[np.void]) -> NDArray[np.void]:
        """Return what each request (RUN) finds: `back`, `uses`, `again` (SEEN)."""
        seen = np.zeros(len(runs), SEEN)
        self._check(self._call("see", runs, len(runs), seen))
        return seen


def tally(records: NDArray[np.void], targets: NDArray[np.void], *, most_sectors: int) -> int:
    """Add records of a plan to its table of targets; return the longest read or write.

    That is in sectors and at least `most_sectors`. Raise TracekitError for a record whose target or
    operation there is not.
    """
    most = out("uint64_t", most_sectors)
    status = call("tk_plan_tally", records, len(records), targets, len(targets), most)
    check(status, "a plan's records cannot be counted")
    return int(most[0])


def fit(records: NDArray[np.void], policy: str, **target: int) -> NDArray[np.bool_]:
    """Move records of a plan as the program does on a target; return which of them can run.

    All are of one target; `target` has the fields of `struct fit_target`.
    """
    fits, place = np.zeros(len(records), np.uint8), struct("fit_target", **target)
    status = call("tk_fit_records", place, FIT_POLICIES.index(policy), records, len(records), fits)
    check(status, "places of requests cannot be computed")
    return fits.astype(bool)

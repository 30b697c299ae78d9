"""A work profile as a plan of the replayer, without a trace folder between."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracekit.errors import InputError
from tracekit.room import check_room
from tracekit.store import beside
from tracekit.workload.blocks import Extent, blocks
from tracekit.workload.model import Profile

SECTOR_BYTES = 512
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
    profile: Profile, output: Path, *, extent: Extent, on_rows: Callable[[int], None]
) -> dict[str, Any]:
    """Write the plan; return counts and the time of the last request.

    Raise InputError when no request comes in the time asked for, and before anything is made when
    the disk has no room for the records; of a time, for those that come in it on average.
    """
    from tracekit.plan import file
    from tracekit.plan.final import FinalPlanWriter

    size_bytes = file.HEADER.itemsize + extent.expected_requests(profile) * file.RECORD.itemsize
    check_room(output, size_bytes, hint=FEWER, is_estimate=not extent.has_known_end)
    whole = file.Extent(profile.name, 0, profile.target_bytes // SECTOR_BYTES, 0, 0)
    tables = file.Tables(
        labels=("default",),
        needed_bytes=(profile.target_bytes,),
        extents=(whole,),
        trace_sha256=digest(profile),
        level="queued",
    )
    with beside(output) as part, file.open_new(part) as out:
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

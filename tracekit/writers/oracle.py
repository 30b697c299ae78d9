"""oracleGeneral files for cache simulators: u32 s, u64 object, u32 bytes, i64 next access.

An object is the sector where a request begins, as `import` takes it: requests that overlap and
begin elsewhere are others. Devices stand one after the other in the objects' numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.errors import InputError
from tracekit.formats import ORACLE_RECORD
from tracekit.units import NS_PER_S, SECTOR_BYTES
from tracekit.writers.rows import U32_MOST, ExportFormat, Outcome, Rows, Source, Survey

NEVER = -1
PAGE_SECTORS = 8
BUCKET_ROWS = 1 << 21
BLOCK_ROWS = 1 << 20
SPREAD = 0x9E3779B97F4A7C15
"""2^64 by the golden ratio: neighbouring objects fall into different buckets."""


class OracleExport(ExportFormat):
    """Records of 24 bytes, of the reads and writes; next accesses are numbered from 0."""

    name = "oracleGeneral"
    holds = ("request_id", "queue_ns", "sector", "length_bytes")

    def write(self, source: Source, survey: Survey, *, parts: Mapping[Path, Path]) -> Outcome:
        """Write the records, then each one's next access."""
        pages = [-(-end // (PAGE_SECTORS * SECTOR_BYTES)) for end in survey.end_bytes]
        first = [number * PAGE_SECTORS for number in accumulate(pages[:-1], initial=0)]
        outcome = Outcome(facts={"first_objects": dict(zip(survey.devices, first, strict=False))})
        (part,) = parts.values()
        with part.open("wb") as out:
            for rows in outcome.fitting(source, ("read", "write")):
                outcome.rounds(rows, NS_PER_S)
                out.write(_records(rows, np.array(first, np.int64)).tobytes())
        outcome.changes("changed_objects", link(part, outcome.written))
        return outcome


def _records(rows: Rows, first: Any) -> Any:
    seconds = rows.time_ns // NS_PER_S
    if len(rows) and seconds[-1] > U32_MOST:
        message = f"a time of {seconds[-1]:,} s is too large for oracleGeneral"
        raise InputError(message, hint="export to another format")
    records = np.empty(len(rows), ORACLE_RECORD)
    records["time"] = seconds
    records["object"] = rows.sector + first[rows.device]
    records["size"] = rows.length_bytes
    records["next"] = NEVER
    return records


def link(path: Path, count: int, *, bucket_rows: int = BUCKET_ROWS) -> int:
    """Set each record's next access: the number, from 0, of the next record of its object, or -1.

    Return how many have another size than the record before of their object. Objects are dealt
    into buckets, one in memory at a time and each a pass over the file.
    """
    buckets, changed = -(-count // bucket_rows), 0
    for bucket in range(buckets):
        places, objects, sizes = _bucket(path, bucket, buckets)
        order = np.argsort(objects, kind="stable")
        again = objects[order[1:]] == objects[order[:-1]]
        changed += int(np.count_nonzero((sizes[order[1:]] != sizes[order[:-1]]) & again))
        now, later = places[order[:-1][again]], places[order[1:][again]]
        in_order = np.argsort(now)
        _set_next(path, now[in_order], later[in_order])
    return changed


def _set_next(path: Path, places: Any, following: Any) -> None:
    """Write next accesses to the records at these places, which rise, block by block."""
    begin = 0
    with path.open("r+b") as file:
        while len(records := np.fromfile(file, ORACLE_RECORD, BLOCK_ROWS)):
            low, high = np.searchsorted(places, (begin, begin + len(records)))
            records["next"][places[low:high] - begin] = following[low:high]
            file.seek(begin * records.itemsize)
            file.write(records.tobytes())
            begin += len(records)


def _bucket(path: Path, bucket: int, buckets: int) -> tuple[Any, Any, Any]:
    """Return places, objects and sizes of the records that fall into the bucket, in their order."""
    places, objects, sizes = [], [], []
    begin = 0
    with path.open("rb") as file:
        while len(records := np.fromfile(file, ORACLE_RECORD, BLOCK_ROWS)):
            found = records["object"]
            spread = (found * np.uint64(SPREAD)) >> np.uint64(32)
            mine = np.flatnonzero(spread % np.uint64(buckets) == bucket)
            places.append(mine + begin)
            objects.append(found[mine])
            sizes.append(records["size"][mine])
            begin += len(records)
    return np.concatenate(places), np.concatenate(objects), np.concatenate(sizes)

"""Writes the requests of a work profile: a trace folder, a plan, or a job of fio."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.arrow import number_column, text_column
from tracekit.errors import UsageError
from tracekit.free_space import check_room
from tracekit.metadata import Clock, Device, Loss, Region, Source, SourceFile, TraceInfo
from tracekit.plans.block_plan import FLAG_BITS
from tracekit.store import TraceFolder, new_folder, refuse_taken, write_batches, write_info
from tracekit.tables import OPERATIONS, REQUESTS, ROLES
from tracekit.units import SECTOR_BYTES, parse_duration, parse_size
from tracekit.workload.fio import write_job
from tracekit.workload.keys import has_flow
from tracekit.workload.model import Profile
from tracekit.workload.reader import find_definition, read_profile
from tracekit.workload.requests import (
    FEWER,
    Extent,
    blocks,
    digest,
    nothing,
    resized,
    write_plan,
)

PROFILE_NAME = "profile.toml"
DEVICE = "profile"
REQUEST_BYTES = 6
"""About what a request takes: of the columns only its time (4), its place (1 to 3) and its length
(0 to 1) differ much, the others fold into nothing. The shipped profiles take 5.8 to 7.3 bytes."""


def open_profile(name: str, target_bytes: int | None = None) -> Profile:
    """Return a shipped profile or that of a file, for a target of another size if one is given."""
    profile = read_profile(find_definition(name))
    return profile if target_bytes is None else resized(profile, target_bytes)


def generate(
    profile: Profile,
    output: Path,
    *,
    form: str,
    extent: Extent,
    overwrite: bool = False,
    on_rows: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Any]:
    """Write the requests of a profile as `form`: trace, plan or fio; return what was made.

    Raise UsageError for a file that is there and for a folder that a file cannot replace,
    InputError when no request comes in the time.
    """
    result: dict[str, Any] = {"profile": profile.name, "format": form, "output": str(output)}
    if form == "trace":
        folder = write_folder(profile, output, extent=extent, overwrite=overwrite, on_rows=on_rows)
        made = {
            "requests": folder.info.counts["requests"],
            "duration_ns": folder.info.clock.duration_ns,
            "operations": folder.info.counts["operations"],
        }
        return {**result, "seed": extent.seed, **made}
    refuse_taken(output, overwrite=overwrite, name=f"{profile.name}.{form}")
    if form == "fio":
        return {**result, **write_job(profile, output, extent=extent, overwrite=overwrite)}
    made = write_plan(profile, output, extent=extent, overwrite=overwrite, on_rows=on_rows)
    return {**result, "seed": extent.seed, **made}


def asked_extent(
    requests: int | None, duration: str | None, *, seed: int, default: str | None = None
) -> Extent:
    """Return how much to make; `default` is a duration for when neither is given."""
    text = duration or (default if requests is None else None)
    length_ns = None if text is None else parse_duration(text, option="--duration")
    return Extent(requests, length_ns, seed)


def asked_profile(name: str, target_size: str | None) -> Profile:
    """Return the profile, for a target of another size if one is given.

    Raise UsageError for a definition of another kind.
    """
    file = find_definition(name)
    if has_flow(file):
        raise UsageError(
            f"{file} has a flow of file operations, which is no work profile",
            hint="a work profile has [[request]] and [arrival]: see docs/profiles.md",
        )
    size = None if target_size is None else parse_size(target_size, option="--target-size")
    return open_profile(name, size)


def write_folder(
    profile: Profile,
    output: Path,
    *,
    extent: Extent,
    overwrite: bool = False,
    on_rows: Callable[[int], None] = lambda _rows: None,
) -> TraceFolder:
    """Write a new trace folder of the profile's requests, with the profile beside them.

    Raise InputError when no request comes in the time, and before anything is made when
    the disk has no free space for the requests; of a time, for those that come in it on average.
    """
    check_room(output, folder_bytes(profile, extent), hint=FEWER, is_estimate=True)
    table = _Table(profile)
    with new_folder(output, overwrite=overwrite) as folder:
        batches = map(table.batch, blocks(profile, extent))
        write_batches(folder / "requests.parquet", batches, schema=REQUESTS, on_rows=on_rows)
        if not table.rows:
            raise nothing(profile)
        (folder / PROFILE_NAME).write_text(profile.text, encoding="utf-8")
        write_info(folder, _info(profile, extent, table), made_by="generate")
    return TraceFolder(output)


def folder_bytes(profile: Profile, extent: Extent) -> int:
    """Return about what the folder takes on its disk."""
    return extent.expected_requests(profile) * REQUEST_BYTES


class _Table:
    """The table of requests while it is made, and what was counted."""

    def __init__(self, profile: Profile) -> None:
        self.rows = self.last_ns = 0
        self.operations: Counter[str] = Counter()
        self._names = [stream.process for stream in profile.streams]
        self._roles = np.array([ROLES.index(stream.role) for stream in profile.streams])

    def batch(self, records: NDArray[np.void]) -> Any:
        count = len(records)
        self.rows += count
        self.last_ns = int(records["intended_ns"][-1])
        for code, more in enumerate(np.bincount(records["operation"])):
            self.operations[OPERATIONS[code]] += int(more)
        stream = records["target"].astype(np.int64)
        process = np.array([-1 if name is None else at for at, name in enumerate(self._names)])
        columns = {
            "request_id": number_column(records["request_id"].astype(np.int64)),
            "queue_ns": number_column(records["intended_ns"].astype(np.int64)),
            "sector": number_column(records["sector"].astype(np.int64)),
            "length_bytes": number_column(
                records["length_sectors"].astype(np.int64) * SECTOR_BYTES
            ),
            "pid": number_column((stream + 1).astype(np.int32)),
            "depth": number_column(np.ones(count, np.int32)),
            "device": text_column(np.zeros(count, np.int32), [DEVICE]),
            "operation": text_column(records["operation"], OPERATIONS),
            "role": text_column(self._roles[stream], ROLES),
            "process": text_column(process[stream], [name or "" for name in self._names]),
        }
        for name, bit in FLAG_BITS.items():
            columns[name] = number_column((records["flags"] & bit) != 0)
        for field in REQUESTS:
            if field.name not in columns and field.nullable:
                columns[field.name] = pa.nulls(count, field.type)
            elif field.name not in columns:
                columns[field.name] = number_column(np.zeros(count), field.type)
        return pa.RecordBatch.from_pydict(columns, REQUESTS)


def _info(profile: Profile, extent: Extent, table: _Table) -> TraceInfo:
    text = profile.text.encode()
    file = SourceFile(name=profile.file.name, bytes=len(text), sha256=digest(profile).hex())
    return TraceInfo(
        source=Source(format="work profile", files=[file]),
        profile={
            "name": profile.name,
            "about": profile.about,
            "requests": extent.limit if extent.duration_ns is None else extent.requests,
            "duration_ns": extent.duration_ns,
            "seed": extent.seed,
            "target_bytes": profile.target_bytes,
            "streams": len(profile.streams),
            "pace": profile.pace,
            "depth": profile.depth,
            "is_direct": profile.is_direct,
        },
        clock=Clock(base_ns=0, duration_ns=table.last_ns),
        devices=[
            Device(
                device=DEVICE,
                size_sectors=profile.target_bytes // SECTOR_BYTES,
                logical_sector_bytes=profile.sector_bytes,
            )
        ],
        layout=_layout(profile),
        counts={
            "records": table.rows,
            "requests": table.rows,
            "operations": {name: count for name, count in table.operations.items() if count},
        },
        loss=Loss(has_sequence_numbers=False, unmatched={}),
    )


def _layout(profile: Profile) -> list[Region]:
    """Return the parts of the target that have a role, so that classify finds it again."""
    parts = {
        (stream.start_bytes, stream.size_bytes, stream.role)
        for stream in profile.streams
        if stream.role != "unknown"
    }
    return [
        Region(
            device=DEVICE,
            name=f"{role} of the profile",
            start_sector=start // SECTOR_BYTES,
            sectors=size // SECTOR_BYTES,
            role=role,
            evidence="the work profile",
        )
        for start, size, role in sorted(parts)
    ]

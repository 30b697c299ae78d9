"""An import that makes a trace set: each volume of a trace becomes a trace folder."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import UNSET, structs

from tracekit import query
from tracekit.arrow import number_column, texts
from tracekit.errors import InputError, UsageError
from tracekit.fleet.catalogue import TraceSet, Volume, folder_name, volume_of, write_catalogue
from tracekit.metadata import Completeness, Inference, TraceInfo, has_values
from tracekit.readers.completeness import Present
from tracekit.readers.importing import import_trace
from tracekit.readers.units import DEFAULTS, ImportOptions, OnBytes
from tracekit.store import (
    SET_NAME,
    TraceFolder,
    new_folder,
    scratch_folder,
    write_info,
    write_on,
)
from tracekit.tables import REQUESTS

MEMORY_MIB = 256  # of the database that sorts by volume
THREADS = 2


def import_set(
    source: Sequence[Path],
    output: Path,
    *,
    options: ImportOptions = DEFAULTS,
    on_bytes: OnBytes = lambda _done, _total: None,
) -> TraceSet:
    """Import a trace, in one pass over its text, into a new set with a volume for each device.

    Then its requests are sorted by device, in bounded memory, and written volume after volume, so
    that one file is open however many there are. All volumes have the clock of the whole trace.
    """
    reject_resume(options)
    with new_folder(output, overwrite=options.overwrite, marker=SET_NAME) as part:
        with scratch_folder(part / "whole") as scratch:
            whole = import_trace(
                source, scratch / "trace", options=replace(options, overwrite=False),
                on_bytes=on_bytes,
            )  # fmt: skip
            volumes = [*split(whole, part)]
        write_catalogue(part, sorted(volumes, key=lambda one: one.name))
    return TraceSet(output)


def reject_resume(options: ImportOptions) -> None:
    """Raise UsageError for an import of a set that is to go on."""
    if options.resumes:
        raise UsageError(
            "--resume does not go with --split-by: a killed one leaves nothing to go on from",
            hint="import it again without --resume; or without --split-by, which can be resumed:"
            " that is one trace, whose commands tell its volumes apart",
        )


def split(whole: TraceFolder, part: Path) -> Iterator[Volume]:
    """Write the volumes of a trace; yield each when it is written."""
    requests = whole.require("requests", made_by="import")
    if has_values(requests, "merged_into"):
        raise InputError(
            "requests of this trace were merged: it is of events, not of volumes",
            hint="import it without --split-by: that is one trace, whose commands tell its disks"
            " apart; or import the text of each disk by itself and join them: tracekit set add",
        )
    connection = query.connect(whole, memory_mib=MEMORY_MIB, threads=THREADS)
    with closing(connection):
        pieces = _pieces(query.stream(connection, "lib/requests_by_device"))
        for device, found in itertools.groupby(pieces, key=lambda piece: piece[0]):
            yield _write_volume(part, whole.info, device, (rows for _, rows in found))


def _pieces(batches: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of batches whose rows are of one device, with its name."""
    for batch in batches:
        names, codes = texts(batch.column("device"))
        edges = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
        for begin, end in itertools.pairwise(edges):
            yield names[codes[begin]], batch.slice(begin, end - begin)


def _write_volume(part: Path, whole: TraceInfo, device: str, batches: Iterable[Any]) -> Volume:
    name = folder_name(device)
    folder = part / name
    folder.mkdir()
    present, operations = Present(), Counter[str]()

    rows = _counted(batches, present, operations)
    write_on(folder / "requests.parquet", rows, schema=REQUESTS)
    others = whole.count("records") - whole.count("requests")
    info = structs.replace(
        whole,
        devices=[one for one in whole.devices if one.device == device],
        layout=[one for one in whole.layout if one.device == device],
        counts={
            **whole.counts,
            "records": present.rows + others,
            "requests": present.rows,
            "operations": dict(operations),
        },
        completeness=UNSET
        if whole.completeness is UNSET
        else Completeness(columns=dict(present.values)),
        inferences=[
            *whole.inferences,
            Inference(
                what="volume",
                value=device,
                evidence=f"one of {len(whole.devices):,} of an import, whose clock it has; wrong"
                " lines and warnings are those of the whole",
            ),
        ],
    )
    write_info(folder, info)
    return volume_of(name, info)


def _counted(batches: Iterable[Any], present: Present, operations: Counter[str]) -> Iterator[Any]:
    """Yield the rows of a volume, numbered as of a trace of their own, and count them."""
    for batch in batches:
        ids = number_column(np.arange(present.rows, present.rows + len(batch)))
        columns = [
            ids if field.name == "request_id" else batch.column(field.name).cast(field.type)
            for field in REQUESTS
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=REQUESTS)
        present.add(rows)
        names, codes = texts(rows.column("operation"))
        operations.update(dict(zip(names, np.bincount(codes).tolist(), strict=False)))
        yield rows

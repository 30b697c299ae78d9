"""Trace folders as tests look at them, and the compressions that readers know."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.store import TraceFolder

Row = tuple[int | None, int | None, str, int, int, str | None]
BRIEF = ("queue_ns", "complete_ns", "device", "sector", "length_bytes", "operation")
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zstd": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
}


def requests(folder: TraceFolder) -> Any:
    """Return the table of requests, words as strings whatever the order of the dictionaries."""
    table = pq.read_table(folder.table("requests"))
    kinds = [pa.string() if pa.types.is_dictionary(kind) else kind for kind in table.schema.types]
    return table.cast(pa.schema(zip(table.column_names, kinds, strict=True)))


def rows(folder: TraceFolder) -> list[Row]:
    """Return times, place, length and operation of each request."""
    return list(zip(*requests(folder).select(BRIEF).to_pydict().values(), strict=True))


def warnings(folder: TraceFolder) -> dict[str, str]:
    """Return the messages of the trace's warnings by their codes."""
    return {one["code"]: one["message"] for one in folder.content["warnings"]}

"""A trace that can be given away: other places and names, the same sequences, reuse and roles.

Each piece of a device that was touched as a whole is moved as a whole, by multiples of 4 KiB and
within its region of the layout; so what followed still follows, what was used again still is, and
each block has the role that it had. Only distances between the pieces are others, and the order of
their addresses, by which `recommend` does not tell equally hot blocks apart.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.arrow import int64_column, ints, read_batches, read_whole, text_column, texts
from tracekit.errors import InputError, UsageError
from tracekit.layout import FOUND_BY_REMAPS
from tracekit.metadata import (
    VALUE_WARNINGS,
    Device,
    Inference,
    Loss,
    Region,
    TraceInfo,
    read_requests,
)
from tracekit.store import TraceFolder, new_folder, write_batches, write_info, write_table
from tracekit.tables import FILE_EXTENTS, FILE_MAP, REQUESTS
from tracekit.units import SECTOR_BYTES

BLOCK_SECTORS = 8
DIGITS = 4
NONE = -1
KERNELS_OWN = re.compile(
    r"(swapper|kswapd|kdamond|kworker|ksoftirqd|jbd2|xfsaild|xfs_log|btrfs-\w+|txg_sync|z_wr_\w+"
    r"|loop|dmcrypt_write|kcryptd|md|bcache_\w+|f2fs_\w+|tracekit)\b"
)
"""Threads of the kernel: `classify` knows roles by them, and they say nothing of a user."""
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Move:
    """Where the touched pieces of a device go: each by its own number of sectors."""

    starts: Integers
    by: Integers
    ends: Integers

    def __call__(self, sectors: Integers) -> Integers:
        """Return the new places of sectors in these pieces."""
        if not len(self.starts):
            return sectors
        at = np.maximum(np.searchsorted(self.starts, sectors, side="right") - 1, 0)
        return sectors + self.by[at]

    def parts(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield first sector and end, before they move, of what was touched between two sectors."""
        low = np.searchsorted(self.ends, first, side="right")
        high = np.searchsorted(self.starts, end)
        for start, stop in zip(self.starts[low:high], self.ends[low:high], strict=True):
            yield max(first, int(start)), min(end, int(stop))


class Names:
    """Names that nobody can read back: a keyed hash, whose key is thrown away."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def hashed(self, text: str) -> str:
        """Return what stands for a text."""
        return hashlib.blake2b(text.encode(), key=self._key, digest_size=DIGITS).hexdigest()

    def path(self, text: str) -> str:
        """Return what stands for a path: as deep, and the same for the same directories."""
        return "/".join(self.hashed(part) if part else "" for part in text.split("/"))

    def process(self, text: str) -> str:
        """Return what stands for a process, which for one of the kernel says which kind it is."""
        found = KERNELS_OWN.match(text)
        return f"{found[1]}/{self.hashed(text)}" if found else self.hashed(text)


def pieces_of(first: Integers, end: Integers) -> tuple[Integers, Integers]:
    """Return starts and ends, in whole blocks, of what is touched without a gap."""
    first, end = first // BLOCK_SECTORS, -(-end // BLOCK_SECTORS)
    order = np.argsort(first, kind="stable")
    first, reach = first[order], np.maximum.accumulate(end[order])
    begins = np.flatnonzero(np.r_[True, first[1:] > reach[:-1]]) if len(first) else order
    ends = reach[np.r_[begins[1:] - 1, len(reach) - 1]] if len(first) else order
    return first[begins] * BLOCK_SECTORS, ends * BLOCK_SECTORS


def shuffled(
    starts: Integers, ends: Integers, *, edges: list[int], rng: np.random.Generator
) -> Move:
    """Return a move that permutes pieces and the gaps between them, between any two edges.

    What reaches over an edge, or to the edge's own block, stays. The first and the last piece's
    distance from the edges stay, too, so that no two pieces come to lie side by side.
    """
    places = starts.copy()
    for low, high in pairwise(sorted({0, *edges, 1 << 62})):
        inside = np.flatnonzero((starts >= low) & (ends <= high))
        if len(inside) < 2:
            continue
        # A piece over an edge parts those before it from those behind it already.
        sizes, gaps = (ends - starts)[inside], starts[inside][1:] - ends[inside][:-1]
        order = rng.permutation(len(inside))
        gaps = rng.permutation(gaps)
        steps = np.r_[0, (sizes[order][:-1] + gaps).cumsum()]
        places[inside[order]] = starts[inside[0]] + steps
    return Move(starts, places - starts, ends)


def anonymize(
    folder: TraceFolder,
    output: Path,
    *,
    overwrite: bool = False,
    on_rows: Callable[[int], None] = lambda _rows: None,
) -> TraceFolder:
    """Write the trace's requests, anonymous, into the new trace folder `output`.

    Raise InputError for a trace that has no requests.
    """
    if not folder.has("requests"):
        raise InputError(f"{folder.path} has no requests", hint="only block traces are anonymized")
    if output.exists() and output.samefile(folder.path):
        raise UsageError(f"{output} is the trace itself", hint="choose another --output")
    table = folder.require("requests", made_by="parse")
    rng, names = np.random.default_rng(secrets.randbits(128)), Names(secrets.token_bytes(32))
    devices = _device_names(table)
    moves = _moves(table, folder.info.layout, rng)
    pids = _numbers(table, rng)
    with new_folder(output, overwrite=overwrite) as part:
        batches = _batches(table, moves=moves, devices=devices, names=names, pids=pids)
        write_batches(part / "requests.parquet", batches, schema=REQUESTS, on_rows=on_rows)
        if folder.has(FILE_MAP):
            extents = _file_extents(folder, moves=moves, devices=devices, names=names)
            write_table(part / f"{FILE_MAP}.parquet", extents)
        info = replace(folder.info, layout=[*_moved(folder.info.layout, moves)])
        write_info(part, _info(info, devices), made_by="anonymize")
    return TraceFolder(output)


def _file_extents(
    folder: TraceFolder, *, moves: dict[str, Move], devices: dict[str, str], names: Names
) -> Any:
    """Return the map of files for what was touched, in its new places, with hashes for names.

    What was not touched is left out: it has no place among the pieces that were.
    """
    rows: list[dict[str, Any]] = []
    table = read_whole(folder.require(FILE_MAP, made_by="parse"))
    for row in table.filter(pc.is_in(table["device"], pa.array(list(moves)))).to_pylist():
        move = moves[row["device"]]
        first = row["first_sector"]
        for begin, behind in move.parts(first, first + row["sectors"]):
            at = row["file_sector"]
            rows.append(
                row
                | {
                    "device": devices[row["device"]],
                    "first_sector": int(move(np.array([begin]))[0]),
                    "sectors": behind - begin,
                    "path": row["path"] and names.path(row["path"]),
                    "file_sector": None if at is None else at + begin - first,
                }
            )
    rows.sort(key=lambda one: (one["device"], one["first_sector"]))
    return pa.Table.from_pylist(rows, schema=FILE_EXTENTS)


def _device_names(table: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for batch in read_batches(table, ["device"]):
        for name in texts(batch.column("device"))[0]:
            found.setdefault(name, f"disk{len(found)}")
    return found


def _moves(table: Path, layout: list[Region], rng: np.random.Generator) -> dict[str, Move]:
    touched: dict[str, list[tuple[Integers, Integers]]] = {}
    for batch in read_batches(table, ["device", "sector", "length_bytes"]):
        names, codes = texts(batch.column("device"))
        first = ints(batch.column("sector"))
        sectors = -(-ints(batch.column("length_bytes")) // SECTOR_BYTES)
        for code, name in enumerate(names):
            ours = (codes == code) & (sectors > 0)
            pair = pieces_of(first[ours], (first + sectors)[ours])
            touched.setdefault(name, []).append(pair)
    moves = {}
    for name, pairs in touched.items():
        starts, ends = pieces_of(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
        ours = [one for one in layout if one.device == name and one.found_by != FOUND_BY_REMAPS]
        edges = {one.start_sector for one in ours}
        edges |= {one.start_sector + one.sectors for one in ours}
        moves[name] = shuffled(starts, ends, edges=sorted(edges), rng=rng)
    return moves


def _moved(layout: list[Region], moves: dict[str, Move]) -> Iterator[Region]:
    """Yield the regions; places that remaps told have moved with the pieces that are there."""
    for one in layout:
        if one.found_by != FOUND_BY_REMAPS:
            yield one
            continue
        if one.device not in moves:
            continue
        move, first = moves[one.device], one.start_sector
        for begin, end in move.parts(first, first + one.sectors):
            new = int(move(np.array([begin]))[0])
            yield replace(one, start_sector=new, sectors=end - begin)


def _numbers(table: Path, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Return the process numbers of the trace, and others for them; 0 stays the kernel's own."""
    found = np.unique(
        np.concatenate(
            [ints(batch.column("pid"), if_null=NONE) for batch in read_batches(table, ["pid"])]
        )
    )
    others = rng.permutation(len(found)) + 1
    return found, np.where(found <= 0, found, others)


def _batches(
    table: Path,
    *,
    moves: dict[str, Move],
    devices: dict[str, str],
    names: Names,
    pids: tuple[Integers, Integers],
) -> Iterator[pa.RecordBatch]:
    for batch in read_requests(table):
        columns = {name: batch.column(name) for name in REQUESTS.names}
        device_names, codes = texts(columns["device"])
        sectors, lengths = ints(columns["sector"]), ints(columns["length_bytes"])
        for code, name in enumerate(device_names):
            ours = (codes == code) & (lengths > 0)
            sectors[ours] = moves[name](sectors[ours])
        columns["sector"] = int64_column(sectors)
        columns["device"] = text_column(codes, [devices[name] for name in device_names])
        for name, hashed in (("process", names.process), ("cgroup", names.path)):
            known, found = texts(columns[name])
            found = np.where(found < len(known), found, -1)  # of null is the number behind the last
            columns[name] = text_column(found, [hashed(text) for text in known])
        numbers = pids[1][np.searchsorted(pids[0], ints(columns["pid"], if_null=NONE))]
        columns["pid"] = pa.array(numbers.astype(np.int32), mask=numbers == NONE)
        chosen = [columns[name] for name in REQUESTS.names]
        yield pa.RecordBatch.from_arrays(chosen, schema=REQUESTS)


def _info(info: TraceInfo, devices: dict[str, str]) -> TraceInfo:
    """Return what is known of the trace without names, times of day and what was run."""
    evidence = "places within each region, names and process numbers are others"
    names: dict[object, str] = {}
    regions = [
        Region(
            device=devices.get(one.device, "disk"),
            start_sector=one.start_sector,
            sectors=one.sectors,
            name=names.setdefault(one.name or number, f"region{len(names)}"),
            partition=one.partition,
            role=one.role,
            filesystem=one.filesystem,
            evidence="anonymized",
            is_unordered=one.is_unordered,
            found_by=FOUND_BY_REMAPS if one.found_by == FOUND_BY_REMAPS else UNSET,
        )
        for number, one in enumerate(info.layout)
    ]
    described = [
        Device(
            device=devices.get(one.device, "disk"),
            size_sectors=one.size_sectors,
            logical_sector_bytes=one.logical_sector_bytes,
            rotational=one.rotational,
        )
        for one in info.devices
    ]
    loss: Loss = replace(info.loss, unseen=UNSET)
    made: dict[str, Any] = {"devices": described, "layout": regions, "loss": loss}
    return TraceInfo(
        clock=replace(info.clock, base_ns=0, wall_ns=None),
        counts=info.counts,
        unknown=info.unknown,
        warnings=[one for one in info.warnings if one.code in VALUE_WARNINGS],
        inferences=[Inference(what="anonymized", evidence=evidence, stage="anonymize")],
        **made,
    )

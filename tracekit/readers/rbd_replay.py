"""Traces of Ceph's rbd-replay-prep: actions of threads on images, one behind the other.

As published: github.com/ceph/ceph, src/rbd_replay/{ActionTypes,ios,rbd-replay-prep}.cc. A file
begins with a banner; each action has a version, its length, its sort and its fields, little-endian.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field

import numpy as np

from tracekit import metadata
from tracekit.arrow import text_column
from tracekit.errors import InputError
from tracekit.metadata import TraceInfo
from tracekit.readers.assemble import Assembler
from tracekit.readers.metadata import line_counts
from tracekit.readers.stream import Feed, finish_feeds
from tracekit.readers.units import Columns, Import, Units
from tracekit.store import write_batches
from tracekit.tables import REQUESTS

RBD_REPLAY = "rbd-replay"
BANNER = b"rbd-replay-trace"
ENTRY = struct.Struct("<BBI")
"""Version, the oldest that can read it, bytes of the rest."""
BASE = struct.Struct("<BIQI")
"""Sort, number, thread, how many dependencies; of each follow number and ns behind its start."""
DEPENDENCY = struct.Struct("<IQ")
PLACE = struct.Struct("<QQQ")
"""Image, offset and length in bytes."""
NAMED = struct.Struct("<QI")
"""Image, and the bytes of its name, which follow."""
KINDS = {2: "read", 3: "write", 4: "read", 5: "write", 10: "discard", 11: "discard"}
OPENS = (6, 8)
WORDS = sorted(set(KINDS.values()))
UNITS = Units("ns", "bytes", "bytes")
READ_BYTES = 1 << 20


@dataclass
class Actions:
    """What a file holds."""

    times: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    images: list[int] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    others: int = 0
    """Actions that are no requests: of threads, and images that are opened or closed."""
    starts: dict[int, int] = field(default_factory=dict)
    """When each action began, by its number, in ns."""

    def columns(self) -> Columns:
        """Return the requests in order of time."""
        order = np.argsort(np.array(self.times, np.int64), kind="stable")
        called = sorted({*self.images})
        images = np.array([called.index(image) for image in self.images], np.int32)[order]
        names = [self.names.get(image, f"image-{image:x}") for image in called]
        kinds = np.array(self.kinds, np.int32)[order]
        columns = {"time": self.times, "offset": self.offsets, "length": self.lengths}
        return Columns(
            numbers={name: np.array(kept, np.int64)[order] for name, kept in columns.items()},
            words={"op": text_column(kinds, WORDS), "device": text_column(images, names)},
            rows=len(order),
        )


def read_actions(data: bytes, name: str) -> Actions:
    """Return the actions of a file that begins with the banner; raise InputError for damage."""
    found, at = Actions(), len(BANNER)
    while at < len(data):
        try:
            action = _action(data, at)
            _take(action, found)
        except struct.error as error:
            hint = "copy the file again, or make it again: rbd-replay-prep"
            message = f"{name}: byte {at:,}: no action begins here, or it is cut"
            raise InputError(message, hint=hint) from error
        at += ENTRY.size + len(action)
    return found


def _action(data: bytes, at: int) -> bytes:
    """Return the action that begins here; raise struct.error where none does."""
    version, oldest, size = ENTRY.unpack_from(data, at)
    action = data[at + ENTRY.size : at + ENTRY.size + size]
    if oldest > 1 or not version or len(action) < size:
        raise struct.error
    return action


def _take(action: bytes, found: Actions) -> None:
    """Take an action: it begins so many ns behind the start of each that it depends on."""
    sort, number, _, count = BASE.unpack_from(action)
    at, start = BASE.size, 0
    for _ in range(count):
        other, delta_ns = DEPENDENCY.unpack_from(action, at)
        at += DEPENDENCY.size
        start = max(start, found.starts.get(other & ~1, 0) + delta_ns)
    found.starts[number & ~1] = start
    if sort in OPENS:
        image, size = NAMED.unpack_from(action, at)
        name = action[at + NAMED.size : at + NAMED.size + size]
        found.names[image] = name.decode("utf-8", "replace")
    if sort not in KINDS:
        found.others += 1
        return
    image, offset, length = PLACE.unpack_from(action, at)
    found.times.append(start)
    found.offsets.append(offset)
    found.lengths.append(length)
    found.kinds.append(WORDS.index(KINDS[sort]))
    found.images.append(image)


def import_actions(feed: Feed, head: bytes, *, run: Import) -> TraceInfo:
    """Read the requests into their table; return the content of trace.json.

    `head` was read from the feed already. Raise InputError for damage and where there are none.
    """
    data = b"".join([head, *iter(lambda: os.read(feed.fd, READ_BYTES), b"")])
    finish_feeds([feed])
    found = read_actions(data, feed.name)
    if not found.times:
        raise InputError(f"{feed.name}: there is no request in it", hint="check the file")
    made = Assembler(UNITS, {}, RBD_REPLAY)
    write_batches(run.table, made.batches([found.columns()]), schema=REQUESTS)
    told = [
        ("format", RBD_REPLAY, "its first bytes"),
        ("times", "starts of what an action waits for, and the ns behind them", "its dependencies"),
        ("passed over", f"{found.others:,} actions of threads and images", "they are no requests"),
    ]
    return TraceInfo(
        source=metadata.Source(format=RBD_REPLAY, files=[feed.describe()]),
        clock=metadata.Clock(base_ns=made.first_ns, duration_ns=made.last_ns),
        devices=[metadata.Device(device=name) for name in made.devices],
        counts={
            "records": made.rows + found.others,
            "requests": made.rows,
            "operations": dict(made.operations),
            "preamble_lines": 0,
            **line_counts(found.others, 0, examples=[]),
            "rounded_places": made.rounded,
        },
        loss=metadata.Loss(has_sequence_numbers=False, unmatched={}),
        completeness=metadata.Completeness(columns=dict(made.present.values)),
        inferences=metadata.inferences_of(told),
        warnings=metadata.warnings_of(made.present.doubts()),
    )

"""Traces of Ceph's rbd-replay-prep: actions of threads on images, one behind the other.

As published: github.com/ceph/ceph, src/rbd_replay/{ActionTypes,ios,rbd-replay-prep}.cc. A file
begins with a banner; each action has a version, its length, its sort and its fields, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from tracekit import metadata
from tracekit.arrow import text_column
from tracekit.errors import InputError
from tracekit.metadata import TraceInfo
from tracekit.readers.assemble import Assembler, Sorting
from tracekit.readers.metadata import line_counts
from tracekit.readers.stream import Feed, finish_feeds, messages_of
from tracekit.readers.text import LARGEST_SUM
from tracekit.readers.units import Columns, Import, OnBytes, Units
from tracekit.store import scratch_folder, write_batches
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
BLOCK_ROWS = 1 << 16
MOST_STARTS = 1 << 17
"""An action waits for a few of the last ones."""


class TooFarError(ValueError):
    """An action waits for one that is no longer known."""


@dataclass
class Actions:
    """What is read of a file: requests since the last block of them, and what they begin by."""

    times: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    images: list[int] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    others: int = 0
    """Actions that are no requests: of threads, and images that are opened or closed."""
    starts: dict[int, int] = field(default_factory=dict)
    """When each of the last actions began, by its number, in ns."""
    older: dict[int, int] = field(default_factory=dict)
    """The MOST_STARTS before them; those before these are forgotten."""
    is_forgetful: bool = False

    def columns(self) -> Columns:
        """Return the requests, and forget them."""
        called = sorted({*self.images})
        code = {image: number for number, image in enumerate(called)}
        images = np.array([code[image] for image in self.images], np.int32)
        names = [self.names.get(image, f"image-{image:x}") for image in called]
        kinds = np.array(self.kinds, np.int32)
        given = {"time": self.times, "offset": self.offsets, "length": self.lengths}
        columns = Columns(
            numbers={
                name: np.array(kept, np.uint64).view(np.int64) for name, kept in given.items()
            },
            words={"op": text_column(kinds, WORDS), "device": text_column(images, names)},
            rows=len(kinds),
        )
        self.times, self.offsets, self.lengths, self.kinds, self.images = [], [], [], [], []
        return columns

    def start(self, number: int) -> int:
        """Return when an action began, or 0; raise ValueError for one that is too long ago."""
        found = self.starts.get(number, self.older.get(number))
        if found is None and self.is_forgetful:
            message = f"it waits for action {number:,}, which lies more than {MOST_STARTS:,} before"
            raise TooFarError(message)
        return found or 0

    def take(self, action: memoryview) -> None:
        """Take an action: it begins so many ns behind the start of each that it depends on."""
        sort, number, _, count = BASE.unpack_from(action)
        at, start = BASE.size, 0
        for _ in range(count):
            other, delta_ns = DEPENDENCY.unpack_from(action, at)
            at += DEPENDENCY.size
            start = max(start, self.start(other & ~1) + delta_ns)
        if start > LARGEST_SUM:
            raise ValueError(f"a time of {start} ns is too large")
        self.starts[number & ~1] = start
        if len(self.starts) == MOST_STARTS:
            self.is_forgetful = bool(self.older)
            self.older, self.starts = self.starts, {}
        if sort in OPENS:
            image, size = NAMED.unpack_from(action, at)
            name = bytes(action[at + NAMED.size : at + NAMED.size + size])
            self.names[image] = name.decode("utf-8", "replace")
        if sort not in KINDS:
            self.others += 1
            return
        image, offset, length = PLACE.unpack_from(action, at)
        self.times.append(start)
        self.offsets.append(offset)
        self.lengths.append(length)
        self.kinds.append(WORDS.index(KINDS[sort]))
        self.images.append(image)


def _action(view: memoryview, at: int) -> tuple[memoryview, int]:
    """Return the action that begins here, and its end; raise ValueError where none does."""
    begin = at + ENTRY.size
    version, oldest, size = ENTRY.unpack(view[at:begin]) if begin <= len(view) else (0, 0, 0)
    if oldest > 1 or not version or begin + size > len(view):
        raise ValueError("no action begins here, or it is cut")
    return view[begin : begin + size], begin + size


def _blocks(feed: Feed, head: bytes, found: Actions, *, on_bytes: OnBytes) -> Iterator[Columns]:
    """Yield the requests of a file that begins with the banner; raise InputError for damage."""
    hint = "copy the file again, or make it again: rbd-replay-prep"
    messages = messages_of(
        feed, head, take=_action, hint=hint, on_bytes=on_bytes, begin=len(BANNER)
    )
    for at, action in messages:
        try:
            found.take(action)
        except (ValueError, struct.error) as error:
            message = f"{feed.name}: byte {at:,}: {error}"
            if isinstance(error, TooFarError):
                hint = "the file may be whole: prepare shorter parts of it, by rbd-replay-prep"
            raise InputError(message, hint=hint) from None
        if len(found.times) == BLOCK_ROWS:
            yield found.columns()
    if found.times:
        yield found.columns()


def _written(blocks: Iterator[Columns], run: Import) -> Assembler:
    """Write the requests in order of time; those of one block need no file to be sorted in."""
    made = Assembler(UNITS, {}, RBD_REPLAY)
    with scratch_folder(run.folder / "sorting") as scratch:
        first = [*islice(blocks, 2)]
        sorting = Sorting(scratch) if len(first) > 1 else None
        batches = made.batches(chain(first, blocks), sorting=sorting)
        write_batches(run.table, batches, schema=REQUESTS)
    return made


def import_actions(feed: Feed, head: bytes, *, run: Import) -> TraceInfo:
    """Read the requests into their table; return the content of trace.json.

    `head` was read from the feed already. Raise InputError for damage and where there are none.
    """
    found = Actions()
    made = _written(_blocks(feed, head, found, on_bytes=run.on_bytes), run)
    finish_feeds([feed])
    if not made.rows:
        raise InputError(f"{feed.name}: there is no request in it", hint="check the file")
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

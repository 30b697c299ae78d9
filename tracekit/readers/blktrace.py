"""Parses a capture into a new trace folder: the first stage."""

from __future__ import annotations

import errno
import os
from collections import Counter, deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native.decode import DecodeError, Decoder, Place, Problem, Text
from tracekit.arrow import count_names, ints, number_column, texts
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.layout import Layout
from tracekit.metadata import TraceInfo
from tracekit.prefetch import ahead
from tracekit.readers import metadata
from tracekit.readers.completeness import Present
from tracekit.readers.drivers import ASSUMED, Block
from tracekit.readers.files import TEXT_NAME, file_beside, find_files, layout_of, unread_cpus
from tracekit.readers.metadata import Facts
from tracekit.readers.stream import Feed, open_feeds, progress_of, stop_feeds
from tracekit.readers.units import OnBytes, listed, show_example
from tracekit.stack.file_map import MAP_NAME, read_map, with_trace_times
from tracekit.store import TraceFolder, new_folder, write_batches, write_info, write_table
from tracekit.tables import OPERATIONS, REQUESTS

KEEP_HINT = "keep the records before that place: tracekit parse --salvage"


def decode_error(place: Place, name: str, *, unit: str) -> TracekitError:
    """Return the error that says where and why file `name` cannot be decoded, and what to do.

    Places are counted in bytes, in texts in lines.
    """
    if place.kind == Problem.MEMORY:
        return TracekitError("the decoder has no memory", hint="close other programs and try again")
    text, hint = _reason_and_hint(place, unit)
    return InputError(f"{name}: {unit} {place.offset}: {text}", hint=hint)


def _reason_and_hint(place: Place, unit: str) -> tuple[str, str]:
    value = place.value
    match place.kind:
        case Problem.NOT_A_TRACE:
            text = f"not a blktrace file: it begins with 0x{value:08x}, not with 0x65617407 or ..08"
            hint = (
                "give the binary files NAME.blktrace.CPU of blktrace or of: tracekit capture;"
                " texts of blkparse, perf and ftrace are for: tracekit import"
            )
        case Problem.BAD_MAGIC:
            text = f"no record begins here: 0x{value:08x} in place of the magic 0x656174.."
            hint = f"the file is damaged from here on; copy it again, or {KEEP_HINT}"
        case Problem.BAD_VERSION:
            text = f"a record of blktrace version {value}; versions 7 and 8 are known"
            hint = f"the file is damaged, or its kernel is newer than this tracekit; {KEEP_HINT}"
        case Problem.CUT_HEADER | Problem.CUT_PAYLOAD:
            part = "header" if place.kind == Problem.CUT_HEADER else "payload"
            text = f"the file ends within a record's {part}: {value} bytes of {place.other}"
            hint = f"the capture was cut off; {KEEP_HINT}"
        case Problem.BACKWARDS:
            text = (
                f"time runs backwards by {value} ns, after the record at {unit} {place.other}:"
                " more than a live capture's disorder"
            )
            hint = "give files that were joined one by one, as they were captured"
            hint += f"; or {KEEP_HINT}" if unit == "byte" else ""
        case Problem.VERSIONS:
            text = f"a record of blktrace version {value} follows records of version {place.other}"
            hint = "give the files of one capture only"
        case _:
            text = f"reading failed with error number {value}"
            hint = "check the disk and copy the file again"
    return text, hint


MOST_BAD_RATIO = 0.01


@dataclass(frozen=True)
class EventText:
    """A text of events, of which the first bytes were read already."""

    kind: Text
    head: bytes
    form: str | None = None
    """The format of `blkparse -f`, for Text.FORM."""
    block: Block = ASSUMED
    """In which the commands of drivers count."""


@dataclass(frozen=True)
class ParseOptions:
    """How to parse; the defaults are those of the command."""

    layout_file: Path | None = None
    """Default: layout.json in the input folder or beside the first input file."""
    overwrite: bool = False
    keeps_whole: bool = False
    """Keep what is before a place that cannot be decoded."""
    text: EventText | None = None
    """The one input is a text of events."""
    head: bytes = b""
    """First bytes of the one input, a pipe of binary records, which were read already."""
    keeps_refused: bool = False
    """Attempts that came back with EAGAIN stay rows, see without_refused."""


@dataclass
class Tally:
    """What the rows come to by operation."""

    rows: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(OPERATIONS, 0)))
    length_bytes: Counter[str] = field(default_factory=Counter)
    present: Present = field(default_factory=Present)
    keeps_refused: bool = False
    refused: int = 0
    """Attempts that are no rows, see without_refused."""

    def add(self, batch: Any) -> None:
        """Count the rows of a batch."""
        _, codes = texts(batch.column("operation"))
        self.present.add(batch)
        self.rows.update(count_names(codes, OPERATIONS))
        sums = np.zeros(len(OPERATIONS), np.int64)
        np.add.at(sums, codes, ints(batch.column("length_bytes")))
        self.length_bytes.update(dict(zip(OPERATIONS, sums.tolist(), strict=True)))


def parse(
    inputs: Sequence[Path],
    output: Path,
    *,
    options: ParseOptions = ParseOptions(),
    on_bytes: OnBytes = lambda _done, _total: None,
) -> tuple[TraceFolder, Tally]:
    """Decode the inputs into the new trace folder `output` and return it with what it holds.

    The text of a capture with perf, known by its name, is decoded too. `on_bytes` gets how many
    bytes of how many (None if unknown) were read. Raise InputError when an input is no trace or
    damaged; then nothing is left behind.
    """
    files = find_files(inputs)
    if len(files) == 1 and TEXT_NAME.fullmatch(files[0].name):
        options = replace(options, text=EventText(Text.KERNEL, b""))
    layout = layout_of(inputs, options.layout_file)
    with new_folder(output, overwrite=options.overwrite) as folder:
        with open_feeds(files) as feeds:
            facts, tally = decode_feeds(
                feeds, layout, table=folder / "requests.parquet", options=options, on_bytes=on_bytes
            )
        info = _info(facts, tally, layout, options)
        info.warnings += metadata.unread_files(unread_cpus(files))
        # Of pieces, which all know the beginning, the last one looked last.
        if file := file_beside(inputs[::-1], MAP_NAME):
            table = with_trace_times(read_map(file, info.devices), info.clock.wall_ns)
            write_table(folder / MAP_NAME, table)
        write_info(folder, info, made_by="parse")
    return TraceFolder(output), tally


def _info(facts: Facts, tally: Tally, layout: Layout, options: ParseOptions) -> TraceInfo:
    if options.text is None:
        return metadata.trace_info(facts, layout)
    name = metadata.format_name(options.text.kind, facts.stats)
    file = facts.files[0].name
    metadata.reject_bad_lines(facts, file, name=name, most_bad_ratio=MOST_BAD_RATIO)
    text = options.text
    return metadata.text_info(facts, tally.rows, layout=layout, kind=text.kind, block=text.block)


def decode_feeds(
    feeds: list[Feed], layout: Layout, *, table: Path, options: ParseOptions, on_bytes: OnBytes
) -> tuple[Facts, Tally]:
    """Decode the feeds into the table of requests; return what they are and what they hold.

    Raise InputError when a feed is no trace or damaged.
    """
    tally = Tally(keeps_refused=options.keeps_refused)
    with Decoder([feed.fd for feed in feeds], keeps_whole=options.keeps_whole) as decoder:
        _prepare(decoder, layout, options)
        decoded = _counted(decoder, tally, feeds, on_bytes)
        with closing(ahead(decoded, on_stop=lambda: stop_feeds(feeds))) as batches:
            try:
                write_batches(table, batches, schema=REQUESTS)
            except DecodeError as error:
                feed, unit = feeds[error.place.file], "line" if options.text else "byte"
                feed.wait_for_failure()
                raise feed.problem() or decode_error(error.place, feed.name, unit=unit) from None
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
                message = f"the table of requests cannot be written: {reason}"
                hint = "free some space, or choose an --output elsewhere"
                raise TracekitError(message, hint=hint) from None
        cuts = _finish(feeds, decoder, keeps_whole=options.keeps_whole)
        facts = Facts(
            stats=decoder.stats(),
            devices=decoder.devices(),
            device_names=decoder.device_names(),
            completed=decoder.completed(),
            files=[feed.describe() for feed in feeds],
            cuts=cuts,
            refused=tally.refused,
            present=tally.present,
            cpus=decoder.cpus(),
            bad_lines=decoder.bad_lines() if options.text else [],
        )
    _reject_nothing(facts, feeds)
    return facts, tally


def _prepare(decoder: Decoder, layout: Layout, options: ParseOptions) -> None:
    for device in layout.devices:
        if device.major is not None and device.minor is not None:
            decoder.name_device((device.major, device.minor), device.device)
    if window := metadata.readings_ns(layout.counters):
        decoder.watch(window)
    for pid, name in layout.processes.items():
        decoder.name_process(int(pid), name)
    for number, path in layout.cgroups.items():
        decoder.name_cgroup(int(number), path)
    text = options.text or EventText(Text.NONE, options.head)
    try:
        decoder.set_text(text.kind, text.head, form=text.form, block_bytes=text.block.size_bytes)
    except ValueError as error:
        message = f"--blkparse-format {text.form}: {error}"
        hint = "give the format that was given to blkparse -f, such as '%D %c %T.%t %p %a %d %S %n'"
        raise UsageError(message, hint=hint) from None


BEFORE_ISSUE = ("getrq_ns", "insert_ns", "merge_ns", "issue_ns")
MERGE_REACH = 1 << 20
"""A row is queued less than so many rows beside its merge target, see ROWS_WINDOW of rows.h."""


def without_refused(batches: Iterable[Any], tally: Tally) -> Generator[Any]:
    """Leave out and count I/Os that came back with EAGAIN before they had a request.

    Who must not wait (RWF_NOWAIT, as io_uring asks for at first) gets them back where all requests
    are taken, and queues the I/O once more: the device and its counters see the second one alone.
    """
    refused = np.empty(0, np.int64)
    held: deque[tuple[Any, NDArray[np.bool_]]] = deque()
    for batch in batches:
        ids = ints(batch.column("request_id"))
        is_refused = ints(batch.column("error")) == -errno.EAGAIN
        for name in BEFORE_ISSUE if is_refused.any() else ():
            is_refused &= ints(batch.column(name), if_null=-1) < 0
        tally.refused += int(is_refused.sum())
        refused = np.concatenate((refused[refused >= ids[0] - 2 * MERGE_REACH], ids[is_refused]))
        held.append((batch, is_refused))
        # A merge target may be queued later.
        while held and ints(held[0][0].column("merged_into"), if_null=-1).max() <= ids[-1]:
            yield _left_over(*held.popleft(), refused=refused, count=tally.refused)
    for batch, is_refused in held:
        yield _left_over(batch, is_refused, refused=refused, count=tally.refused)


def _left_over(
    batch: Any, is_refused: NDArray[np.bool_], *, refused: NDArray[np.int64], count: int
) -> Any:
    """Return the other rows, whose numbers leave out the refused ones, the last of `count`."""
    if not count:
        return batch
    batch = batch.filter(pa.array(~is_refused))
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in ("request_id", "merged_into"):
        ids = ints(columns[name], if_null=-1)
        fewer = count - len(refused) + np.searchsorted(refused, ids)
        columns[name] = number_column(np.where(ids < 0, 0, ids - fewer), valid=ids >= 0)
    return pa.RecordBatch.from_pydict(columns)


def _counted(
    decoder: Decoder, tally: Tally, feeds: list[Feed], on_bytes: OnBytes
) -> Generator[Any]:
    batches = decoder.batches()
    for batch in batches if tally.keeps_refused else without_refused(batches, tally):
        tally.add(batch)
        on_bytes(*progress_of(feeds))
        yield pa.RecordBatch.from_arrays(batch.columns, schema=REQUESTS)


def _finish(feeds: list[Feed], decoder: Decoder, *, keeps_whole: bool) -> list[str]:
    """Wait until all files are hashed; return what was cut off, raise what must not be."""
    problems = []
    for feed in feeds:
        feed.finish()
        if problem := feed.problem():
            if not keeps_whole:
                raise problem
            problems.append(str(problem))
        problems += feed.passed_over()
    for number, feed in enumerate(feeds):
        if place := decoder.cut(number):
            reason, _ = _reason_and_hint(place, "byte")
            problems.append(f"{feed.name} was read up to byte {place.offset} only: {reason}")
    return problems


def _reject_nothing(facts: Facts, feeds: list[Feed]) -> None:
    names, stats = ", ".join(feed.name for feed in feeds), facts.stats
    if stats.records == 0 and stats.lines:
        lines = f"{stats.lines:,} lines, and none is an event of this format"
        shown = listed(map(show_example, facts.bad_lines))
        raise InputError(f"{names}: {lines}", *shown, hint="choose another --format")
    if stats.records == 0:
        message = f"{names}: byte 0: empty, there is no record in it"
        raise InputError(message, hint="capture again; the traced device may have had no I/O")
    if stats.rows == facts.refused:
        message = f"{names}: {stats.records} records, but none of a queued or issued request"
        hint = "capture with all actions, at least queue, issue and complete"
        raise InputError(message, hint=hint)
    seen: dict[str, str] = {}
    for feed, entry in zip(feeds, facts.files, strict=True):
        other = seen.setdefault(entry.sha256, feed.name)
        if other != feed.name and not feed.is_empty:
            raise InputError(
                f"{feed.name}: the same bytes as {other}, sha256 {entry.sha256[:16]}...",
                hint="give each file of the trace once",
            )

"""Imports the trace of another tool: chooses the reader, writes the trace folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import UNSET

from tracekit import metadata
from tracekit.errors import InputError, UnorderedError, UsageError
from tracekit.metadata import TraceInfo
from tracekit.parquet_file import Written
from tracekit.prefetch import ahead
from tracekit.readers import checkpoint, drivers
from tracekit.readers.assemble import Assembler, Sorting
from tracekit.readers.damage import NEWLINE, TAIL_BYTES, Damage, is_cut, last_line
from tracekit.readers.disorder import Disorder
from tracekit.readers.events import event_text, import_capture, import_events, import_perfetto
from tracekit.readers.files import find_files, is_blktrace, readable_head
from tracekit.readers.format_files import with_format_file
from tracekit.readers.formats import (
    FioLog,
    Format,
    RecordFormat,
    find_format,
    hint_of_words,
    others_in_words,
    same_waits,
)
from tracekit.readers.hypotheses import (
    FEWEST_REQUESTS,
    MOSTLY,
    Column,
    Judgement,
    Seen,
    judged,
)
from tracekit.readers.memory import find_memory_format, import_memory
from tracekit.readers.metadata import line_counts
from tracekit.readers.octf import import_octf, is_chosen
from tracekit.readers.outliers import Bounds, OutlierError, Outliers
from tracekit.readers.perfetto import PERFETTO, is_perfetto
from tracekit.readers.rbd_replay import BANNER, RBD_REPLAY, import_actions
from tracekit.readers.restarts import RestartError, Restarts, Shifts
from tracekit.readers.sniffer import likely_columns
from tracekit.readers.stream import Feed, finish_feeds, open_feeds, skip, stop_feeds, take_head
from tracekit.readers.text import KEPT_EXAMPLES, LARGEST_SUM, BadLines, TextFormat
from tracekit.readers.units import (
    DEFAULTS,
    SIZE_BYTES,
    TIME_NS,
    Block,
    Columns,
    Import,
    ImportOptions,
    OnBytes,
    Units,
    listed,
    show_example,
)
from tracekit.readers.unknown import PAGES, TIMES, given_of, lacks_of, reject_known
from tracekit.store import TraceFolder, new_folder, scratch_folder, write_info, write_on
from tracekit.tables import REQUESTS

CHUNK_BYTES = 4 << 20
LONGEST_LINE_BYTES = 64 << 20

Whole = Callable[[bytearray, int], int]
"""How many of so many first bytes of a buffer are whole lines or records."""


def whole_lines(buffer: bytearray, size: int) -> int:
    """Return how many of the first `size` bytes are whole lines."""
    return buffer.rfind(b"\n", 0, size) + 1


def whole_records(record_bytes: int) -> Whole:
    """Return what counts the bytes of whole records."""
    return lambda _buffer, size: size - size % record_bytes


def blocks_of(fd: int, start: bytes, *, whole: Whole) -> Iterator[memoryview]:
    """Yield whole lines or records, some MiB at a time, and last what remains, whole or not.

    `start` was read from the descriptor already. A block is valid until the next one is asked for:
    all lie in one buffer. Raise InputError for a line that no text has.
    """
    buffer = bytearray(max(2 * CHUNK_BYTES, 2 * len(start)))
    buffer[: len(start)] = start
    size = len(start)
    while got := os.readv(fd, [memoryview(buffer)[size:]]):
        size += got
        if size < CHUNK_BYTES:
            continue
        end = whole(buffer, size)
        if end:
            yield memoryview(buffer)[:end]
            buffer[: size - end] = buffer[end:size]
            size -= end
        elif size == len(buffer):
            if size > LONGEST_LINE_BYTES:
                message = f"a line of more than {LONGEST_LINE_BYTES >> 20} MiB: this is no text"
                raise InputError(message, hint="check the file")
            buffer = buffer + bytearray(size)
    if size:
        yield memoryview(buffer)[:size]


HEAD_BYTES = 1 << 16
BLOCKS_AHEAD = 1
CHECKPOINT_BYTES = 1 << 30
"""Of text: a killed import is gone on with from the last multiple, about."""
KNOWN = (
    *("lines", "damage", "last_line", "outliers", "restarts", "disorder", "beyond"),
    *("_before", "_bytes", "_records", "_rows"),
)
"""What a reading knows of the text before a mark."""


@dataclass(frozen=True)
class Again:
    """What is known of a trace that is read once more."""

    is_sorted: bool = False
    """Its requests are to be put in order first."""
    bounds: Bounds | None = None
    """What lies beyond is a wrong line."""
    shifts: Shifts | None = None
    """Its clock starts again."""


class Reading:
    """One import while it runs."""

    def __init__(self, feed: Feed, run: Import, *, start: bytes, again: Again) -> None:
        """Take what is known of a trace that is read once more."""
        self._feed, self._on_bytes, options = feed, run.on_bytes, run.options
        self.lines, self._rest = BadLines(), start
        cut = start if len(start) < HEAD_BYTES else start[: start.rfind(b"\n") + 1]
        self.head = whole = cut or start
        form = find_format(start, whole, name=feed.name, options=options)
        self.format: Format = form
        self.units: Units = replace(
            form.units.overridden(options.units), page_bytes=options.page_bytes
        )
        self.others = others_in_words(whole, form.name, options=options) if options.explains else ""
        self.preamble, self.is_scaled = 0, False
        operations: dict[str, str] = {}
        if options.operations and not (isinstance(form, TextFormat) and "op" in form.columns):
            message = f"{feed.name}: --op: {form.name} has no words of operations"
            raise UsageError(message, hint="leave --op out")
        if isinstance(form, TextFormat):
            self.format = form = replace(form, units=self.units)
            self.preamble = form.preamble(whole, self.lines)
            operations = dict(form.operations)
            self.is_scaled = "time" in form.scaled()
            self._rest = start.split(b"\n", self.lines.lines)[-1]
        else:
            self._rest = start[form.header_bytes :]
        self.damage, self.last_line = Damage(), ""
        self._before, self._bytes = b"", len(start) - len(self._rest)
        """The end of the block before, and how many bytes are read."""
        self.lacks, self.given = lacks_of(self.format, self.units), given_of(options)
        reject_known(options, self.lacks, name=feed.name, form=form.name)
        self.assembler = Assembler(
            self.units, operations, "trace", rate=options.rate, operation=options.operation
        )
        self.outliers = Outliers(self.units, self.is_scaled)
        self.unknown = [what for what in self.lacks if what not in self.given]
        self.bounds, self.shifts, self._possible = again.bounds, again.shifts, _possible(self.units)
        self.restarts, self.disorder = Restarts(is_wall=self.units.is_wall), Disorder()
        self.beyond = self._records = self._rows = 0
        """Lines and records with a number beyond the bounds, records read, and rows of them."""
        self._marks = checkpoint.begin(run) if again == Again() else None

    def go_on(self, state: checkpoint.State) -> None:
        """Go on behind what was read when this state was written."""
        head_bytes = self._bytes + len(self._rest)
        vars(self).update(checkpoint.unpack(state.known))
        self.assembler.go_on(state.rows)
        self._rest = skip(self._feed, state.at, head=self._rest, head_bytes=head_bytes)

    def _mark(self) -> checkpoint.Mark | None:
        """Return a mark behind the block that was read, if it is time for one."""
        marks = self._marks
        if marks is None or self._bytes // CHECKPOINT_BYTES == marks.state.at // CHECKPOINT_BYTES:
            return None
        known = checkpoint.pack({name: vars(self)[name] for name in KNOWN})
        self._marks = replace(marks, state=replace(marks.state, at=self._bytes, known=known))
        return self._marks

    def batches(self, *, sorting: Sorting | None = None) -> Generator[Any]:
        """Yield the batches of requests, to the end of the file; the next are decoded meanwhile.

        Among them are marks, where a killed import can be gone on with.
        """
        with closing(ahead(self._decoded(), most=BLOCKS_AHEAD)) as decoded:
            try:
                yield from self.assembler.batches(decoded, sorting=sorting)
            except UnorderedError:
                raise
            except InputError as problem:
                raise InputError(f"{self._feed.name}: {problem}", hint=problem.hint) from problem

    def _decoded(self) -> Generator[Columns | checkpoint.Mark]:
        form = self.format
        whole = whole_lines if isinstance(form, TextFormat) else whole_records(form.record_bytes)
        for block in blocks_of(self._feed.fd, self._rest, whole=whole):
            if isinstance(form, TextFormat):
                columns = self._text_of(block, form)
            else:
                columns = self._records_of(block, form)
            self._on_bytes(self._feed.done_bytes, self._feed.total_bytes)
            if columns is not None and self.bounds is not None:
                columns = self._without(columns, self.bounds)
            if columns is not None:
                columns = self._of_one_clock(columns)
                self.outliers.see(columns)
                if columns.rows:
                    yield replace(columns, block=None)
            if mark := self._mark():
                yield mark

    def _text_of(self, block: memoryview, form: TextFormat) -> Columns | None:
        """Decode lines, of which the last of the file may have no newline."""
        first, byte, lines = self.lines.lines + 1, self._bytes, self.lines
        self._bytes += len(block)
        end = len(block) if block[-1] == NEWLINE else bytes(block).rfind(b"\n") + 1
        before, self._before = self._before + bytes(block[:end][-TAIL_BYTES:]), b""
        line = bytes(block[end:])
        why_not = "shorter than those before it" if line and is_cut(line, before, form=form) else ""
        text: bytes | memoryview = block[:end]
        if line and not why_not:
            text = bytes(block) + b"\n"
        columns = form.decode(text, lines) if len(text) else None
        if len(text) and lines.wrong:
            self.damage.see(text, lines.wrong, line=first, byte=byte)
        if why_not:
            lines.lines += 1
            lines.add(lines.lines, line.decode("utf-8", "replace"))
        elif len(text) and lines.wrong[-1:] == [lines.lines - first]:
            why_not = "wrong"
        if line.strip():
            self.last_line = last_line(lines.lines, line, why_not=why_not)
        else:
            self._before = before[-TAIL_BYTES:]
        return columns

    def _of_one_clock(self, columns: Columns) -> Columns:
        """Look where the clock starts again; where that is known, let the times go on."""
        first, self._rows = self._rows, self._rows + columns.rows
        if self.shifts is None:
            self.restarts.see(columns, row=first)
        else:
            times = self.shifts.shifted(columns.numbers["time"], row=first)
            columns = replace(columns, numbers={**columns.numbers, "time": times})
        self.disorder.see(columns)
        return columns

    def _records_of(self, block: memoryview, form: RecordFormat) -> Columns | None:
        """Decode whole records; a cut one at the end and impossible ones are wrong lines."""
        self._bytes += len(block)
        if cut := len(block) % form.record_bytes:
            self.lines.add(0, f"{cut} bytes at the end are no whole record")
        if len(block) == cut:
            return None
        columns = form.decode(block[: len(block) - cut])
        columns = replace(columns, block=Block(self._records))
        self._records += columns.rows
        return self._without(columns, self._possible)

    def _without(self, columns: Columns, bounds: Bounds) -> Columns:
        """Return the columns without the rows beyond the bounds, which are counted and shown."""
        rows = bounds.outside(columns)
        if not len(rows) or columns.block is None:
            return columns
        self.beyond += len(rows)
        shown = rows[:KEPT_EXAMPLES].tolist()
        for row, (number, text) in zip(shown, columns.block.examples(shown), strict=True):
            reason = "" if number else f": {bounds.reason(columns, row)}"
            self.lines.add(number, f"{text}{reason}")
        self.lines.bad += len(rows) - len(shown)
        return columns.without(rows)


def _possible(units: Units) -> Bounds:
    """Return the numbers that records can have: 64 bits of ns and bytes with what follows."""
    factors = {
        "time": TIME_NS[units.time],
        "offset": units.factor("offset"),
        "length": units.factor("length"),
        "response": 2 * TIME_NS[units.response or "ns"],
    }
    return Bounds({name: (0, LARGEST_SUM // factor) for name, factor in factors.items()})


def judgement_of(read: Reading, options: ImportOptions) -> Judgement:
    """Score the units of a trace that was read, and those that may be meant in their place."""
    made, seen = read.assembler, read.outliers
    places, lengths = (
        Column(seen.samples[name].values, seen.extremes[name][1], made.pairs.odd[name])
        for name in ("offset", "length")
    )
    given = frozenset(unit.partition("=")[0] for unit in options.units)
    first, span = None, 0.0
    if TIMES not in read.lacks and made.pairs.latest_ns is not None:
        tick_ns = TIME_NS[read.units.time]
        first = seen.extremes["time"][0] / (tick_ns if read.is_scaled else 1)
        span = (made.pairs.latest_ns - made.first_ns) / tick_ns
    return judged(Seen(read.units, given, places, lengths, made.pairs, first, span))


def contradictions(read: Reading, options: ImportOptions) -> list[str]:
    """Return what cannot be under the units of a trace that was read, in words.

    Where no other units can be, either, it says what the columns of a text may be.
    """
    others, judgement = _many_devices(read.assembler), judgement_of(read, options)
    found = others or judgement.contradictions()
    if found and not options.columns and (others or not judgement.has_rival):
        found = [*found, *likely_columns(read.head)]
    return found + same_waits(read.lines)


def _many_devices(made: Assembler) -> list[str]:
    """Return in words that most requests have a device of their own, if they do."""
    if made.rows < FEWEST_REQUESTS or len(made.devices) <= MOSTLY * made.rows:
        return []
    return [
        f"{made.rows:,} requests are of {len(made.devices):,} devices: its column is another one;"
        " name them with --columns"
    ]


def _inferences(read: Reading, options: ImportOptions) -> list[metadata.Inference]:
    """Return what was taken of the format and its units, and who said so."""
    units, pairs = read.units, read.assembler.pairs
    counts = [f"{pairs.of(units.offset, unit):,} as {unit}" for unit in ("bytes", "sectors")]
    evidence = f"sequential pairs: {', '.join(counts)}"
    lengths = f"{_source(read, options, 'length')}; {evidence}"
    found = [
        ("format", read.format.name, read.format.evidence),
        *(
            [("other formats", read.others, "good lines of the first 64 KiB")]
            if read.others
            else []
        ),
        ("unit of lengths", units.length, lengths),
        ("unit of places", units.offset, _source(read, options, "offset")),
        ("unit of times", units.time, _time_evidence(read, options)),
    ]
    if read.assembler.rows:
        judgement = judgement_of(read, options)
        found.append(("judgement", f"score {judgement.taken.score:.1f}", judgement.in_words()))
    if read.shifts is not None:
        starts = f"starts again {_times(len(read.shifts.rows) - 1)}"
        found.append(("clock", starts, "--join sequence: no pause between the parts"))
    elif later := read.restarts.parts()[1:]:
        found.append(("clock", f"starts again {_times(len(later))}", "--join overlay: of one time"))
    if read.bounds:
        beyond = f"beyond {read.bounds.in_words()}, where nearly all lie"
        found.append(("strays", f"{read.beyond:,} wrong lines", beyond))
    return metadata.inferences_of(found)


def import_info(read: Reading, feed: Feed, *, options: ImportOptions) -> TraceInfo:
    """Return the content of trace.json."""
    made, bad = read.assembler, read.lines.bad
    base_ns = made.first_ns
    wall_ns = base_ns if read.units.is_wall and base_ns >= 0 else None
    return TraceInfo(
        source=metadata.Source(format=read.format.name, files=[feed.describe()]),
        clock=metadata.Clock(base_ns=base_ns, wall_ns=wall_ns, duration_ns=made.last_ns),
        devices=[metadata.Device(device=name) for name in made.devices],
        counts={
            "records": made.rows + bad,
            "requests": made.rows,
            "operations": dict(made.operations),
            "preamble_lines": read.preamble,
            **line_counts(read.lines.passed, bad, examples=read.lines.examples),
            "rounded_places": made.rounded,
        },
        loss=metadata.Loss(has_sequence_numbers=False, unmatched={}),
        completeness=metadata.Completeness(columns=dict(made.present.values)),
        unknown=read.unknown or UNSET,
        inferences=_inferences(read, options),
        warnings=_warnings(read, feed, options),
    )


def _source(read: Reading, options: ImportOptions, name: str) -> str:
    """Return who says the unit of this: the user, a header, or else the format."""
    if any(unit.startswith(f"{name}=") for unit in options.units):
        return "given by the user"
    if options.columns or options.regex:
        return "not given, that of a text of one's own"
    is_user_format = read.format.name == "own"
    return read.format.evidence if is_user_format else f"format {read.format.name}"


def _time_evidence(read: Reading, options: ImportOptions) -> str:
    form, given = read.format, _source(read, options, "time")
    if read.units.time == "date":
        return f"{read.format.evidence}; dates without a zone are taken as UTC"
    if isinstance(form, FioLog) and form.version == 2:
        return f"{given}; waits count from fio's start, requests between two share the time"
    if TIMES in read.lacks:
        return "the format has no times; requests are in its order"
    return given


def _warnings(
    read: Reading, feed: Feed, options: ImportOptions
) -> list[metadata.TraceWarning]:
    made, bad, lone = read.assembler, read.lines.bad, read.outliers.doubts()
    far = read.outliers.far_places()
    doubts = [*contradictions(read, options), *judgement_of(read, options).doubts()]
    doubts = list(dict.fromkeys(doubts))
    rounded = f"{made.rounded:,} requests begin within a sector: its start is taken"
    assumed = [text for name, text in read.given.items() if name in read.lacks]
    assumed += [read.format.assumes] if read.format.assumes else []
    unknown = f"the format, {read.format.name}, does not say {', '.join(read.unknown)}"
    if "page size" in read.unknown:
        unknown += f"; tables have a block of {SIZE_BYTES['pages']:,} bytes for a page"
    is_coarse = read.units.time == "s" and not read.is_scaled and made.rows > made.pairs.ticks
    coarse = f"times are whole seconds: {made.rows:,} requests share {made.pairs.ticks:,}"
    found = [
        ("coarse_times", is_coarse, coarse),
        ("unknown_values", read.unknown, unknown),
        (
            "assumed_values",
            assumed,
            f"assumed, as the format does not say it: {', '.join(assumed)}",
        ),
        ("salvaged", feed.passed_over(), "; ".join(feed.passed_over())),
        *made.present.doubts(),
        ("bad_lines", bad, f"{bad:,} lines were wrong and left out{read.damage.in_words(bad)}"),
        ("open_end", read.last_line, read.last_line),
        ("doubtful_units", doubts, "; ".join(doubts)),
        ("lone_times", lone, "; ".join(lone)),
        ("lone_places", far, "; ".join(far)),
        ("reordered_records", read.disorder.count, read.disorder.in_words()),
        ("rounded_places", made.rounded, rounded),
    ]
    return metadata.warnings_of(found)


BATCHES_AHEAD = 8  # of the requests of a block; a row group is written in one go


def import_trace(
    source: Path | Sequence[Path],
    output: Path,
    *,
    options: ImportOptions = DEFAULTS,
    on_bytes: OnBytes = lambda _done, _total: None,
) -> TraceFolder:
    """Import the trace into the new trace folder `output`, and return it.

    `source` is a file; of an OCTF trace its folder or the files of its cpus.

    Raise InputError when its format is unknown, too many lines are wrong, or numbers contradict
    their units; then nothing is left behind.
    """
    options = with_format_file(options)
    files = find_files([source] if isinstance(source, Path) else source)
    state = checkpoint.found(output, files, options=options)
    goes_on = checkpoint.NAME if state else None
    with new_folder(output, overwrite=options.overwrite, goes_on=goes_on) as folder:
        run = Import(files, folder, options, on_bytes)
        with open_feeds(files, salvages=options.salvages) as opened:
            feeds, head = _take_readable(opened)
            info = _import_feeds(feeds, head, run, state)
        (folder / checkpoint.NAME).unlink(missing_ok=True)
        write_info(folder, info)
    return TraceFolder(output)


def _take_readable(opened: Sequence[Feed]) -> tuple[list[Feed], bytes]:
    feeds, head = take_head(opened, HEAD_BYTES)
    return feeds, readable_head(head, feeds[0].name)


def _import_feeds(
    feeds: Sequence[Feed], head: bytes, run: Import, state: checkpoint.State | None
) -> TraceInfo:
    """Import by what the trace is; return the content of trace.json."""
    if is_blktrace(head):
        reject_known(run.options, [], name=feeds[0].name, form="a capture of blktrace")
        return import_capture(feeds, head, run=run)
    if whole := _import_whole(feeds[0], head, run):
        return whole
    text = event_text(head, run.options)
    if text is None and is_chosen(head, run.options):
        reject_known(run.options, [], name=feeds[0].name, form="OCTF")
        return import_octf(feeds, run, head=head)
    if len(feeds) > 1:
        message = f"{len(feeds)} files: only a blktrace or OCTF trace is of several"
        raise UsageError(message, hint="import each file by itself")
    if text is not None:
        lacks = [PAGES] if text.kind in drivers.NAMES else []
        reject_known(run.options, lacks, name=feeds[0].name, form="a text of the kernel's events")
        return import_events(feeds[0], text, run=run)
    if memory := find_memory_format(head, run.options):
        reject_known(run.options, [], name=feeds[0].name, form="a trace of memory accesses")
        texts = blocks_of(feeds[0].fd, head, whole=whole_lines)
        return import_memory(feeds[0], form=memory, run=run, texts=texts)
    return _import_text(feeds[0], head, run, state)


def _import_whole(feed: Feed, head: bytes, run: Import) -> TraceInfo | None:
    """Import a trace that must be known as a whole before its first request, if it is one."""
    form = run.options.form
    if form in (None, PERFETTO) and is_perfetto(head):
        reject_known(run.options, [PAGES], name=feed.name, form="a trace of Perfetto")
        return import_perfetto(feed, head, run=run)
    if form in (None, RBD_REPLAY) and head.startswith(BANNER):
        reject_known(run.options, [], name=feed.name, form="a trace of rbd-replay")
        return import_actions(feed, head, run=run)
    return None


def _import_text(feed: Feed, head: bytes, run: Import, state: checkpoint.State | None) -> TraceInfo:
    """Import the requests of a text or of records, which is read again as it turns out to be."""
    again = Again()
    while True:
        try:
            if again == Again():
                read = Reading(feed, run, start=head, again=again)
                if state is not None:
                    read.go_on(state)
                return _import_requests(read, feed, run, written=state.table if state else None)
            (run.folder / checkpoint.NAME).unlink(missing_ok=True)
            return _import_again(run, again)
        except UnorderedError as error:
            if feed.total_bytes is None:
                hint = "give the trace as a file, which can be read again, or sort it by time first"
                raise InputError(f"{feed.name}: {error}", hint=hint) from None
            again = replace(again, is_sorted=True)
        except (OutlierError, RestartError) as error:
            if feed.total_bytes is None:
                raise InputError(*str(error).split("\n"), hint=error.hint) from None
            if isinstance(error, OutlierError):
                again = replace(again, bounds=error.bounds)
            else:
                again = replace(again, shifts=error.shifts, is_sorted=False)


def _import_again(run: Import, again: Again) -> TraceInfo:
    """Import a trace once more: in order, without outliers, or with one clock."""
    salvages = run.options.salvages
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder(run.folder / "sorting"))
        feeds, head = _take_readable(stack.enter_context(open_feeds(run.files, salvages=salvages)))
        read = Reading(feeds[0], run, start=head, again=again)
        sorting = Sorting(scratch) if again.is_sorted else None
        return _import_requests(read, feeds[0], run, sorting=sorting)


def _import_requests(
    read: Reading,
    feed: Feed,
    run: Import,
    *,
    sorting: Sorting | None = None,
    written: Written | None = None,
) -> TraceInfo:
    rows = read.batches(sorting=sorting)
    with closing(ahead(rows, most=BATCHES_AHEAD, on_stop=lambda: stop_feeds([feed]))) as batches:
        write_on(run.table, batches, schema=REQUESTS, written=written)
    finish_feeds([feed])
    try:
        _reject(read, feed.name, run.options)
        _reject_restarts(read, feed.name, run.options)
    except (OutlierError, RestartError):
        raise
    except InputError as error:
        raise _explained(error, read, run.options) from None
    return import_info(read, feed, options=run.options)


def _explained(error: InputError, read: Reading, options: ImportOptions) -> InputError:
    """Return the error, and how format and units were judged if the user asks for it."""
    if not options.explains:
        return error
    found = [one for one in _inferences(read, options) if one.what != "clock"]
    said = (f"{one.what}: {one.value} ({one.evidence})" for one in found)
    return InputError(*str(error).split("\n"), *listed(said), hint=error.hint)


def _hint_of(read: Reading) -> str:
    """Return what to do about the wrong lines."""
    form, lines = read.format, [text for _, text in read.lines.examples]
    if isinstance(form, TextFormat) and (found := form.unknown_words(lines)):
        return hint_of_words(found)
    if read.damage.zeros:
        return "pass over what is damaged: --salvage; or choose another --format or --unit"
    return "choose another --format or --unit, or allow more with --max-bad PERCENT"


def _reject_restarts(read: Reading, name: str, options: ImportOptions) -> None:
    """Raise InputError for a clock that starts again, RestartError to have one clock."""
    later = read.restarts.doubted()
    if not later or options.join == "overlay":
        return
    message = f"{name}: its clock starts again {_times(len(later))}"
    shown = [f"at {part.shown}" for part in later[:KEPT_EXAMPLES]]
    if options.join == "sequence":
        hint = "give the trace as a file, which can be read again"
        raise RestartError(message, *listed(shown), shifts=read.restarts.shifts(), hint=hint)
    hint = (
        "traces one after the other: --join sequence; of the same time, as of several disks:"
        " --join overlay"
    )
    raise InputError(message, *listed(shown), hint=hint)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _reject(read: Reading, name: str, options: ImportOptions) -> None:
    """Raise InputError for too many wrong lines, no requests, or units that cannot be.

    It is an OutlierError where nearly all numbers agree with the units.
    """
    lines, rows = read.lines, read.assembler.rows
    if lines.bad > options.most_bad_ratio * (rows + lines.bad):
        beyond = f", {read.beyond:,} of them far from the others" if read.bounds else ""
        shown = listed(map(show_example, lines.examples))
        raise InputError(
            f"{name}: {lines.bad:,} of {rows + lines.bad:,} lines are wrong{beyond}",
            *shown,
            hint=_hint_of(read),
        )
    if not rows:
        raise InputError(f"{name}: there is no request in it", hint="check the file")
    if options.forces_units:
        return
    found, judgement = contradictions(read, options), judgement_of(read, options)
    shown = listed([*found, *read.outliers.shown()])
    bounds = None
    if read.bounds is None and not judgement.is_exchanged:
        bounds = read.outliers.bounds(is_contradicted=bool(found))
    if bounds:
        message = f"{name}: some lines lie far from all others"
        hint = "take these lines out, or give it as a file: a few such lines are left out then"
        raise OutlierError(message, *shown, bounds=bounds, hint=hint)
    if found:
        hint = "give the right --unit, or --force-units if it is so"
        raise InputError(f"{name}: the units contradict the numbers", *shown, hint=hint)

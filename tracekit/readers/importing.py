"""Imports the trace of another tool: chooses the reader, writes the trace folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracekit._native.decode import Text, detect_text
from tracekit.errors import InputError, UnorderedError, UsageError
from tracekit.layout import Layout, read_layout
from tracekit.metadata import (
    Clock,
    Device,
    Inference,
    Loss,
    Source,
    TraceInfo,
    TraceWarning,
    warning,
)
from tracekit.prefetch import ahead
from tracekit.readers.assemble import Sorting
from tracekit.readers.blktrace import EventText, ParseOptions, decode_feeds
from tracekit.readers.blocks import HEAD_BYTES, Reading
from tracekit.readers.events import (
    EVENT_TEXTS,
    format_name,
    line_counts,
    reject_bad_lines,
    reject_disorder,
    text_info,
)
from tracekit.readers.files import find_files, find_layout, is_blktrace, readable_head
from tracekit.readers.fio import FioLog, same_waits
from tracekit.readers.metadata import trace_info
from tracekit.readers.octf import import_octf, is_chosen
from tracekit.readers.stream import Feed, open_feeds, stop_feeds, take_head
from tracekit.readers.text import BadLines, TextFormat
from tracekit.readers.units import PLAIN, Bounds, ImportOptions, OnBytes, OutlierError
from tracekit.store import (
    TraceFolder,
    new_folder,
    scratch_folder,
    write_batches,
    write_info,
)
from tracekit.tables import REQUESTS


def event_text(head: bytes, options: ImportOptions) -> EventText | None:
    """Return the text of events that a file with this head is, or None when it is another file.

    Raise UsageError when the user chose what does not go together.
    """
    own = options.columns or options.regex
    if options.blkparse_format is not None:
        if own or options.form not in (None, "blkparse"):
            message = "--blkparse-format names the columns, as --format, --columns and --regex do"
            raise UsageError(message, hint="give one of them")
        return EventText(Text.FORM, head, options.blkparse_format)
    kind = Text.NONE
    if not own and (options.form is None or options.form in EVENT_TEXTS):
        kind = EVENT_TEXTS.get(options.form or "", Text.NONE) or detect_text(head)
    if kind != Text.NONE:
        return EventText(kind, head)
    if options.form in EVENT_TEXTS:
        message = f"--format {options.form}: the first lines are not of it"
        raise InputError(message, hint="leave --format out: formats are known by their content")
    if options.layout_file is not None:
        message = "--layout belongs to texts of events, and this file is none"
        raise UsageError(message, hint="name roles with: tracekit classify --layout")
    return None


def import_events(
    feed: Feed, text: EventText, *, folder: Path, options: ImportOptions, on_bytes: OnBytes
) -> TraceInfo:
    """Decode the text into the table of requests in `folder`; return the content of trace.json.

    Raise InputError when too many lines are wrong or no event is there.
    """
    if options.units:
        message = "--unit: events of the kernel are always nanoseconds and sectors"
        raise UsageError(message, hint="leave --unit out")
    layout_file = options.layout_file or find_layout([feed.path])
    layout = read_layout(layout_file) if layout_file else Layout()
    facts, tally = decode_feeds(
        [feed],
        layout,
        table=folder / "requests.parquet",
        options=ParseOptions(text=text),
        on_bytes=on_bytes,
    )
    name = format_name(text.kind, facts.stats)
    reject_bad_lines(facts, feed.name, name=name, most_bad_ratio=options.most_bad_ratio)
    if not options.forces_units:
        reject_disorder(facts, feed.name)
    return text_info(facts, tally.rows, layout=layout, name=name)


def import_capture(
    files: Sequence[Path],
    pipe: tuple[Feed, bytes] | None,
    *,
    folder: Path,
    options: ImportOptions,
    on_bytes: OnBytes,
) -> TraceInfo:
    """Decode captures of blktrace as `parse` does; return the content of trace.json.

    A `pipe`, of which the head was read, cannot be opened again as the files are.
    """
    if options.form or options.units or options.columns or options.regex:
        message = f"{files[0]}: a capture of blktrace, whose columns and units are known"
        raise UsageError(message, hint="leave --format, --unit, --columns and --regex out")
    layout_file = options.layout_file or find_layout(files)
    layout = read_layout(layout_file) if layout_file else Layout()
    with nullcontext([pipe[0]]) if pipe else open_feeds(files) as feeds:
        facts, tally = decode_feeds(
            feeds,
            layout,
            table=folder / "requests.parquet",
            options=ParseOptions(head=pipe[1] if pipe else b""),
            on_bytes=on_bytes,
        )
    info = trace_info(facts, layout)
    info.counts |= line_counts(facts, tally.rows)
    return info


def contradictions(run: Reading) -> list[str]:
    """Return what cannot be under the units of a trace that was read, in words."""
    made = run.assembler
    found = made.evidence.contradictions(span_ns=made.last_ns, first_ns=made.first_ns)
    return found + same_waits(run.lines)


def _inferences(run: Reading, options: ImportOptions) -> list[Inference]:
    """Return what was taken of the format and its units, and who said so."""
    units, pairs = run.units, run.assembler.evidence.pairs
    evidence = f"sequential pairs: {pairs['bytes']:,} as bytes, {pairs['sectors']:,} as sectors"
    lengths = f"{_source(run, options, 'length')}; {evidence}"
    found = [
        ("format", run.format.name, _format_evidence(run)),
        ("unit of lengths", units.length, lengths),
        ("unit of places", units.offset, _source(run, options, "offset")),
        ("unit of times", units.time, _time_evidence(run, options)),
    ]
    if run.bounds:
        beyond = f"beyond {run.bounds.told()}, where nearly all lie"
        found.append(("strays", f"{run.beyond:,} wrong lines", beyond))
    return [Inference(what=what, value=value, evidence=why) for what, value, why in found]


def import_info(run: Reading, feed: Feed, *, options: ImportOptions) -> TraceInfo:
    """Return the content of trace.json."""
    made, units = run.assembler, run.units
    return TraceInfo(
        source=Source(format=run.format.name, files=[feed.describe()]),
        clock=Clock(
            base_ns=made.first_ns,
            wall_ns=made.first_ns if units.is_wall and made.first_ns >= 0 else None,
            duration_ns=made.last_ns,
        ),
        devices=[Device(device=name) for name in made.devices],
        counts={
            "records": made.rows + run.lines.bad,
            "requests": made.rows,
            "operations": dict(made.operations),
            "preamble_lines": run.preamble,
            **_line_counts(run.lines),
            "rounded_places": made.rounded,
        },
        loss=Loss(has_sequence_numbers=False, unmatched={}),
        inferences=_inferences(run, options),
        warnings=_warnings(run),
    )


def _format_evidence(run: Reading) -> str:
    return run.format.evidence if isinstance(run.format, TextFormat) else "the first records"


def _line_counts(lines: BadLines) -> dict[str, Any]:
    return {
        "passed_lines": lines.passed,
        "bad_lines": lines.bad,
        "bad_examples": [{"line": line, "text": text} for line, text in lines.examples],
    }


def _source(run: Reading, options: ImportOptions, name: str) -> str:
    """Return who says the unit of this: the user, a header, or else the format."""
    if any(unit.startswith(f"{name}=") for unit in options.units):
        return "given by the user"
    if options.columns or options.regex:
        return "not given, that of a text of one's own"
    own = run.format.name == "own"
    return _format_evidence(run) if own else f"format {run.format.name}"


def _time_evidence(run: Reading, options: ImportOptions) -> str:
    given = _source(run, options, "time")
    if run.units.time == "date":
        return f"{_format_evidence(run)}; dates without a zone are taken as UTC"
    if isinstance(run.format, FioLog) and run.format.version == 2:
        return f"{given}; waits count from fio's start, requests between two share the time"
    if isinstance(run.format, TextFormat) and "time" not in run.format.columns:
        return "the format has no times: a request each microsecond, in its order"
    return given


def _warnings(run: Reading) -> list[TraceWarning]:
    made = run.assembler
    doubts = contradictions(run) + made.evidence.doubts(span_ns=made.last_ns)
    lone = run.outliers.doubts()
    found = [
        ("no_completions", not made.responses, "no request completes in this trace"),
        ("bad_lines", run.lines.bad, f"{run.lines.bad:,} lines were wrong and left out"),
        ("doubtful_units", doubts, "; ".join(doubts)),
        ("lone_times", lone, "; ".join(lone)),
        (
            "reordered_records",
            made.reordered,
            f"{made.reordered:,} requests stood behind a later one",
        ),
        (
            "rounded_places",
            made.rounded,
            f"{made.rounded:,} requests begin within a sector: its start is taken",
        ),
    ]
    return [warning(code, message) for code, applies, message in found if applies]


BATCHES_AHEAD = 8  # of the requests of a block; a row group is written in one go


def import_trace(
    source: Path | Sequence[Path],
    output: Path,
    *,
    options: ImportOptions = PLAIN,
    on_bytes: OnBytes = lambda _done, _total: None,
) -> TraceFolder:
    """Import the trace into the new trace folder `output`, and return it.

    `source` is a file; of an OCTF trace its folder or the files of its cpus.

    Raise InputError when it is of no known format, has too many wrong lines, or numbers that
    contradict their units; then nothing is left behind.
    """
    files = find_files([source] if isinstance(source, Path) else source)
    with new_folder(output, overwrite=options.overwrite) as folder:
        with open_feeds(files) as opened:
            feeds, head = take_head(opened, HEAD_BYTES)
            head = readable_head(head, feeds[0].name)
            info = _import_feeds(
                files, feeds, head, folder=folder, options=options, on_bytes=on_bytes
            )
        write_info(folder, info)
    return TraceFolder(output)


def _import_feeds(
    files: Sequence[Path],
    feeds: Sequence[Feed],
    head: bytes,
    *,
    folder: Path,
    options: ImportOptions,
    on_bytes: OnBytes,
) -> TraceInfo:
    """Import by what the trace is; return what trace.json shall say."""
    if is_blktrace(head):
        return _import_capture(
            files, feeds, head, folder=folder, options=options, on_bytes=on_bytes
        )
    text = event_text(head, options)
    if text is None and is_chosen(head, options):
        return import_octf(feeds, head, folder=folder, options=options, on_bytes=on_bytes)
    if len(feeds) > 1:
        message = f"{len(feeds)} files: only a blktrace or OCTF trace is of several"
        raise UsageError(message, hint="import each file by itself")
    if text is not None:
        return import_events(feeds[0], text, folder=folder, options=options, on_bytes=on_bytes)
    run = Reading(feeds[0], options, start=head, on_bytes=on_bytes)
    try:
        return _import_requests(run, feeds[0], folder=folder, options=options)
    except (UnorderedError, OutlierError) as error:
        _reject_pipe(feeds[0], error)
        again = Again().after(error)
    while True:
        try:
            return _import_again(files, again, folder=folder, options=options, on_bytes=on_bytes)
        except (UnorderedError, OutlierError) as error:
            again = again.after(error)


def _import_capture(
    files: Sequence[Path],
    feeds: Sequence[Feed],
    head: bytes,
    *,
    folder: Path,
    options: ImportOptions,
    on_bytes: OnBytes,
) -> TraceInfo:
    """Import a capture of blktrace: files are read from their beginning again, a pipe goes on."""
    pipes = [feed for feed in feeds if feed.total_bytes is None]
    if pipes and len(feeds) > 1:
        message = f"{pipes[0].name}: a pipe among several files of blktrace"
        raise InputError(message, hint="run in place of import: tracekit parse")
    if not pipes:
        stop_feeds(feeds)
    pipe = (pipes[0], head) if pipes else None
    return import_capture(files, pipe, folder=folder, options=options, on_bytes=on_bytes)


@dataclass(frozen=True)
class Again:
    """How to read a trace once more, by what was found the times before."""

    is_sorted: bool = False
    bounds: Bounds | None = None

    def after(self, error: UnorderedError | OutlierError) -> Again:
        """Return how to read it after this error; each of the two comes once."""
        if isinstance(error, OutlierError):
            return replace(self, bounds=error.bounds)
        return replace(self, is_sorted=True)


def _import_again(
    files: Sequence[Path], again: Again, *, folder: Path, options: ImportOptions, on_bytes: OnBytes
) -> TraceInfo:
    """Import a trace once more: all of its requests put in order first, or without outliers."""
    with scratch_folder(folder / "sorting") as scratch, open_feeds(files) as opened:
        feeds, head = take_head(opened, HEAD_BYTES)
        head = readable_head(head, feeds[0].name)
        run = Reading(feeds[0], options, start=head, on_bytes=on_bytes, bounds=again.bounds)
        sorting = Sorting(scratch) if again.is_sorted else None
        return _import_requests(run, feeds[0], folder=folder, options=options, sorting=sorting)


def _reject_pipe(feed: Feed, error: UnorderedError | OutlierError) -> None:
    if feed.total_bytes is not None:
        return
    if isinstance(error, OutlierError):
        raise InputError(str(error), hint=error.hint) from None
    hint = "give the trace as a file, which can be read once more, or sort it by time first"
    raise InputError(f"{feed.name}: {error}", hint=hint) from None


def _import_requests(
    run: Reading,
    feed: Feed,
    *,
    folder: Path,
    options: ImportOptions,
    sorting: Sorting | None = None,
) -> TraceInfo:
    rows = run.batches(sorting=sorting)
    with closing(ahead(rows, most=BATCHES_AHEAD, on_stop=lambda: stop_feeds([feed]))) as batches:
        write_batches(folder / "requests.parquet", batches, schema=REQUESTS)
    feed.finish()
    if problem := feed.problem():
        raise problem
    _reject(run, feed.name, options)
    return import_info(run, feed, options=options)


def _reject(run: Reading, name: str, options: ImportOptions) -> None:
    lines, rows = run.lines, run.assembler.rows
    if lines.bad > options.most_bad_ratio * (rows + lines.bad):
        shown = "".join(f"\n  {lines.shown(example)}" for example in lines.examples)
        beyond = f", {run.beyond:,} of them far from the others" if run.bounds else ""
        raise InputError(
            f"{name}: {lines.bad:,} of {rows + lines.bad:,} lines are wrong{beyond}{shown}",
            hint="choose another --format or --unit, or allow more with --max-bad PERCENT",
        )
    if not rows:
        raise InputError(f"{name}: there is no request in it", hint="check the file")
    if not options.forces_units:
        _reject_units(run, name)


def _reject_units(run: Reading, name: str) -> None:
    """Raise OutlierError where nearly all numbers agree with the units, else InputError."""
    found = contradictions(run)
    told = "".join(f"\n  {text}" for text in found) + run.outliers.shown()
    bounds = run.outliers.bounds(is_contradicted=bool(found)) if run.bounds is None else None
    if bounds:
        message = f"{name}: some lines lie far from all others{told}"
        hint = "take these lines out, or give it as a file: a few such lines are left out then"
        raise OutlierError(message, bounds=bounds, hint=hint)
    if found:
        hint = "give the right --unit, or --force-units if it is so"
        raise InputError(f"{name}: the units contradict the numbers{told}", hint=hint)

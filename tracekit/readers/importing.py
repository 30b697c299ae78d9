"""Imports the trace of another tool: chooses the reader, writes the trace folder."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from tracekit.errors import InputError, UnorderedError, UsageError
from tracekit.metadata import TraceInfo
from tracekit.prefetch import ahead
from tracekit.readers import checkpoint
from tracekit.readers.assemble import Sorting
from tracekit.readers.checkpoint import FIRST, Again
from tracekit.readers.events import event_text, import_capture, import_events, import_perfetto
from tracekit.readers.files import STANDARD_INPUT, find_files, is_blktrace, readable_head
from tracekit.readers.format_files import with_format_file
from tracekit.readers.formats import (
    find_format,
    hint_of_words,
)
from tracekit.readers.import_info import (
    contradictions,
    import_info,
    inferences,
    judgement_of,
    times_in_words,
)
from tracekit.readers.memory import find_memory_format, import_memory
from tracekit.readers.octf import import_octf, is_chosen
from tracekit.readers.outliers import OutlierError
from tracekit.readers.parsed import (
    DecodedText,
    Decoder,
    ParsedReading,
    joining_of,
    text_of,
)
from tracekit.readers.perfetto import PERFETTO, is_perfetto
from tracekit.readers.pieces import by_name, by_time
from tracekit.readers.rbd_replay import BANNER, RBD_REPLAY, import_actions
from tracekit.readers.reading import HEAD_BYTES, Reading, blocks_of, whole_lines
from tracekit.readers.restarts import RestartError
from tracekit.readers.salvage import is_text
from tracekit.readers.stream import (
    Feed,
    finish_feeds,
    open_all,
    open_feeds,
    stop_feeds,
    take_head,
)
from tracekit.readers.text import KEPT_EXAMPLES, TextFormat
from tracekit.readers.units import (
    DEFAULTS,
    Import,
    ImportOptions,
    OnBytes,
    listed,
    show_example,
)
from tracekit.readers.unknown import reject_known
from tracekit.store import TraceFolder, new_folder, scratch_folder, write_info, write_on
from tracekit.tables import REQUESTS

BATCHES_AHEAD = 8  # of the requests of a block; a row group is written in one go


def import_trace(
    source: Path | Sequence[Path],
    output: Path,
    *,
    options: ImportOptions = DEFAULTS,
    on_bytes: OnBytes = lambda _done, _total: None,
    decoder: Decoder | None = None,
) -> TraceFolder:
    """Import the trace into the new trace folder `output`, and return it.

    `source` is a file; of an OCTF trace its folder or the files of its cpus. With a `decoder`, if
    the trace is a text of which it can decode the parts, the folder has no table of requests.

    Raise InputError when its format is unknown, too many lines are wrong, or numbers contradict
    their units; then nothing is left behind.
    """
    options = with_format_file(options)
    files = find_files([source] if isinstance(source, Path) else source)
    state = checkpoint.found(output, files, options=options)
    goes_on = checkpoint.NAME if state else None
    with new_folder(output, overwrite=options.overwrite, goes_on=goes_on) as folder:
        run = Import(files, folder, options, on_bytes, decoder)
        with open_feeds(files, salvages=options.salvages, is_late=True) as opened:
            feeds, head = _take_readable(opened)
            info = _import_feeds(feeds, head, run, state)
        checkpoint.clear(folder)
        write_info(folder, info, made_by="import")
    return TraceFolder(output)


def _take_readable(opened: Sequence[Feed]) -> tuple[list[Feed], bytes]:
    feeds, head = take_head(opened, HEAD_BYTES)
    return feeds, readable_head(head, feeds[0].name)


def _import_feeds(
    feeds: Sequence[Feed], head: bytes, run: Import, state: checkpoint.State | None
) -> TraceInfo:
    """Import by what the trace is; return the content of trace.json."""
    if whole := _import_whole(feeds, head, run):
        return whole
    text = event_text(head, run.options)
    if text is None and is_chosen(head, run.options):
        reject_known(run.options, [], name=feeds[0].name, form="OCTF")
        open_all(feeds)
        return import_octf(feeds, run, head=head)
    memory = None if text is not None else find_memory_format(head, run.options)
    if len(feeds) > 1 and (text is not None or memory):
        message = f"{len(feeds)} files: a trace of events or memory accesses is of one"
        raise UsageError(message, hint="import each file by itself")
    if text is not None:
        return import_events(feeds[0], text, run=run)
    if memory:
        reject_known(run.options, [], name=feeds[0].name, form="a trace of memory accesses")
        texts = blocks_of(feeds[0].fd, head, whole=whole_lines)
        return import_memory(feeds[0], form=memory, run=run, texts=texts)
    if len(feeds) > 1:
        stop_feeds(feeds)
        run = _in_order(run, head)
    return _import_text(feeds, head, run, state)


def _import_whole(feeds: Sequence[Feed], head: bytes, run: Import) -> TraceInfo | None:
    """Import a capture, or a trace that must be known as a whole before its first request."""
    form, feed = run.options.form, feeds[0]
    if is_blktrace(head):
        reject_known(run.options, [], name=feed.name, form="a capture of blktrace")
        return import_capture(feeds, head, run=run)
    is_of_perfetto = form in (None, PERFETTO) and is_perfetto(head)
    if not is_of_perfetto and not (form in (None, RBD_REPLAY) and head.startswith(BANNER)):
        return None
    if len(feeds) > 1:
        message = f"{len(feeds)} files: a trace of Perfetto or rbd-replay is one"
        raise UsageError(message, hint="import each file by itself")
    if is_of_perfetto:
        return import_perfetto(feed, head, run=run)
    reject_known(run.options, [], name=feed.name, form="a trace of rbd-replay")
    return import_actions(feed, head, run=run)


def _in_order(run: Import, head: bytes) -> Import:
    """Return the import of several texts in the order of their numbers or their times."""
    named = by_name(run.files)
    form = find_format(head, head, name=str(named[0]), options=run.options)
    if not isinstance(form, TextFormat) or STANDARD_INPUT in named:
        message = f"{len(named)} files: records and pipes are imported one by one"
        raise UsageError(message, hint="import each file by itself")
    form = replace(form, units=form.units.overridden(run.options.units))
    return replace(run, files=by_time(named, form, salvages=run.options.salvages))


def _import_text(
    feeds: Sequence[Feed], head: bytes, run: Import, state: checkpoint.State | None
) -> TraceInfo:
    """Import the requests of a text or of records, which is read again as it turns out to be."""
    name, is_pipe = feeds[0].name, feeds[0].total_bytes is None
    again, decoded = state.again if state else FIRST, None
    if run.decoder is not None:
        decoded = _decoded_by(run.decoder, feeds, run)
    while True:
        try:
            if decoded is not None and again.shifts is None:
                return _import_decoded(decoded, run, again)
            if again == FIRST and len(feeds) == 1:
                read = Reading(feeds, run, start=head, again=again)
                return _import_requests(read, feeds, run, state=state)
            if state is None and again != FIRST:
                checkpoint.begin_again(run, again)
            return _import_again(run, again, state)
        except UnorderedError as error:
            if is_pipe:
                hint = "give the trace as a file, which can be read again, or sort it by time first"
                raise InputError(f"{name}: {error}", hint=hint) from None
            again = replace(again, is_sorted=True)
        except (OutlierError, RestartError) as error:
            if is_pipe:
                raise InputError(*str(error).split("\n"), hint=error.hint) from None
            if isinstance(error, OutlierError):
                again = replace(again, bounds=error.bounds)
            else:
                again = replace(again, shifts=error.shifts, is_sorted=False)
        state = None


def _decoded_by(decoder: Decoder, feeds: Sequence[Feed], run: Import) -> DecodedText | None:
    """Have a text decoded; None where its parts cannot be: then it is read here."""
    if feeds[0].total_bytes is None:
        return None
    with open_feeds(run.files, salvages=run.options.salvages, is_late=True) as opened:
        found, head = _take_readable(opened)
        text = text_of(Reading(found, run, start=head, again=FIRST))
    if text is None:
        return None
    stop_feeds(feeds)
    return DecodedText(text, head, decoder.decode(text))


def _import_decoded(found: DecodedText, run: Import, again: Again) -> TraceInfo:
    """Conclude what a text is from its decoded parts; its rows are joined later."""
    feeds = found.feeds()
    with ExitStack() as stack:
        sorting = None
        if again.is_sorted:
            sorting = Sorting(stack.enter_context(scratch_folder(run.folder / "sorting")))
        read = ParsedReading(feeds, run, start=found.head, again=again, decoded=found.parts)
        info = _import_requests(read, feeds, run, sorting=sorting)
    run.decoder.take(joining_of(read, found, options=run.options))
    return info


def _import_again(run: Import, again: Again, state: checkpoint.State | None) -> TraceInfo:
    """Import a trace file by file, or once more: in order, without outliers, or with one clock."""
    with ExitStack() as stack:
        sorting = None
        if again.is_sorted:
            sorting = Sorting(stack.enter_context(scratch_folder(run.folder / "sorting")))
        late = open_feeds(run.files, salvages=run.options.salvages, is_late=True)
        feeds, head = _take_readable(stack.enter_context(late))
        read = Reading(feeds, run, start=head, again=again)
        return _import_requests(read, feeds, run, sorting=sorting, state=state)


def _import_requests(
    read: Reading,
    feeds: Sequence[Feed],
    run: Import,
    *,
    sorting: Sorting | None = None,
    state: checkpoint.State | None = None,
) -> TraceInfo:
    if state is not None:
        read.go_on(state)
    written = None if state is None else state.table
    rows = read.batches(sorting=sorting)
    with closing(ahead(rows, most=BATCHES_AHEAD, on_stop=lambda: stop_feeds(feeds))) as batches:
        if isinstance(read, ParsedReading):
            deque(batches, maxlen=0)
        else:
            write_on(run.table, batches, schema=REQUESTS, written=written)
    finish_feeds(feeds)
    try:
        _reject(read, read.name, run.options)
        _reject_restarts(read, read.name, run.options)
    except (OutlierError, RestartError):
        raise
    except InputError as error:
        raise _explained(error, read, run.options) from None
    return import_info(read, feeds, options=run.options)


def _explained(error: InputError, read: Reading, options: ImportOptions) -> InputError:
    """Return the error, and how format and units were judged if the user asks for it."""
    if not options.explains:
        return error
    found = [one for one in inferences(read, options) if one.what != "clock"]
    said = (f"{one.what}: {one.value} ({one.evidence})" for one in found)
    return InputError(*str(error).split("\n"), *listed(said), hint=error.hint)


def _hint_of(read: Reading) -> str:
    """Return what to do about the wrong lines."""
    form, lines = read.format, [text for _, text in read.lines.examples]
    if isinstance(form, TextFormat) and (found := form.unknown_words(lines)):
        return hint_of_words(found)
    if any(damage.zeros for damage in read.damages) and is_text(read.head):
        return "pass over what is damaged: --salvage; or choose another --format or --unit"
    hint = "choose another --format or --unit, or allow more with --max-bad PERCENT"
    line = lines[-1] if lines and any(map(str.isdigit, lines[-1])) else ""
    wrong = form.wrong_word(line) if type(form) is TextFormat and line else ""
    return f"of the last of these lines {wrong}; {hint}" if wrong else hint


def _reject_restarts(read: Reading, name: str, options: ImportOptions) -> None:
    """Raise InputError for a clock that starts again, RestartError to have one clock."""
    later = read.restarts.doubted()
    if not later or options.join == "overlay":
        return
    message = f"{name}: its clock starts again {times_in_words(len(later))}"
    shown = [f"at {part.shown}" for part in later[:KEPT_EXAMPLES]]
    if options.join == "sequence":
        hint = "give the trace as a file, which can be read again"
        raise RestartError(message, *listed(shown), shifts=read.restarts.shifts(), hint=hint)
    hint = (
        "traces one after the other: --join sequence; of the same time, as of several disks:"
        " --join overlay"
    )
    raise InputError(message, *listed(shown), hint=hint)


def _has_too_many(read: Reading, options: ImportOptions) -> bool:
    """Say whether too many lines are wrong: of all, or of those of damaged files or of others."""
    bad, lines = read.lines.bad, read.assembler.rows + read.lines.bad
    if (most := options.most_bad_ratio) is not None:
        return bad > most * lines
    damaged_bad, rows = read.of_damaged()
    damaged = rows + damaged_bad
    is_damaged = damaged_bad > options.bad_ratio(is_damaged=True) * damaged
    return is_damaged or bad - damaged_bad > options.bad_ratio(is_damaged=False) * (lines - damaged)


def _reject(read: Reading, name: str, options: ImportOptions) -> None:
    """Raise InputError for too many wrong lines, no requests, or units that cannot be.

    It is an OutlierError where nearly all numbers agree with the units.
    """
    lines, rows = read.lines, read.assembler.rows
    if _has_too_many(read, options):
        beyond = f", {read.beyond:,} of them far from the others" if read.bounds else ""
        passed_over = [text for feed in read.feeds for text in feed.passed_over()]
        shown = [*passed_over, *map(show_example, lines.examples)]
        if other := read.other_part():
            shown.append(other.in_words(read.format.name))
        raise InputError(
            f"{name}: {lines.bad:,} of {rows + lines.bad:,} lines are wrong{beyond}",
            *listed(shown),
            hint=other.hint if other else _hint_of(read),
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

"""Imports captures of blktrace and texts of the kernel's events, by the decoder of `parse`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from tracekit._native.decode import Text, detect_text
from tracekit.errors import InputError, UsageError
from tracekit.metadata import Source, TraceInfo, inferences_of, warnings_of
from tracekit.readers import metadata
from tracekit.readers.blktrace import EventText, ParseOptions, decode_feeds
from tracekit.readers.drivers import NAMES, block_of, reject_block
from tracekit.readers.files import layout_of, unread_cpus
from tracekit.readers.formats import known_format, reject_two
from tracekit.readers.metadata import EVENT_TEXTS
from tracekit.readers.perfetto import PERFETTO, Found, read_perfetto
from tracekit.readers.stream import Feed, finish_feeds, open_feeds, stop_feeds, take_head
from tracekit.readers.units import SHOWN_CHARACTERS, Import, ImportOptions
from tracekit.readers.unknown import PAGES, reject_known
from tracekit.store import scratch_folder

READ_BYTES = 1 << 16
EVENT_END = re.compile(rb" \+ \d+( [^\[\]]*)? \[[^\[\]]*\]\s*$")
"""Length and process of an event, with which its line ends."""


def event_text(head: bytes, options: ImportOptions) -> EventText | None:
    """Return the text of events that a file with this head is, or None when it is another file.

    Raise UsageError when the user chose what does not go together.
    """
    is_user_format = options.columns or options.regex
    if options.blkparse_format is not None:
        if is_user_format or options.form not in (None, "blkparse"):
            message = "--blkparse-format names the columns, as --format, --columns and --regex do"
            raise UsageError(message, hint="give one of them")
        return EventText(Text.FORM, head, options.blkparse_format)
    kind = Text.NONE
    if not is_user_format and (options.form is None or options.form in EVENT_TEXTS):
        kind = EVENT_TEXTS.get(options.form or "", Text.NONE) or detect_text(head)
    if kind != Text.NONE:
        return EventText(kind, head)
    if options.form in EVENT_TEXTS:
        message = f"--format {options.form}: the first lines are not of it"
        raise InputError(message, hint="leave --format out: formats are known by their content")
    if options.layout_file is not None:
        message = "--layout belongs to text dumps of events, which this file is not"
        raise UsageError(message, hint="name roles with: tracekit classify --layout")
    return None


def import_events(feed: Feed, text: EventText, *, run: Import) -> TraceInfo:
    """Decode the text into the table of requests; return the content of trace.json.

    Raise InputError when too many lines are wrong or there is no event.
    """
    options = run.options
    if options.form is None:
        _reject_other_part(text.head, feed.name)
    lacks = [PAGES] if text.kind in NAMES else []
    reject_known(options, lacks, name=feed.name, form="a trace of the kernel's events")
    layout = layout_of([feed.path], options.layout_file)
    block = block_of(text.kind, text.head, given=options.page_bytes, layout=layout)
    text = replace(text, block=block)
    facts, tally = decode_feeds(
        [feed], layout, table=run.table, options=ParseOptions(text=text), on_bytes=run.on_bytes
    )
    name = metadata.format_name(text.kind, facts.stats)
    most = options.bad_ratio(is_damaged=feed.has_doubt)
    metadata.reject_bad_lines(facts, feed.name, name=name, most_bad_ratio=most)
    if not options.forces_units:
        metadata.reject_disorder(facts, feed.name)
        reject_block(facts.stats, block, kind=text.kind, file=feed.name)
    info = metadata.text_info(facts, tally.rows, layout=layout, kind=text.kind, block=block)
    cut = _cut_first_line(text.head)
    info.warnings += warnings_of([("cut_start", cut, cut)])
    return info


def _reject_other_part(head: bytes, name: str) -> None:
    """Raise InputError where lines of another known format stand before the first event."""
    lines = head.decode("utf-8", "replace").removesuffix("\n").split("\n")
    kinds = (detect_text(f"{line}\n".encode()) for line in lines)
    first = next((at for at, kind in enumerate(kinds) if kind != Text.NONE), 0)
    if first:
        reject_two(lines, first, then=known_format(lines[first:]), name=name)


def _cut_first_line(head: bytes) -> str:
    """Say in words that the first line lacks its beginning, as where a file was split; or ""."""
    line = head.partition(b"\n")[0]
    if not EVENT_END.search(line) or detect_text(line + b"\n") != Text.NONE:
        return ""
    shown = line.decode("utf-8", "replace").strip()[-SHOWN_CHARACTERS:]
    return f"the first line is the end of an event and was left out: {shown}"


def import_perfetto(feed: Feed, head: bytes, *, run: Import) -> TraceInfo:
    """Decode the kernel's events in a trace of Perfetto; return the content of trace.json.

    `head` was read from the feed already. Raise InputError for damage, or where there are none.
    """
    with scratch_folder(run.folder / "events") as scratch:
        found = Found(scratch)
        read_perfetto(feed, head, found=found, on_bytes=run.on_bytes)
        finish_feeds([feed])
        if not found.lines and not found.runs:
            message = f"{feed.name}: a trace of Perfetto without events of blocks and UFS"
            hint = (
                "trace with ftrace_events: block/block_rq_issue, block/block_rq_complete and so on"
            )
            raise InputError(message, f"  {found.passed()} are passed over", hint=hint)
        kind = Text.KERNEL if found.has_blocks else Text.UFS
        with open_feeds([found.text()]) as opened:
            opened[0].path = feed.path  # for messages, and what lies beside it
            _, first = take_head(opened, READ_BYTES)
            told = import_events(opened[0], EventText(kind, first), run=run)
    told.source = Source(format=PERFETTO, files=[feed.describe()])
    if found.others:
        told.inferences += inferences_of([("passed over", found.passed(), "no events of a disk")])
    return told


def import_capture(feeds: Sequence[Feed], head: bytes, *, run: Import) -> TraceInfo:
    """Decode captures of blktrace as `parse` does; return the content of trace.json.

    Files are read from their beginning again; a pipe goes on behind its head.
    """
    options = run.options
    pipes = [feed for feed in feeds if feed.total_bytes is None]
    if pipes and len(feeds) > 1:
        message = f"{pipes[0].name}: a pipe among several files of blktrace"
        raise InputError(message, hint="run in place of import: tracekit parse")
    known = options.units, options.columns, options.regex, options.blkparse_format
    if options.form or any(known):
        message = f"{run.files[0]}: a capture of blktrace, whose columns and units are known"
        hint = "leave --format, --unit, --columns, --regex and --blkparse-format out"
        raise UsageError(message, hint=hint)
    if not pipes:
        stop_feeds(feeds)
    layout = layout_of(run.files, options.layout_file)
    with nullcontext(pipes) if pipes else open_feeds(run.files) as opened:
        facts, tally = decode_feeds(
            opened,
            layout,
            table=run.table,
            options=ParseOptions(head=head if pipes else b""),
            on_bytes=run.on_bytes,
        )
    info = metadata.trace_info(facts, layout)
    info.counts = {**info.counts, **metadata.text_counts(facts, tally.rows)}
    info.warnings += metadata.unread_files(unread_cpus(run.files))
    return info

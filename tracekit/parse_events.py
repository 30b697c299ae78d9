"""Imports texts of events, whose lines become requests as in the binary captures, and those."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import InputError, UsageError
from tracekit.formats.events import (
    EVENT_TEXTS,
    format_name,
    line_counts,
    refuse_bad_lines,
    refuse_disorder,
    text_info,
)
from tracekit.formats.feed import Feed, open_feeds
from tracekit.formats.inputs import find_layout
from tracekit.formats.summary import trace_info
from tracekit.layout import Layout, read_layout
from tracekit.native.decode import Text, detect_text
from tracekit.parse import EventText, OnBytes, Options, decode_feeds

if TYPE_CHECKING:
    from tracekit.parse_blocks import Choice


def event_text(head: bytes, choice: Choice) -> EventText | None:
    """Return the text of events that a file with this head is, or None when it is another file.

    Raise UsageError when the user chose what does not go together.
    """
    own = choice.columns or choice.regex
    if choice.blkparse_format is not None:
        if own or choice.form not in (None, "blkparse"):
            message = "--blkparse-format names the columns, as --format, --columns and --regex do"
            raise UsageError(message, hint="give one of them")
        return EventText(Text.FORM, head, choice.blkparse_format)
    kind = Text.NONE
    if not own and (choice.form is None or choice.form in EVENT_TEXTS):
        kind = EVENT_TEXTS.get(choice.form or "", Text.NONE) or detect_text(head)
    if kind != Text.NONE:
        return EventText(kind, head)
    if choice.form in EVENT_TEXTS:
        message = f"--format {choice.form}: the first lines are not of it"
        raise InputError(message, hint="leave --format out: formats are known by their content")
    if choice.layout_file is not None:
        message = "--layout belongs to texts of events, and this file is none"
        raise UsageError(message, hint="name roles with: tracekit classify --layout")
    return None


def import_events(
    feed: Feed, text: EventText, *, folder: Path, choice: Choice, on_bytes: OnBytes
) -> dict[str, Any]:
    """Decode the text into the table of requests in `folder`; return the content of trace.json.

    Raise InputError when too many lines are wrong or no event is there.
    """
    if choice.units:
        message = "--unit: events of the kernel are always nanoseconds and sectors"
        raise UsageError(message, hint="leave --unit out")
    layout_file = choice.layout_file or find_layout([feed.path])
    layout = read_layout(layout_file) if layout_file else Layout()
    facts, tally = decode_feeds(
        [feed],
        layout,
        table=folder / "requests.parquet",
        options=Options(text=text),
        on_bytes=on_bytes,
    )
    name = format_name(text.kind, facts.stats)
    refuse_bad_lines(facts, feed.name, name=name, most_bad_ratio=choice.most_bad_ratio)
    if not choice.forces_units:
        refuse_disorder(facts, feed.name)
    return text_info(facts, tally.rows, layout=layout, name=name)


def import_capture(
    files: Sequence[Path],
    pipe: tuple[Feed, bytes] | None,
    *,
    folder: Path,
    choice: Choice,
    on_bytes: OnBytes,
) -> dict[str, Any]:
    """Decode captures of blktrace as `parse` does; return the content of trace.json.

    A `pipe`, of which the head was read, cannot be opened again as the files are.
    """
    if choice.form or choice.units or choice.columns or choice.regex:
        message = f"{files[0]}: a capture of blktrace, whose columns and units are known"
        raise UsageError(message, hint="leave --format, --unit, --columns and --regex out")
    layout_file = choice.layout_file or find_layout(files)
    layout = read_layout(layout_file) if layout_file else Layout()
    with nullcontext([pipe[0]]) if pipe else open_feeds(files) as feeds:
        facts, tally = decode_feeds(
            feeds,
            layout,
            table=folder / "requests.parquet",
            options=Options(head=pipe[1] if pipe else b""),
            on_bytes=on_bytes,
        )
    info = trace_info(facts, layout)
    info["counts"] |= line_counts(facts, tally.rows)
    return info

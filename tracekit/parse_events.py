"""Imports a text of events: its lines become requests by the pairing of the binary captures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import InputError, UsageError
from tracekit.formats.events import EVENT_TEXTS, format_name, lacks
from tracekit.formats.feed import Feed
from tracekit.formats.inputs import find_layout
from tracekit.formats.summary import Facts, trace_info
from tracekit.layout import Layout, read_layout
from tracekit.native.decode import Text, detect_text
from tracekit.parse import EventText, OnBytes, Options, Tally, decode_feeds
from tracekit.warnings import warning

if TYPE_CHECKING:
    from tracekit.parse_foreign import Choice


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
    _refuse(facts, feed.name, name, most_bad_ratio=choice.most_bad_ratio)
    return _info(facts, tally, layout=layout, name=name)


def _refuse(facts: Facts, file: str, name: str, *, most_bad_ratio: float) -> None:
    stats = facts.stats
    told = stats.records + stats.bad_lines
    if stats.bad_lines > most_bad_ratio * told:
        shown = "".join(f"\n  line {number}: {text}" for number, text in facts.bad_lines)
        raise InputError(
            f"{file}: {stats.bad_lines:,} of {told:,} lines are wrong for {name}{shown}",
            hint="choose another --format, or allow more with --max-bad PERCENT",
        )


def _info(facts: Facts, tally: Tally, *, layout: Layout, name: str) -> dict[str, Any]:
    stats = facts.stats
    info = trace_info(facts, layout)
    info["source"]["format"] = name
    info["counts"] |= {
        "operations": {operation: rows for operation, rows in tally.rows.items() if rows},
        "passed_lines": stats.passed_lines,
        "bad_lines": stats.bad_lines,
        "bad_examples": [{"line": number, "text": text} for number, text in facts.bad_lines],
    }
    info["loss"]["dropped"] += stats.told_lost
    info["inferences"] += lacks(name, stats)
    if stats.bad_lines:
        message = f"{stats.bad_lines:,} lines were wrong and left out"
        info["warnings"].append(warning("bad_lines", message))
    if stats.told_lost:
        message = f"the text itself says that {stats.told_lost:,} events were lost"
        info["warnings"].append(warning("lost_records", message))
    return info

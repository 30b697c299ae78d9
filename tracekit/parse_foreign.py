"""Imports a trace of another tool into a new trace folder, in place of the first stage."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import __version__
from tracekit.errors import InputError, UnorderedError, UsageError
from tracekit.formats.feed import Feed, open_feeds, stop_feeds, take_head
from tracekit.formats.fio import FioLog
from tracekit.formats.heads import is_blktrace, readable_head
from tracekit.formats.inputs import find_files
from tracekit.formats.text import BadLines, TextFormat
from tracekit.parse_blocks import HEAD_BYTES, PLAIN, Choice, OnBytes, Reading
from tracekit.parse_events import event_text, import_capture, import_events
from tracekit.parse_octf import import_octf, is_chosen
from tracekit.read_ahead import ahead
from tracekit.schema import REQUESTS, SCHEMA_VERSION
from tracekit.store import (
    INFO_NAME,
    TraceFolder,
    new_folder,
    scratch_folder,
    write_batches,
    write_json,
)
from tracekit.warnings import warning

if TYPE_CHECKING:
    from tracekit.formats.sorting import Sorting

__all__ = ["Choice", "import_trace"]

BATCHES_AHEAD = 8  # of the requests of a block; a row group is written in one go


def import_trace(
    source: Path | Sequence[Path],
    output: Path,
    *,
    choice: Choice = PLAIN,
    on_bytes: OnBytes = lambda _done, _total: None,
) -> TraceFolder:
    """Import the trace into the new trace folder `output`, and return it.

    `source` is a file; of an OCTF trace its folder or the files of its cpus.

    Raise InputError when it is of no known format, has too many wrong lines, or numbers that
    contradict their units; then nothing is left behind.
    """
    files = find_files([source] if isinstance(source, Path) else source)
    with new_folder(output, overwrite=choice.overwrite) as folder:
        with open_feeds(files) as opened:
            feeds, head = take_head(opened, HEAD_BYTES)
            head = readable_head(head, feeds[0].name)
            info = _import_feeds(
                files, feeds, head, folder=folder, choice=choice, on_bytes=on_bytes
            )
        write_json(folder / INFO_NAME, info)
    return TraceFolder(output)


def _import_feeds(
    files: Sequence[Path],
    feeds: Sequence[Feed],
    head: bytes,
    *,
    folder: Path,
    choice: Choice,
    on_bytes: OnBytes,
) -> dict[str, Any]:
    """Import by what the trace is; return what trace.json shall say."""
    if is_blktrace(head):
        return _import_capture(files, feeds, head, folder=folder, choice=choice, on_bytes=on_bytes)
    text = event_text(head, choice)
    if text is None and is_chosen(head, choice):
        return import_octf(feeds, head, folder=folder, choice=choice, on_bytes=on_bytes)
    if len(feeds) > 1:
        message = f"{len(feeds)} files: only a blktrace or OCTF trace is of several"
        raise UsageError(message, hint="import each file by itself")
    if text is not None:
        return import_events(feeds[0], text, folder=folder, choice=choice, on_bytes=on_bytes)
    run = Reading(feeds[0], choice, start=head, on_bytes=on_bytes)
    try:
        return _import_requests(run, feeds[0], folder=folder, choice=choice)
    except UnorderedError as error:
        _refuse_pipe(feeds[0], error)
    return _import_sorted(files, folder=folder, choice=choice, on_bytes=on_bytes)


def _import_capture(
    files: Sequence[Path],
    feeds: Sequence[Feed],
    head: bytes,
    *,
    folder: Path,
    choice: Choice,
    on_bytes: OnBytes,
) -> dict[str, Any]:
    """Import a capture of blktrace: files are read from their beginning again, a pipe goes on."""
    pipes = [feed for feed in feeds if feed.total_bytes is None]
    if pipes and len(feeds) > 1:
        message = f"{pipes[0].name}: a pipe among several files of blktrace"
        raise InputError(message, hint="run in place of import: tracekit parse")
    if not pipes:
        stop_feeds(feeds)
    pipe = (pipes[0], head) if pipes else None
    return import_capture(files, pipe, folder=folder, choice=choice, on_bytes=on_bytes)


def _import_sorted(
    files: Sequence[Path], *, folder: Path, choice: Choice, on_bytes: OnBytes
) -> dict[str, Any]:
    """Import a trace once more, all of whose requests are put in order first."""
    from tracekit.formats.sorting import Sorting

    with scratch_folder(folder / "sorting") as scratch, open_feeds(files) as opened:
        feeds, head = take_head(opened, HEAD_BYTES)
        head = readable_head(head, feeds[0].name)
        run = Reading(feeds[0], choice, start=head, on_bytes=on_bytes)
        sorting = Sorting(scratch)
        return _import_requests(run, feeds[0], folder=folder, choice=choice, sorting=sorting)


def _refuse_pipe(feed: Feed, error: UnorderedError) -> None:
    if feed.total_bytes is None:
        hint = "give the trace as a file, which can be read once more, or sort it by time first"
        raise InputError(f"{feed.name}: {error}", hint=hint) from None


def _import_requests(
    run: Reading, feed: Feed, *, folder: Path, choice: Choice, sorting: Sorting | None = None
) -> dict[str, Any]:
    rows = run.batches(sorting=sorting)
    with closing(ahead(rows, most=BATCHES_AHEAD, on_stop=lambda: stop_feeds([feed]))) as batches:
        write_batches(folder / "requests.parquet", batches, schema=REQUESTS)
    feed.finish()
    if problem := feed.problem():
        raise problem
    _refuse(run, feed.name, choice)
    return _info(run, feed, choice)


def _refuse(run: Reading, name: str, choice: Choice) -> None:
    lines, rows = run.lines, run.assembler.rows
    if lines.bad > choice.most_bad_ratio * (rows + lines.bad):
        shown = "".join(f"\n  line {number}: {text}" for number, text in lines.examples)
        raise InputError(
            f"{name}: {lines.bad:,} of {rows + lines.bad:,} lines are wrong{shown}",
            hint="choose another --format, or allow more with --max-bad PERCENT",
        )
    if not rows:
        raise InputError(f"{name}: there is no request in it", hint="check the file")
    found = _contradictions(run)
    if found and not choice.forces_units:
        told = "".join(f"\n  {text}" for text in found)
        hint = "give the right --unit, or --force-units if it is so"
        raise InputError(f"{name}: the units contradict the numbers{told}", hint=hint)


def _contradictions(run: Reading) -> list[str]:
    made = run.assembler
    return made.evidence.contradictions(span_ns=made.last_ns, first_ns=made.first_ns)


def _inferences(run: Reading, choice: Choice) -> list[dict[str, Any]]:
    """Return what was taken of the format and its units, and who said so."""
    units, pairs = run.units, run.assembler.evidence.pairs
    evidence = f"sequential pairs: {pairs['bytes']:,} as bytes, {pairs['sectors']:,} as sectors"
    lengths = f"{_source(run, choice, 'length')}; {evidence}"
    return [
        {"what": "format", "value": run.format.name, "evidence": _format_evidence(run)},
        {"what": "unit of lengths", "value": units.length, "evidence": lengths},
        {
            "what": "unit of places",
            "value": units.offset,
            "evidence": _source(run, choice, "offset"),
        },
        {"what": "unit of times", "value": units.time, "evidence": _time_evidence(run, choice)},
    ]


def _info(run: Reading, feed: Feed, choice: Choice) -> dict[str, Any]:
    made, units = run.assembler, run.units
    facts = dict.fromkeys(("major", "minor", "size_sectors", "logical_sector_bytes", "rotational"))
    return {
        "schema": SCHEMA_VERSION,
        "tool": {"tracekit": __version__},
        "source": {"format": run.format.name, "kernel": None, "files": [feed.describe()]},
        "clock": {
            "base_ns": made.first_ns,
            "wall_ns": made.first_ns if units.is_wall and made.first_ns >= 0 else None,
            "duration_ns": made.last_ns,
        },
        "devices": [{"device": name, **facts} for name in made.devices],
        "layout": [],
        "counts": {
            "records": made.rows + run.lines.bad,
            "requests": made.rows,
            "operations": dict(made.operations),
            "preamble_lines": run.preamble,
            **_line_counts(run.lines),
            "rounded_places": made.rounded,
        },
        "loss": {"has_sequence_numbers": False, "sequence_gaps": 0, "lost_records": 0}
        | {"dropped": 0, "unmatched": {}},
        "inferences": _inferences(run, choice),
        "warnings": _warnings(run),
    }


def _format_evidence(run: Reading) -> str:
    return run.format.evidence if isinstance(run.format, TextFormat) else "the first records"


def _line_counts(lines: BadLines) -> dict[str, Any]:
    return {
        "passed_lines": lines.passed,
        "bad_lines": lines.bad,
        "bad_examples": [{"line": line, "text": text} for line, text in lines.examples],
    }


def _source(run: Reading, choice: Choice, name: str) -> str:
    """Return who says the unit of this: the user, a header, or else the format."""
    if any(unit.startswith(f"{name}=") for unit in choice.units):
        return "given by the user"
    if choice.columns or choice.regex:
        return "not given, that of a text of one's own"
    own = run.format.name == "own"
    return _format_evidence(run) if own else f"format {run.format.name}"


def _time_evidence(run: Reading, choice: Choice) -> str:
    given = _source(run, choice, "time")
    if isinstance(run.format, FioLog) and run.format.version == 2:
        return f"{given}; waits count from fio's start, requests between two share the time"
    if isinstance(run.format, TextFormat) and "time" not in run.format.columns:
        return "the format has no times: a request each microsecond, in its order"
    return given


def _warnings(run: Reading) -> list[dict[str, Any]]:
    made = run.assembler
    doubts = _contradictions(run) + made.evidence.doubts(span_ns=made.last_ns)
    found = [
        ("no_completions", not made.responses, "no request completes in this trace"),
        ("bad_lines", run.lines.bad, f"{run.lines.bad:,} lines were wrong and left out"),
        ("doubtful_units", doubts, "; ".join(doubts)),
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

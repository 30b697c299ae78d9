"""Imports a trace of another tool into a new trace folder, in place of the first stage."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import __version__
from tracekit.errors import InputError, UsageError
from tracekit.formats.blocks import blocks_of, whole_lines, whole_records
from tracekit.formats.catalogue import Format, choose_format
from tracekit.formats.feed import Feed, open_feeds, stop_feeds, take_head
from tracekit.formats.fio import FioLog
from tracekit.formats.foreign import Columns, Units
from tracekit.formats.headed import contradicts, headed_format
from tracekit.formats.heads import is_blktrace, readable_head
from tracekit.formats.inputs import find_files
from tracekit.formats.own import own_format
from tracekit.formats.pattern import own_pattern
from tracekit.formats.text import BadLines, TextFormat
from tracekit.parse import ahead
from tracekit.parse_events import event_text, import_capture, import_events
from tracekit.parse_octf import import_octf, is_chosen
from tracekit.schema import REQUESTS, SCHEMA_VERSION
from tracekit.store import INFO_NAME, TraceFolder, new_folder, write_batches, write_json
from tracekit.warnings import warning

if TYPE_CHECKING:
    from tracekit.formats.assemble import Assembler

HEAD_BYTES = 1 << 16
BLOCKS_AHEAD = 1
BATCHES_AHEAD = 8  # of the requests of a block; a row group is written in one go


@dataclass(frozen=True)
class Choice:
    """How to import; the defaults are those of the command."""

    form: str | None = None
    columns: str | None = None
    delimiter: str = ","
    units: tuple[str, ...] = ()
    forces_units: bool = False
    most_bad_ratio: float = 0.01
    overwrite: bool = False
    regex: str | None = None
    """A line of the user's own text, with named groups; in place of `columns`."""
    blkparse_format: str | None = None
    """What was given to `blkparse -f`."""
    layout_file: Path | None = None
    """Of a text of events; default: layout.json beside it."""


OnBytes = Callable[[int, int | None], None]


class _Import:
    """One import while it runs."""

    def __init__(self, feed: Feed, choice: Choice, *, start: bytes, on_bytes: OnBytes) -> None:
        from tracekit.formats.assemble import Assembler

        self._feed, self._choice, self._on_bytes = feed, choice, on_bytes
        self.lines = BadLines()
        self._rest = head = start
        whole = head if len(head) < HEAD_BYTES else head[: head.rfind(b"\n") + 1] or head
        self.format: Format = _own(choice) or _matching(head, whole, feed.name, choice)
        self.units: Units = self.format.units.overridden(choice.units)
        self.preamble = 0
        operations = {}
        if isinstance(self.format, TextFormat):
            self.format = replace(self.format, units=self.units)
            self.preamble = self.lines.lines = self.format.preamble(whole)
            operations = dict(self.format.operations)
            self._rest = self._rest.split(b"\n", self.preamble)[-1]
        self.assembler: Assembler = Assembler(self.units, operations, "trace")

    def batches(self) -> Generator[Any]:
        """Yield the batches of requests, to the end of the file; the next are decoded meanwhile."""
        with closing(ahead(self._decoded(), most=BLOCKS_AHEAD)) as decoded:
            for columns in decoded:
                if (batch := self.assembler.add(columns)) is not None:
                    yield batch
        if (batch := self.assembler.finish()) is not None:
            yield batch

    def _decoded(self) -> Generator[Columns]:
        form = self.format
        whole = whole_lines if isinstance(form, TextFormat) else whole_records(form.record_bytes)
        for block in blocks_of(self._feed.fd, self._rest, whole=whole):
            if isinstance(form, TextFormat):
                columns = form.decode(_ended(block), self.lines)
            else:
                records = self._uncut(block, form.record_bytes)
                columns = form.decode(records) if records else None
            self._on_bytes(self._feed.done_bytes, self._feed.total_bytes)
            if columns is not None:
                yield columns

    def _uncut(self, block: memoryview, record_bytes: int) -> memoryview:
        """Return the block without a cut record at its end, which is counted."""
        if cut := len(block) % record_bytes:
            self.lines.bad += 1
            self.lines.add(0, f"{cut} bytes at the end are no whole record")
        return block[: len(block) - cut]


def _ended(block: memoryview) -> bytes | memoryview:
    return block if block[-1] == ord("\n") else bytes(block) + b"\n"


def _own(choice: Choice) -> TextFormat | None:
    if choice.columns and choice.regex:
        message = "--columns and --regex both name the columns"
        raise UsageError(message, hint="give one of them")
    if choice.regex:
        return own_pattern(choice.regex, units=choice.units)
    if choice.columns:
        return own_format(choice.columns, choice.delimiter, units=choice.units)
    return None


def _matching(head: bytes, whole: bytes, name: str, choice: Choice) -> Format:
    try:
        found = choose_format(whole, name, given=choice.form)
    except InputError:
        if headed := headed_format(head, units=choice.units):
            return headed
        return choose_format(head, name, given=choice.form)
    if choice.form is None and isinstance(found, TextFormat) and contradicts(head, found):
        return headed_format(head, units=choice.units) or found
    return found


def import_trace(
    source: Path | Sequence[Path],
    output: Path,
    *,
    choice: Choice = Choice(),
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
            is_capture = is_blktrace(head)
            text = None if is_capture else event_text(head, choice)
            is_octf = not is_capture and text is None and is_chosen(head, choice)
            if not (is_octf or is_capture) and len(feeds) > 1:
                message = f"{len(feeds)} files: only a blktrace or OCTF trace is of several"
                raise UsageError(message, hint="import each file by itself")
            if is_capture:
                stop_feeds(feeds)
                info = import_capture(files, folder=folder, choice=choice, on_bytes=on_bytes)
            elif is_octf:
                info = import_octf(feeds, head, folder=folder, choice=choice, on_bytes=on_bytes)
            elif text is not None:
                info = import_events(
                    feeds[0], text, folder=folder, choice=choice, on_bytes=on_bytes
                )
            else:
                run = _Import(feeds[0], choice, start=head, on_bytes=on_bytes)
                info = _import_requests(run, feeds[0], folder=folder, choice=choice)
        write_json(folder / INFO_NAME, info)
    return TraceFolder(output)


def _import_requests(run: _Import, feed: Feed, *, folder: Path, choice: Choice) -> dict[str, Any]:
    with closing(ahead(run.batches(), most=BATCHES_AHEAD)) as batches:
        try:
            write_batches(folder / "requests.parquet", batches, schema=REQUESTS)
        except BaseException:
            stop_feeds([feed])
            raise
    feed.finish()
    if problem := feed.problem():
        raise problem
    _refuse(run, feed.name, choice)
    return _info(run, feed, choice)


def _refuse(run: _Import, name: str, choice: Choice) -> None:
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


def _contradictions(run: _Import) -> list[str]:
    made = run.assembler
    return made.evidence.contradictions(span_ns=made.last_ns, first_ns=made.first_ns)


def _info(run: _Import, feed: Feed, choice: Choice) -> dict[str, Any]:
    made, units, pairs = run.assembler, run.units, run.assembler.evidence.pairs
    evidence = f"sequential pairs: {pairs['bytes']:,} as bytes, {pairs['sectors']:,} as sectors"
    given = (
        "given by the user"
        if choice.units or choice.columns or choice.regex
        else f"format {run.format.name}"
    )
    inferences = [
        {"what": "format", "value": run.format.name, "evidence": _format_evidence(run)},
        {"what": "unit of lengths", "value": units.length, "evidence": f"{given}; {evidence}"},
        {"what": "unit of places", "value": units.offset, "evidence": given},
        {"what": "unit of times", "value": units.time, "evidence": _time_evidence(run, given)},
    ]
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
        "inferences": inferences,
        "warnings": _warnings(run),
    }


def _format_evidence(run: _Import) -> str:
    return run.format.evidence if isinstance(run.format, TextFormat) else "the first records"


def _line_counts(lines: BadLines) -> dict[str, Any]:
    return {
        "passed_lines": lines.passed,
        "bad_lines": lines.bad,
        "bad_examples": [{"line": line, "text": text} for line, text in lines.examples],
    }


def _time_evidence(run: _Import, given: str) -> str:
    if isinstance(run.format, FioLog) and run.format.version == 2:
        return f"{given}; waits count from fio's start, requests between two share the time"
    if isinstance(run.format, TextFormat) and "time" not in run.format.columns:
        return "the format has no times: a request each microsecond, in its order"
    return given


def _warnings(run: _Import) -> list[dict[str, Any]]:
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

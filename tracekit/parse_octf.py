"""Imports an OCTF trace: its files, merged by time, become the table of requests."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import __version__
from tracekit.errors import InputError, UsageError
from tracekit.formats import octf
from tracekit.formats.feed import Feed, stop_feeds
from tracekit.formats.foreign import Columns
from tracekit.formats.text import BadLines
from tracekit.native.octf import OctfError, OctfReader, is_octf
from tracekit.read_ahead import ahead
from tracekit.schema import REQUESTS, SCHEMA_VERSION
from tracekit.store import write_batches

if TYPE_CHECKING:
    from tracekit.formats.assemble import Assembler
    from tracekit.parse_blocks import Choice

OnBytes = Callable[[int, int | None], None]
BATCHES_AHEAD = 1


def is_chosen(head: bytes, choice: Choice) -> bool:
    """Say whether the trace is one of OCTF; raise UsageError for a unit given with it."""
    if choice.form != octf.NAME:
        is_own = choice.form or choice.columns or choice.regex
        if is_own or not is_octf(head):
            return False
    if choice.units:
        message = "--unit: events of OCTF are always nanoseconds and sectors"
        raise UsageError(message, hint="leave --unit out")
    return True


class _Run:
    """One import while it runs."""

    def __init__(self, feeds: Sequence[Feed], reader: OctfReader, on_bytes: OnBytes) -> None:
        from tracekit.formats.assemble import Assembler

        self._feeds, self._reader, self._on_bytes = feeds, reader, on_bytes
        self.assembler: Assembler = Assembler(octf.UNITS, {}, octf.NAME)
        self.bad = BadLines()

    def batches(self) -> Generator[Any]:
        """Yield the batches of requests; raise InputError for what cannot be read on."""
        yield from self.assembler.batches(self._decoded())

    def _decoded(self) -> Iterator[Columns]:
        while len((found := self._read())["time"]):
            self._tell_progress()
            yield octf.columns_of(found, self._reader.devices())

    def _read(self) -> dict[str, Any]:
        try:
            return self._reader.read()
        except OctfError as error:
            feed = self._feeds[error.place.file]
            feed.wait_for_failure()
            raise feed.problem() or octf.refusal(feed.name, error.place) from None

    def _tell_progress(self) -> None:
        totals = [feed.total_bytes for feed in self._feeds]
        known = [total for total in totals if total is not None]
        done = sum(feed.done_bytes for feed in self._feeds)
        self._on_bytes(done, sum(known) if len(known) == len(totals) else None)

    def count_cuts(self) -> None:
        """Count the files that end within a message."""
        for number, feed in enumerate(self._feeds):
            if place := self._reader.cut(number):
                self.bad.bad += 1
                text = octf.TOLD[place.kind].format(value=place.value)
                self.bad.add(0, f"{feed.name}: byte {place.offset:,}: {text}")


def import_octf(
    feeds: Sequence[Feed], head: bytes, *, folder: Path, choice: Choice, on_bytes: OnBytes
) -> dict[str, Any]:
    """Read the trace into the table of requests in `folder`; return the content of trace.json.

    `head` was read from the first feed already. Raise InputError for damage and empty traces.
    """
    with OctfReader([feed.fd for feed in feeds], head) as reader:
        run = _Run(feeds, reader, on_bytes)
        made = ahead(run.batches(), most=BATCHES_AHEAD, on_stop=lambda: stop_feeds(feeds))
        with closing(made) as batches:
            write_batches(folder / "requests.parquet", batches, schema=REQUESTS)
        for feed in feeds:
            feed.finish()
            if problem := feed.problem():
                raise problem
        run.count_cuts()
        _refuse(run, feeds, choice)
        return _info(run, feeds, reader)


def _refuse(run: _Run, feeds: Sequence[Feed], choice: Choice) -> None:
    rows, bad = run.assembler.rows, run.bad
    if bad.bad > choice.most_bad_ratio * (rows + bad.bad):
        shown = "".join(f"\n  {text}" for _, text in bad.examples)
        raise InputError(
            f"{bad.bad:,} of {len(feeds):,} files are cut short{shown}",
            hint="copy them again, or allow more with --max-bad PERCENT",
        )
    if not rows:
        message = f"{feeds[0].name}: there is no request in it"
        raise InputError(message, hint="name the folder, which has a file for each cpu")


def _info(run: _Run, feeds: Sequence[Feed], reader: OctfReader) -> dict[str, Any]:
    stats, made = reader.stats(), run.assembler
    dropped = octf.dropped_events(feeds[0].path.parent)
    return {
        "schema": SCHEMA_VERSION,
        "tool": {"tracekit": __version__},
        "source": {
            "format": octf.NAME,
            "kernel": None,
            "files": [feed.describe() for feed in feeds],
        },
        "clock": {"base_ns": made.first_ns, "wall_ns": None, "duration_ns": made.last_ns},
        "devices": _devices(made.devices, reader),
        "layout": [],
        "counts": {
            "records": stats.messages + run.bad.bad,
            "requests": made.rows,
            "operations": dict(made.operations),
            "preamble_lines": 0,
            "passed_lines": stats.passed + stats.unknown,
            "bad_lines": run.bad.bad,
            "bad_examples": [{"line": line, "text": text} for line, text in run.bad.examples],
            "rounded_places": 0,
        },
        "loss": octf.loss(stats, dropped=dropped),
        "inferences": octf.inferences(stats, made.operations),
        "warnings": octf.doubts(stats, responses=made.responses, bad=run.bad.bad, dropped=dropped),
    }


def _devices(names: Sequence[str], reader: OctfReader) -> list[dict[str, Any]]:
    """Return the devices that have requests, with the size that the trace tells."""
    facts = dict.fromkeys(("major", "minor", "logical_sector_bytes", "rotational"))
    sizes = {octf.device_name(device): device.sectors for device in reader.devices()}
    return [{"device": name, **facts, "size_sectors": _size(sizes.get(name, 0))} for name in names]


def _size(sectors: int) -> int | None:
    return sectors if 0 < sectors <= octf.LARGEST_SIZE_SECTORS else None

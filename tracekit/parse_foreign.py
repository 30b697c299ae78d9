"""Imports a trace of another tool into a new trace folder, in place of the first stage."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import InputError, UnorderedError, UsageError
from tracekit.formats.feed import Feed, open_feeds, stop_feeds, take_head
from tracekit.formats.foreign import StrayError
from tracekit.formats.heads import is_blktrace, readable_head
from tracekit.formats.inputs import find_files
from tracekit.parse_blocks import HEAD_BYTES, PLAIN, Choice, OnBytes, Reading
from tracekit.parse_events import event_text, import_capture, import_events
from tracekit.parse_octf import import_octf, is_chosen
from tracekit.parse_told import contradictions, trace_info
from tracekit.read_ahead import ahead
from tracekit.schema import REQUESTS
from tracekit.store import (
    INFO_NAME,
    TraceFolder,
    new_folder,
    scratch_folder,
    write_batches,
    write_json,
)

if TYPE_CHECKING:
    from tracekit.formats.sorting import Sorting
    from tracekit.formats.strays import Bounds

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
    except (UnorderedError, StrayError) as error:
        _refuse_pipe(feeds[0], error)
        again = Again().after(error)
    while True:
        try:
            return _import_again(files, again, folder=folder, choice=choice, on_bytes=on_bytes)
        except (UnorderedError, StrayError) as error:
            again = again.after(error)


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


@dataclass(frozen=True)
class Again:
    """How to read a trace once more, by what was found the times before."""

    is_sorted: bool = False
    bounds: Bounds | None = None

    def after(self, error: UnorderedError | StrayError) -> Again:
        """Return how to read it after this error; each of the two comes once."""
        if isinstance(error, StrayError):
            return replace(self, bounds=error.bounds)
        return replace(self, is_sorted=True)


def _import_again(
    files: Sequence[Path], again: Again, *, folder: Path, choice: Choice, on_bytes: OnBytes
) -> dict[str, Any]:
    """Import a trace once more: all of its requests put in order first, or without strays."""
    from tracekit.formats.sorting import Sorting

    with scratch_folder(folder / "sorting") as scratch, open_feeds(files) as opened:
        feeds, head = take_head(opened, HEAD_BYTES)
        head = readable_head(head, feeds[0].name)
        run = Reading(feeds[0], choice, start=head, on_bytes=on_bytes, bounds=again.bounds)
        sorting = Sorting(scratch) if again.is_sorted else None
        return _import_requests(run, feeds[0], folder=folder, choice=choice, sorting=sorting)


def _refuse_pipe(feed: Feed, error: UnorderedError | StrayError) -> None:
    if feed.total_bytes is not None:
        return
    if isinstance(error, StrayError):
        raise InputError(str(error), hint=error.hint) from None
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
    return trace_info(run, feed, choice=choice)


def _refuse(run: Reading, name: str, choice: Choice) -> None:
    lines, rows = run.lines, run.assembler.rows
    if lines.bad > choice.most_bad_ratio * (rows + lines.bad):
        shown = "".join(f"\n  {lines.shown(example)}" for example in lines.examples)
        beyond = f", {run.beyond:,} of them far from the others" if run.bounds else ""
        raise InputError(
            f"{name}: {lines.bad:,} of {rows + lines.bad:,} lines are wrong{beyond}{shown}",
            hint="choose another --format or --unit, or allow more with --max-bad PERCENT",
        )
    if not rows:
        raise InputError(f"{name}: there is no request in it", hint="check the file")
    if not choice.forces_units:
        _refuse_units(run, name)


def _refuse_units(run: Reading, name: str) -> None:
    """Raise StrayError where nearly all numbers agree with the units, else InputError."""
    found = contradictions(run)
    told = "".join(f"\n  {text}" for text in found) + run.strays.shown()
    bounds = run.strays.bounds(is_contradicted=bool(found)) if run.bounds is None else None
    if bounds:
        message = f"{name}: some lines lie far from all others{told}"
        hint = "take these lines out, or give it as a file: a few such lines are left out then"
        raise StrayError(message, bounds=bounds, hint=hint)
    if found:
        hint = "give the right --unit, or --force-units if it is so"
        raise InputError(f"{name}: the units contradict the numbers{told}", hint=hint)

"""Writes a trace for another tool and reports what its format could not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tracekit.errors import InputError
from tracekit.store import TraceFolder, beside, refuse_taken
from tracekit.writers.blkparse import BlkparseExport
from tracekit.writers.lines import FioExport, MsrExport
from tracekit.writers.oracle import OracleExport
from tracekit.writers.rows import ExportFormat, Outcome, Source

FORMATS: dict[str, ExportFormat] = {
    form.name: form for form in (BlkparseExport(), FioExport(), MsrExport(), OracleExport())
}


def export(
    folder: TraceFolder,
    form: str,
    *,
    output: Path,
    overwrite: bool = False,
    on_rows: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Any]:
    """Write the trace into `output`, and what the format wants beside it; return what was done.

    `left_out` counts requests by why they are not in it, `changed` those that are there with
    something else, `unheld` for each column missing in the format the requests with a value there.
    Raise UsageError for a file that is there, InputError when no request is left.
    """
    chosen, table = FORMATS[form], _known_requests(folder, form)
    files = chosen.files(output)
    for path in files:
        refuse_taken(path, overwrite=overwrite)
    source = Source(table, folder.info, on_rows=on_rows)
    survey = source.survey(chosen.holds)
    with ExitStack() as stack:
        # They get their names when the block succeeds.
        parts = {path: stack.enter_context(beside(path, overwrite=overwrite)) for path in files}
        outcome = chosen.write(source, survey, parts=parts)
        if not outcome.written:
            raise _nothing_left(outcome, f"{folder.path}: no request that {form} can hold")
    outcome.changes("guessed_times", source.guessed_times)
    if "page size" in (folder.info.unknown or ()):
        outcome.changes("assumed_pages", outcome.written)
    return {
        "trace": str(folder.path),
        "format": form,
        "files": [str(path) for path in files],
        "requests": survey.requests,
        "written": outcome.written,
        "left_out": dict(outcome.left_out),
        "changed": dict(outcome.changed),
        "unheld": survey.unheld,
        **outcome.facts,
    }


def _known_requests(folder: TraceFolder, form: str) -> Path:
    """Return the table; raise InputError where the trace lacks what the format cannot leave out."""
    if form != OracleExport.name:
        folder.require_known(what=f"export --format {form}")
    return folder.require("requests", made_by="parse")


def _nothing_left(outcome: Outcome, message: str) -> InputError:
    counts = [f"{count:,} {why}" for why, count in outcome.left_out.items()]
    reasons = ", ".join(counts) or "the trace is empty"
    hint = "choose another --format, or a trace with reads or writes"
    return InputError(f"{message} ({reasons})", hint=hint)


CHANGES = {
    "assumed_pages": "of pages whose size the trace does not say: 4,096 bytes are assumed (import"
    " --page)",
    "exchanged_ends": "requests that import back with the completion of another one, of the same"
    " place and size and in flight with them",
    "guessed_times": "requests without a queue time, or behind a later one: of the event before",
    "changed_objects": "requests of an object, the sector where they begin, that had another size"
    " before",
    "joint_ends": "merged requests that completed in parts: they complete with their merge target",
    "no_completion": "requests that never complete: with a response time of 0",
    "plain_writes": "writes of zeroes, which blkparse calls writes",
    "rounded_lengths": "lengths that are no whole sectors: rounded up",
    "rounded_times": "times cut to the format's unit",
}


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines: what was written, left out and changed, what is missing in the format."""
    yield f"{result['written']:,} of {result['requests']:,} requests written ({result['format']})"
    for why, count in result["left_out"].items():
        yield f"  {count:>12,} left out: {why.replace('_', ' ')}"
    for what, count in result["changed"].items():
        yield f"  {count:>12,} {CHANGES[what]}"
    for device, name in result.get("names", {}).items():
        if device != name:
            yield f"  device {device} is called {name}"
    for device, first in result.get("first_objects", {}).items():
        yield f"  objects of device {device} begin at {first:,}"
    if not result.get("has_wall_clock", True):
        yield "  the trace has no wall clock: its times begin with the year 2000"
    if result["unheld"]:
        columns = ", ".join(f"{name} ({count:,})" for name, count in result["unheld"].items())
        yield f"  not in this format, by requests that have it: {columns}"
    yield from result["files"]

"""Imports an OCTF trace: its files, merged by time, become the table of requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from enum import IntEnum
from pathlib import Path
from typing import Any

from tracekit import metadata
from tracekit._native.decode import Place
from tracekit._native.readers import Device, OctfError, OctfReader, OctfStats, Problem, is_octf
from tracekit.arrow import text_column
from tracekit.errors import InputError, TracekitError
from tracekit.metadata import TraceInfo
from tracekit.prefetch import ahead
from tracekit.readers.assemble import Assembler
from tracekit.readers.completeness import Present
from tracekit.readers.files import unread_cpus
from tracekit.readers.metadata import absent_files, line_counts, unread_files
from tracekit.readers.stream import Feed, finish_feeds, progress_of, stop_feeds
from tracekit.readers.text import BadLines
from tracekit.readers.units import Columns, Import, ImportOptions, OnBytes, Units, listed
from tracekit.safe_open import read_regular
from tracekit.store import write_batches
from tracekit.tables import REQUESTS

NAME = "octf"
SUMMARY_NAME = "octf.summary"
UNITS = Units("ns", "sectors", "sectors", response="ns")
OPERATIONS = ("other", "read", "write", "discard", "flush")
"""By the number that the reader gives them."""
EIO = 5
FLAGS = ("is_preflush", "is_fua", "is_meta", "is_readahead")
LARGEST_SIZE_SECTORS = (1 << 63) - 1
REASONS: dict[IntEnum, str] = {
    Problem.LENGTH: "a message of {value:,} bytes cannot be: 1 to 65,536 can",
    Problem.MESSAGE: "these {value:,} bytes are no Event message",
    Problem.HEADER: "an Event message of {value:,} bytes without a header",
    Problem.TIME: "time {value} ns is beyond 63 bits",
    Problem.PLACE: "sector {value} is beyond 2^53",
    Problem.DEVICES: "more than 65,536 devices",
    Problem.READ: "reading failed with errno {value}",
    Problem.CUT: "the file ends {value:,} bytes into a message",
}


def refusal(name: str, place: Place) -> TracekitError:
    """Return the error for a place that cannot be read on, in the file of this name."""
    if place.kind == Problem.MEMORY:
        message = "the reader of OCTF traces has no memory"
        return TracekitError(message, hint="close other programs and try again")
    text = REASONS[place.kind].format(value=place.value)
    hint = "copy the file again: it is damaged, or no file of an OCTF trace"
    return InputError(f"{name}: byte {place.offset:,}: {text}", hint=hint)


def device_name(device: Device) -> str:
    """Return the name that the trace gives the device, or one of its number."""
    return device.name.strip() or f"device-{device.id}"


def columns_of(found: dict[str, Any], devices: Sequence[Device]) -> Columns:
    """Return a block of the reader for the assembler."""
    names = {"time": "time", "offset": "sector", "length": "sectors", "response": "response"}
    names |= {flag: flag.removeprefix("is_") for flag in FLAGS}
    numbers = {name: found[native] for name, native in names.items()}
    numbers["error"] = -EIO * found["error"]
    words = {
        "op": text_column(found["operation"], list(OPERATIONS)),
        "device": text_column(found["device"], [device_name(device) for device in devices]),
    }
    return Columns(numbers=numbers, words=words, rows=len(found["time"]))


def dropped_events(folder: Path) -> int:
    """Return how many events the tracer says it dropped, in its summary beside the files.

    0 where there is no such summary, or none that can be read.
    """
    try:
        summary = json.loads(read_regular(folder / SUMMARY_NAME))
        return max(int(summary.get("droppedEvents", 0)), 0)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError, InputError):
        return 0


def loss(stats: OctfStats, *, dropped: int) -> metadata.Loss:
    """Return what the numbers of the events say is missing between the first and the last.

    Of the events that the tracer dropped, those are counted that the numbers do not show.
    """
    has_numbers = 0 < stats.numbered == stats.messages
    lost = max(stats.last_sid - stats.first_sid + 1 - stats.numbered, 0) if has_numbers else 0
    unmatched = {"queue": stats.unmatched_requests, "complete": stats.unmatched_completions}
    return metadata.Loss(
        has_sequence_numbers=has_numbers,
        sequence_gaps=int(lost > 0),
        lost_records=lost,
        dropped=max(dropped - lost, 0),
        unmatched=unmatched,
    )


def inferences(stats: OctfStats, operations: Mapping[str, int]) -> list[metadata.Inference]:
    """Return what was concluded or passed over, each with its evidence."""
    passed = f"{stats.passed:,} events of files, {stats.unknown:,} of an unknown kind"
    found = [
        ("format", NAME, "messages behind their lengths, each an Event with a header"),
        ("units", "ns and sectors of 512 bytes", f"format {NAME}"),
        ("passed over", passed, "they are no requests"),
    ]
    if operations.get("other"):
        text = f"{operations['other']:,} requests of no known operation"
        found.append(("operations", text, "traces of before March 2020 number them from 0"))
    return metadata.inferences_of(found)


def doubts(
    stats: OctfStats, lost: metadata.Loss, *, present: Present, bad: int
) -> list[metadata.TraceWarning]:
    """Return the warnings of trace.json."""
    missing = lost.lost_records + lost.dropped
    starts, ends = stats.unmatched_requests, stats.unmatched_completions
    unmatched = f"{starts:,} requests without a completion, {ends:,} completions without a request"
    given_up = f"{stats.evicted:,} requests were given up as never completing"
    found = [
        ("lost_records", missing, f"{missing:,} events are missing"),
        ("no_sequence_numbers", not lost.has_sequence_numbers, "events without numbers"),
        *present.doubts(told=starts),
        ("unmatched_events", starts + ends, unmatched),
        ("window_full", stats.evicted, given_up),
        ("unknown_actions", stats.unknown, f"{stats.unknown:,} events of an unknown kind"),
        ("bad_lines", bad, f"{bad:,} files end within a message, which was left out"),
    ]
    return metadata.warnings_of(found)


BATCHES_AHEAD = 1


def is_chosen(head: bytes, options: ImportOptions) -> bool:
    """Say whether the trace is one of OCTF."""
    if options.form != NAME:
        is_own = options.form or options.columns or options.regex
        if is_own or not is_octf(head):
            return False
    return True


def import_octf(feeds: Sequence[Feed], job: Import, *, head: bytes) -> TraceInfo:
    """Read the trace into the table of requests; return the content of trace.json.

    `head` was read from the first feed already. Raise InputError for damage and empty traces.
    """
    made, bad = Assembler(UNITS, {}, NAME), BadLines()
    with OctfReader([feed.fd for feed in feeds], head) as reader:
        rows = made.batches(_blocks(reader, feeds, job.on_bytes))
        coming = ahead(rows, most=BATCHES_AHEAD, on_stop=lambda: stop_feeds(feeds))
        with closing(coming) as batches:
            write_batches(job.table, batches, schema=REQUESTS)
        finish_feeds(feeds)
        for number, feed in enumerate(feeds):
            if place := reader.cut(number):
                text = REASONS[place.kind].format(value=place.value)
                bad.add(0, f"{feed.name}: byte {place.offset:,}: {text}")
        if bad.bad > job.options.bad_ratio(is_damaged=False) * (made.rows + bad.bad):
            shown = listed(text for _, text in bad.examples)
            message = f"{bad.bad:,} of {len(feeds):,} files are cut short"
            hint = "copy them again, or allow more with --max-bad PERCENT"
            raise InputError(message, *shown, hint=hint)
        if not made.rows:
            message = f"{feeds[0].name}: there is no request in it"
            raise InputError(message, hint="name the folder, which has a file for each cpu")
        return _info(made, bad, feeds, reader)


def _blocks(reader: OctfReader, feeds: Sequence[Feed], on_bytes: OnBytes) -> Iterator[Columns]:
    """Yield blocks of requests; raise InputError for what cannot be read on."""
    while True:
        try:
            found = reader.read()
        except OctfError as error:
            feed = feeds[error.place.file]
            feed.wait_for_failure()
            raise feed.problem() or refusal(feed.name, error.place) from None
        if not len(found["time"]):
            return
        on_bytes(*progress_of(feeds))
        yield columns_of(found, reader.devices())


def _info(made: Assembler, bad: BadLines, feeds: Sequence[Feed], reader: OctfReader) -> TraceInfo:
    stats = reader.stats()
    lost = loss(stats, dropped=dropped_events(feeds[0].path.parent))
    return TraceInfo(
        source=metadata.Source(format=NAME, files=[feed.describe() for feed in feeds]),
        clock=metadata.Clock(base_ns=made.first_ns, duration_ns=made.last_ns),
        devices=_devices(made.devices, reader),
        counts={
            "records": stats.messages + bad.bad,
            "requests": made.rows,
            "operations": dict(made.operations),
            "preamble_lines": 0,
            **line_counts(stats.passed + stats.unknown, bad.bad, examples=bad.examples),
            "rounded_places": 0,
        },
        loss=lost,
        completeness=metadata.Completeness(columns=dict(made.present.values)),
        inferences=inferences(stats, made.operations),
        warnings=[
            *metadata.warnings_of(absent_files(feed.name for feed in feeds)),
            *unread_files(unread_cpus([feed.path for feed in feeds])),
            *doubts(stats, lost, present=made.present, bad=bad.bad),
        ],
    )


def _devices(names: Sequence[str], reader: OctfReader) -> list[metadata.Device]:
    """Return the devices that have requests, with the size that the trace gives."""
    given = {device_name(device): device.sectors for device in reader.devices()}
    sizes = [given.get(name, 0) for name in names]
    known = [size if 0 < size <= LARGEST_SIZE_SECTORS else None for size in sizes]
    return [
        metadata.Device(device=name, size_sectors=size)
        for name, size in zip(names, known, strict=True)
    ]

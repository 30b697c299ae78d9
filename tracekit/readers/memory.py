"""Texts of memory accesses: valgrind's lackey, perf, gem5 and ramulator.

DAMON is left out: it reports how many of its checks of a region's one page found it accessed, not
which addresses were, in which order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tracekit import metadata
from tracekit._native.memory import OPERATIONS, Block, MemoryReader, Text
from tracekit.arrow import count_names, text_column
from tracekit.errors import InputError
from tracekit.metadata import MemoryTrace, TraceInfo
from tracekit.prefetch import ahead
from tracekit.readers.metadata import line_counts
from tracekit.readers.stream import Feed, finish_feeds, stop_feeds
from tracekit.readers.text import NEARLY_ALL, BadLines
from tracekit.readers.units import Import, ImportOptions, listed, show_example, wrong_lines
from tracekit.store import write_batches
from tracekit.tables import MEMORY_ACCESSES

BATCHES_AHEAD = 4
FEWEST_TICKS = 8
"""Lines from which on they are looked at."""


@dataclass(frozen=True)
class MemoryFormat:
    """A text of accesses: who writes it, and what its accesses are."""

    name: str
    text: Text
    is_sampled: bool = False
    """It has some of the accesses only."""
    is_filtered: bool = False
    """They are those that caches let through."""
    addresses: str = "virtual"
    notes: str = ""
    """What else to know of its accesses."""
    is_known_by_content: bool = True

    def matches(self, head: bytes) -> bool:
        """Say whether nearly all lines of the head are accesses, or known not to be any.

        Packets' ticks rise: where they do not, requests of disks have a device in their place.
        """
        with MemoryReader(self.text) as reader:
            blocks = list(reader.read(head))
        rows, wrong = (sum(block.rows for block in blocks), sum(len(one.wrong) for one in blocks))
        if self.text == Text.GEM5_PACKETS and rows >= FEWEST_TICKS:
            times = np.concatenate([block.times_ns for block in blocks])
            if times[-1] == times[0] or (times[1:] < times[:-1]).any():
                return False
        return rows > 0 and rows >= NEARLY_ALL * (rows + wrong)


TICK = "a tick is taken as a picosecond, gem5's default; the text does not say"
OTHERS = "{:,} packets (u) were left out: behind caches most commands are no ReadReq or WriteReq"
SAMPLES = "perf takes samples: between two of them are accesses that it does not have"
FORMATS = {
    known.name: known
    for known in (
        MemoryFormat("lackey", Text.LACKEY, notes="user space only: system calls are not traced"),
        MemoryFormat("perf-mem", Text.PERF_SCRIPT, is_sampled=True, notes=SAMPLES),
        MemoryFormat("perf-mem-report", Text.PERF_REPORT, is_sampled=True, notes=SAMPLES),
        MemoryFormat("gem5-packets", Text.GEM5_PACKETS, addresses="physical", notes=TICK),
        MemoryFormat("gem5", Text.GEM5_DEBUG, is_filtered=True, addresses="physical", notes=TICK),
        MemoryFormat(
            "ramulator",
            Text.RAMULATOR,
            is_filtered=True,
            addresses="as given",
            notes="requests to a memory: each is a line of 64 bytes",
        ),
        MemoryFormat(
            "ramulator-cpu",
            Text.RAMULATOR_CPU,
            is_filtered=True,
            addresses="as given",
            notes="requests behind caches: each is a line of 64 bytes",
            is_known_by_content=False,  # two or three numbers can be anything
        ),
    )
}


def find_memory_format(head: bytes, options: ImportOptions) -> MemoryFormat | None:
    """Return the format that is chosen, or that the first bytes of a file are of, or None.

    Raise UsageError for options that a text of accesses has not.
    """
    if options.columns or options.regex or options.blkparse_format:
        return None
    if options.form is not None:
        found = FORMATS.get(options.form)
    else:
        whole = head[: head.rfind(b"\n") + 1] or head + b"\n"
        known = (form for form in FORMATS.values() if form.is_known_by_content)
        found = next((form for form in known if form.matches(whole)), None)
    return found


@dataclass
class _Reading:
    """One import while it runs."""

    feed: Feed
    reader: MemoryReader
    lines: BadLines = field(default_factory=BadLines)
    operations: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    base_ns: int | None = None
    last_ns: int = 0

    def batches(self, texts: Iterable[memoryview]) -> Generator[pa.RecordBatch]:
        """Yield the accesses of the texts as record batches."""
        for text in texts:
            whole = text if text[-1] == ord("\n") else bytes(text) + b"\n"
            for block in self.reader.read(whole):
                for number, shown in block.wrong:
                    self.lines.add(self.lines.lines + number + 1, shown.decode("utf-8", "replace"))
                self.lines.passed += block.passed
                self.lines.lines += block.lines
                if block.rows:
                    yield self._batch(block)

    def _batch(self, block: Block) -> pa.RecordBatch:
        self.rows += block.rows
        self.operations += count_names(block.operations, OPERATIONS)
        has_times = block.times_ns[0] >= 0
        if has_times and self.base_ns is None:
            self.base_ns = int(block.times_ns[0])
        times_ns = block.times_ns - (self.base_ns or 0)
        self.last_ns = max(self.last_ns, int(times_ns.max())) if has_times else 0
        columns = [
            _known(block.instructions, block.instructions[0] >= 0),
            _known(times_ns, has_times),
            pa.array(block.addresses),
            _known(block.sizes, block.sizes[0] > 0),
            text_column(block.operations, OPERATIONS),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=MEMORY_ACCESSES)


def _known(values: np.ndarray[tuple[int], np.dtype[np.signedinteger]], is_known: bool) -> pa.Array:
    """Return a column that a format has in all rows, or in none."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.array(values, kind) if is_known else pa.nulls(len(values), kind)


def import_memory(
    feed: Feed, *, form: MemoryFormat, run: Import, texts: Iterable[memoryview]
) -> TraceInfo:
    """Write the table of memory accesses; return the content of trace.json.

    `texts` are the whole lines of the feed. Raise InputError when too many lines are wrong or there
    is no access.
    """

    def counted() -> Generator[memoryview]:
        for text in texts:
            yield text
            run.on_bytes(feed.done_bytes, feed.total_bytes)

    with MemoryReader(form.text) as reader:
        read = _Reading(feed, reader)
        rows = read.batches(counted())
        with closing(ahead(rows, most=BATCHES_AHEAD, on_stop=lambda: stop_feeds([feed]))) as found:
            write_batches(run.folder / "memory_accesses.parquet", found, schema=MEMORY_ACCESSES)
        finish_feeds([feed])
        instructions = reader.instructions
    _reject(read, form, most_bad_ratio=run.options.bad_ratio(is_damaged=feed.has_doubt))
    return _info(read, form, instructions)


def _reject(read: _Reading, form: MemoryFormat, *, most_bad_ratio: float) -> None:
    bad, total = read.lines.bad, read.rows + read.lines.bad
    if bad > most_bad_ratio * total:
        raise InputError(
            f"{read.feed.name}: {bad:,} of {total:,} lines are wrong for {form.name}",
            *listed(map(show_example, read.lines.examples)),
            hint="choose another --format, or allow more with --max-bad PERCENT",
        )
    if not read.rows:
        message = f"{read.feed.name}: there is no memory access in it"
        raise InputError(message, hint="check the file")


def _info(read: _Reading, form: MemoryFormat, instructions: int | None) -> TraceInfo:
    bad = read.lines.bad
    others = read.lines.passed if form.text is Text.GEM5_PACKETS else 0
    found = [
        ("format", form.name, "the first lines"),
        ("addresses", form.addresses, f"format {form.name}"),
        ("accesses", "samples" if form.is_sampled else "all", form.notes),
    ]
    return TraceInfo(
        source=metadata.Source(format=form.name, files=[read.feed.describe()]),
        clock=metadata.Clock(base_ns=read.base_ns, duration_ns=read.last_ns),
        counts={
            "records": read.rows + bad,
            "memory_accesses": read.rows,
            "operations": dict(read.operations),
            **line_counts(read.lines.passed, bad, examples=read.lines.examples),
        },
        memory=MemoryTrace(
            is_sampled=form.is_sampled,
            is_filtered=form.is_filtered,
            instructions=instructions,
        ),
        inferences=metadata.inferences_of(found),
        warnings=metadata.warnings_of(
            [
                ("salvaged", read.feed.passed_over(), "; ".join(read.feed.passed_over())),
                ("bad_lines", bad, wrong_lines(bad)),
                ("sampled_accesses", form.is_sampled, SAMPLES),
                ("other_commands", others, OTHERS.format(others)),
            ]
        ),
    )

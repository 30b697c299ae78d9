"""Row buffers of a byte-addressable memory: hits and time of an access, throughput of a program.

After Liu et al., "Persistent Memory Workload Characterization: A Hardware Perspective", section
III and its figures 1 and 2. It names no times: those are options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native.memory import MOST_BUFFERS, RowBuffers
from tracekit.devices import load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.metadata import MemoryTrace, Record
from tracekit.model.memory_filter import (
    NO_CACHES,
    STUDY_CACHES,
    CacheLevel,
    Filtered,
    LevelMisses,
    filter_accesses,
    memory_trace,
    parse_caches,
)
from tracekit.model.what_if import AS_ASKED, Times, fault, read_what_if
from tracekit.store import TraceFolder, write_results
from tracekit.tables import BUFFER
from tracekit.units import PAGE_BYTES, format_size

LARGEST_BYTES = 1 << 16
MAPPINGS = ("lru", "banked")
HIT_RATES = (0.5, 0.6, 0.7, 0.8, 0.9)  # of the study's figure 2
STUDY_LOCALITY = "the study: above 98% for zip"
ASSUMPTIONS = (
    "Caches hold lines, the least recently used one of a set leaves; they write back and allocate"
    " on writes. A line that is read comes before the one that is written back in its place.",
    "The memory serves one access after another, in their order; reads and writes open rows alike.",
    "An access takes hit_ns, and read_ns for each row that it must open: several where rows are"
    " smaller than it. A row that was written takes write_ns when it is closed.",
    "Without buffers each read takes hit_ns + read_ns and each write hit_ns + write_ns.",
    "DRAM has the same rows and hits; a row that it opens takes dram_ns, and none write_ns.",
    "A program takes instruction_ns for each instruction and waits for every access to memory.",
    "The study gives no times: the defaults are assumed for phase-change memory and can be set.",
)


@dataclass(frozen=True)
class BufferOptions:
    """What the user chose: ascending sizes in bytes and numbers of buffers."""

    sizes_bytes: tuple[int, ...] = (32, 64, 128, 256, 512, 1024, 2048, 4096)
    buffers: tuple[int, ...] = (1, 2, 4, 8, 16)
    access_bytes: int = 64
    caches: str = ""
    """As `--caches`; empty: the study's, or none where the trace is behind caches or of samples."""
    instruction_ns: float = 0.42
    times: Times = field(default_factory=Times)
    what_if: Path | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for options that cannot be."""
        for size in self.sizes_bytes:
            _check_size("--sizes", size, 32)
        _check_size("--access", self.access_bytes, 16)
        for count in self.buffers:
            if not 1 <= count <= MOST_BUFFERS:
                raise UsageError(f"--buffers: {count} is not between 1 and {MOST_BUFFERS}")
        for name, value in {**asdict(self.times), "instruction_ns": self.instruction_ns}.items():
            if wrong := fault(name, value):
                raise UsageError(f"--{name.replace('_', '-')}: {wrong}")
        self.levels(MemoryTrace())

    def levels(self, trace: MemoryTrace) -> tuple[CacheLevel, ...]:
        """Return the caches that the trace's accesses go through."""
        is_behind = trace.is_sampled or trace.is_filtered
        text = self.caches or (NO_CACHES if is_behind else STUDY_CACHES)
        return parse_caches(text, line_bytes=self.access_bytes)


def _check_size(option: str, size: int, least: int) -> None:
    if not least <= size <= LARGEST_BYTES or size & (size - 1):
        raise UsageError(f"{option}: {size} bytes are not a power of two from {least} to 64KiB")


class HitRateTime(Record):
    """The time of an access at a hit rate, and a program's throughput beside DRAM with it."""

    hit_rate: float
    access_avg_ns: float
    unbuffered_avg_ns: float
    dram_avg_ns: float
    program_ratio: float | None = None
    unbuffered_program_ratio: float | None = None


class BufferResult(Record):
    """The content of simulations/buffer.json."""

    access_bytes: int
    times: Times
    instruction_ns: float
    instructions: int | None
    loads: int
    stores: int
    fetches: int
    caches: list[LevelMisses]
    memory_reads: int
    memory_writes: int
    dirty_lines: int
    hit_rates: list[HitRateTime]
    nvram: dict[str, Times]
    doubts: list[str]
    headline: list[str]
    assumptions: list[str]


@dataclass(frozen=True)
class _Counts:
    """Sums of a level with one size, mapping and number of buffers, of reads and of writes."""

    accesses: tuple[int, int]
    bytes: tuple[int, int]
    hits: tuple[int, int]
    row_reads: tuple[int, int]
    row_writes: tuple[int, int]

    @classmethod
    def of(cls, both: NDArray[np.void]) -> _Counts:
        """Take both kinds of the native counts as whole numbers of Python, which lose nothing."""
        return cls(**{name: tuple(both[name].tolist()) for name in both.dtype.names or ()})

    def only(self, kinds: tuple[int, int]) -> _Counts:
        """Return the counts with zeros for the kinds that are 0."""
        return _Counts(
            **{
                name: tuple(n * k for n, k in zip(pair, kinds, strict=True))
                for name, pair in vars(self).items()
            }
        )


def simulate_buffer(
    folder: TraceFolder, options: BufferOptions, *, on_rows: Callable[[int], None] | None = None
) -> BufferResult:
    """Write simulations/buffer.parquet and buffer.json; return the latter.

    InputError for a trace without memory accesses.
    """
    trace = memory_trace(folder)
    what_if = read_what_if(options.what_if, load_profiles(None))
    memories = {AS_ASKED: options.times}
    memories |= {name: replace(options.times, **given) for name, given in what_if.nvram.items()}
    counted, filtered = _count(folder, options, options.levels(trace), on_rows)
    rows = [
        row
        for level, sizes in counted.items()
        for size, counts in zip(options.sizes_bytes, sizes, strict=True)
        for nvram, times in memories.items()
        for row in _Rows(level, size, nvram, times, options, trace.instructions).of(counts)
    ]
    memory = _Counts.of(counted["memory"][-1][0, -1])
    program = _Program(trace.instructions, options.instruction_ns)
    doubts = list(_doubts(trace, filtered, memory, options))
    result = BufferResult(
        access_bytes=options.access_bytes,
        times=options.times,
        instruction_ns=options.instruction_ns,
        instructions=trace.instructions,
        **vars(filtered),
        memory_reads=memory.accesses[0],
        memory_writes=memory.accesses[1],
        hit_rates=list(_at_hit_rates(memory.accesses, options.times, program)),
        nvram=memories,
        doubts=doubts,
        headline=[*doubts, *_headline(rows, filtered, memory, options)],
        assumptions=list(ASSUMPTIONS),
    )
    tables = {"simulations/buffer": pa.Table.from_pylist(rows, BUFFER)}
    write_results(folder, "simulations/buffer.json", result=result, tables=tables)
    return result


def _count(
    folder: TraceFolder,
    options: BufferOptions,
    levels: Sequence[CacheLevel],
    on_rows: Callable[[int], None] | None,
) -> tuple[dict[str, list[NDArray[np.void]]], Filtered]:
    """Return by level what the kernel of each size counted, and what the caches did."""
    names = ("processor", "memory") if levels else ("memory",)
    with ExitStack() as stack:
        kernels = {
            name: [
                stack.enter_context(RowBuffers(size, options.access_bytes, options.buffers))
                for size in options.sizes_bytes
            ]
            for name in names
        }

        def taker(name: str) -> Callable[[NDArray[np.void]], None]:
            def take(rows: NDArray[np.void]) -> None:
                for kernel in kernels[name]:
                    kernel.add(rows)

            return take

        filtered = filter_accesses(
            folder,
            levels,
            line_bytes=options.access_bytes,
            takers=[taker(name) for name in names],
            on_rows=on_rows,
        )
        counted = {name: [kernel.read() for kernel in kernels[name]] for name in names}
    if not counted["memory"][0]["accesses"].any():
        raise InputError(
            f"{folder.path}: no access reaches the memory: no row is opened",
            hint="give smaller --caches, or none",
        )
    return counted, filtered


@dataclass(frozen=True)
class _Program:
    """What a program does beside its accesses to memory."""

    instructions: int | None
    instruction_ns: float

    def ratio(self, dram_ns: float, nvram_ns: float) -> float | None:
        """Return its throughput with the NVRAM beside that with DRAM, from the times of accesses.

        None where its instructions are not known.
        """
        if self.instructions is None:
            return None
        own_ns = self.instructions * self.instruction_ns
        return (own_ns + dram_ns) / (own_ns + nvram_ns)


@dataclass(frozen=True)
class _Rows:
    """Makes the table's rows of one level, size and memory."""

    level: str
    row_bytes: int
    nvram: str
    times: Times
    options: BufferOptions
    instructions: int | None

    def of(self, counts: NDArray[np.void]) -> Iterator[dict[str, Any]]:
        """Yield the rows of the native counts; an operation without accesses has none."""
        for mapping, by_number in zip(MAPPINGS, counts, strict=True):
            for number, both in zip(self.options.buffers, by_number, strict=True):
                whole = _Counts.of(both)
                for operation, kinds in {"all": (1, 1), "read": (1, 0), "write": (0, 1)}.items():
                    chosen = whole.only(kinds)
                    if not any(chosen.accesses):
                        continue
                    yield {
                        "nvram": self.nvram,
                        "level": self.level,
                        "mapping": mapping,
                        "row_bytes": self.row_bytes,
                        "buffers": number,
                        "operation": operation,
                        **self._measures(chosen, has_program=operation == "all"),
                    }

    def _measures(self, counts: _Counts, *, has_program: bool) -> dict[str, Any]:
        totals = {name: sum(pair) for name, pair in vars(counts).items()}
        accesses, row_reads = totals["accesses"], totals["row_reads"]
        time_ns = self.times.nvram(accesses, row_reads=row_reads, row_writes=totals["row_writes"])
        dram_ns = self.times.dram(accesses, row_reads)
        program = _Program(self.instructions, self.options.instruction_ns)
        is_whole = has_program and self.level == "memory"
        return totals | {
            "hit_rate": totals["hits"] / accesses,
            "access_avg_ns": time_ns / accesses,
            "unbuffered_avg_ns": self.times.unbuffered(*counts.accesses) / accesses,
            "dram_avg_ns": dram_ns / accesses,
            "throughput_bytes_per_second": totals["bytes"] / time_ns * 1e9,
            "program_ratio": program.ratio(dram_ns, time_ns) if is_whole else None,
        }


def _at_hit_rates(
    accesses: tuple[int, int], times: Times, program: _Program
) -> Iterator[HitRateTime]:
    """Yield the time of an access at each of HIT_RATES, with the trace's reads and writes.

    Both hit alike, and each write that misses makes a row that is written back.
    """
    reads, writes = accesses
    total = reads + writes
    unbuffered_ns = times.unbuffered(reads, writes)
    for hit_rate in HIT_RATES:
        missed = 1 - hit_rate
        time_ns = times.nvram(total, row_reads=total * missed, row_writes=writes * missed)
        dram_ns = times.dram(total, total * missed)
        yield HitRateTime(
            hit_rate=hit_rate,
            access_avg_ns=time_ns / total,
            unbuffered_avg_ns=unbuffered_ns / total,
            dram_avg_ns=dram_ns / total,
            program_ratio=program.ratio(dram_ns, time_ns),
            unbuffered_program_ratio=program.ratio(dram_ns, unbuffered_ns),
        )


def _doubts(
    trace: MemoryTrace, filtered: Filtered, memory: _Counts, options: BufferOptions
) -> Iterator[str]:
    """Yield why the hit rates may be no finding."""
    if trace.is_sampled:
        yield (
            "Samples: accesses between two of them are missing, so a row that the next access would"
            " find open counts as closed; these hit rates are no finding."
        )
    last = filtered.caches[-1].bytes if filtered.caches else 0
    read_bytes = memory.accesses[0] * options.access_bytes
    if read_bytes <= last and not memory.accesses[1]:
        yield (
            f"The memory is read less than the last cache holds ({format_size(read_bytes)} of"
            f" {format_size(last)}) and never written: these are first touches. For a shortened"
            " load give smaller --caches."
        )


def _headline(
    rows: Sequence[dict[str, Any]], filtered: Filtered, memory: _Counts, options: BufferOptions
) -> Iterator[str]:
    """Yield what reaches the memory, hits by size, then the times of the what-if's memories."""
    most, largest = options.buffers[-1], options.sizes_bytes[-1]
    what = _buffers(most)
    chosen = [row for row in rows if (row["operation"], row["mapping"]) == ("all", "lru")]
    shown = [row for row in chosen if row["buffers"] == most and row["level"] == "memory"]
    reads, writes = memory.accesses
    asked = f"{filtered.loads + filtered.stores:,} loads and stores"
    caches = ", ".join(f"{format_size(level.bytes)}/{level.ways}" for level in filtered.caches)
    behind = f" through caches of {caches}" if caches else ", as traced"
    yield f"{asked} make {reads:,} reads and {writes:,} writes of the memory{behind}."
    yield from _locality(chosen, most)
    for row in shown:
        if row["nvram"] == AS_ASKED:
            ratio = row["program_ratio"]
            speed = "" if ratio is None else f"; the program has {ratio:.1%} of DRAM's throughput"
            yield (
                f"{what} of {format_size(row['row_bytes'])}: {row['hit_rate']:.1%} of the accesses"
                f" hit; {row['access_avg_ns']:.1f} ns an access, {row['unbuffered_avg_ns']:.1f} ns"
                f" without buffers, {row['dram_avg_ns']:.1f} ns of DRAM{speed}."
            )
        elif row["row_bytes"] == largest:
            yield (
                f"{row['nvram']}: {row['access_avg_ns']:.1f} ns an access with {most} x"
                f" {format_size(largest)}, {row['unbuffered_avg_ns']:.1f} ns without buffers."
            )


def _locality(rows: Sequence[dict[str, Any]], most: int) -> Iterator[str]:
    """Yield page locality before and behind the caches, if the table has both."""
    pages = {
        (row["level"], row["buffers"]): row["hit_rate"]
        for row in rows
        if (row["row_bytes"], row["nvram"]) == (PAGE_BYTES, AS_ASKED)
    }
    for number in sorted({1, most}):
        before, behind = (pages.get((level, number)) for level in ("processor", "memory"))
        if before is not None and behind is not None:
            yield (
                f"Page locality, {_buffers(number)} of 4 KiB: {before:.1%} of loads and stores"
                f" ({STUDY_LOCALITY}), {behind:.1%} of what reaches the memory."
            )


def _buffers(number: int) -> str:
    return "1 buffer" if number == 1 else f"{number} buffers"

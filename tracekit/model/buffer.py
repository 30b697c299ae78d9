"""Row buffers of a byte-addressable memory that serves the requests: hits and time of an access.

After Liu et al., "Persistent Memory Workload Characterization: A Hardware Perspective", section
III. It names no times: those are options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native.caches import MOST_BUFFERS, RowBuffers
from tracekit.devices import load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.metadata import Record
from tracekit.model.miss_ratio_curve import Accesses
from tracekit.model.what_if import AS_ASKED, Times, fault, read_what_if
from tracekit.store import TraceFolder, write_results
from tracekit.tables import BUFFER, ROLES
from tracekit.units import SECTOR_BYTES, format_size

LARGEST_BYTES = 1 << 16
MAPPINGS = ("lru", "banked")
HIT_RATES = (0.5, 0.6, 0.7, 0.8, 0.9)  # of the study's figure 2
ASSUMPTIONS = (
    "Each request goes to the memory in lines, one access after another, in queue order.",
    "A line wider than a row makes an access to each row; reads and writes open rows alike.",
    "A hit takes hit_ns. A read that misses first reads its row: read_ns more. A write that misses"
    " also costs write_ns, once: its row is written back when it is closed.",
    "Without buffers each read takes hit_ns + read_ns and each write hit_ns + write_ns.",
    "DRAM has the same rows and hits; a miss takes dram_ns more.",
    "The study gives no times: the defaults are assumed for phase-change memory and can be set.",
)


@dataclass(frozen=True)
class BufferOptions:
    """What the user chose: ascending sizes in bytes and numbers of buffers."""

    sizes_bytes: tuple[int, ...] = (32, 64, 128, 256, 512, 4096)
    buffers: tuple[int, ...] = (1, 2, 4, 8, 16)
    access_bytes: int = 64
    times: Times = field(default_factory=Times)
    what_if: Path | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for options that cannot be."""
        for size in self.sizes_bytes:
            _check_size("--sizes", size, 32)
        _check_size("--access", self.access_bytes, 1)
        for count in self.buffers:
            if not 1 <= count <= MOST_BUFFERS:
                raise UsageError(f"--buffers: {count} is not between 1 and {MOST_BUFFERS}")
        for name, value in asdict(self.times).items():
            if wrong := fault(name, value):
                raise UsageError(f"--{name.replace('_', '-')}: {wrong}")


def _check_size(option: str, size: int, least: int) -> None:
    if not least <= size <= LARGEST_BYTES or size & (size - 1):
        raise UsageError(f"{option}: {size} bytes are not a power of two from {least} to 64KiB")


class HitRateTime(Record):
    """The time of an access at a hit rate."""

    hit_rate: float
    access_bytes: int
    access_avg_ns: float
    unbuffered_avg_ns: float
    dram_avg_ns: float


class BufferResult(Record):
    """The content of simulations/buffer.json."""

    access_bytes: int
    times: Times
    hit_rates: list[HitRateTime]
    nvram: dict[str, Times]
    left_out: dict[str, int]
    headline: list[str]
    assumptions: list[str]


def simulate_buffer(
    folder: TraceFolder, options: BufferOptions, *, on_rows: Callable[[int], None] | None = None
) -> BufferResult:
    """Write simulations/buffer.parquet and buffer.json; return the latter.

    InputError when the trace has no reads and no writes.
    """
    what_if = read_what_if(options.what_if, load_profiles(None))
    memories = {AS_ASKED: options.times}
    memories |= {name: replace(options.times, **given) for name, given in what_if.nvram.items()}
    counted, impossible = _count(folder, options, on_rows)
    rows = [
        row
        for size, counts in zip(options.sizes_bytes, counted, strict=True)
        for nvram, times in memories.items()
        for row in _rows(counts, size, options, times, nvram)
    ]
    asked = [row for row in rows if row["nvram"] == AS_ASKED]
    result = BufferResult(
        access_bytes=options.access_bytes,
        times=options.times,
        hit_rates=list(_at_hit_rates(asked, options.times)),
        nvram=memories,
        left_out={"impossible": impossible},
        headline=_headline(rows, options),
        assumptions=list(ASSUMPTIONS),
    )
    tables = {"simulations/buffer": pa.Table.from_pylist(rows, BUFFER)}
    write_results(folder, "simulations/buffer.json", result=result, tables=tables)
    return result


def _count(
    folder: TraceFolder, options: BufferOptions, on_rows: Callable[[int], None] | None
) -> tuple[list[NDArray[np.uint64]], int]:
    """Return what the kernel of each size counted, and the number of impossible requests."""
    accesses = Accesses(folder.require("requests", made_by="parse"), SECTOR_BYTES)
    with ExitStack() as stack:
        kernels = [
            stack.enter_context(RowBuffers(size, options.access_bytes, options.buffers))
            for size in options.sizes_bytes
        ]
        for part in accesses.read(on_rows):
            for kernel in kernels:
                kernel.add(part)
        counted = [kernel.read() for kernel in kernels]
    if not counted[0][:, 0].any():
        raise InputError(f"{folder.path} has no reads and no writes: no row is opened")
    return counted, accesses.impossible


def _rows(
    counts: NDArray[np.uint64], size: int, options: BufferOptions, times: Times, nvram: str
) -> Iterator[dict[str, Any]]:
    """Yield the table's rows of one size; roles and operations without accesses have none."""
    # By role, reads and writes, and accesses or hits; whole numbers of Python lose nothing.
    by_role = counts.astype(object).reshape(len(ROLES), 2, -1)
    for role, both in {
        "all": by_role.sum(axis=0),
        **dict(zip(ROLES, by_role, strict=True)),
    }.items():
        for operation, chosen in {"all": (1, 1), "read": (1, 0), "write": (0, 1)}.items():
            reads, writes = both[0] * chosen[0], both[1] * chosen[1]
            if not reads[0] + writes[0]:
                continue
            for at in range(1, len(reads)):
                mapping, place = divmod(at - 1, len(options.buffers))
                yield {
                    "nvram": nvram,
                    "mapping": MAPPINGS[mapping],
                    "row_bytes": size,
                    "buffers": options.buffers[place],
                    "role": role,
                    "operation": operation,
                    **_measures(
                        reads[[0, at]], writes[[0, at]], min(size, options.access_bytes), times
                    ),
                }


def _measures(read: Any, write: Any, access_bytes: int, times: Times) -> dict[str, Any]:
    """Return counts and times of (accesses, hits) of reads and of writes."""
    accesses, hits = int(read[0] + write[0]), int(read[1] + write[1])
    time_ns = times.nvram(
        read[0], write[0], read_misses=read[0] - read[1], write_misses=write[0] - write[1]
    )
    average = time_ns / accesses
    return {
        "access_bytes": access_bytes,
        "accesses": accesses,
        "hits": hits,
        "hit_rate": hits / accesses,
        "access_avg_ns": average,
        "unbuffered_avg_ns": times.unbuffered(read[0], write[0]) / accesses,
        "dram_avg_ns": times.hit_ns + (accesses - hits) * times.dram_ns / accesses,
        "throughput_bytes_per_second": access_bytes / average * 1e9,
    }


def _at_hit_rates(rows: list[dict[str, Any]], times: Times) -> Iterator[HitRateTime]:
    """Yield the time of an access at each of HIT_RATES, with the trace's reads and writes.

    Both hit alike, and rows have the largest size of the table.
    """
    last = {row["operation"]: row for row in rows if row["role"] == "all"}
    reads, writes = (last[name]["accesses"] if name in last else 0 for name in ("read", "write"))
    accesses, access_bytes = reads + writes, last["all"]["access_bytes"]
    for hit_rate in HIT_RATES:
        missed = 1 - hit_rate
        time_ns = times.nvram(
            reads, writes, read_misses=reads * missed, write_misses=writes * missed
        )
        yield HitRateTime(
            hit_rate=hit_rate,
            access_bytes=access_bytes,
            access_avg_ns=time_ns / accesses,
            unbuffered_avg_ns=times.unbuffered(reads, writes) / accesses,
            dram_avg_ns=times.hit_ns + (1 - hit_rate) * times.dram_ns,
        )


def _headline(rows: list[dict[str, Any]], options: BufferOptions) -> list[str]:
    """Return the hits with most buffers by size, then the times of the what-if's memories."""
    most, largest = options.buffers[-1], options.sizes_bytes[-1]
    what = "1 buffer" if most == 1 else f"{most} buffers"
    every = [row for row in rows if (row["role"], row["operation"]) == ("all", "all")]
    shown = [row for row in every if (row["mapping"], row["buffers"]) == ("lru", most)]
    return [
        f"{what} of {format_size(row['row_bytes'])}: {row['hit_rate']:.1%} of the accesses hit;"
        f" {row['access_avg_ns']:.1f} ns an access, {row['unbuffered_avg_ns']:.1f} ns without"
        f" buffers, {row['dram_avg_ns']:.1f} ns of DRAM."
        for row in shown
        if row["nvram"] == AS_ASKED
    ] + [
        f"{row['nvram']}: {row['access_avg_ns']:.1f} ns an access with {most} x"
        f" {format_size(largest)}, {row['unbuffered_avg_ns']:.1f} ns without buffers."
        for row in shown
        if row["nvram"] != AS_ASKED and row["row_bytes"] == largest
    ]

"""Row buffers against a slow model, a trace by hand, and bad input."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from tests.command_line import succeed
from tests.simulate.traces import make_trace
from tests.traces import rows_of, written
from tracekit._native.caches import ACCESS, RowBuffers
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.model.buffer import BufferOptions, simulate_buffer
from tracekit.model.what_if import Times

BUFFERS = (1, 2, 3, 8)
Request = tuple[int, int, bool]  # first sector, sectors, is write
REQUESTS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40), st.booleans()), max_size=30)


def slow_hits(requests: list[Request], row: int, access: int, buffers: int) -> list[int]:
    """Return the accesses, the hits of LRU buffers and of banks, one access at a time."""
    newest: list[int] = []
    banks: dict[int, int] = {}
    totals = [0, 0, 0]
    step = min(row, access)
    for sector, sectors, _is_write in requests:
        first, end = sector * 512 // step, ((sector + sectors) * 512 - 1) // step
        for unit in range(first, end + 1):
            at = unit * step // row
            totals[0] += 1
            totals[1] += at in newest
            totals[2] += banks.get(at % buffers) == at
            newest = [at, *(other for other in newest if other != at)][:buffers]
            banks[at % buffers] = at
    return totals


def native(requests: list[Request]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return the requests as the kernel takes them."""
    table = np.zeros(len(requests), np.dtype(ACCESS))
    for at, (sector, sectors, is_write) in enumerate(requests):
        table[at] = (sector, sectors, is_write, 0, 0)
    return table


@settings(deadline=None, max_examples=60)
@given(
    requests=REQUESTS,
    row=st.sampled_from([128, 512, 1024, 4096, 16384]),
    access=st.sampled_from([64, 256, 4096]),
)
def test_hits_are_those_of_the_slow_model(requests: list[Request], row: int, access: int) -> None:
    with RowBuffers(row, access, BUFFERS) as kernel:
        kernel.add(native(requests))
        counts = kernel.read().sum(axis=0).tolist()
    for at, buffers in enumerate(BUFFERS):
        found = [counts[0], counts[1 + at], counts[1 + len(BUFFERS) + at]]
        assert found == slow_hits(requests, row, access, buffers)


def test_a_role_that_cannot_be_is_rejected() -> None:
    table = native([(0, 1, False)])
    table["role"] = 5
    with RowBuffers(512, 64, (1,)) as kernel, pytest.raises(TracekitError):
        kernel.add(table)


def test_a_small_trace_by_hand(tmp_path: Path) -> None:
    # GIVEN 4 KiB read, read again, and written elsewhere; rows of 1 KiB; lines of 64 bytes
    folder = make_trace(tmp_path / "t", [("read", 0, 1), ("read", 0, 1), ("write", 9, 1)])
    simulate_buffer(folder, BufferOptions((1024,), (1, 4)))
    rows = {
        (row["mapping"], row["buffers"], row["operation"]): row
        for row in rows_of(folder.table("simulations/buffer"))
        if row["role"] == "all"
    }
    # THEN each 4 KiB is 64 accesses to 4 rows; with 4 buffers the second read finds all open
    assert (rows["lru", 1, "read"]["accesses"], rows["lru", 1, "read"]["hits"]) == (128, 120)
    assert rows["lru", 4, "read"]["hits"] == rows["banked", 4, "read"]["hits"] == 124
    write = rows["lru", 4, "write"]
    assert (write["accesses"], write["hits"], write["hit_rate"]) == (64, 60, 0.9375)
    assert write["access_avg_ns"] == pytest.approx(12.5 + 4 / 64 * 205)
    assert write["unbuffered_avg_ns"] == 162.5
    assert write["dram_avg_ns"] == pytest.approx(12.5 + 4 / 64 * 25)
    assert write["throughput_bytes_per_second"] == pytest.approx(64e9 / write["access_avg_ns"])


def test_times_at_given_hit_rates() -> None:
    # Ten reads, of which one misses: 10 * 12.5 + 55; without buffers all ten read the array.
    assert Times().nvram(10, 0, read_misses=1, write_misses=0) == 180
    assert Times().unbuffered(10, 0) == 675


def test_the_answer_has_times_at_given_hit_rates(tmp_path: Path) -> None:
    # GIVEN 4 KiB read and 4 KiB written: half of the accesses are writes
    folder = make_trace(tmp_path / "t", [("read", 0, 1), ("write", 9, 1)])
    rates = to_builtins(simulate_buffer(folder, BufferOptions((32, 1024), (1, 4))))["hit_rates"]
    # THEN a miss adds 55 ns and, to half of them, 150 ns; DRAM 25 ns; without buffers all pay
    assert [row["hit_rate"] for row in rates] == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert [row["access_avg_ns"] for row in rates] == pytest.approx([77.5, 64.5, 51.5, 38.5, 25.5])
    assert [row["dram_avg_ns"] for row in rates] == pytest.approx([25, 22.5, 20, 17.5, 15])
    assert {row["unbuffered_avg_ns"] for row in rates} == {12.5 + 27.5 + 75}
    assert {row["access_bytes"] for row in rates} == {64}


def test_memories_of_a_what_if(tmp_path: Path) -> None:
    # GIVEN one read of 4 KiB, and a memory whose rows are read in 5.5 ns, all else as asked
    folder = make_trace(tmp_path / "t", [("read", 0, 1)])
    file = written(tmp_path / "what-if.toml", "[nvram.fast]\nread_ns = 5.5\n")
    asked = BufferOptions((512, 1024), (1, 4), times=Times(hit_ns=10), what_if=file)
    result = to_builtins(simulate_buffer(folder, asked))
    rows = [
        row
        for row in rows_of(folder.table("simulations/buffer"))
        if (row["mapping"], row["role"], row["operation"]) == ("lru", "all", "all")
        and (row["row_bytes"], row["buffers"]) == (1024, 4)
    ]
    # THEN both have 4 misses of 64, and the time of each is its own
    assert [(row["nvram"], row["hits"]) for row in rows] == [("as asked", 60), ("fast", 60)]
    assert [row["access_avg_ns"] for row in rows] == pytest.approx([10 + 55 / 16, 10 + 5.5 / 16])
    assert [row["unbuffered_avg_ns"] for row in rows] == [65, 15.5]
    last = "fast: 10.3 ns an access with 4 x 1 KiB, 15.5 ns without buffers."
    assert result["headline"][2:] == [last]
    times = {"hit_ns": 10, "read_ns": 5.5, "write_ns": 150.0, "dram_ns": 25.0}
    assert result["nvram"]["fast"] == times


@pytest.mark.parametrize(
    "options",
    [
        {"sizes_bytes": (48,)},
        {"sizes_bytes": (1 << 17,)},
        {"buffers": (0,)},
        {"buffers": (1025,)},
        {"access_bytes": 0},
        {"times": Times(hit_ns=0.0)},
        {"times": Times(read_ns=float("nan"))},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--"):
        BufferOptions(**options)


def test_a_trace_without_data(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("discard", 0, 1)])
    with pytest.raises(InputError, match="no reads and no writes"):
        simulate_buffer(folder, BufferOptions())
    assert not (folder.path / "simulations" / "buffer.json").exists()


def test_the_command_says_the_hit_rate(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", 0, 1)])
    result = succeed("simulate", "buffer", folder.path, "--sizes", "4KiB", "--buffers", "1")
    assert result.stdout.startswith("1 buffer of 4 KiB: 98.4% of the accesses hit; 13.4 ns")

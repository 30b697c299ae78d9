"""Row buffers behind caches: slow models, cachegrind, a trace by hand, and bad input."""

import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from tests.command_line import invoke, refused, succeed
from tests.simulate.memory_models import Access, SlowCaches, memory_folder, slow_rows, some_accesses
from tests.simulate.traces import make_trace
from tests.traces import rows_of, written
from tracekit._native.memory import ACCESS, OPERATIONS, MemoryCaches, RowBuffers
from tracekit.errors import InputError, UsageError
from tracekit.model.buffer import BufferOptions, simulate_buffer
from tracekit.model.memory_filter import parse_caches
from tracekit.model.what_if import Times
from tracekit.readers.importing import import_trace

BUFFERS = (1, 2, 3, 8)
MIXED = st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 4000), st.sampled_from([1, 4, 8, 90]))
ACCESSES = st.lists(MIXED, max_size=120)
HIERARCHIES: list[list[tuple[int, int]]] = [[(2, 2)], [(1, 1), (2, 2)], [(2, 1), (2, 2), (3, 3)]]


def through(caches: MemoryCaches, accesses: list[Access]) -> np.ndarray[Any, np.dtype[np.void]]:
    """Return what the accesses ask of the memory, and go on in the same caches."""
    columns = [list(column) for column in zip(*accesses, strict=True)] or [[], [], []]
    codes = np.array([OPERATIONS.index(name) for name in columns[0]], np.uint8)
    parts = caches.add(np.array(columns[1], np.uint64), np.array(columns[2], np.int32), codes)
    return np.concatenate([np.empty(0, ACCESS), *(part.copy() for part in parts)])


@settings(deadline=None, max_examples=100)
@given(accesses=ACCESSES, levels=st.sampled_from(HIERARCHIES), line=st.sampled_from([16, 64]))
def test_caches_are_those_of_the_slow_model(
    accesses: list[Access], levels: list[tuple[int, int]], line: int
) -> None:
    slow = SlowCaches(levels, line)
    slow.add(accesses)
    with MemoryCaches(levels, line) as caches:
        # In two parts, as they are read.
        asked = [through(caches, part) for part in (accesses[:50], accesses[50:])]
        counts, dirty = caches.read(), caches.dirty
    assert [tuple(row) for row in np.concatenate(asked).tolist()] == slow.asked
    expected = slow.missed or [{}] * (len(levels) + 1)
    assert counts.tolist() == [[row.get(name, 0) for name in OPERATIONS] for row in expected]
    assert dirty == len({at for _level, at in slow.dirty})


@settings(deadline=None, max_examples=100)
@given(
    accesses=ACCESSES, row=st.sampled_from([32, 64, 256, 1024]), line=st.sampled_from([16, 64, 256])
)
def test_row_buffers_are_those_of_the_slow_model(
    accesses: list[Access], row: int, line: int
) -> None:
    with MemoryCaches((), 64) as none, RowBuffers(row, line, BUFFERS) as kernel:
        asked = through(none, accesses)
        kernel.add(asked[:30])
        kernel.add(asked[30:])
        found = kernel.read()
    plain = [(address, size, bool(is_write)) for address, size, is_write in asked.tolist()]
    assert len(plain) == sum({"fetch": 0, "modify": 2}.get(one[0], 1) for one in accesses)
    for mapping in (0, 1):
        for at, buffers in enumerate(BUFFERS):
            both = found[mapping, at]
            names = ("accesses", "hits", "row_reads", "row_writes")
            sizes = {"row": row, "line": line, "buffers": buffers}
            expected = slow_rows(plain, **sizes, is_banked=bool(mapping))
            assert [int(both[name].sum()) for name in names] == expected


def lackey(folder: Path, *words: str) -> Path:
    """Return the accesses of a command, as valgrind prints them."""
    if not shutil.which("valgrind"):
        pytest.skip("needs valgrind")
    log = folder / "log"
    subprocess.run(
        ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={log}", *words],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    return log


def test_misses_are_those_of_cachegrind(tmp_path: Path) -> None:
    # GIVEN one program, under lackey and under cachegrind with the same caches
    log = lackey(tmp_path, "/bin/true")
    sizes = ["--I1=4096,4,64", "--D1=4096,4,64", "--LL=32768,8,64"]
    out = f"--cachegrind-out-file={tmp_path / 'out'}"
    tools = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *sizes, out, "/bin/true"]
    text = subprocess.run(tools, check=True, capture_output=True, text=True, cwd=tmp_path).stderr
    # WHEN its accesses go through such caches here
    folder = import_trace(log, tmp_path / "trace")
    result = simulate_buffer(folder, BufferOptions((4096,), (1,), caches="4KiB/4,32KiB/8"))
    first, last = result.caches
    counted = {
        name: [int(number.replace(",", "")) for number in re.findall(r"[0-9][0-9,]*", rest)[:3]]
        for name, rest in re.findall(r"==[0-9]+== (\w+ +\w+): +(.*)", text)
    }
    # THEN references and misses are the same, but for what differs between two runs of a program
    # (its environment) and for accesses to two lines, both of which go on to its last level
    pairs = {
        "I refs": result.fetches,
        "I1 misses": first.fetches,
        "D refs": result.loads + result.stores,
        "D1 misses": first.loads + first.stores,
        "LL misses": last.fetches + last.loads + last.stores,
    }
    names = {re.sub(r" +", " ", name): numbers[0] for name, numbers in counted.items()}
    for name, ours in pairs.items():
        assert ours == pytest.approx(names[name], rel=0.005), name
    assert names["D1 misses"] > 1000


def of(folder: Any, **chosen: Any) -> dict[str, Any]:
    """Return the one row of the table that has these values."""
    found = [
        row
        for row in rows_of(folder.table("simulations/buffer"))
        if all(row[name] == value for name, value in chosen.items())
    ]
    assert len(found) == 1
    return dict(found[0])


def test_a_small_trace_by_hand(tmp_path: Path) -> None:
    # GIVEN a cache of one line, of which a store is written back when the next line comes
    accesses = [("load", 0, 8), ("load", 8, 8), ("store", 64, 8), ("load", 4096, 8)]
    folder = memory_folder(tmp_path / "t", [*accesses, ("fetch", 64, 4)], instructions=1000)
    options = BufferOptions((32, 1024), (1, 2), caches="64B/1", instruction_ns=0.5)
    result = simulate_buffer(folder, options)
    assert (result.memory_reads, result.memory_writes, result.dirty_lines) == (4, 1, 0)
    assert result.caches[0].loads == 2
    assert (result.caches[0].stores, result.caches[0].fetches) == (1, 1)
    # THEN lines 0, 1, 64, 1 (written back) and 1 (for the fetch) go to rows 0, 0, 4, 0, 0
    one = {"level": "memory", "mapping": "lru", "row_bytes": 1024, "buffers": 1}
    row = of(folder, **one, operation="all")
    assert (row["accesses"], row["hits"], row["row_reads"], row["row_writes"]) == (5, 2, 3, 0)
    assert row["access_avg_ns"] == pytest.approx(12.5 + 3 * 55 / 5)
    assert row["dram_avg_ns"] == pytest.approx(12.5 + 3 * 25 / 5)
    assert row["unbuffered_avg_ns"] == pytest.approx(12.5 + 55 * 4 / 5 + 150 / 5)
    assert row["throughput_bytes_per_second"] == pytest.approx(320e9 / (5 * 45.5))
    # AND the program's own 500 ns are the same with both memories
    assert row["program_ratio"] == pytest.approx((500 + 137.5) / (500 + 227.5))
    assert of(folder, **one, operation="write")["program_ratio"] is None
    # AND a line of two rows of 32 bytes opens both
    row = of(folder, **one | {"row_bytes": 32, "buffers": 2}, operation="read")
    assert (row["accesses"], row["hits"], row["row_reads"]) == (4, 1, 6)
    # AND before the caches there are three loads and a store, no fetch
    row = of(folder, **one | {"level": "processor"}, operation="all")
    assert (row["accesses"], row["hits"], row["bytes"]) == (4, 2, 32)


def test_times_at_given_hit_rates(tmp_path: Path) -> None:
    # GIVEN a read and a write of two lines, without caches: two thirds of the accesses are writes
    folder = memory_folder(tmp_path / "t", [("load", 0, 64), ("store", 9999, 64)], instructions=10)
    options = BufferOptions((1024,), (1,), caches="none", instruction_ns=7.5)
    rates = to_builtins(simulate_buffer(folder, options))["hit_rates"]
    # THEN a miss adds 55 ns and, to writes, 150 ns; DRAM 25 ns; without buffers all pay
    assert [row["hit_rate"] for row in rates] == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert [row["access_avg_ns"] for row in rates] == pytest.approx(
        [12.5 + share * (55 + 150 * 2 / 3) for share in (0.5, 0.4, 0.3, 0.2, 0.1)]
    )
    assert [row["dram_avg_ns"] for row in rates] == pytest.approx([25, 22.5, 20, 17.5, 15])
    unbuffered = [row["unbuffered_avg_ns"] for row in rates]
    assert unbuffered == pytest.approx([12.5 + 55 / 3 + 100] * 5)
    assert rates[0]["program_ratio"] == pytest.approx((75 + 75) / (75 + 3 * 90))


def test_memories_of_a_what_if(tmp_path: Path) -> None:
    # GIVEN two reads of a row, and a memory whose rows are read in 5.5 ns, all else as asked
    folder = memory_folder(tmp_path / "t", [("load", 0, 8), ("load", 64, 8)])
    file = written(tmp_path / "what-if.toml", "[nvram.fast]\nread_ns = 5.5\n")
    asked = BufferOptions((512, 1024), (1, 4), times=Times(hit_ns=10), what_if=file)
    result = to_builtins(simulate_buffer(folder, asked))
    one = {"level": "memory", "mapping": "lru", "operation": "all", "row_bytes": 1024, "buffers": 4}
    # THEN both have a miss of two, and the time of each is its own
    for name, miss_ns in (("as asked", 55), ("fast", 5.5)):
        row = of(folder, **one, nvram=name)
        assert (row["hits"], row["program_ratio"]) == (1, None)
        assert row["access_avg_ns"] == pytest.approx(10 + miss_ns / 2)
    last = "fast: 12.8 ns an access with 4 x 1 KiB, 15.5 ns without buffers."
    assert result["headline"][-1] == last
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
        {"caches": "32KiB"},
        {"caches": "32KiB/0"},
        {"caches": "100/1"},
        {"caches": "0/1"},
        {"caches": ",".join(["1KiB/1"] * 5)},
        {"instruction_ns": -1.0},
        {"times": Times(hit_ns=0.0)},
        {"times": Times(read_ns=float("nan"))},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--"):
        BufferOptions(**options)


def test_the_studys_caches_are_the_default_unless_the_trace_is_behind_some() -> None:
    sizes = [(level.bytes, level.ways) for level in parse_caches("32KiB/8,15MiB/20", line_bytes=64)]
    assert sizes == [(32 << 10, 8), (15 << 20, 20)]


@pytest.mark.parametrize("more", [{"is_sampled": True}, {"is_filtered": True}])
def test_samples_and_what_comes_from_behind_caches_go_through_none(
    tmp_path: Path, more: dict[str, bool]
) -> None:
    folder = memory_folder(tmp_path / "t", [("load", 0, 8), ("load", 0, 8)], **more)
    result = simulate_buffer(folder, BufferOptions())
    assert (result.caches, result.memory_reads) == ([], 2)
    assert ("Samples: " in result.headline[0]) == ("is_sampled" in more)


def test_a_load_that_fits_the_caches_is_doubted_first(tmp_path: Path) -> None:
    folder = memory_folder(tmp_path / "t", [("load", at * 64, 8) for at in range(99)])
    first = simulate_buffer(folder, BufferOptions()).headline[0]
    assert first.startswith(
        "The memory is read less than the last cache holds (6.19 KiB of 15 MiB)"
    )
    again = simulate_buffer(folder, BufferOptions(caches="1KiB/1")).headline[0]
    assert again.startswith("99 loads and stores make 99 reads and 0 writes of the memory through")


def test_a_block_trace_is_refused(tmp_path: Path) -> None:
    # GIVEN a trace of requests, whose hit rate would be 1 - 64/row whatever they are
    folder = make_trace(tmp_path / "t", [("read", 0, 1)])
    result = invoke("simulate", "buffer", folder.path)
    refused(result, "is a block trace, whose requests are whole blocks", error=InputError)
    assert result.exit_code == 1
    assert "valgrind --tool=lackey --trace-mem=yes" in getattr(result.exception, "hint", "")
    assert not (folder.path / "simulations").exists()


MEMORY_ONLY = "holds memory accesses, and no requests"


def test_memory_accesses_are_no_block_trace(tmp_path: Path) -> None:
    folder = memory_folder(tmp_path / "t", [("load", 0, 8)])
    to = str(tmp_path / "out")
    for command in ("recommend", "classify", "simulate cache", "simulate tiers"):
        refused(invoke(*command.split(), folder.path), MEMORY_ONLY, error=InputError)
    refused(
        invoke("export", folder.path, "--format", "msr", "-o", to), MEMORY_ONLY, error=InputError
    )


@pytest.mark.parametrize(
    ("accesses", "message"),
    [([], "no access reaches the memory"), ([("load", 0, -5)], "an access has -5 bytes")],
)
def test_a_table_without_an_answer(tmp_path: Path, accesses: list[Access], message: str) -> None:
    folder = memory_folder(tmp_path / "t", accesses)
    with pytest.raises(InputError, match=message):
        simulate_buffer(folder, BufferOptions())
    assert not (folder.path / "simulations" / "buffer.json").exists()


@pytest.mark.parametrize("words", [("zip", "-q", "z.zip", "film"), ("unzip", "-qo", "y.zip")])
def test_two_loads_of_the_study_as_they_are_recorded(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    # GIVEN what valgrind records of zip, whose locality the study names, and of unzip
    if not shutil.which(words[0]):
        pytest.skip(f"needs {words[0]}")
    film = np.random.default_rng(1).integers(0, 256, 1 << 11, np.uint8).tobytes()
    (tmp_path / "film").write_bytes(film)
    with zipfile.ZipFile(tmp_path / "y.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("again", film[:1024] * 8)
    log = lackey(tmp_path, *words)
    done = succeed("import", log, "-o", tmp_path / "trace")
    assert "memory accesses (lackey)" in done.stdout
    chosen = ("--caches", "4KiB/4,64KiB/8", "--sizes", "2KiB,4KiB")
    answer = succeed("simulate", "buffer", tmp_path / "trace", *chosen).stdout
    # THEN pages are found more often before the caches than behind them
    line = r"16 buffers of 4 KiB: ([0-9.]+)% of loads.* ([0-9.]+)% of what"
    before, behind = re.findall(line, answer)[0]
    assert float(before) > max(90, float(behind))
    assert float(behind) > 30
    assert "of DRAM's throughput" in answer


def test_run_takes_memory_accesses_to_a_report(tmp_path: Path) -> None:
    folder = memory_folder(tmp_path / "t", some_accesses(300))
    done = succeed("run", folder.path)
    assert "loads and stores make" in done.stdout
    assert "Row buffers of an NVRAM" in (folder.path / "report.html").read_text()

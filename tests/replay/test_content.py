"""What reaches the target: the right bytes at the right place, by every engine."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.replay.program import (
    DISCARD,
    FLUSH,
    FUA,
    PREFLUSH,
    READ,
    WRITE,
    WRITE_ZEROES,
    content,
    expected_content,
    record,
    run,
    write_plan,
)

ENGINES = ("threads", "io_uring", "dax")
SIZE_SECTORS = 16384


def mixed(seed: int, count: int) -> list[tuple[int, ...]]:
    """Requests of all kinds; aligned to 4 KiB, so that O_DIRECT takes them."""
    random = np.random.default_rng(seed)
    records = []
    for number in range(count):
        operation = int(random.choice([READ, WRITE, WRITE, WRITE, FLUSH, DISCARD, WRITE_ZEROES]))
        if operation == FLUSH:
            records.append(record(FLUSH, at_ns=number * 1000))
            continue
        sectors = 8 * int(random.integers(1, 33))
        sector = 8 * int(random.integers(0, (SIZE_SECTORS - sectors) // 8 + 1))
        flags = int(random.choice([0, 0, FUA, PREFLUSH, FUA | PREFLUSH]))
        flags = flags if operation == WRITE else 0
        records.append(record(operation, sector, sectors, at_ns=number * 1000, flags=flags))
    return records


@pytest.mark.parametrize("engine", ENGINES)
def test_every_byte_is_what_and_where_the_plan_says(tmp_path: Path, engine: str) -> None:
    # GIVEN requests of all kinds that overlap each other
    records = mixed(seed=1, count=600)
    plan = write_plan(tmp_path / "a.plan", records, needed_sectors=SIZE_SECTORS)
    # WHEN they run one after the other
    target = tmp_path / "target"
    ran = run(
        plan,
        "--target",
        str(target),
        "--engine",
        engine,
        "--pace",
        "fast",
        "--depth",
        "1",
        "--keep",
    )
    # THEN the file is what the same requests make of an array of zeroes
    assert ran.code == 0, ran.messages
    assert ran.summary["engine"]["used"] == engine
    assert ran.summary["counts"]["done"] == 600
    assert (content(target) == expected_content(records, SIZE_SECTORS * 512)).all()


@pytest.mark.parametrize("engine", ["threads", "io_uring"])
def test_depth_changes_no_byte(tmp_path: Path, engine: str) -> None:
    # GIVEN writes that never overlap, in random order
    order = np.random.default_rng(2).permutation(SIZE_SECTORS // 16)
    records = [record(WRITE, 16 * int(place), 16, flags=FUA * (place % 2)) for place in order]
    plan = write_plan(tmp_path / "a.plan", records)
    # WHEN 64 of them are in flight
    target = tmp_path / "target"
    ran = run(
        plan,
        "--target",
        str(target),
        "--engine",
        engine,
        "--pace",
        "fast",
        "--depth",
        "64",
        "--keep",
    )
    # THEN all of the file is written
    assert ran.summary["in_flight_max"] == 64
    assert (content(target) == expected_content(records, SIZE_SECTORS * 512)).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sectors", [1, 7])
@pytest.mark.parametrize("direct", ["auto", "off"])
def test_odd_addresses_are_written_direct_or_not(
    tmp_path: Path, engine: str, sectors: int, direct: str
) -> None:
    # GIVEN addresses and lengths that are no multiples of 4 KiB
    records = [record(WRITE, 3, sectors), record(WRITE, 100 + sectors, sectors)]
    plan = write_plan(tmp_path / "a.plan", records)
    # WHEN they run
    arguments = ("--engine", engine, "--direct", direct, "--keep")
    ran = run(plan, "--target", str(tmp_path / "t"), *arguments)
    # THEN they are written, and buffered I/O is said to be that
    size = (100 + 2 * sectors) * 512
    assert (content(tmp_path / "t") == expected_content(records, size)).all()
    if direct == "off":
        assert ran.summary["targets"][0]["is_direct"] is False
        assert ran.summary["targets"][0]["direct_note"] == "buffered I/O was asked for"


def test_long_write_zeroes_where_the_file_system_has_no_zero_range(tmp_path: Path) -> None:
    # GIVEN tmpfs, which lacks zero range and O_DIRECT, and a range longer than any buffer
    records = [record(WRITE, 0, 2048), record(WRITE_ZEROES, 64, 1900), record(DISCARD, 0, 8)]
    plan = write_plan(tmp_path / "a.plan", records)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        target = Path(place, "t")
        for engine in ENGINES:
            # WHEN it runs by either engine
            ran = run(
                plan, "--target", str(target), "--engine", engine, "--pace", "fast",
                "--depth", "1", "--keep",
            )  # fmt: skip
            # THEN the zeroes are written by hand and the summary names what was missing
            assert ran.code == 0, ran.messages
            assert (content(target) == expected_content(records, 2048 * 512)).all()
            if not ran.summary["targets"][0]["can_zero"]:
                assert ran.summary["targets"][0]["can_discard"] is True
            target.unlink()


def test_each_target_gets_its_own_requests(tmp_path: Path) -> None:
    # GIVEN one timeline for two targets
    records = [record(WRITE, 8 * i, 8, target=i % 2, at_ns=i * 1000) for i in range(64)]
    plan = write_plan(tmp_path / "a.plan", records, labels=("journal", "default"))
    # WHEN each label has its own path
    first, second = tmp_path / "journal", tmp_path / "rest"
    ran = run(plan, "--target", f"journal={first}", "--target", str(second), "--keep")
    # THEN each file holds the requests of its label and nothing else
    assert ran.code == 0, ran.messages
    size = 64 * 8 * 512
    assert (content(first) == expected_content(records[::2], size)).all()
    assert (content(second) == expected_content(records[1::2], size)).all()


def test_reads_past_the_end_of_a_file_that_shrank_are_errors(tmp_path: Path) -> None:
    # GIVEN a file that is long enough by its size, but whose plan wraps nothing
    target = tmp_path / "t"
    target.write_bytes(bytes(4096))
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8), record(READ, 8, 8)])
    # WHEN the plan reads beyond its end
    ran = run(plan, "--target", str(target))
    # THEN it is refused before the first request
    assert ran.code == 1
    assert "1 requests lie beyond its 4096 bytes" in ran.messages
    assert not ran.completions.exists()


def test_wrap_and_skip_are_counted(tmp_path: Path) -> None:
    # GIVEN a file of half the plan's size
    target = tmp_path / "t"
    target.write_bytes(bytes(8 * 4096))
    records = [record(READ, 8 * i, 8, at_ns=i) for i in range(16)]
    plan = write_plan(tmp_path / "a.plan", records)
    # WHEN addresses are wrapped, or skipped
    wrapped = run(plan, "--target", str(target), "--out-of-range", "wrap")
    skipped = run(plan, "--target", str(target), "--out-of-range", "skip")
    # THEN eight requests are concerned
    assert wrapped.summary["counts"]["moved"] == 8
    assert wrapped.summary["counts"]["done"] == 16
    assert skipped.summary["counts"]["skipped_out_of_range"] == 8
    assert skipped.summary["counts"]["done"] == 8
    assert skipped.statuses() == {i: "done" if i < 8 else "skipped_out_of_range" for i in range(16)}


def test_a_wrapped_write_stays_inside_and_aligned(tmp_path: Path) -> None:
    # GIVEN a file of 10 blocks and a write of 4 blocks whose wrapped start would pass the end
    target = tmp_path / "t"
    target.write_bytes(bytes(10 * 4096))
    plan = write_plan(tmp_path / "a.plan", [record(WRITE, 8 * 19, 32)])
    # WHEN it wraps
    ran = run(plan, "--target", str(target), "--write-to", str(target), "--out-of-range", "wrap")
    # THEN it lies at the end
    assert ran.code == 0, ran.messages
    assert target.stat().st_size == 10 * 4096
    assert (content(target) == expected_content([record(WRITE, 48, 32)], 10 * 4096)).all()

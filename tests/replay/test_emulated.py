"""The emulated engine: when a device that exists as its service times is done."""

import heapq
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_line import invoke, succeed
from tests.replay.program import DISK, Record, Replay, content, device, expected_content, record
from tests.replay.trace import ROWS, trace
from tracekit.errors import UsageError
from tracekit.plans.block_plan import FLUSH, FUA, PREFLUSH, READ, WRITE, WRITE_ZEROES

SPEC = {
    "read_setup_ns": 100_000,
    "write_setup_ns": 300_000,
    "sequential_setup_ns": 20_000,
    "read_bytes_s": 4_096_000_000,
    "write_bytes_s": 409_600_000,
    "flush_ns": 500_000,
    "fua_ns": 50_000,
}
# A machine under load may look at the clock late; it must never look early.
LATE_NS = 2_000_000


def emulated(**changes: int) -> dict[str, Any]:
    """Return the options of a run on the device."""
    return {"engine": "emulated", "emulate": device(**(SPEC | changes))}


ONE_BY_ONE: dict[str, Any] = {"pace": "fast", "depth": 1}


def service_ns(before_end: int | None, row: Record) -> int:
    """Say what a request costs, from the words of INTERFACE.md."""
    _, sector, _, sectors, operation, flags, *_ = row
    if operation == FLUSH:
        return SPEC["flush_ns"]
    if operation not in (READ, WRITE):
        return 0
    word = "read" if operation == READ else "write"
    key = "sequential_setup_ns" if sector == before_end else f"{word}_setup_ns"
    cost = SPEC[key] + sectors * 512 * 1_000_000_000 // SPEC[f"{word}_bytes_s"]
    cost += SPEC["fua_ns"] if flags & FUA else 0
    return cost + (SPEC["flush_ns"] if flags & PREFLUSH else 0)


def mixed(count: int, gap_ns: int) -> list[Record]:
    random = np.random.default_rng(7)
    rows, end = [], 0
    for number in range(count):
        operation = int(random.choice([READ, WRITE, WRITE, FLUSH, WRITE_ZEROES]))
        sectors = 0 if operation == FLUSH else int(random.integers(1, 64))
        sector = end if random.random() < 0.5 else int(random.integers(0, 10_000))
        flags = int(random.choice([0, FUA, PREFLUSH])) if operation == WRITE else 0
        sector = 0 if operation == FLUSH else sector
        rows.append(record(operation, sector, sectors, at_ns=number * gap_ns, flags=flags))
        end = end if operation == FLUSH else sector + sectors
    return rows


def end_of(row: Record, before: int | None) -> int | None:
    """Return where the last transfer ended."""
    return row[1] + row[3] if row[4] in (READ, WRITE) else before


@pytest.mark.plain
@pytest.mark.parametrize("lanes", [1, 3])
def test_each_request_is_done_when_the_device_would_be(replay: Replay, lanes: int) -> None:
    # GIVEN requests that come faster than the device serves them
    rows = mixed(400, 100_000)
    # WHEN they run at their times
    done = replay(rows, **emulated(lanes=lanes)).by_id()
    # THEN each is done when an explicit queue of that many servers says, from its submission on
    free, end, errors = [0] * lanes, None, []
    for row, found in zip(rows, done, strict=True):
        start = max(heapq.heappop(free), int(found["submit_ns"]))
        heapq.heappush(free, start + service_ns(end, row))
        errors.append(int(found["complete_ns"]) - (start + service_ns(end, row)))
        end = end_of(row, end)
    assert min(errors) >= 0
    assert np.median(errors) < LATE_NS


@pytest.mark.plain
def test_as_fast_as_possible_and_one_at_a_time_is_the_sum_of_service_times(replay: Replay) -> None:
    rows = mixed(300, 0)
    ran = replay(rows, **emulated(), **ONE_BY_ONE)
    end, total = None, 0
    for row in rows:
        total += service_ns(end, row)
        end = end_of(row, end)
    assert total <= ran.summary["timing"]["elapsed_ns"] < 3 * total
    assert ran.summary["engine"]["backing"] == "null"


def position_ns(head: int | None, sector: int, operation: int) -> int:
    """Say what it takes to get to a sector, from the words of INTERFACE.md."""
    if head == sector:
        return 0
    settle = DISK["write_settle_ns"] if operation == WRITE else 0
    if head is None:
        return DISK["seek_unknown_ns"] + settle + DISK["half_turn_ns"]
    if abs(sector - head) < DISK["track_sectors"]:
        return DISK["half_turn_ns"]
    share = min(abs(sector - head) / DISK["capacity_sectors"], 1.0)
    curve = DISK["seek_root_ns"] * share**0.5 + DISK["seek_linear_ns"] * share
    return int(DISK["seek_track_ns"] + curve) + settle + DISK["half_turn_ns"]


@pytest.mark.plain
def test_a_disk_moves_its_head(replay: Replay) -> None:
    # GIVEN transfers near and far, at the same place and behind the one before, and flushes
    rows = mixed(300, 0)
    # WHEN they run one after the other on a disk with a sequential setup of 20 us
    ran = replay(rows, **emulated(**DISK), **ONE_BY_ONE)
    # THEN each takes the position of the head, the transfer and what was asked beside it
    head, errors = None, []
    for row, found in zip(rows, ran.by_id(), strict=True):
        _, sector, _, sectors, operation, *_ = row
        expected = service_ns(sector, row)  # with the sequential setup
        if operation in (READ, WRITE):
            expected += position_ns(head, sector, operation)
            head = sector + sectors
        errors.append(int(found["complete_ns"]) - int(found["submit_ns"]) - expected)
    # the program's sums are rounded down, in several steps
    assert min(errors) >= -5
    assert np.median(errors) < LATE_NS
    assert ran.target["device"]["seek_linear_ns"] == -200_000


def test_a_label_has_its_own_device_and_its_own_queue(replay: Replay) -> None:
    rows = [record(READ, 0, 8), record(READ, 100, 8, target=1), record(READ, 200, 8)]
    slow = device(**(SPEC | {"read_setup_ns": 30_000_000}))
    devices = [f"journal:{slow}", device(**SPEC)]
    ran = replay(rows, labels=("default", "journal"), engine="emulated", emulate=devices)
    done = ran.by_id()
    took = (done["complete_ns"] - done["submit_ns"]).tolist()
    assert all(ns >= least for ns, least in zip(took, (101_000, 30_001_000, 202_000), strict=True))
    setups = [target["device"]["read_setup_ns"] for target in ran.summary["targets"]]
    assert setups == [100_000, 30_000_000]


def test_the_only_label_may_be_named(replay: Replay) -> None:
    ran = replay([record(READ, 0, 1)], engine="emulated", emulate="default:" + device(**SPEC))
    assert ran.code == 0, ran.messages


def test_with_a_target_the_data_moves_too(replay: Replay, target: Path) -> None:
    rows = mixed(300, 0)
    options = {"target": target, "keep": True, **emulated(), **ONE_BY_ONE}
    ran = replay(rows, needed_sectors=10_064, **options)
    assert ran.code == 0
    assert ran.summary["engine"]["backing"] in ("io_uring", "threads")
    assert (content(target) == expected_content(rows, target.stat().st_size)).all()
    took = ran.rows()["complete_ns"] - ran.rows()["submit_ns"]
    assert int(took.sum()) >= sum(SPEC["flush_ns"] for row in rows if row[4] == FLUSH)


def test_the_command_takes_profiles_by_role(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    words = "--engine emulated --device hdd-15k --device journal=dax-pcm --pace fast --depth 1"
    done = succeed("replay", folder.path, *words.split())
    assert "emulated devices: hdd-15k, journal=dax-pcm" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--engine emulated", "--engine emulated --device hdd-7200"),
        ("--device hdd-15k", "need each other"),
        ("--engine emulated --device hdd-15", "did you mean hdd-15k?"),
        ("--engine emulated --device log=hdd-15k", "there is no role 'log'"),
        ("--engine emulated --device hdd-15k --device dax-pcm", "a device already"),
    ],
)
def test_the_command_refuses_what_is_no_device(tmp_path: Path, words: str, message: str) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    done = invoke("replay", folder.path, *words.split())
    assert isinstance(done.exception, UsageError)
    assert message in f"{done.exception} {done.exception.hint}"

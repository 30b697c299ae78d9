"""The emulated engine: when a device that exists as its service times is done."""

import heapq
from pathlib import Path

import numpy as np
import pytest

from tests.replay.program import (
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
from tests.replay.test_command import ROWS, tracekit
from tests.replay.trace import trace

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


def spec(**changes: int) -> str:
    return ",".join(f"{key}={value}" for key, value in {**SPEC, **changes}.items())


def service_ns(before_end: int | None, row: tuple[int, ...]) -> int:
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


def mixed(count: int, gap_ns: int) -> list[tuple[int, ...]]:
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


@pytest.mark.plain
@pytest.mark.parametrize("lanes", [1, 3])
def test_each_request_is_done_when_the_device_would_be(tmp_path: Path, lanes: int) -> None:
    # GIVEN requests that come faster than the device serves them
    rows = mixed(400, 100_000)
    plan = write_plan(tmp_path / "a.plan", rows)
    # WHEN they run at their times
    ran = run(plan, "--engine", "emulated", "--emulate", spec(lanes=lanes))
    # THEN each is done when an explicit queue of that many servers says, from its submission on
    done = {int(row["request_id"]): row for row in ran.rows()}
    free, end, errors = [0] * lanes, None, []
    for number, row in enumerate(rows):
        start = max(heapq.heappop(free), int(done[number]["submit_ns"]))
        heapq.heappush(free, start + service_ns(end, row))
        errors.append(int(done[number]["complete_ns"]) - (start + service_ns(end, row)))
        end = row[1] + row[3] if row[4] in (READ, WRITE) else end
    assert min(errors) >= 0
    assert np.median(errors) < LATE_NS


@pytest.mark.plain
def test_as_fast_as_possible_and_one_at_a_time_is_the_sum_of_service_times(tmp_path: Path) -> None:
    rows = mixed(300, 0)
    plan = write_plan(tmp_path / "a.plan", rows)
    ran = run(plan, "--engine", "emulated", "--emulate", spec(), "--pace", "fast", "--depth", "1")
    end, total = None, 0
    for row in rows:
        total += service_ns(end, row)
        end = row[1] + row[3] if row[4] in (READ, WRITE) else end
    assert total <= ran.summary["timing"]["elapsed_ns"] < 3 * total
    assert ran.summary["engine"]["backing"] == "null"


DISK = {
    "seek_track_ns": 100_000,
    "seek_root_ns": 900_000,
    "seek_linear_ns": -200_000,
    "seek_unknown_ns": 400_000,
    "write_settle_ns": 50_000,
    "half_turn_ns": 300_000,
    "track_sectors": 64,
    "capacity_sectors": 10_000,
}


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
def test_a_disk_moves_its_head(tmp_path: Path) -> None:
    # GIVEN transfers near and far, at the same place and behind the one before, and flushes
    rows = mixed(300, 0)
    plan = write_plan(tmp_path / "a.plan", rows)
    # WHEN they run one after the other on a disk with a sequential setup of 20 us
    ran = run(
        plan,
        *("--engine", "emulated", "--emulate", spec(**DISK), "--pace", "fast", "--depth", "1"),
    )
    # THEN each takes the position of the head, the transfer and what was asked beside it
    head, errors = None, []
    done = {int(row["request_id"]): row for row in ran.rows()}
    for number, row in enumerate(rows):
        _, sector, _, sectors, operation, *_ = row
        expected = service_ns(sector, row)  # with the sequential setup
        if operation in (READ, WRITE):
            expected += position_ns(head, sector, operation)
            head = sector + sectors
        took = int(done[number]["complete_ns"]) - int(done[number]["submit_ns"])
        errors.append(took - expected)
    # the program's sums are rounded down, in several steps
    assert min(errors) >= -5
    assert np.median(errors) < LATE_NS
    assert ran.summary["targets"][0]["device"]["seek_linear_ns"] == -200_000


@pytest.mark.parametrize(
    "device",
    [
        spec(half_turn_ns=1),
        spec(**DISK, lanes=2),
        spec(**{**DISK, "half_turn_ns": 0}),
        spec(**{**DISK, "seek_linear_ns": -2_000_000}),
        spec(**{**DISK, "capacity_sectors": 0}),
        spec(read_setup_ns=-1),
    ],
)
def test_half_a_disk_is_refused(tmp_path: Path, device: str) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])
    assert run(plan, "--engine", "emulated", "--emulate", device).code == 2


def test_a_label_has_its_own_device_and_its_own_queue(tmp_path: Path) -> None:
    rows = [record(READ, 0, 8), record(READ, 100, 8, target=1), record(READ, 200, 8)]
    plan = write_plan(tmp_path / "a.plan", rows, labels=("default", "journal"))
    slow = "journal:" + spec(read_setup_ns=30_000_000)
    ran = run(plan, "--engine", "emulated", "--emulate", slow, "--emulate", spec())
    took = {
        int(row["request_id"]): int(row["complete_ns"] - row["submit_ns"]) for row in ran.rows()
    }
    assert took[1] >= 30_001_000
    assert took[0] >= 101_000
    assert took[2] >= 202_000
    assert [target["device"]["read_setup_ns"] for target in ran.summary["targets"]] == [
        100_000,
        30_000_000,
    ]


def test_with_a_target_the_data_moves_too(tmp_path: Path) -> None:
    rows = mixed(300, 0)
    plan = write_plan(tmp_path / "a.plan", rows, needed_sectors=10_064)
    target = tmp_path / "t"
    ran = run(
        plan,
        *("--engine", "emulated", "--emulate", spec(), "--target", str(target), "--keep"),
        *("--pace", "fast", "--depth", "1"),
    )
    assert ran.code == 0
    assert ran.summary["engine"]["backing"] in ("io_uring", "threads")
    assert (content(target) == expected_content(rows, target.stat().st_size)).all()
    took = ran.rows()["complete_ns"] - ran.rows()["submit_ns"]
    assert int(took.sum()) >= sum(SPEC["flush_ns"] for row in rows if row[4] == FLUSH)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("read_setup_ns=1", "a key is missing"),
        (spec() + ",read_setup_ns=1", "read_setup_ns=1"),
        (spec(read_bytes_s=0), "read_bytes_s=0"),
        (spec(lanes=1025), "lanes=1025"),
        (spec() + ",colour=3", "colour=3"),
        ("", "a key is missing"),
        (spec() + ",flush_ns", "flush_ns"),
    ],
)
def test_what_is_no_device_is_a_usage_error(tmp_path: Path, text: str, told: str) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 1)])
    ran = run(plan, "--engine", "emulated", "--emulate", text)
    assert ran.code == 2
    assert f"--emulate: {told}" in ran.messages


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--engine", "emulated"], "need each other"),
        (["--emulate", spec(), "--engine", "null"], "need each other"),
        (
            ["--engine", "emulated", "--emulate", "swap:" + spec()],
            "no requests for a device 'swap'",
        ),
        (["--engine", "emulated", "--emulate", "default:" + spec()], ""),
    ],
)
def test_devices_must_fit_engine_and_plan(tmp_path: Path, arguments: list[str], told: str) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 1)])
    ran = run(plan, *arguments)
    assert (ran.code != 0) == bool(told)
    assert told in ran.messages


def test_the_command_takes_profiles_by_role(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    done = tracekit(
        *(folder.path, "--engine", "emulated", "--device", "hdd-15k"),
        *("--device", "journal=dax-pcm", "--pace", "fast", "--depth", "1"),
    )
    assert done.returncode == 0, done.stderr
    assert "emulated devices: hdd-15k, journal=dax-pcm" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--engine", "emulated"], "--engine emulated --device hdd-7200"),
        (["--device", "hdd-15k"], "need each other"),
        (["--engine", "emulated", "--device", "hdd-15"], "did you mean hdd-15k?"),
        (["--engine", "emulated", "--device", "log=hdd-15k"], "there is no role 'log'"),
        (
            ["--engine", "emulated", "--device", "hdd-15k", "--device", "dax-pcm"],
            "a device already",
        ),
    ],
)
def test_the_command_refuses_what_is_no_device(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    done = tracekit(folder.path, *arguments)
    assert done.returncode == 2
    assert told in done.stderr

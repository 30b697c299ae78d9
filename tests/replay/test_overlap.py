"""Requests in flight on the same sectors: counted, ordered or dropped."""

from pathlib import Path

import numpy as np
import pytest

from tests.replay.program import (
    DISCARD,
    FLUSH,
    READ,
    WRITE,
    WRITE_ZEROES,
    Ran,
    record,
    run,
    write_plan,
)

Row = tuple[int, ...]
# Slow and wide, so that all requests are in flight before the first is complete.
SLOW = "read_setup_ns=300000000,write_setup_ns=300000000,read_bytes_s=1000000000000000"
SLOW += ",write_bytes_s=1000000000000000,flush_ns=300000000,fua_ns=0,lanes=1024"


def rows(seed: int, count: int, *, space: int = 40_000) -> list[Row]:
    """Return requests of all kinds and sizes on two targets; a few are several MiB long."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        operation = int(random.choice([READ, READ, WRITE, WRITE, FLUSH, WRITE_ZEROES]))
        longest = 8000 if random.random() < 0.05 else 700 if random.random() < 0.2 else 16
        length = 0 if operation == FLUSH else int(random.integers(1, longest + 1))
        sector = 0 if operation == FLUSH else int(random.integers(0, space - length))
        found.append(record(operation, sector, length, target=int(random.integers(0, 2))))
    return found


def conflict(a: Row, b: Row) -> bool:
    writes = (WRITE, DISCARD, WRITE_ZEROES)
    shares = a[6] == b[6] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3] and a[3] > 0 and b[3] > 0
    return shares and (a[4] in writes or b[4] in writes)


def emulated(tmp_path: Path, plan_rows: list[Row], *arguments: str, device: str = SLOW) -> Ran:
    plan = write_plan(tmp_path / "a.plan", plan_rows, labels=("default", "other"))
    options = ("--engine", "emulated", "--emulate", device, "--pace", "fast", "--depth", "1024")
    return run(plan, *options, *arguments)


@pytest.mark.parametrize("seed", range(3))
def test_overlaps_are_counted_and_allowed(tmp_path: Path, seed: int) -> None:
    # GIVEN requests that are all in flight at once; those that cost nothing are left out
    plan_rows = [row for row in rows(seed, 500) if row[4] in (READ, WRITE, FLUSH)]
    ran = emulated(tmp_path, plan_rows)
    wanted = sum(
        any(conflict(before, row) for before in plan_rows[:number])
        for number, row in enumerate(plan_rows)
    )
    assert ran.summary["in_flight_max"] == len(plan_rows)
    assert ran.summary["counts"]["overlaps"] == wanted > 20
    assert ran.summary["counts"]["done"] == len(plan_rows)
    assert ran.summary["overlaps"] == "allow"


@pytest.mark.parametrize("seed", range(3))
def test_what_meets_one_in_flight_is_dropped(tmp_path: Path, seed: int) -> None:
    plan_rows = [row for row in rows(seed, 500) if row[4] in (READ, WRITE, FLUSH)]
    ran = emulated(tmp_path, plan_rows, "--overlaps", "drop")
    kept: list[Row] = []
    dropped = []
    for number, row in enumerate(plan_rows):
        if any(conflict(before, row) for before in kept):
            dropped.append(number)
        else:
            kept.append(row)
    found = [number for number, status in ran.statuses().items() if status == "skipped_overlap"]
    assert sorted(found) == dropped
    assert ran.summary["counts"]["skipped_overlap"] == len(dropped) > 20


@pytest.mark.parametrize("seed", range(3))
def test_what_meets_one_in_flight_waits_for_it(tmp_path: Path, seed: int) -> None:
    plan_rows = rows(seed, 300)
    quick = SLOW.replace("=300000000", "=2000000")
    ran = emulated(tmp_path, plan_rows, "--overlaps", "order", device=quick)
    done = {int(row["request_id"]): row for row in ran.rows()}
    assert ran.summary["counts"]["done"] == 300
    for number, row in enumerate(plan_rows):
        for before in range(number):
            if conflict(plan_rows[before], row):
                assert done[before]["complete_ns"] <= done[number]["submit_ns"]
    assert ran.summary["counts"]["overlaps"] > 10
    assert ran.summary["in_flight_max"] > 3


def test_with_one_in_flight_nothing_overlaps(tmp_path: Path) -> None:
    ran = emulated(
        tmp_path,
        [record(WRITE, 0, 8)] * 5,
        "--depth",
        "1",
        device=SLOW.replace("300000000", "1000"),
    )
    assert ran.summary["counts"]["overlaps"] == 0

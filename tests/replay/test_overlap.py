"""Requests in flight on the same sectors: counted, ordered or dropped."""

import numpy as np
import pytest

from tests.replay.program import Ran, Record, Replay, device, record
from tracekit.plans.block_plan import DISCARD, FLUSH, READ, WRITE, WRITE_ZEROES


def rows(seed: int, count: int, *, space: int = 40_000) -> list[Record]:
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


def conflict(a: Record, b: Record) -> bool:
    writes = (WRITE, DISCARD, WRITE_ZEROES)
    shares = a[6] == b[6] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3] and a[3] > 0 and b[3] > 0
    return shares and (a[4] in writes or b[4] in writes)


def emulated(
    replay: Replay,
    records: list[Record],
    overlaps: str,
    *,
    ns: int = 300_000_000,
    depth: int = 1024,
) -> Ran:
    """Run on a device so slow and wide that all requests are in flight before the first is done."""
    times = dict.fromkeys(("read_setup_ns", "write_setup_ns", "flush_ns"), ns)
    slow = device(**times, read_bytes_s=10**15, write_bytes_s=10**15, lanes=1024)
    options = {"engine": "emulated", "emulate": slow, "pace": "fast"}
    options |= {} if overlaps == "allow" else {"overlaps": overlaps}
    return replay(records, labels=("default", "other"), depth=depth, **options)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("overlaps", ["allow", "drop"])
def test_what_meets_one_in_flight_is_counted_or_dropped(
    replay: Replay, seed: int, overlaps: str
) -> None:
    # GIVEN requests that are all in flight at once; those that cost nothing are left out
    records = [row for row in rows(seed, 500) if row[4] in (READ, WRITE, FLUSH)]
    ran = emulated(replay, records, overlaps)
    running: list[Record] = []
    meeting = []
    for number, row in enumerate(records):
        is_met = any(conflict(before, row) for before in running)
        if is_met:
            meeting.append(number)
        if overlaps == "allow" or not is_met:
            running.append(row)
    assert len(meeting) > 20
    assert ran.summary["overlaps"] == overlaps
    if overlaps == "allow":
        assert ran.summary["in_flight_max"] == ran.counts["done"] == len(records)
        assert ran.counts["overlaps"] == len(meeting)
    else:
        dropped = [number for number, what in ran.statuses().items() if what == "skipped_overlap"]
        assert sorted(dropped) == meeting
        assert ran.counts["skipped_overlap"] == len(meeting)


@pytest.mark.parametrize("seed", range(3))
def test_what_meets_one_in_flight_waits_for_it(replay: Replay, seed: int) -> None:
    records = rows(seed, 300)
    ran = emulated(replay, records, "order", ns=2_000_000)
    done = ran.by_id()
    assert ran.counts["done"] == 300
    for number, row in enumerate(records):
        for before in range(number):
            if conflict(records[before], row):
                assert done[before]["complete_ns"] <= done[number]["submit_ns"]
    assert ran.counts["overlaps"] > 10
    assert ran.summary["in_flight_max"] > 3


def test_with_one_in_flight_nothing_overlaps(replay: Replay) -> None:
    ran = emulated(replay, [record(WRITE, 0, 8)] * 5, "allow", ns=1000, depth=1)
    assert ran.counts["overlaps"] == 0

"""Open and closed loops, late policies, and the part of a plan that runs."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.replay.program import READ, WRITE, Ran, record, run, write_plan

MS = 1_000_000
DEVICE = "read_setup_ns=3000000,write_setup_ns=1000000,read_bytes_s=1000000000000"
DEVICE += ",write_bytes_s=1000000000000,flush_ns=0,fua_ns=0"


def by_id(ran: Ran) -> npt.NDArray[np.void]:
    """Return the completions in the order of the plan."""
    rows = ran.rows()
    return rows[np.argsort(rows["request_id"])]


def test_a_closed_loop_waits_for_the_completion_and_thinks(tmp_path: Path) -> None:
    # GIVEN requests that each came some time after the completion of an earlier one
    random = np.random.default_rng(7)
    rows: list[tuple[int, ...]] = [record(READ, 0, 8)]
    for number in range(1, 200):
        after = int(random.integers(1, min(number, 5) + 1))
        think = int(random.integers(0, 300_000))
        sector = 8 * int(random.integers(0, 64))
        rows.append(record(READ, sector, 8, at_ns=number * MS, after=after, think_ns=think))
    plan = write_plan(tmp_path / "a.plan", rows)
    # WHEN they run in a closed loop on a device of a fixed service time, at twice the speed
    device = DEVICE.replace("read_setup_ns=3000000", "read_setup_ns=200000") + ",lanes=8"
    ran = run(plan, "--engine", "emulated", "--emulate", device, "--pace", "closed", "--speed", "2")
    # THEN each is due half its think time after the very completion that it waited for
    done = by_id(ran)
    expected = [0] + [
        int(done["complete_ns"][number - row[8]]) + row[7] // 2
        for number, row in enumerate(rows)
        if number
    ]
    assert done["intended_ns"].tolist() == expected
    assert (done["submit_ns"] >= done["intended_ns"]).all()
    assert ran.summary["pace"] == "closed"
    assert ran.summary["issue_error"]["count"] == 200


def test_a_request_that_waits_does_not_hold_up_those_behind_it(tmp_path: Path) -> None:
    # GIVEN a client whose request takes 100 ms and one whose requests take 1 ms, in one plan
    rows = [record(READ, 0, 8), record(WRITE, 64, 8)]
    rows += [record(READ, 0, 8, at_ns=MS, after=2, think_ns=0)]
    rows += [record(WRITE, 64, 8, at_ns=MS + n, after=2 if n == 1 else 1) for n in (1, 2)]
    plan = write_plan(tmp_path / "a.plan", rows)
    # WHEN they run in a closed loop with room for both
    device = DEVICE.replace("read_setup_ns=3000000", "read_setup_ns=100000000") + ",lanes=2"
    ran = run(plan, "--engine", "emulated", "--emulate", device, "--pace", "closed")
    # THEN the second client's requests are done before the first one's second request begins
    done = by_id(ran)
    assert done["submit_ns"][3] < done["submit_ns"][4] < done["submit_ns"][2]
    assert done["intended_ns"][3] == done["complete_ns"][1]
    assert ran.summary["window"]["next"] == len(rows)


def test_ordered_overlaps_keep_the_order_of_the_plan(tmp_path: Path) -> None:
    rows = [record(READ, 0, 8), record(WRITE, 64, 8)]
    rows += [record(READ, 0, 8, at_ns=MS, after=2), record(WRITE, 64, 8, at_ns=MS, after=2)]
    ran = run(
        write_plan(tmp_path / "a.plan", rows),
        *("--engine", "emulated", "--emulate", DEVICE + ",lanes=2"),
        *("--pace", "closed", "--overlaps", "order"),
    )
    done = by_id(ran)
    assert done["submit_ns"][2] <= done["submit_ns"][3]


def test_all_of_many_clients_are_handled(tmp_path: Path) -> None:
    # GIVEN more requests than the loop looks ahead, of a hundred clients that wait at random
    random = np.random.default_rng(5)
    count, clients = 20_000, 100
    last: dict[int, int] = {}
    rows = []
    for number in range(count):
        client = int(random.integers(clients))
        after = number - last.get(client, number)
        rows.append(record(READ, 8 * client, 8, at_ns=number, after=after, think_ns=number % 1000))
        last[client] = number
    # WHEN they run
    plan = write_plan(tmp_path / "a.plan", rows)
    device = DEVICE.replace("read_setup_ns=3000000", "read_setup_ns=10000") + ",lanes=64"
    ran = run(plan, "--engine", "emulated", "--emulate", device, "--pace", "closed")
    # THEN each is done, and after the one that it waited for
    assert ran.summary["counts"]["done"] == count
    done = by_id(ran)
    waits = [(number, row[8], row[7]) for number, row in enumerate(rows) if row[8]]
    own, steps, thinks = np.array(waits).T
    assert (done["intended_ns"][own] == done["complete_ns"][own - steps] + thinks).all()
    assert (done["submit_ns"] >= done["intended_ns"]).all()


@pytest.mark.plain
def test_a_faster_device_shortens_a_closed_loop(tmp_path: Path) -> None:
    rows = [record(READ, 0, 8)]
    rows += [record(READ, 0, 8, at_ns=n * MS, after=1, think_ns=100_000) for n in range(1, 20)]
    plan = write_plan(tmp_path / "a.plan", rows)
    fastest = []
    for setup_ns in (2_000_000, 500_000):
        device = DEVICE.replace("read_setup_ns=3000000", f"read_setup_ns={setup_ns}")
        took = []
        # Several times: a processor that others have makes a run longer, never shorter.
        for _ in range(5):
            ran = run(plan, "--engine", "emulated", "--emulate", device, "--pace", "closed")
            took.append(ran.summary["timing"]["elapsed_ns"])
        assert min(took) >= 20 * setup_ns + 19 * 100_000
        fastest.append(min(took))
    assert fastest[1] < 0.7 * fastest[0]


def test_what_waits_for_a_skipped_request_goes_on(tmp_path: Path) -> None:
    # GIVEN reads that wait for writes, on a target that may only be read
    target = tmp_path / "t"
    target.write_bytes(bytes(1 << 16))
    rows = [record(WRITE, 0, 8), record(READ, 0, 8, at_ns=MS, after=1, think_ns=MS)]
    ran = run(write_plan(tmp_path / "a.plan", rows), "--target", str(target), "--pace", "closed")
    assert ran.statuses() == {0: "skipped_read_only", 1: "done"}
    done = by_id(ran)
    assert done["intended_ns"][1] == done["complete_ns"][0] + MS


def late(tmp_path: Path, *arguments: str) -> tuple[Ran, npt.NDArray[np.int64]]:
    """Run requests that come every millisecond and take three, one at a time."""
    at = np.arange(60, dtype=np.int64) * MS
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8, at_ns=int(ns)) for ns in at])
    ran = run(plan, "--engine", "emulated", "--emulate", DEVICE, "--depth", "1", *arguments)
    return ran, at


def test_late_requests_are_caught_up_without_being_asked(tmp_path: Path) -> None:
    ran, at = late(tmp_path)
    done = by_id(ran)
    assert done["intended_ns"].tolist() == at.tolist()
    assert ran.summary["late"]["policy"] == "catch-up"
    assert ran.summary["late"]["slipped_ns"] == 0


def test_a_schedule_that_slips_moves_by_what_was_late(tmp_path: Path) -> None:
    ran, at = late(tmp_path, "--late", "slip", "--late-limit-ns", "500000")
    done = by_id(ran)
    slipped = 0
    for number, row in enumerate(done):
        assert row["intended_ns"] == at[number] + slipped
        lag = int(row["submit_ns"]) - int(row["intended_ns"])
        slipped += lag if lag > 500_000 else 0
    assert ran.summary["late"]["slipped_ns"] == slipped
    assert slipped >= 59 * 2 * MS - 60 * 500_000


def test_late_requests_are_dropped_and_counted(tmp_path: Path) -> None:
    ran, at = late(tmp_path, "--late", "drop", "--late-limit-ns", "500000")
    done = by_id(ran)
    is_dropped = done["status"] == 5
    lag = done["submit_ns"].astype(np.int64) - done["intended_ns"].astype(np.int64)
    assert done["intended_ns"].tolist() == at.tolist()
    assert (is_dropped == (lag > 500_000)).all()
    assert ran.summary["counts"]["skipped_late"] == int(is_dropped.sum()) >= 30
    assert ran.summary["counts"]["not_reached"] == 0


def spaced(tmp_path: Path, count: int = 9000) -> Path:
    """Make a plan of three blocks, a request every 10 us, two of them at each time."""
    rows = [record(READ, 8 * (n % 64), 8, at_ns=n // 2 * 10_000) for n in range(count)]
    return write_plan(tmp_path / "a.plan", rows)


@pytest.mark.parametrize(
    ("arguments", "first", "end"),
    [
        (("--from-ns", "30000000"), 6000, 9000),
        (("--from-ns", "29990001"), 6000, 9000),
        (("--from-ns", "20480000"), 4096, 9000),
        (("--until-ns", "10000"), 0, 2),
        (("--until-ns", "20480000"), 0, 4096),
        (("--until-ns", "99000000"), 0, 9000),
        (("--from-ns", "20470000", "--until-ns", "20490000"), 4094, 4098),
        (("--first", "4097"), 4097, 9000),
        (("--first", "4097", "--until-ns", "40960000"), 4097, 8192),
    ],
)
def test_only_a_part_of_the_plan_runs(
    tmp_path: Path, arguments: tuple[str, ...], first: int, end: int
) -> None:
    ran = run(spaced(tmp_path), "--engine", "null", *arguments)
    done = by_id(ran)
    assert done["request_id"].tolist() == list(range(first, end))
    from_ns = int(arguments[1]) if arguments[0] == "--from-ns" else first // 2 * 10_000
    expected = [n // 2 * 10_000 - from_ns for n in range(first, end)]
    assert done["intended_ns"].tolist() == expected
    assert ran.summary["counts"]["planned"] == end - first
    assert ran.summary["counts"]["not_reached"] == 0
    assert ran.summary["plan"]["requests"] == 9000
    window = ran.summary["window"]
    assert (window["first"], window["end"], window["from_ns"]) == (first, end, from_ns)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--from-ns", "99000000"), 1, "has no requests in the part"),
        (("--first", "9000"), 1, "has no requests in the part"),
        (("--from-ns", "5", "--until-ns", "5"), 2, "must be later"),
        (("--from-ns", "5", "--first", "5"), 2, "exclude each other"),
        (("--pace", "closed", "--late", "slip"), 2, "--late slip needs --pace trace"),
        (("--pace", "fast", "--late", "drop"), 2, "--late drop needs --pace trace"),
        (("--late", "never"), 2, "does not take 'never'"),
        (("--max-idle-ns", "-1"), 2, "does not take '-1'"),
    ],
)
def test_a_part_that_is_none_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    ran = run(spaced(tmp_path), "--engine", "null", *arguments)
    assert ran.code == code
    assert message in ran.messages
    assert len(ran.messages.splitlines()) == 1


def test_what_waited_for_a_request_before_the_part_is_due_at_its_time(tmp_path: Path) -> None:
    rows = [record(READ, 0, 8)]
    rows += [record(READ, 0, 8, at_ns=n * MS, after=1, think_ns=7) for n in range(1, 10)]
    ran = run(
        write_plan(tmp_path / "a.plan", rows), *("--engine", "null", "--pace", "closed"),
        *("--first", "5"),
    )  # fmt: skip
    done = by_id(ran)
    expected = [0, *(int(ns) + 7 for ns in done["complete_ns"][:-1])]
    assert done["intended_ns"].tolist() == expected


@pytest.mark.parametrize("speed", [1, 2])
def test_idle_gaps_are_cut_and_counted(tmp_path: Path, speed: int) -> None:
    # GIVEN bursts with long gaps between them
    random = np.random.default_rng(11)
    gaps = np.where(random.random(300) < 0.1, 50 * MS, random.integers(0, 20_000, 300))
    gaps[0] = 0
    at = np.cumsum(gaps)
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8, at_ns=int(ns)) for ns in at])
    # WHEN no gap may be longer than 0.1 ms
    options: dict[str, Any] = {}
    ran = run(
        plan, *("--engine", "null", "--max-idle-ns", "100000", "--speed", str(speed)), **options
    )
    # THEN the others are as they were, and what was cut is told
    kept = np.minimum(gaps, 100_000)
    assert by_id(ran)["intended_ns"].tolist() == (np.cumsum(kept) // speed).tolist()
    assert ran.summary["window"]["idle_gaps_cut"] == int((gaps > 100_000).sum()) > 10
    assert ran.summary["window"]["idle_cut_ns"] == int((gaps - kept).sum())


def test_think_times_are_cut_like_gaps(tmp_path: Path) -> None:
    rows = [record(READ, 0, 8), record(READ, 0, 8, at_ns=MS, after=1, think_ns=1000 * MS)]
    plan = write_plan(tmp_path / "a.plan", rows)
    ran = run(plan, "--engine", "null", "--pace", "closed", "--max-idle-ns", "2000")
    done = by_id(ran)
    assert done["intended_ns"][1] == done["complete_ns"][0] + 2000

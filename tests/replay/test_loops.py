"""Open and closed loops, late policies, the part of a plan that runs, and overlaps in flight."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.replay.disk import call, image, loop
from tests.replay.program import Ran, Record, Replay, command, device, play, record, write_plan
from tracekit.plans.block_plan import DISCARD, FLUSH, READ, WRITE, WRITE_ZEROES

MS = 1_000_000


def closed(read_setup_ns: int, **more: int) -> dict[str, Any]:
    """Return the options of a closed loop on an emulated device."""
    emulate = device(read_setup_ns=read_setup_ns, write_setup_ns=MS, **more)
    return {"engine": "emulated", "emulate": emulate, "pace": "closed"}


def test_a_closed_loop_waits_for_the_completion_and_thinks(replay: Replay) -> None:
    # GIVEN requests that each came some time after the completion of an earlier one
    random = np.random.default_rng(7)
    rows: list[Record] = [record(READ, 0, 8)]
    for number in range(1, 200):
        after = int(random.integers(1, min(number, 5) + 1))
        think = int(random.integers(0, 300_000))
        sector = 8 * int(random.integers(0, 64))
        rows.append(record(READ, sector, 8, at_ns=number * MS, after=after, think_ns=think))
    # WHEN they run in a closed loop on a device of a fixed service time, at twice the speed
    ran = replay(rows, speed=2, **closed(200_000, lanes=8))
    # THEN each is due half its think time after the very completion that it waited for
    done = ran.by_id()
    expected = [
        int(done["complete_ns"][number - row[8]]) + row[7] // 2 if number else 0
        for number, row in enumerate(rows)
    ]
    assert done["intended_ns"].tolist() == expected
    assert (done["submit_ns"] >= done["intended_ns"]).all()
    assert ran.summary["pace"] == "closed"
    assert ran.summary["issue_error"]["count"] == 200


def test_a_request_that_waits_does_not_hold_up_those_behind_it(replay: Replay) -> None:
    # GIVEN a client whose request takes 100 ms and one whose requests take 1 ms, in one plan
    rows = [record(READ, 0, 8), record(WRITE, 64, 8)]
    rows += [record(READ, 0, 8, at_ns=MS, after=2, think_ns=0)]
    rows += [record(WRITE, 64, 8, at_ns=MS + n, after=2 if n == 1 else 1) for n in (1, 2)]
    # WHEN they run in a closed loop with room for both
    ran = replay(rows, **closed(100 * MS, lanes=2))
    # THEN the second client's requests are done before the first one's second request begins
    done = ran.by_id()
    assert done["submit_ns"][3] < done["submit_ns"][4] < done["submit_ns"][2]
    assert done["intended_ns"][3] == done["complete_ns"][1]
    assert ran.summary["window"]["next"] == len(rows)


def test_ordered_overlaps_keep_the_order_of_the_plan(replay: Replay) -> None:
    rows = [record(READ, 0, 8), record(WRITE, 64, 8)]
    rows += [record(READ, 0, 8, at_ns=MS, after=2), record(WRITE, 64, 8, at_ns=MS, after=2)]
    done = replay(rows, overlaps="order", **closed(3 * MS, lanes=2)).by_id()
    assert done["submit_ns"][2] <= done["submit_ns"][3]


def test_all_of_many_clients_are_handled(replay: Replay) -> None:
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
    ran = replay(rows, **closed(10_000, lanes=64))
    # THEN each is done, and after the one that it waited for
    assert ran.counts["done"] == count
    done = ran.by_id()
    waits = [(number, row[8], row[7]) for number, row in enumerate(rows) if row[8]]
    own, steps, thinks = np.array(waits).T
    assert (done["intended_ns"][own] == done["complete_ns"][own - steps] + thinks).all()
    assert (done["submit_ns"] >= done["intended_ns"]).all()


@pytest.mark.plain
def test_a_faster_device_shortens_a_closed_loop(replay: Replay) -> None:
    rows = [record(READ, 0, 8)]
    rows += [record(READ, 0, 8, at_ns=n * MS, after=1, think_ns=100_000) for n in range(1, 20)]
    least = [20 * setup_ns + 19 * 100_000 for setup_ns in (2 * MS, MS // 2)]
    fastest = [replay(rows, **closed(2 * MS)).summary["timing"]["elapsed_ns"]]
    for _ in range(40):
        # Several times: a processor that others have makes a run longer, never shorter.
        fastest.append(replay(rows, **closed(MS // 2)).summary["timing"]["elapsed_ns"])
        if min(fastest[1:]) < 0.7 * fastest[0]:
            break
    assert fastest[0] >= least[0]
    assert least[1] <= min(fastest[1:]) < 0.7 * fastest[0]


def test_what_waits_for_a_skipped_request_goes_on(replay: Replay, target: Path) -> None:
    # GIVEN reads that wait for writes, on a target that may only be read
    target.write_bytes(bytes(1 << 16))
    rows = [record(WRITE, 0, 8), record(READ, 0, 8, at_ns=MS, after=1, think_ns=MS)]
    ran = replay(rows, target=target, pace="closed")
    assert ran.statuses() == {0: "skipped_read_only", 1: "done"}
    done = ran.by_id()
    assert done["intended_ns"][1] == done["complete_ns"][0] + MS


AT_NS = np.arange(60, dtype=np.int64) * MS


def late(replay: Replay, **options: Any) -> tuple[Ran, npt.NDArray[np.void]]:
    """Run requests that come every millisecond and take three, one at a time."""
    rows = [record(READ, 0, 8, at_ns=int(ns)) for ns in AT_NS]
    ran = replay(rows, depth=1, engine="emulated", emulate=device(read_setup_ns=3 * MS), **options)
    return ran, ran.by_id()


def test_late_requests_are_caught_up_without_being_asked(replay: Replay) -> None:
    ran, done = late(replay)
    assert done["intended_ns"].tolist() == AT_NS.tolist()
    assert (ran.summary["late"]["policy"], ran.summary["late"]["slipped_ns"]) == ("catch-up", 0)


def test_a_schedule_that_slips_moves_by_what_was_late(replay: Replay) -> None:
    ran, done = late(replay, late="slip", late_limit_ns=500_000)
    slipped = 0
    for at_ns, row in zip(AT_NS, done, strict=True):
        assert row["intended_ns"] == at_ns + slipped
        lag = int(row["submit_ns"]) - int(row["intended_ns"])
        slipped += lag if lag > 500_000 else 0
    assert ran.summary["late"]["slipped_ns"] == slipped
    assert slipped >= 59 * 2 * MS - 60 * 500_000


def test_late_requests_are_dropped_and_counted(replay: Replay) -> None:
    ran, done = late(replay, late="drop", late_limit_ns=500_000)
    is_dropped = done["status"] == 5
    lag = done["submit_ns"].astype(np.int64) - done["intended_ns"].astype(np.int64)
    assert done["intended_ns"].tolist() == AT_NS.tolist()
    assert (is_dropped == (lag > 500_000)).all()
    assert ran.counts["skipped_late"] == int(is_dropped.sum()) >= 30
    assert ran.counts["not_reached"] == 0


@pytest.mark.parametrize(
    ("options", "first", "end"),
    [
        ({"from_ns": 30_000_000}, 6000, 9000),
        ({"from_ns": 29_990_001}, 6000, 9000),
        ({"from_ns": 20_480_000}, 4096, 9000),
        ({"until_ns": 10_000}, 0, 2),
        ({"until_ns": 20_480_000}, 0, 4096),
        ({"until_ns": 99_000_000}, 0, 9000),
        ({"from_ns": 20_470_000, "until_ns": 20_490_000}, 4094, 4098),
        ({"first": 4097}, 4097, 9000),
        ({"first": 4097, "until_ns": 40_960_000}, 4097, 8192),
    ],
)
def test_only_a_part_of_the_plan_runs(
    replay: Replay, options: dict[str, int], first: int, end: int
) -> None:
    # GIVEN a plan of three blocks, a request every 10 us, two of them at each time
    rows = [record(READ, 8 * (n % 64), 8, at_ns=n // 2 * 10_000) for n in range(9000)]
    ran = replay(rows, engine="null", **options)
    done = ran.by_id()
    assert done["request_id"].tolist() == list(range(first, end))
    from_ns = options.get("from_ns", first // 2 * 10_000)
    expected = [n // 2 * 10_000 - from_ns for n in range(first, end)]
    assert done["intended_ns"].tolist() == expected
    assert (ran.counts["planned"], ran.counts["not_reached"]) == (end - first, 0)
    assert ran.summary["plan"]["requests"] == 9000
    window = ran.summary["window"]
    assert (window["first"], window["end"], window["from_ns"]) == (first, end, from_ns)


def test_what_waited_for_a_request_before_the_part_is_due_at_its_time(replay: Replay) -> None:
    rows = [record(READ, 0, 8)]
    rows += [record(READ, 0, 8, at_ns=n * MS, after=1, think_ns=7) for n in range(1, 10)]
    done = replay(rows, engine="null", pace="closed", first=5).by_id()
    expected = [0, *(int(ns) + 7 for ns in done["complete_ns"][:-1])]
    assert done["intended_ns"].tolist() == expected


@pytest.mark.parametrize("speed", [1, 2])
def test_idle_gaps_are_cut_and_counted(replay: Replay, speed: int) -> None:
    # GIVEN bursts with long gaps between them
    random = np.random.default_rng(11)
    gaps = np.where(random.random(300) < 0.1, 50 * MS, random.integers(0, 20_000, 300))
    gaps[0] = 0
    rows = [record(READ, 0, 8, at_ns=int(ns)) for ns in np.cumsum(gaps)]
    # WHEN no gap may be longer than 0.1 ms
    ran = replay(rows, engine="null", max_idle_ns=100_000, speed=speed)
    # THEN the others are as they were, and what was cut is told
    kept = np.minimum(gaps, 100_000)
    assert ran.by_id()["intended_ns"].tolist() == (np.cumsum(kept) // speed).tolist()
    assert ran.summary["window"]["idle_gaps_cut"] == int((gaps > 100_000).sum()) > 10
    assert ran.summary["window"]["idle_cut_ns"] == int((gaps - kept).sum())


def test_think_times_are_cut_like_gaps(replay: Replay) -> None:
    rows = [record(READ, 0, 8), record(READ, 0, 8, at_ns=MS, after=1, think_ns=1000 * MS)]
    done = replay(rows, engine="null", pace="closed", max_idle_ns=2000).by_id()
    assert done["intended_ns"][1] == done["complete_ns"][0] + 2000


SECTORS = 2048  # long enough that no completion comes before one could fall asleep
PATIENT_NS = 400_000
COUNT = 120


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a loop device, which never completes a request in the call that submits it."""
    with loop(image(tmp_path / "image")) as device:
        yield device


def chain(think_ns: list[int]) -> list[Record]:
    """Return reads that each wait for the one before."""
    rows = [
        record(READ, SECTORS * (n % 8), SECTORS, at_ns=1_000_000 * n, after=1, think_ns=ns)
        for n, ns in enumerate(think_ns, start=1)
    ]
    return [record(READ, 0, SECTORS), *rows]


def early_ns(ran: Ran, think_ns: list[int]) -> npt.NDArray[np.int64]:
    """Return how much earlier each was due than its think time after the completion before."""
    done = ran.by_id()
    complete, intended = (done[name].astype(np.int64) for name in ("complete_ns", "intended_ns"))
    early: npt.NDArray[np.int64] = complete[:-1] + np.array(think_ns) - intended[1:]
    return early


@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_it_is_due_earlier_by_the_wake_up(replay: Replay, disk: Path, engine: str) -> None:
    # GIVEN a chain of requests that think for longer than a wake-up takes
    think_ns = [PATIENT_NS] * COUNT
    ran = replay(chain(think_ns), engine=engine, target=disk, pace="closed")
    if ran.summary["engine"]["used"] != engine:
        pytest.skip("this kernel refuses io_uring")
    # THEN each is due its think time after the completion as it was before somebody woke
    early, wake_up_ns = early_ns(ran, think_ns), ran.summary["clock"]["wake_up_ns"]
    assert 0 < wake_up_ns < PATIENT_NS
    assert set(early.tolist()) <= {0, wake_up_ns}
    assert (early == wake_up_ns).sum() > COUNT / 2


def test_it_looks_for_a_completion_that_somebody_looked_for(replay: Replay, disk: Path) -> None:
    # GIVEN a chain in which every other request came sooner than a sleeper could have woken
    think_ns = [0, PATIENT_NS] * (COUNT // 2)
    ran = replay(chain(think_ns), engine="io_uring", target=disk, pace="closed")
    if ran.summary["engine"]["used"] != "io_uring":
        pytest.skip("this kernel refuses io_uring")
    # THEN what these waited for was seen as it came, the others' after a sleep
    early = early_ns(ran, think_ns)
    assert (early[0::2] == 0).all()
    assert (early[1::2] == ran.summary["clock"]["wake_up_ns"]).sum() > COUNT / 4


def test_without_knowing_its_wake_up_it_looks_all_the_time(tmp_path: Path, disk: Path) -> None:
    # GIVEN a machine on which nobody may keep the processors from halting
    think_ns = [PATIENT_NS] * COUNT
    plan = write_plan(tmp_path / "a.plan", chain(think_ns))
    script = 'mount --bind /dev/full /dev/cpu_dma_latency && exec "$@"'
    alone = ["unshare", "--mount", "sh", "-c", script, "sh"]
    try:
        call(*alone, "true")
    except AssertionError as error:
        pytest.skip(f"needs a mount namespace of its own: {error}")
    ran = play(plan, [*alone, *command(plan, target=disk, pace="closed")])
    # THEN it says so, and no time is taken off
    assert ran.summary["clock"]["wake_up_ns"] == 0
    assert set(early_ns(ran, think_ns).tolist()) == {0}


@pytest.mark.parametrize(
    ("engine", "pace"), [("io_uring", "trace"), ("io_uring", "fast"), ("null", "closed")]
)
def test_only_a_closed_loop_that_sleeps_measures_it(
    replay: Replay, disk: Path, engine: str, pace: str
) -> None:
    options = {} if engine == "null" else {"target": disk}
    ran = replay(chain([0, 0]), engine=engine, pace=pace, **options)
    assert ran.summary["clock"]["wake_up_ns"] == 0


def random_records(seed: int, count: int, *, space: int = 40_000) -> list[Record]:
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
    records = [row for row in random_records(seed, 500) if row[4] in (READ, WRITE, FLUSH)]
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
    records = random_records(seed, 300)
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

"""When operations happen, how often, and what is measured of them."""

import json
import math
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.replay.processes import await_in
from tests.replay_files.program import KEPT, Operation, Replay, command, do, table, write_plan
from tracekit.plans.file_plan import CODES, CONTINUES, READ, UNTIMED, Setting

MS = 1_000_000


@pytest.fixture
def replay(replay: Replay) -> Replay:
    """Return the function with a file that is there."""
    return lambda threads, **options: replay(
        threads, **({"files": table("old", size_bytes=8192)} | options)
    )


def test_operations_start_at_their_times(replay: Replay) -> None:
    # GIVEN two threads that look at a file every 10 ms, the second 5 ms after the first
    due = [[(10 * step + late) * MS for step in range(10)] for late in (0, 5)]
    threads = [[do("stat", "old", start_ns=ns) for ns in times] for times in due]
    # WHEN they run at twice the speed
    ran = replay(threads, pace="trace", speed=2)
    # THEN none is early, and the most of them are less than 2 ms late
    rows = ran.rows()
    starts = np.concatenate([rows["start_ns"][rows["thread"] == thread] for thread in (0, 1)])
    late_ns = starts.astype(np.int64) - np.concatenate(due) // 2
    assert late_ns.min() >= 0
    assert np.median(late_ns) < 2 * MS
    assert ran.summary["issue_error"]["count"] == 20
    assert ran.summary["issue_error"]["max_ns"] == late_ns.max()


def test_think_times_come_after_the_operation_before(replay: Replay) -> None:
    rows = replay([[do("stat", "old", think_ns=3 * MS)] * 20], pace="closed").rows()
    gaps = rows["start_ns"][1:].astype(np.int64) - rows["end_ns"][:-1].astype(np.int64)
    assert gaps.min() >= 3 * MS
    assert np.median(gaps) < 5 * MS


def test_an_operation_waits_for_that_of_another_thread(replay: Replay) -> None:
    # GIVEN a thread that makes a file after 2000 other operations, and one that needs it at once
    busy: list[Operation] = [do("stat", "old")] * 2000
    maker = [*busy, do("create", "new", handle=0), do("unlink", "new", after=2003)]
    user = [do("open", "new", handle=1, after=2000), do("stat", "new", handle=1)]
    # WHEN both run ten times as fast as they can
    ran = replay([maker, user], setting=Setting(is_repeatable=True), repeat=10)
    # THEN no operation failed, and each came after the one that it waits for
    assert (ran.code, ran.counts["failed"]) == (0, 0)
    rows = ran.rows()
    for cycle in range(10):
        now = {int(row["operation_id"]): row for row in rows[rows["cycle"] == cycle]}
        assert now[2002]["start_ns"] >= now[2000]["end_ns"]
        assert now[2001]["start_ns"] >= now[2003]["end_ns"]


def test_a_plan_is_repeated_until_the_time_is_up(replay: Replay) -> None:
    thread = [do("create", "new", handle=0), do("close", "new", handle=0), do("unlink", "new")]
    endless = {"repeat": 0, "duration_ns": 200 * MS}
    replay([thread], **endless).refused("cannot be repeated")
    ran = replay([thread], setting=Setting(is_repeatable=True), **endless)
    assert (ran.code, ran.summary["ended_by"]) == (0, "time")
    assert 200 * MS <= ran.summary["timing"]["elapsed_ns"] < 300 * MS
    last = int(ran.rows()["cycle"].max())
    assert ran.counts["cycles"] in (last, last + 1)
    assert ran.of("create")["failed"] == 0


def test_a_run_without_end_is_refused(replay: Replay) -> None:
    replay([[do("stat", "old")]], repeat=0).refused("--duration-ns", code=2)


def test_a_sleeping_thread_sees_the_end_of_the_time(replay: Replay) -> None:
    thread = [do("stat", "old"), do("stat", "old", start_ns=3_600_000 * MS)]
    ran = replay([thread], pace="trace", duration_ns=100 * MS)
    assert (ran.code, ran.summary["ended_by"]) == (0, "time")
    assert ran.summary["timing"]["elapsed_ns"] == 100 * MS
    assert ran.counts["operations"] == 1


def test_what_is_untimed_and_what_warms_up_does_not_count(replay: Replay) -> None:
    # Far apart: a busy machine begins late, and what begins late in the warm-up is not in it.
    thread = [
        do("stat", "old", start_ns=0),
        do("stat", "old", start_ns=900 * MS),
        do("stat", "old", start_ns=910 * MS, flags=UNTIMED),
    ]
    ran = replay([thread], pace="trace", warm_up_ns=600 * MS)
    assert (ran.counts["operations"], ran.counts["untimed"]) == (1, 1)
    assert ran.rows()["is_timed"].tolist() == [0, 1, 0]
    assert 300 * MS <= ran.summary["timing"]["elapsed_ns"] < 900 * MS


def test_statistics_are_those_of_the_results(replay: Replay) -> None:
    # GIVEN a step of three reads, and single ones without step
    parts = ((0, CONTINUES), (4096, CONTINUES), (8192, 0))
    whole = [
        do("read", "old", handle=0, offset=offset, length=4096, step=0, flags=flags)
        for offset, flags in parts
    ]
    thread = [do("open", "old", handle=0, flags=READ)]
    thread += [*whole, do("read", "old", handle=0, length=100)] * 500
    files = table("old", size_bytes=10_000)
    ran = replay([thread], files=files, setting=Setting(steps=("whole",)))
    # THEN a step's time is the sum of its calls
    rows = ran.rows()
    latency = (rows["end_ns"] - rows["start_ns"]).astype(np.int64)
    steps = latency[rows["step"] == 0].reshape(-1, 3).sum(axis=1)
    for told, expected in (
        (ran.of("read"), latency[rows["operation"] == CODES["read"]]),
        (ran.of("whole", key="steps"), steps),
    ):
        assert told["done"] == len(expected)
        assert math.isclose(told["latency"]["mean_ns"], expected.mean(), abs_tol=0.1)
        for key, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p99_9_ns", 0.999)):
            exact = np.sort(expected)[math.ceil(share * len(expected)) - 1]
            assert exact <= told["latency"][key] <= exact * 1.008
        assert told["latency"]["max_ns"] == expected.max()
        assert sum(step["count"] for step in told["histogram"]) == len(expected)
        assert np.all(np.diff([step["up_to_ns"] for step in told["histogram"]]) > 0)
    # AND bytes are those that moved: the file ends in the third part
    assert ran.of("whole", key="steps")["bytes"] == 500 * 10_000
    assert ran.of("read")["short"] == 500
    assert ran.counts["steps"] == 500


def test_rates_over_time_are_sums_that_end_with_all(replay: Replay) -> None:
    thread = [do("stat", "old", start_ns=5 * step * MS) for step in range(20)]
    ran = replay([thread], pace="trace", interval_ns=20 * MS)
    rows = ran.summary["timeline"]
    assert len(rows) >= 4
    counts = [row["operations"] for row in rows]
    assert counts == sorted(counts)
    assert counts[-1] == 20
    # THEN each is what the results say, but for an operation that ended just then
    ends = ran.rows()["end_ns"]
    assert all(abs(row["operations"] - int((ends <= row["end_ns"]).sum())) <= 1 for row in rows)


def test_rates_over_time_that_are_late_are_caught_up_with(tmp_path: Path) -> None:
    # GIVEN a run of 1.5 s with a row for each millisecond
    thread = [do("stat", "old", start_ns=5 * step * MS) for step in range(301)]
    plan = write_plan(tmp_path / "plan", [thread], files=table("old"))
    line = command(plan, tmp_path, pace="trace", interval_ns=MS)
    with subprocess.Popen(line) as child:
        await_in(child, (tmp_path / KEPT / "old").exists)
        time.sleep(0.2)
        # WHEN the processor is taken away from it for 0.5 s
        child.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        child.send_signal(signal.SIGCONT)
        assert child.wait(20) == 0
    # THEN no row is missing, but for those due while it ended
    summary = json.loads(plan.with_suffix(".json").read_text())
    rows = len(summary["timeline"])
    assert rows > 0.9 * summary["timing"]["elapsed_ns"] / MS


def test_threads_run_side_by_side(replay: Replay) -> None:
    # GIVEN 16 threads that think 10 ms twenty times: one after the other they would take 3.2 s
    ran = replay([[do("stat", "old", think_ns=10 * MS)] * 20] * 16, pace="closed")
    assert ran.counts["operations"] == 320
    assert ran.summary["timing"]["elapsed_ns"] < 1600 * MS

"""When requests are issued. Limits are wide: the machine may be busy, drift shows all the same."""

import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.replay.program import READ, WRITE, record, run, write_plan
from tracekit._native import program_path
from tracekit.plans import block_plan


@pytest.mark.plain
@pytest.mark.parametrize("engine", ["null", "threads", "io_uring", "dax"])
def test_no_request_is_early_and_the_duration_is_kept(tmp_path: Path, engine: str) -> None:
    # GIVEN bursts and gaps over 0.4 s
    random = np.random.default_rng(3)
    at = np.cumsum(random.exponential(200_000, 2000)).astype(int)
    records = [record(READ, 8 * (i % 64), 8, at_ns=int(ns)) for i, ns in enumerate(at)]
    plan = write_plan(tmp_path / "a.plan", records)
    # WHEN they run at their times
    target = [] if engine == "null" else ["--target", str(tmp_path / "t")]
    ran = run(plan, "--engine", engine, *target)
    # THEN none is early, and at the end there are requests in time: what drifts never is again
    rows = ran.rows()
    error_ns = rows["submit_ns"].astype(int) - rows["intended_ns"].astype(int)
    assert error_ns.min() >= 0
    assert error_ns[-200:].min() < 50_000
    assert abs(ran.summary["timing"]["duration_error_ns"]) < 100_000_000
    assert (rows["complete_ns"] >= rows["submit_ns"]).all()


@pytest.mark.parametrize(
    ("speed", "expected"), [("1", 1_000_003), ("2", 500_001), ("3/2", 666_668), ("0.5", 2_000_006)]
)
def test_the_speed_is_an_exact_ratio(tmp_path: Path, speed: str, expected: int) -> None:
    plan = write_plan(
        tmp_path / "a.plan", [record(READ, 0, 1), record(READ, 0, 1, at_ns=1_000_003)]
    )
    ran = run(plan, "--engine", "null", "--speed", speed)
    assert sorted(ran.rows()["intended_ns"].tolist()) == [0, expected]
    assert ran.summary["timing"]["intended_duration_ns"] == expected


@pytest.mark.parametrize("speed", ["0", "-1", "x", "1/0", "0.0", "1e3", "", "2.", "/2"])
def test_what_is_no_speed_is_a_usage_error(tmp_path: Path, speed: str) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 1)])
    ran = run(plan, "--engine", "null", "--speed", speed)
    assert ran.code == 2
    assert "--speed does not take" in ran.messages


def test_percentiles_are_those_of_the_completions(tmp_path: Path) -> None:
    # GIVEN a run with thousands of different latencies
    records = [record(WRITE, 8 * (i % 512), 8, at_ns=i * 20_000) for i in range(5000)]
    plan = write_plan(tmp_path / "a.plan", records)
    ran = run(plan, "--target", str(tmp_path / "t"), "--engine", "threads")
    # WHEN numpy computes nearest-rank percentiles from the records
    rows = ran.rows()
    expected = {
        "service": rows["complete_ns"] - rows["submit_ns"],
        "response": rows["complete_ns"] - rows["intended_ns"],
    }
    found = ran.summary["operations"][0]
    found_error = ran.summary["issue_error"]
    pairs = [(found[name], values) for name, values in expected.items()]
    pairs.append((found_error, rows["submit_ns"] - rows["intended_ns"]))
    for told, values in pairs:
        # THEN the summary's are the same within the 0.8 % of its histogram
        ordered = np.sort(values.astype(np.int64))
        for key, share in (("p50_ns", 50), ("p90_ns", 90), ("p99_ns", 99), ("p99_9_ns", 99.9)):
            exact = int(ordered[int(np.ceil(len(ordered) * share / 100)) - 1])
            assert exact <= told[key] <= exact * 1.008 + 1
        assert told["min_ns"] == ordered[0]
        assert told["max_ns"] == ordered[-1]
        assert told["count"] == len(ordered)
        assert told["mean_ns"] == pytest.approx(values.mean(), rel=1e-6, abs=0.1)


def test_the_histograms_hold_every_latency(tmp_path: Path) -> None:
    # GIVEN a run with thousands of different latencies
    records = [record(WRITE, 8 * (i % 512), 8, at_ns=i * 20_000) for i in range(3000)]
    plan = write_plan(tmp_path / "a.plan", records)
    ran = run(plan, "--target", str(tmp_path / "t"), "--engine", "threads")
    rows, found = ran.rows(), ran.summary["operations"][0]
    for name, since in (("service", "submit_ns"), ("response", "intended_ns")):
        values = (rows["complete_ns"] - rows[since]).astype(np.int64)
        steps = found[f"{name}_histogram"]
        # THEN as many latencies are up to the end of each step as the steps until there hold
        ends = np.array([step["up_to_ns"] for step in steps])
        upto = np.cumsum([step["count"] for step in steps])
        assert (np.diff(ends) > 0).all()
        assert upto.tolist() == [int((values <= end).sum()) for end in ends]
        assert upto[-1] == len(values) == 3000


def test_late_requests_are_caught_up_and_their_cause_is_told(tmp_path: Path) -> None:
    # GIVEN 500 writes due at once, then one after 50 ms
    records = [record(WRITE, 8 * i, 8) for i in range(500)]
    records.append(record(WRITE, 0, 8, at_ns=50_000_000))
    plan = write_plan(tmp_path / "a.plan", records)
    # WHEN only one may be in flight
    arguments = ("--target", str(tmp_path / "t"), "--depth", "1", "--engine", "threads")
    ran = run(plan, *arguments)
    # THEN all are done; what was late was late because of the depth
    assert ran.summary["counts"]["done"] == 501
    assert ran.summary["in_flight_max"] == 1
    assert ran.summary["late"]["in_flight_full"] > 0
    late = ran.rows()["submit_ns"].astype(int) - ran.rows()["intended_ns"].astype(int)
    assert ran.summary["late"]["count"] == int((late > 100_000).sum())


def test_as_fast_as_possible_has_no_intended_times(tmp_path: Path) -> None:
    # GIVEN ten seconds of trace
    records = [record(READ, 0, 8, at_ns=i * 1_000_000) for i in range(10_000)]
    plan = write_plan(tmp_path / "a.plan", records)
    # WHEN it runs as fast as possible
    ran = run(plan, "--engine", "null", "--pace", "fast", "--depth", "7")
    # THEN it is over at once, in order, seven at a time
    assert ran.summary["timing"]["elapsed_ns"] < 5_000_000_000
    assert ran.summary["issue_error"] is None
    assert ran.summary["operations"][0]["response"] is None
    assert ran.summary["in_flight_max"] == 7
    assert np.all(np.diff(np.sort(ran.rows(), order="request_id")["submit_ns"].astype(int)) >= 0)


@pytest.mark.plain
def test_memory_does_not_grow_with_the_plan(tmp_path: Path) -> None:
    # GIVEN plans of 200,000 and 2,000,000 requests
    peaks = []
    for count in (200_000, 2_000_000):
        plan = tmp_path / f"{count}.plan"
        _write_reads(plan, count)
        # WHEN each runs as fast as possible
        ran = run(plan, "--engine", "null", "--pace", "fast")
        assert ran.summary["counts"]["done"] == count
        peaks.append(ran.summary["peak_memory_bytes"])
    # THEN the peak is the same within a megabyte, and far below the plan's 64 MB
    assert abs(peaks[1] - peaks[0]) < 1 << 20
    assert 1 << 20 < peaks[1] < 32 << 20


def _write_reads(path: Path, count: int) -> None:
    rows = np.zeros(count, block_plan.RECORD)
    rows["intended_ns"] = np.arange(count)
    rows["request_id"] = np.arange(count)
    rows["length_sectors"] = 8
    extents = (block_plan.Extent("disk", 0, 8, 0, 0),)
    with block_plan.open_new(path) as out:
        writer = block_plan.PlanWriter(out)
        writer.append(rows)
        writer.finish(block_plan.Tables(("default",), (4096,), extents, bytes(32), "queued"))


@pytest.mark.plain
def test_the_thread_that_waits_for_deadlines_takes_short_turns(tmp_path: Path) -> None:
    # GIVEN a kernel that shows the length of turns, and lets it be chosen
    own = _slice_ns("self")
    if own is None:
        pytest.skip("needs a kernel that shows the slices of its scheduler")
    plan = write_plan(
        tmp_path / "a.plan", [record(READ, 0, 8), record(READ, 0, 8, at_ns=60_000_000_000)]
    )
    # WHEN a run waits for a request
    place = ("--target", tmp_path / "t", "--engine", "threads", "--summary", "/dev/null")
    program = subprocess.Popen([program_path(), plan, *place, "--no-calibration"])
    try:
        tasks, deadline = Path(f"/proc/{program.pid}/task"), time.monotonic() + 15
        # Measuring how late sleeps end, before the other threads are there, takes short turns too.
        while len(list(tasks.iterdir())) == 1 or _slice_ns(program.pid) == own:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        # THEN its turns are the shortest that there are, and those of its other threads as before
        others = {int(task.name) for task in tasks.iterdir()} - {program.pid}
        assert _slice_ns(program.pid) == 100_000
        assert {_slice_ns(f"{program.pid}/task/{other}") for other in others} == {own}
    finally:
        program.terminate()
        assert program.wait() == 3


def _slice_ns(process: int | str) -> int | None:
    """Return how long a thread may run before another one; None if the kernel does not say."""
    try:
        text = Path(f"/proc/{process}/sched").read_text()
    except FileNotFoundError:
        return None
    found = re.search(r"^se\.slice +: +(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else None


@pytest.mark.plain
def test_long_waits_take_little_of_the_processor(tmp_path: Path) -> None:
    # GIVEN 100 requests, 20 ms apart
    plan = write_plan(
        tmp_path / "a.plan", [record(READ, 0, 8, at_ns=n * 20_000_000) for n in range(100)]
    )
    ran = run(plan, "--engine", "null")
    # THEN the thread slept nearly all of the two seconds
    cost = ran.summary["fidelity"]
    assert cost["cpu_user_ns"] + cost["cpu_system_ns"] < 500_000_000

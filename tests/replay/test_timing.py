"""When requests are issued. Limits are wide: the machine may be busy, drift shows all the same."""

import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import theilslopes

from tests.replay.program import Replay, command, device, record, run, write_plan
from tracekit.plans import block_plan
from tracekit.plans.block_plan import READ, WRITE

MS = 1_000_000


@pytest.mark.plain
@pytest.mark.parametrize("engine", ["null", "threads", "io_uring", "dax"])
def test_no_request_is_early_and_the_duration_is_kept(
    replay: Replay, target: Path, engine: str
) -> None:
    # GIVEN bursts and gaps over 0.4 s
    at = np.cumsum(np.random.default_rng(3).exponential(200_000, 2000)).astype(int)
    records = [record(READ, 8 * (i % 64), 8, at_ns=int(ns)) for i, ns in enumerate(at)]
    # WHEN they run at their times
    ran = replay(records, engine=engine, **({} if engine == "null" else {"target": target}))
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
def test_the_speed_is_an_exact_ratio(replay: Replay, speed: str, expected: int) -> None:
    records = [record(READ, 0, 1), record(READ, 0, 1, at_ns=1_000_003)]
    ran = replay(records, engine="null", speed=speed)
    assert sorted(ran.rows()["intended_ns"].tolist()) == [0, expected]
    assert ran.summary["timing"]["intended_duration_ns"] == expected


def test_percentiles_and_histograms_are_those_of_the_completions(
    replay: Replay, target: Path
) -> None:
    # GIVEN a run with thousands of different latencies
    records = [record(WRITE, 8 * (i % 512), 8, at_ns=i * 20_000) for i in range(5000)]
    ran = replay(records, target=target, engine="threads")
    # WHEN numpy computes nearest-rank percentiles from the records
    rows = {
        name: ran.rows()[f"{name}_ns"].astype(int) for name in ("submit", "intended", "complete")
    }
    found = ran.summary["operations"][0]
    service, response = rows["complete"] - rows["submit"], rows["complete"] - rows["intended"]
    for told, values in (
        (found["service"], service),
        (found["response"], response),
        (ran.summary["issue_error"], rows["submit"] - rows["intended"]),
    ):
        # THEN the summary's are the same within the 0.8 % of its histogram
        ordered = np.sort(values)
        for key, share in (("p50_ns", 50), ("p90_ns", 90), ("p99_ns", 99), ("p99_9_ns", 99.9)):
            exact = int(ordered[int(np.ceil(len(ordered) * share / 100)) - 1])
            assert exact <= told[key] <= exact * 1.008 + 1
        assert (told["min_ns"], told["max_ns"]) == (ordered[0], ordered[-1])
        assert told["count"] == len(ordered)
        assert told["mean_ns"] == pytest.approx(values.mean(), rel=1e-6, abs=0.1)
    for name, values in (("service", service), ("response", response)):
        steps = found[f"{name}_histogram"]
        # AND as many latencies are up to the end of each step as the steps until there hold
        ends = np.array([step["up_to_ns"] for step in steps])
        upto = np.cumsum([step["count"] for step in steps])
        assert (np.diff(ends) > 0).all()
        assert upto.tolist() == [int((values <= end).sum()) for end in ends]
        assert upto[-1] == len(values) == 5000


def test_late_requests_are_caught_up_and_their_cause_is_told(replay: Replay, target: Path) -> None:
    # GIVEN 500 writes due at once, then one after 50 ms, of which only one may be in flight
    records = [record(WRITE, 8 * i, 8) for i in range(500)] + [record(WRITE, 0, 8, at_ns=50 * MS)]
    ran = replay(records, target=target, depth=1, engine="threads")
    # THEN all are done; what was late was late because of the depth
    assert ran.counts["done"] == 501
    assert ran.summary["in_flight_max"] == 1
    assert ran.summary["late"]["in_flight_full"] > 0
    late = ran.rows()["submit_ns"].astype(int) - ran.rows()["intended_ns"].astype(int)
    assert ran.summary["late"]["count"] == int((late > 100_000).sum())


def test_as_fast_as_possible_has_no_intended_times(replay: Replay) -> None:
    # GIVEN ten seconds of trace
    records = [record(READ, 0, 8, at_ns=i * MS) for i in range(10_000)]
    ran = replay(records, engine="null", pace="fast", depth=7)
    # THEN it is over at once, in order, seven at a time, and has no times to be faithful to
    assert ran.summary["timing"]["elapsed_ns"] < 5_000_000_000
    assert ran.summary["issue_error"] is None
    assert ran.summary["operations"][0]["response"] is None
    assert ran.summary["in_flight_max"] == 7
    assert np.all(np.diff(ran.by_id()["submit_ns"].astype(int)) >= 0)
    fidelity = ran.summary["fidelity"]
    costs = {"cpu_user_ns", "cpu_system_ns", "preemptions", "punt_workers"}
    assert set(fidelity) == {"steal_ratio"} | costs
    assert 0 <= fidelity["steal_ratio"] <= 1


@pytest.mark.plain
def test_memory_does_not_grow_with_the_plan(tmp_path: Path) -> None:
    # GIVEN plans of 200,000 and 2,000,000 requests
    peaks = []
    for count in (200_000, 2_000_000):
        rows = np.zeros(count, block_plan.RECORD)
        rows["intended_ns"] = np.arange(count)
        rows["length_sectors"] = 8
        plan = write_plan(tmp_path / f"{count}.plan", rows)
        # WHEN each runs as fast as possible
        ran = run(plan, engine="null", pace="fast")
        assert ran.counts["done"] == count
        peaks.append(ran.summary["peak_memory_bytes"])
    # THEN the peak is the same within a megabyte, and far below the plan's 64 MB
    assert abs(peaks[1] - peaks[0]) < 1 << 20
    assert 1 << 20 < peaks[1] < 32 << 20


@pytest.mark.plain
def test_the_thread_that_waits_for_deadlines_takes_short_turns(
    tmp_path: Path, target: Path
) -> None:
    # GIVEN a kernel that shows the length of turns, and lets it be chosen
    own = _slice_ns("self")
    if own is None:
        pytest.skip("needs a kernel that shows the slices of its scheduler")
    plan = write_plan(
        tmp_path / "a.plan", [record(READ, 0, 8), record(READ, 0, 8, at_ns=60_000 * MS)]
    )
    # WHEN a run waits for a request
    line = command(plan, target=target, engine="threads", no_calibration=True)
    program = subprocess.Popen(line)
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
def test_long_waits_take_little_of_the_processor(replay: Replay) -> None:
    # GIVEN 100 requests, 20 ms apart
    ran = replay([record(READ, 0, 8, at_ns=n * 20 * MS) for n in range(100)], engine="null")
    # THEN the thread slept nearly all of the two seconds
    cost = ran.summary["fidelity"]
    assert cost["cpu_user_ns"] + cost["cpu_system_ns"] < 500 * MS


def test_the_distances_are_those_of_the_gaps(replay: Replay) -> None:
    # GIVEN gaps of many lengths, on a device that cannot keep up with the short ones
    at = np.cumsum(np.random.default_rng(2).exponential(300_000, 1500)).astype(int)
    rows = [record(READ, 0, 8, at_ns=int(ns)) for ns in at]
    ran = replay(rows, engine="emulated", emulate=device(read_setup_ns=400_000), depth=1)
    # WHEN Kolmogorov-Smirnov and Wasserstein distance are computed from the completions by ranks
    done = ran.by_id()
    intended, submit = (done[name].astype(np.int64) for name in ("intended_ns", "submit_ns"))
    wanted, found = np.sort(np.diff(intended)), np.sort(np.diff(submit))
    every = np.union1d(wanted, found)
    shares = [np.searchsorted(gaps, every, side="right") / len(gaps) for gaps in (wanted, found)]
    ks = float(np.abs(shares[0] - shares[1]).max())
    told = ran.summary["fidelity"]
    # THEN the summary's are the same, but for the 0.8 % of its steps
    assert ks > 0.2
    assert told["gap_ks_ratio"] == pytest.approx(ks, abs=0.03)
    assert told["gap_wasserstein_ns"] == pytest.approx(np.abs(wanted - found).mean(), rel=0.03)
    ratio = (submit[-1] - submit[0]) / (intended[-1] - intended[0])
    assert told["duration_ratio"] == pytest.approx(ratio, rel=1e-6)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("gap_ns", "slow_at", "is_drift"), [(MS, 210, False), (MS, None, False), (MS // 10, None, True)]
)
def test_drift_is_what_grows_and_no_burst(
    replay: Replay, gap_ns: int, slow_at: int | None, *, is_drift: bool
) -> None:
    # GIVEN requests of 0.2 ms, one at a time, that come slower or faster; or one that takes 30 ms
    rows = [
        record(READ, 0, 8, at_ns=n * gap_ns, target=int(n == slow_at)) for n in range(300)
    ] + [record(READ, 0, 8, at_ns=300 * gap_ns, target=1)]  # fmt: skip
    emulate = [f"fast:{device(read_setup_ns=200_000)}", f"slow:{device(read_setup_ns=30 * MS)}"]
    options = {"engine": "emulated", "emulate": emulate, "depth": 1, "until_ns": 300 * gap_ns}
    # The best of three: a processor that others have makes requests late, more and more or not.
    # (each leaves its completions in the place of those before)
    runs = [
        (one, one.by_id())
        for one in (replay(rows, labels=("fast", "slow"), **options) for _ in range(3))
    ]
    ran, done = min(runs, key=lambda pair: int(pair[1]["submit_ns"].sum()))
    # WHEN scipy finds the line of Theil and Sen through the medians of 64 parts
    intended = done["intended_ns"].astype(float)
    error = done["submit_ns"] - intended
    parts = [slice(first, first + 5) for first in range(0, 300, 5)]
    x = [(intended[part][0] + intended[part][-1]) / 2 for part in parts]
    y = [np.sort(error[part])[2] for part in parts]
    length = intended[-1] - intended[0]
    # THEN the drift is that, which is what was lost at the end, and nothing for a burst
    drift = ran.summary["timing"]["drift_ns"]
    assert drift == pytest.approx(theilslopes(y, x).slope * length, abs=0.02 * error.max())
    if is_drift:
        assert 0.5 < drift / (error[-1] - error[0]) < 2
    else:
        assert abs(drift) < max(MS, 0.1 * error.max())
    if slow_at:
        regression = np.polyfit(intended, error, 1)[0] * length
        assert abs(regression) > 2 * MS


def test_the_machine_is_measured_before_without_the_device(replay: Replay) -> None:
    # GIVEN a plan of 200 ms on a device that takes 3 ms a request
    rows = [record(READ, 0, 8, at_ns=n * MS) for n in range(200)]
    options = {"engine": "emulated", "emulate": device(read_setup_ns=3 * MS), "depth": 1}
    ran = replay(rows, until_ns=20 * MS, **options)
    # THEN the calibration ran no more than what was asked for, and was as late as the machine is
    machine = ran.summary["fidelity"]["machine_issue_error"]
    assert machine["count"] == len(ran.rows()) == 20
    assert machine["p50_ns"] < ran.summary["issue_error"]["p50_ns"]
    for more, count in (({}, 25), ({"speed": 2, "late": "drop"}, 50)):
        longer = replay(rows, until_ns=200 * MS, **options, **more)
        assert longer.summary["fidelity"]["machine_issue_error"]["count"] == count
    without = replay(rows, until_ns=20 * MS, no_calibration=True, **options)
    assert without.summary["fidelity"]["machine_issue_error"] is None


def test_cpu_time_is_that_of_the_run(replay: Replay) -> None:
    # GIVEN a run that spins before each deadline for all of 0.3 s
    rows = [record(READ, 0, 8, at_ns=n * 20_000) for n in range(15_000)]
    ran = replay(rows, engine="null", no_calibration=True)
    fidelity, elapsed = ran.summary["fidelity"], ran.summary["timing"]["elapsed_ns"]
    assert 0 < fidelity["cpu_user_ns"] + fidelity["cpu_system_ns"] < 2.5 * elapsed

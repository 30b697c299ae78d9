"""What a run says of its own faithfulness, against the completions it left."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.replay.program import READ, record, run, write_plan

MS = 1_000_000


def distances(
    intended_ns: npt.NDArray[np.int64], submit_ns: npt.NDArray[np.int64]
) -> tuple[float, float]:
    """Return the Kolmogorov-Smirnov and the Wasserstein distance of the gaps, by their ranks."""
    wanted, found = np.sort(np.diff(intended_ns)), np.sort(np.diff(submit_ns))
    at = np.union1d(wanted, found)
    share = [np.searchsorted(gaps, at, side="right") / len(gaps) for gaps in (wanted, found)]
    return float(np.abs(share[0] - share[1]).max()), float(np.abs(wanted - found).mean())


def test_the_distances_are_those_of_the_gaps(tmp_path: Path) -> None:
    # GIVEN gaps of many lengths, on a device that cannot keep up with the short ones
    random = np.random.default_rng(2)
    at = np.cumsum(random.exponential(300_000, 1500)).astype(int)
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8, at_ns=int(ns)) for ns in at])
    device = "read_setup_ns=400000,write_setup_ns=1,read_bytes_s=1000000000000"
    device += ",write_bytes_s=1000000000000,flush_ns=0,fua_ns=0"
    ran = run(plan, "--engine", "emulated", "--emulate", device, "--depth", "1")
    # WHEN the distances are computed from the completions
    rows = ran.rows()
    rows = rows[np.argsort(rows["request_id"])]
    intended, submit = (rows[name].astype(np.int64) for name in ("intended_ns", "submit_ns"))
    ks, wasserstein = distances(intended, submit)
    told = ran.summary["fidelity"]
    # THEN the summary's are the same, but for the 0.8 % of its steps
    assert ks > 0.2
    assert told["gap_ks_ratio"] == pytest.approx(ks, abs=0.03)
    assert told["gap_wasserstein_ns"] == pytest.approx(wasserstein, rel=0.03)
    ratio = (submit[-1] - submit[0]) / (intended[-1] - intended[0])
    assert told["duration_ratio"] == pytest.approx(ratio, rel=1e-6)


def test_the_machine_is_measured_before_without_the_device(tmp_path: Path) -> None:
    # GIVEN a plan of 200 ms on a device that takes 3 ms a request
    rows = [record(READ, 0, 8, at_ns=n * MS) for n in range(200)]
    plan = write_plan(tmp_path / "a.plan", rows)
    device = "read_setup_ns=3000000,write_setup_ns=1,read_bytes_s=1000000000000"
    device += ",write_bytes_s=1000000000000,flush_ns=0,fua_ns=0"
    arguments = ("--engine", "emulated", "--emulate", device, "--depth", "1", "--until-ns")
    ran = run(plan, *arguments, "20000000")
    # THEN the calibration ran no more than what was asked for, and was as late as the machine is
    machine = ran.summary["fidelity"]["machine_issue_error"]
    assert machine["count"] == 20
    assert machine["p50_ns"] < ran.summary["issue_error"]["p50_ns"]
    assert len(ran.rows()) == 20
    longer = run(plan, *arguments, "200000000").summary["fidelity"]["machine_issue_error"]
    assert longer["count"] == 25
    faster = run(plan, *arguments, "200000000", "--speed", "2", "--late", "drop")
    assert faster.summary["fidelity"]["machine_issue_error"]["count"] == 50
    without = run(plan, *arguments, "20000000", "--no-calibration").summary
    assert without["fidelity"]["machine_issue_error"] is None


def test_a_run_as_fast_as_possible_has_no_times_to_be_faithful_to(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])
    told = run(plan, "--engine", "null", "--pace", "fast").summary["fidelity"]
    assert set(told) == {
        "steal_ratio", "cpu_user_ns", "cpu_system_ns", "preemptions", "punt_workers"
    }  # fmt: skip
    assert 0 <= told["steal_ratio"] <= 1


def test_cpu_time_is_that_of_the_run(tmp_path: Path) -> None:
    # GIVEN a run that spins before each deadline for all of 0.3 s
    rows = [record(READ, 0, 8, at_ns=n * 20_000) for n in range(15_000)]
    ran = run(write_plan(tmp_path / "a.plan", rows), "--engine", "null", "--no-calibration")
    fidelity, elapsed = ran.summary["fidelity"], ran.summary["timing"]["elapsed_ns"]
    used = fidelity["cpu_user_ns"] + fidelity["cpu_system_ns"]
    assert 0 < used < 2.5 * elapsed

"""A closed loop sleeps for completions, and takes its own waking up off the think times."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.replay.disk import call, image, loop, needs_root
from tests.replay.program import READ, Ran, record, run, write_plan
from tracekit._native import program_path

pytestmark = needs_root
SECTORS = 2048  # long enough that no completion comes before one could fall asleep
PATIENT_NS = 400_000
COUNT = 120


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a loop device, which never completes a request in the call that submits it."""
    with loop(image(tmp_path / "image")) as device:
        yield device


def chain(path: Path, think_ns: list[int]) -> Path:
    """Write a plan of reads that each wait for the one before."""
    rows = [record(READ, 0, SECTORS)]
    rows += [
        record(READ, SECTORS * (n % 8), SECTORS, at_ns=1_000_000 * n, after=1, think_ns=ns)
        for n, ns in enumerate(think_ns, start=1)
    ]
    return write_plan(path, rows)


@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_it_is_due_earlier_by_the_wake_up(tmp_path: Path, disk: Path, engine: str) -> None:
    # GIVEN a chain of requests that think for longer than a wake-up takes
    think_ns = [PATIENT_NS] * COUNT
    plan = chain(tmp_path / "a.plan", think_ns)
    # WHEN it runs in a closed loop
    ran = run(plan, "--engine", engine, "--target", str(disk), "--pace", "closed")
    if ran.summary["engine"]["used"] != engine:
        pytest.skip("this kernel refuses io_uring")
    # THEN each is due its think time after the completion as it was before somebody woke
    done = np.sort(ran.rows(), order="request_id")
    early = done["complete_ns"][:-1] + PATIENT_NS - done["intended_ns"][1:]
    wake_up_ns = ran.summary["clock"]["wake_up_ns"]
    assert 0 < wake_up_ns < PATIENT_NS
    assert set(early.tolist()) <= {0, wake_up_ns}
    assert (early == wake_up_ns).sum() > COUNT / 2


def test_it_looks_for_a_completion_that_somebody_looked_for(tmp_path: Path, disk: Path) -> None:
    # GIVEN a chain in which every other request came sooner than a sleeper could have woken
    think_ns = [0, PATIENT_NS] * (COUNT // 2)
    plan = chain(tmp_path / "a.plan", think_ns)
    ran = run(plan, "--engine", "io_uring", "--target", str(disk), "--pace", "closed")
    if ran.summary["engine"]["used"] != "io_uring":
        pytest.skip("this kernel refuses io_uring")
    # THEN what these waited for was seen as it came, the others' after a sleep
    done = np.sort(ran.rows(), order="request_id")
    early = done["complete_ns"][:-1] + think_ns - done["intended_ns"][1:]
    assert (early[0::2] == 0).all()
    assert (early[1::2] == ran.summary["clock"]["wake_up_ns"]).sum() > COUNT / 4


def test_without_knowing_its_wake_up_it_looks_all_the_time(tmp_path: Path, disk: Path) -> None:
    # GIVEN a machine on which nobody may keep the processors from halting
    plan = chain(tmp_path / "a.plan", [PATIENT_NS] * COUNT)
    summary = tmp_path / "a.json"
    script = 'mount --bind /dev/full /dev/cpu_dma_latency && exec "$@"'
    try:
        call("unshare", "--mount", "sh", "-c", script, "sh", "true")
    except AssertionError as error:
        pytest.skip(f"needs a mount namespace of its own: {error}")
    replay: list[str | Path] = [program_path(), plan, "--target", disk, "--pace", "closed"]
    kept: list[str | Path] = ["--completions", tmp_path / "a.done", "--summary", summary]
    alone = ["unshare", "--mount", "sh", "-c", script, "sh"]
    subprocess.run([*alone, *replay, *kept], check=True, timeout=60)
    # THEN it says so, and no time is taken off
    assert json.loads(summary.read_text())["clock"]["wake_up_ns"] == 0
    rows = Ran(0, {}, "", tmp_path / "a.done").rows()
    done = np.sort(rows, order="request_id")
    due_ns = done["complete_ns"][:-1] + PATIENT_NS
    assert done["intended_ns"][1:].tolist() == due_ns.tolist()


@pytest.mark.parametrize(
    ("engine", "pace"), [("io_uring", "trace"), ("io_uring", "fast"), ("null", "closed")]
)
def test_only_a_closed_loop_that_sleeps_measures_it(
    tmp_path: Path, disk: Path, engine: str, pace: str
) -> None:
    plan = chain(tmp_path / "a.plan", [0, 0])
    target = () if engine == "null" else ("--target", str(disk))
    ran = run(plan, "--engine", engine, "--pace", pace, *target)
    assert ran.summary["clock"]["wake_up_ns"] == 0

"""A closed loop sleeps for completions, and takes its own waking up off the think times."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.replay.disk import call, image, loop, needs_root
from tests.replay.program import Ran, Record, Replay, command, play, record, write_plan
from tracekit.plans.block_plan import READ

pytestmark = needs_root
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

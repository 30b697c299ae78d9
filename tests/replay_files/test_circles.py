"""Operations that wait for each other in a circle: refused before anything is done."""

from pathlib import Path

import numpy as np
import pytest

from tests.replay_files.program import Operation, Replay, do
from tracekit.plans.file_plan import Setting

HEAD = "waits for record"


def looks(*waits: int | None) -> list[Operation]:
    """Return one thread: an operation each, waiting for the record of that number."""
    return [do("readdir", "d", **({} if after is None else {"after": after})) for after in waits]


def runs(threads: list[list[Operation]]) -> bool:
    """Say whether all threads come to their end, by trying until nothing moves."""
    numbers = iter(range(sum(map(len, threads))))
    left = [[(next(numbers), one.get("after")) for one in thread] for thread in threads]
    ended: set[int] = set()
    moved = True
    while moved:
        moved = False
        for thread in left:
            while thread and (thread[0][1] is None or thread[0][1] in ended):
                ended.add(thread.pop(0)[0])
                moved = True
    return not any(left)


@pytest.mark.parametrize(
    ("threads", "pairs"),
    [
        # each waits for the other
        ([looks(1), looks(0)], {(0, 1), (1, 0)}),
        # only by the order within the threads: 0, 1 wait for 3, which comes behind 2, for 1
        ([looks(None, 3), looks(1, None)], {(1, 3), (2, 1)}),
        # three threads, and a fourth that waits for the circle without being in it
        ([looks(2), looks(0), looks(1), looks(0)], {(0, 2), (1, 0), (2, 1)}),
    ],
)
def test_a_circle_is_refused(
    replay: Replay, target: Path, threads: list[list[Operation]], pairs: set[tuple[int, int]]
) -> None:
    ran = replay(threads, directory=target)
    # THEN it is one line that names two of the circle, and nothing was made
    ran.refused()
    assert any(f"record {a} {HEAD} {b}, which" in ran.messages for a, b in pairs), ran.messages
    assert list(target.iterdir()) == []


def random_threads(seed: int) -> list[list[Operation]]:
    chance = np.random.default_rng(seed)
    lengths = chance.integers(0, 8, 5)
    lengths[0] += 1
    ends = np.cumsum(lengths)
    threads = []
    for thread, end in enumerate(ends):
        others = np.concatenate([np.arange(end - lengths[thread]), np.arange(end, ends[-1])])
        waits: list[int | None] = [None] * int(lengths[thread])
        for place in range(len(waits)):
            if len(others) and chance.random() < 0.25:
                waits[place] = int(chance.choice(others))
        threads.append(looks(*waits))
    return threads


def test_random_waits_run_exactly_when_they_can(replay: Replay) -> None:
    # GIVEN 60 plans of five threads with random waits
    found = []
    for seed in range(60):
        threads = random_threads(seed)
        ran = replay(threads, setting=Setting(is_repeatable=True), repeat=2)
        # THEN those that can end do, and the others are refused
        can_run = runs(threads)
        assert (ran.code == 1 and HEAD in ran.messages) is not can_run, (seed, ran.messages)
        if can_run:
            assert ran.code in (0, 3), (seed, ran.messages)
            assert len(ran.rows()) == 2 * sum(map(len, threads))
        found.append(can_run)
    assert 10 < sum(found) < 50


def test_many_threads_that_wait_for_one_start_at_once(replay: Replay) -> None:
    # GIVEN 200 threads that each wait for another record of the first thread, the last one first
    others = [looks(999 - 5 * number) for number in range(199)]
    assert replay([looks(*[None] * 1000), *others]).counts["operations"] == 1199

"""The lead that follows the kernel: the median of the last lags, by arithmetic in Python."""

import subprocess
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from statistics import median_low

import numpy as np
import pytest

from tests.replay.program import compiled

WINDOW, FEWEST, MOST_NS = 63, 15, 10_000_000
Turn = tuple[int, int, Sequence[int]]
"""When so many requests were submitted together, and when the kernel queued something since."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("lead"), "lead.c", "lead.c")


def run(program: Path, first_ns: int, turns: Sequence[Turn]) -> list[tuple[int, ...]]:
    lines = [" ".join(map(str, (at, count, len(times), *times))) for at, count, times in turns]
    text = "\n".join([str(first_ns), *lines])
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


def model(first_ns: int, turns: Sequence[Turn]) -> list[tuple[int, ...]]:
    """Say the lead after each turn, how many requests it is of, its least and its most."""
    lags, lead_ns, seen, all_ns = deque[int](maxlen=WINDOW), first_ns, 0, list[int]()
    found = list[tuple[int, ...]]()
    for submit_ns, requests, times in turns:
        known = times if len(times) == requests else times[: 1 if requests else 0]
        new = [at - submit_ns for at in known if at >= submit_ns]
        lags.extend(new)
        seen += len(new)
        if known and len(lags) >= FEWEST:
            lead_ns = min(median_low(lags), MOST_NS)
            all_ns.append(lead_ns)
        found.append((lead_ns, seen, min(all_ns, default=0), max(all_ns, default=0)))
    return found


def test_the_lead_is_the_median_of_the_last_lags(program: Path) -> None:
    # GIVEN 15 requests which the kernel queued 1 to 15 us after each was submitted
    turns = [(n * 100_000, 1, [n * 100_000 + (n + 1) * 1_000]) for n in range(15)]
    # THEN the lead is 8 us from the fifteenth on, and before that what was known
    assert run(program, 500, turns) == [
        *[(500, n, 0, 0) for n in range(1, 15)],
        (8000, 15, 8000, 8000),
    ]
    # AND a second processor speed takes over within half a window, whatever single ones took
    slow = [(n * 100_000, 1, [n * 100_000 + (9 if n % 3 else 900) * 1_000]) for n in range(20, 83)]
    assert [lead for lead, *_ in run(program, 500, [*turns, *slow])][-1] == 9000


@pytest.mark.parametrize(
    ("requests", "times", "expected"),
    [
        (3, [110, 120, 130], (20, 3)),  # each has its own
        (2, [110, 120, 130], (10, 1)),  # one was queued in pieces, nobody knows which
        (3, [110, 120], (10, 1)),  # a thread of the kernel queues one of them later
        (0, [110], (0, 0)),  # nobody's: requests that were late
        (1, [90], (0, 0)),  # of something else, before
    ],
)
def test_whose_time_is_known(
    program: Path, requests: int, times: list[int], expected: tuple[int, int]
) -> None:
    # GIVEN turns that are all the same, as often as a median needs
    lead_ns, seen, *_ = run(program, 0, [(100, requests, times)] * FEWEST)[-1]
    assert (lead_ns, seen / FEWEST) == expected


def test_random_turns_against_the_model(program: Path) -> None:
    rng = np.random.default_rng(3)
    turns: list[Turn] = []
    for n in range(3000):
        requests = int(rng.choice([0, 1, 1, 1, 2, 8]))
        count = max(requests + int(rng.choice([0, 0, 0, 0, 1, -1])), 0)
        lags = np.sort(rng.lognormal(8 if n // 500 % 2 else 9, 1.5, count).astype(int))
        turns.append(
            (n * 1_000, requests, (n * 1_000 + lags * int(rng.choice([1, 1, 9999]))).tolist())
        )
    assert run(program, 4_000, turns) == model(4_000, turns)

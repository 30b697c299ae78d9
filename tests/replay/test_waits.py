"""When the requests of a closed loop are due: the program's own structures, by a model."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.replay.program import compiled

PLACES = 1 << 21
"""Requests after which the program gives a request's place to another one."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("waits"), "waits.c", "waits.c", "pace.c")


def run(program: Path, commands: list[tuple[str, int, int, int]]) -> list[list[int]]:
    text = "".join(f"{word} {a} {b} {c}\n" for word, a, b, c in commands)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [[int(number) for number in line.split()] for line in done.stdout.splitlines()]


def model(commands: list[tuple[str, int, int, int]]) -> list[list[int]]:
    """Say when each is due, remembering every completion for ever."""
    taken, ends, passed = 0, dict[int, int](), list[tuple[int, int, int]]()
    waiting: dict[int, list[tuple[int, int]]] = {}
    found: list[list[int]] = []
    for word, first, second, third in commands:
        due = []
        if word == "p":
            passed.append((taken, taken + first, second))
            taken += first
        elif word == "e":
            ends[first] = second
            due = [[own, second + think] for own, think in waiting.pop(first, [])]
        else:
            awaited = taken - second
            known = [at for low, high, at in passed if low <= awaited < high]
            known += [ends[awaited]] if awaited in ends else []
            if second == 0 or second > taken:
                due = [[taken, first]]
            elif known:
                due = [[taken, known[0] + third]]
            else:
                waiting.setdefault(awaited, []).append((taken, third))
            taken += 1
        found += sorted(due, key=lambda pair: (pair[1], pair[0]))
    return found


def test_one_that_takes_longer_than_two_million_others_keeps_its_own_time(program: Path) -> None:
    # GIVEN a request in flight, which another one waits for, until its place is another's
    held = [("t", 5, 0, 0), ("t", 6, 1, 100), ("p", PLACES - 2, 1000, 0), ("t", 7, 0, 0)]
    # WHEN it ends, while that other one is in flight, and something waits for that one
    after = [("e", 0, 5000, 0), ("t", 8, 1, 10), ("e", PLACES, 9000, 0), ("t", 9, 2, 20)]
    # THEN each is due after the very request that it waits for
    found = run(program, held + after)
    assert found == [[0, 5], [PLACES, 7], [1, 5100], [PLACES + 1, 9010], [PLACES + 2, 9020]]


@pytest.mark.parametrize("seed", range(2))
def test_every_request_is_due_after_the_one_that_it_waits_for(program: Path, seed: int) -> None:
    # GIVEN requests that end in any order, some of them millions of requests later
    random = np.random.default_rng(seed)
    commands, held, taken = list[tuple[str, int, int, int]](), list[int](), 0
    for now in range(1000):
        word = random.choice(["t", "e", "p"], p=[0.56, 0.42, 0.02])
        if word == "e" and held:
            commands.append(("e", held.pop(int(random.integers(len(held)))), now, 0))
        elif word == "t" and len(held) < 60:
            near = [taken - one for one in held if taken - one <= PLACES // 2]
            after = int(random.choice([0, *near, *random.integers(1, 50, 3)]))
            commands.append(("t", now, after, int(random.integers(1000))))
            held.append(taken)
            taken += 1
        elif word == "p":
            count = int(random.choice([1, 40, PLACES // 8, PLACES]))
            commands.append(("p", count, now, 0))
            taken += count
    # THEN the program knows the same times as one that forgets nothing
    assert run(program, commands) == model(commands)

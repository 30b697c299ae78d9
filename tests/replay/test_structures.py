"""The program's own structures against models: overlaps in flight, due times, and the lead."""

import subprocess
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from statistics import median_low

import numpy as np
import numpy.typing as npt
import pytest

from tests.replay.program import compiled
from tracekit.plans.block_plan import DISCARD, FLUSH, READ, WRITE, WRITE_ZEROES

COMMAND = np.dtype(
    [("sector", "<u8"), ("length", "<u4"), ("slot", "<u4"), ("target", "<u2"),
     ("operation", "u1"), ("action", "u1"), ("reserved", "<u4")]
)  # fmt: skip
LOOK, ADD, REMOVE = range(3)
WRITES = (WRITE, DISCARD, WRITE_ZEROES)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(
        tmp_path_factory.mktemp("overlaps"), "overlaps.c", "overlap.c", "overlap_lists.c"
    )


Commands = npt.NDArray[np.void]


def commands(seed: int, count: int, depth: int, lengths: list[int], step: int) -> Commands:
    """Return requests that come and go at random, most of them in a place where they meet."""
    random = np.random.default_rng(seed)
    found = np.zeros(count, COMMAND)
    free, taken = list(range(depth)), list[int]()
    space = 4 * min(depth, 1000) * int(np.median(lengths))
    for row in found:
        row["action"] = random.choice([LOOK, ADD, REMOVE], p=[0.2, 0.5, 0.3])
        if row["action"] == ADD and not free:
            row["action"] = REMOVE
        if row["action"] == REMOVE and not taken:
            row["action"] = LOOK
        if row["action"] == REMOVE:
            row["slot"] = taken.pop(int(random.integers(len(taken))))
            free.append(int(row["slot"]))
            continue
        length = int(random.choice(lengths))
        row["operation"] = random.choice([READ, READ, READ, WRITE, WRITE_ZEROES, DISCARD, FLUSH])
        row["length"] = 0 if row["operation"] == FLUSH else random.integers(1, length + 1)
        far = (1 << 52) if random.random() < 0.1 else 0
        row["sector"] = far + int(random.integers(space)) // step * step
        row["target"] = random.integers(2)
        if row["action"] == ADD:
            row["slot"] = free.pop(int(random.integers(len(free))))
            taken.append(int(row["slot"]))
    return found


def brute(rows: Commands, depth: int) -> bytes:
    """Compare each request with all that are in flight."""
    first, end = np.zeros(depth, np.uint64), np.zeros(depth, np.uint64)
    target, is_write = np.zeros(depth, np.uint16), np.zeros(depth, bool)
    found = bytearray()
    for row in rows:
        slot, begins = row["slot"], row["sector"]
        if row["action"] == REMOVE:
            end[slot] = first[slot]
            continue
        ends, writes = begins + np.uint64(row["length"]), row["operation"] in WRITES
        shares = (first < ends) & (begins < end) & (first < end) & (begins < ends)
        found.append(bool((shares & (target == row["target"]) & (is_write | writes)).any()))
        if row["action"] == ADD:
            first[slot], end[slot], target[slot] = begins, ends, row["target"]
            is_write[slot] = writes
    return bytes(found)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("depth", "lengths", "step"),
    [
        (3, [8], 1),
        (32, [1, 8, 64, 512, 2048], 1),
        (64, [8, 8192, 1 << 17, 1 << 22], 8),
        (64, [1] * 99 + [64], 1),  # now and then one that is longer than all the recent ones
        (200, [8, 2048, 2049, 8192], 2048),  # stripes: equal places within a word of cells
        (4096, [8] * 7 + [65536], 1),
        (4096, [2048, 8192], 8),
        (16384, [1, 8, 256, 1 << 25, (1 << 32) - 1], 1),
    ],
)
def test_each_overlap_is_found_and_nothing_else(
    program: Path, tmp_path: Path, seed: int, depth: int, lengths: list[int], step: int
) -> None:
    rows = commands(seed, 4000, depth, lengths, step)
    rows.tofile(tmp_path / "in")
    subprocess.run([program, tmp_path / "in", tmp_path / "out", str(depth)], check=True)
    found, expected = (tmp_path / "out").read_bytes(), brute(rows, depth)
    assert [
        n for n, pair in enumerate(zip(found, expected, strict=True)) if len(set(pair)) > 1
    ] == []
    assert 20 < sum(expected) < 0.98 * len(expected)


PLACES = 1 << 21
"""Requests after which the program gives a request's place to another one."""


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("waits"), "waits.c", "waits.c", "pace.c")


def waits_by(program: Path, commands: list[tuple[str, int, int, int]]) -> list[list[int]]:
    text = "".join(f"{word} {a} {b} {c}\n" for word, a, b, c in commands)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [[int(number) for number in line.split()] for line in done.stdout.splitlines()]


def modelled_waits(commands: list[tuple[str, int, int, int]]) -> list[list[int]]:
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


def test_one_that_takes_longer_than_two_million_others_keeps_its_own_time(waits: Path) -> None:
    # GIVEN a request in flight, which another one waits for, until its place is another's
    held = [("t", 5, 0, 0), ("t", 6, 1, 100), ("p", PLACES - 2, 1000, 0), ("t", 7, 0, 0)]
    # WHEN it ends, while that other one is in flight, and something waits for that one
    after = [("e", 0, 5000, 0), ("t", 8, 1, 10), ("e", PLACES, 9000, 0), ("t", 9, 2, 20)]
    # THEN each is due after the very request that it waits for
    found = waits_by(waits, held + after)
    assert found == [[0, 5], [PLACES, 7], [1, 5100], [PLACES + 1, 9010], [PLACES + 2, 9020]]


@pytest.mark.parametrize("seed", range(2))
def test_every_request_is_due_after_the_one_that_it_waits_for(waits: Path, seed: int) -> None:
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
    assert waits_by(waits, commands) == modelled_waits(commands)


WINDOW, FEWEST, MOST_NS = 63, 15, 10_000_000
Turn = tuple[int, int, Sequence[int]]
"""When so many requests were submitted together, and when the kernel queued something since."""


@pytest.fixture(scope="module")
def lead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("lead"), "lead.c", "lead.c")


def lead_by(program: Path, first_ns: int, turns: Sequence[Turn]) -> list[tuple[int, ...]]:
    lines = [" ".join(map(str, (at, count, len(times), *times))) for at, count, times in turns]
    text = "\n".join([str(first_ns), *lines])
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


def modelled_lead(first_ns: int, turns: Sequence[Turn]) -> list[tuple[int, ...]]:
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


def test_the_lead_is_the_median_of_the_last_lags(lead: Path) -> None:
    # GIVEN 15 requests which the kernel queued 1 to 15 us after each was submitted
    turns = [(n * 100_000, 1, [n * 100_000 + (n + 1) * 1_000]) for n in range(15)]
    # THEN the lead is 8 us from the fifteenth on, and before that what was known
    assert lead_by(lead, 500, turns) == [
        *[(500, n, 0, 0) for n in range(1, 15)],
        (8000, 15, 8000, 8000),
    ]
    # AND a second processor speed takes over within half a window, whatever single ones took
    slow = [(n * 100_000, 1, [n * 100_000 + (9 if n % 3 else 900) * 1_000]) for n in range(20, 83)]
    assert [ns for ns, *_ in lead_by(lead, 500, [*turns, *slow])][-1] == 9000


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
    lead: Path, requests: int, times: list[int], expected: tuple[int, int]
) -> None:
    # GIVEN turns that are all the same, as often as a median needs
    lead_ns, seen, *_ = lead_by(lead, 0, [(100, requests, times)] * FEWEST)[-1]
    assert (lead_ns, seen / FEWEST) == expected


def test_random_turns_against_the_model(lead: Path) -> None:
    rng = np.random.default_rng(3)
    turns: list[Turn] = []
    for n in range(3000):
        requests = int(rng.choice([0, 1, 1, 1, 2, 8]))
        count = max(requests + int(rng.choice([0, 0, 0, 0, 1, -1])), 0)
        lags = np.sort(rng.lognormal(8 if n // 500 % 2 else 9, 1.5, count).astype(int))
        turns.append(
            (n * 1_000, requests, (n * 1_000 + lags * int(rng.choice([1, 1, 9999]))).tolist())
        )
    assert lead_by(lead, 4_000, turns) == modelled_lead(4_000, turns)

"""Requests in flight on the same sectors: the program's own structure against brute force."""

import subprocess
from pathlib import Path

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

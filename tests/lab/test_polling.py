"""A device whose completions are looked for, in a guest: the same results with and without."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.lab.guests import run_script
from tests.replay.program import content, expected_content, record, write_plan
from tracekit.plans.block_plan import DISCARD, FLUSH, FUA, PREFLUSH, READ, WRITE, WRITE_ZEROES
from tracekit.replay.completions import HEADER, RECORD, STATUSES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-polling")]
MIB = 8
BLOCKS = MIB << 8
WAYS = {
    "usual": "",
    "iopoll": "--iopoll",
    "sqpoll": "--sqpoll --sqpoll-idle-ms 50",
    "both": "--sqpoll --sqpoll-idle-ms 50 --iopoll",
}
KINDS = (READ, WRITE, WRITE, FLUSH, WRITE, DISCARD, WRITE_ZEROES, READ)
SLOW_NS = 200_000_000
SCRIPT = f"""
set -e
make() {{  # NAME NS: a disk in memory that interrupts so long after, where it does
  folder=/sys/kernel/config/nullb/$1
  mkdir $folder
  echo {MIB} > $folder/size
  for switch in memory_backed discard poll_queues cache_size; do echo 1 > $folder/$switch; done
  echo 4096 > $folder/blocksize
  echo 2 > $folder/irqmode
  echo $2 > $folder/completion_nsec
  echo 1 > $folder/power
}}
replay() {{  # DISK NAME PLAN OPTIONS...
  disk=$1 name=$2 plan=$3
  shift 3
  token=$(cat /sys/block/$disk/dev):$(cat /sys/block/$disk/size)
  tracekit-replay $LAB_SHARE/$plan --engine io_uring --target /dev/$disk --write-to "$token" \
    --overlaps order --completions $LAB_OUT/$name.done --summary $LAB_OUT/$name.json "$@"
}}
mixed() {{  # NAME OPTIONS...
  dd if=/dev/zero of=/dev/quick bs=1M count={MIB} oflag=direct status=none
  replay quick $1 mixed.plan --depth 16 "${{@:2}}"
  dd if=/dev/quick of=$LAB_OUT/$1.image bs=1M iflag=direct status=none
}}
make quick 20000
make slow {SLOW_NS}
cat /sys/block/quick/queue/io_poll > $LAB_OUT/polls
"""
SCRIPT += "".join(
    f"mixed {name}-{pace} --pace {pace} {words}\n"
    for name, words in WAYS.items()
    for pace in ("fast", "trace")
)
SCRIPT += "".join(
    f"replay slow {name}-slow slow.plan --depth 1 --pace fast {words}\n"
    for name, words in WAYS.items()
)


def mixed() -> list[tuple[int, ...]]:
    """Requests of every kind that meet each other often; those that do keep their order."""
    random = np.random.default_rng(5)
    rows = []
    for number in range(1500):
        kind = KINDS[number % len(KINDS)]
        at_ns = number * 100_000
        if kind == FLUSH:
            rows.append(record(FLUSH, at_ns=at_ns))
            continue
        blocks = int(random.integers(1, 9))
        block = int(random.integers(0, BLOCKS - blocks + 1))
        flags = int(random.choice([0, 0, FUA, PREFLUSH, FUA | PREFLUSH])) if kind == WRITE else 0
        rows.append(record(kind, 8 * block, 8 * blocks, at_ns=at_ns, flags=flags))
    return rows


ROWS = mixed()
UNPOLLED = sum(
    (row[4] in (FLUSH, DISCARD, WRITE_ZEROES)) + bool(row[5] & FUA) + bool(row[5] & PREFLUSH)
    for row in ROWS
)
"""Entries that no ring can poll: what is no transfer, what must be durable, flushes before data."""


@pytest.fixture(scope="module")
def files(place: Path) -> Path:
    """Replay in all ways and paces on such a device; return what the guest brought."""
    write_plan(place / "share/mixed.plan", ROWS, needed_sectors=BLOCKS * 8)
    write_plan(place / "share/slow.plan", [record(READ, 8 * n, 8) for n in range(8)])
    return run_script(place, SCRIPT)


def summary_of(files: Path, name: str) -> Mapping[str, Any]:
    told: Mapping[str, Any] = json.loads((files / f"{name}.json").read_text())
    return told


def rows_of(files: Path, name: str) -> npt.NDArray[np.void]:
    data = (files / f"{name}.done").read_bytes()
    rows = np.frombuffer(data[HEADER.itemsize :], RECORD)
    return rows[np.argsort(rows["request_id"])]


@pytest.mark.parametrize("way", WAYS)
def test_only_a_polled_run_does_not_wait_for_the_interrupt(files: Path, way: str) -> None:
    # GIVEN a disk that interrupts 200 ms after each of 8 reads that are not looked for
    assert (files / "polls").read_text().strip() == "1"
    elapsed_ns = summary_of(files, f"{way}-slow")["timing"]["elapsed_ns"]
    # THEN nothing but looking for them is faster
    assert (elapsed_ns < 4 * SLOW_NS) == (way in ("iopoll", "both"))


@pytest.mark.parametrize("pace", ["fast", "trace"])
@pytest.mark.parametrize("way", WAYS)
def test_every_request_is_done_once_and_leaves_the_same_bytes(
    files: Path, way: str, pace: str
) -> None:
    rows = rows_of(files, f"{way}-{pace}")
    assert rows["request_id"].tolist() == list(range(len(ROWS)))
    assert {STATUSES[status] for status in rows["status"]} == {"done"}
    assert (content(files / f"{way}-{pace}.image") == expected_content(ROWS, MIB << 20)).all()


@pytest.mark.parametrize("way", WAYS)
def test_what_met_each_other_was_done_in_order(files: Path, way: str) -> None:
    # WHEN two requests share a block and one of them changes it
    rows = rows_of(files, f"{way}-fast")
    ends: dict[int, int] = {}
    for row, done in zip(ROWS, rows, strict=True):
        blocks = range(row[1] // 8, (row[1] + row[3]) // 8)
        # THEN the later one began after the end of the earlier one
        assert all(done["submit_ns"] >= ends.get(block, 0) for block in blocks)
        if row[4] != READ:
            ends.update({block: int(done["complete_ns"]) for block in blocks})


@pytest.mark.parametrize("way", WAYS)
def test_the_summary_says_what_was_polled(files: Path, way: str) -> None:
    engine = summary_of(files, f"{way}-trace")["engine"]
    is_polled = way in ("iopoll", "both")
    assert engine["features"]["iopoll"] == is_polled
    assert engine["features"]["sqpoll"] == (way in ("sqpoll", "both"))
    # This kernel is older than the command that discards by a ring.
    assert engine["features"]["discard_threads"] != engine["features"]["discard_command"]
    assert engine["unpolled"] == (UNPOLLED if is_polled else 0)

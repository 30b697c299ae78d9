"""Several submitting threads leave, log and count what one does, in one timeline."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.replay.disk import image, loop, token_of
from tests.replay.program import (
    Ran,
    Record,
    Replay,
    command,
    content,
    expected_content,
    record,
    write_plan,
)  # fmt: skip
from tests.replay.test_kernel import bios, both_engines, kernel_test, traced
from tracekit.plans.block_plan import (
    DISCARD,
    FLUSH,
    FUA,
    PREFLUSH,
    READ,
    WRITE,
    WRITE_ZEROES,
)  # fmt: skip

STRIPE = 32768
"""Sectors that belong to one submitter: 16 MiB."""
STRIPES = 6
MS = 1_000_000


def mixed(seed: int, count: int, *, gap_ns: int = 0, flushes: bool = True) -> list[Record]:
    """Return requests that meet each other, many of them where two stripes do."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        kind = int(random.choice([READ, WRITE, WRITE, WRITE, DISCARD, WRITE_ZEROES, FLUSH]))
        if kind == FLUSH and flushes:
            found.append(record(FLUSH, at_ns=number * gap_ns))
            continue
        sectors = 8 * int(random.integers(1, 65))
        border = STRIPE * int(random.integers(1, STRIPES))
        near = int(random.choice([-1, -0.5, -0.1, 0, 1]) * sectors) // 8 * 8
        flags = int(random.choice([0, 0, FUA, PREFLUSH, PREFLUSH | FUA])) if kind == WRITE else 0
        kind = READ if kind == FLUSH else kind
        found.append(record(kind, border + near, sectors, at_ns=number * gap_ns, flags=flags))
    return found


def is_ordered(row: Record) -> bool:
    """Whether all submitters must agree on where it stands, but for those of one stripe."""
    return row[4] == FLUSH or bool(row[5] & PREFLUSH)


@pytest.mark.parametrize("submitters", [2, 3, 16])
@pytest.mark.parametrize(("engine", "pace"), [("io_uring", "fast"), ("threads", "fast"),
                                              ("io_uring", "trace")])  # fmt: skip
def test_the_target_is_what_one_submitter_makes_of_it(
    replay: Replay, target: Path, engine: str, pace: str, submitters: int
) -> None:
    # GIVEN writes, discards and zeroes that overlap, within stripes and over their ends
    rows = mixed(submitters, count := 1500 if submitters < 9 else 300, gap_ns=10_000)
    options = {"engine": engine, "pace": pace, "overlaps": "order", "depth": 64, "keep": True}
    # WHEN those that meet one in flight wait for it
    needed = STRIPE * STRIPES
    ran = replay(rows, needed_sectors=needed, target=target, submitters=submitters, **options)
    # THEN the content is that of the requests one by one
    assert ran.code == 0, ran.messages
    assert (content(target) == expected_content(rows, needed * 512)).all()
    # AND each is logged and counted once
    done = ran.rows()
    assert sorted(done["request_id"].tolist()) == list(range(count))
    assert ran.counts["done"] == ran.counts["submitted"] == count
    assert ran.summary["submitters"] == submitters
    assert ran.summary["window"]["next"] == count


def in_order(rows: list[Record], done: npt.NDArray[np.void]) -> None:
    """Check that what flushes is submitted after all before it and before all that follow."""
    submit = done["submit_ns"].astype(np.int64)
    before, after = np.maximum.accumulate(submit), np.minimum.accumulate(submit[::-1])[::-1]
    ordered = [number for number, row in enumerate(rows) if is_ordered(row)]
    assert len(ordered) > 50
    assert (before[ordered] <= submit[ordered]).all()
    assert (submit[ordered] <= after[ordered]).all()


@pytest.mark.parametrize("submitters", [2, 5])
@pytest.mark.parametrize("pace", ["fast", "trace"])
def test_nothing_overtakes_a_flush(replay: Replay, pace: str, submitters: int) -> None:
    # GIVEN three blocks of a plan in which every twentieth request flushes
    random = np.random.default_rng(4)
    rows = [
        record(FLUSH, at_ns=n * 2000) if n % 20 == 0 else
        record(WRITE, 8 * int(random.integers(1 << 20)), 8, at_ns=n * 2000,
               flags=PREFLUSH if n % 77 == 0 else 0)
        for n in range(10_000)
    ]  # fmt: skip
    ran = replay(rows, engine="null", pace=pace, submitters=submitters, depth=32)
    assert ran.counts["done"] == len(rows)
    in_order(rows, ran.by_id())


def test_times_and_counts_are_those_of_the_completions(replay: Replay) -> None:
    random = np.random.default_rng(9)
    at = np.cumsum(random.exponential(20_000, 6000)).astype(int)
    rows = [
        record(int(random.choice([READ, WRITE])), 8 * int(random.integers(1 << 22)), 8,
               at_ns=int(ns), target=int(random.integers(2)))
        for ns in at
    ]  # fmt: skip
    ran = replay(rows, labels=("default", "other"), engine="null", submitters=3)
    done = ran.by_id()
    # THEN all have one timeline: that of the plan, none is early
    assert done["intended_ns"].tolist() == at.tolist()
    error = done["submit_ns"].astype(np.int64) - at
    assert error.min() >= 0
    # AND the statistics are those of all
    told, timing = ran.summary["issue_error"], ran.summary["timing"]
    assert (told["count"], told["min_ns"], told["max_ns"]) == (6000, error.min(), error.max())
    assert told["p50_ns"] == pytest.approx(np.sort(error)[2999], rel=0.009, abs=1)
    assert timing["intended_duration_ns"] == at[-1] - at[0]
    submit, complete = done["submit_ns"].astype(np.int64), done["complete_ns"].astype(np.int64)
    assert timing["actual_duration_ns"] == submit.max() - submit.min()
    assert timing["elapsed_ns"] == complete.max() - submit.min()
    classes = {(one["target"], one["operation"]): one for one in ran.summary["operations"]}
    for number, label in enumerate(("default", "other")):
        for operation, name in ((READ, "read"), (WRITE, "write")):
            own = [n for n, row in enumerate(rows) if (row[6], row[4]) == (number, operation)]
            found = classes[label, name]
            assert (found["done"], found["bytes"]) == (len(own), 4096 * len(own))
            assert found["service"]["max_ns"] == (complete - submit)[own].max()
    assert ran.summary["late"]["count"] == int((error > 100_000).sum())


@pytest.mark.parametrize("overlaps", ["allow", "drop", "order"])
def test_overlaps_are_found_in_all_submitters(replay: Replay, target: Path, overlaps: str) -> None:
    # GIVEN requests of which each meets the one before, across the end of a stripe
    rows = [record(WRITE, STRIPE * (n % 5 + 1) - 256, 512) for n in range(200) for _ in range(2)]
    options = {"engine": "threads", "submitters": 2, "depth": 64, "pace": "fast"}
    options |= {} if overlaps == "allow" else {"overlaps": overlaps}
    ran = replay(rows, target=target, **options)
    counts = ran.counts
    assert counts["overlaps"] > 10
    assert counts["done"] == (400 - counts["overlaps"] if overlaps == "drop" else 400)
    assert counts["skipped_overlap"] == (counts["overlaps"] if overlaps == "drop" else 0)


def test_a_part_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    # GIVEN a run of two submitters that is interrupted
    rows = [record(READ, 8 * (n * 7919 % (1 << 20)), 8, at_ns=n * 100_000) for n in range(200_000)]
    plan = write_plan(tmp_path / "a.plan", rows)
    line = command(plan, engine="null", submitters=2, no_calibration=True)
    program = subprocess.Popen(line)
    deadline = time.monotonic() + 120
    while not any(part.stat().st_size > 1 << 16 for part in tmp_path.glob("*.part")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    program.send_signal(signal.SIGINT)
    assert program.wait(120) == 3
    ran = Ran(3, json.loads(plan.with_suffix(".json").read_text()), "",
              plan.with_suffix(".done"))  # fmt: skip
    # THEN all before the place where it goes on are done, each once
    seen, end = ran.rows()["request_id"].tolist(), ran.summary["window"]["next"]
    assert 0 < end < len(rows)
    assert len(seen) == len(set(seen)) == ran.counts["done"]
    assert set(range(end)) <= set(seen)
    assert ran.counts["not_reached"] == len(rows) - len(seen)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pace": "closed"}, "--pace trace or fast"),
        ({"late": "slip"}, "--late catch-up or drop"),
        ({"engine": "dax", "target": "t"}, "not dax"),
        ({"depth": 1}, "--depth"),
        ({"engine": "io_uring", "target": "t", "sqpoll": True}, "--sqpoll"),
    ],
)
def test_what_one_thread_alone_can_do_is_refused(
    replay: Replay, options: dict[str, Any], words: str
) -> None:
    ran = replay([record(READ, 0, 8)], submitters=2, **({"engine": "null"} | options))
    ran.refused("--submitters", words, code=2)


@kernel_test
@both_engines
def test_the_kernel_sees_each_request_once(replay: Replay, tmp_path: Path, engine: str) -> None:
    # GIVEN reads and writes that each have a place of their own, on a device of many stripes
    places = np.random.default_rng(3).permutation(4000)[:1000] * 48
    rows = [
        record(WRITE if n % 3 else READ, int(at), 8 * (n % 4 + 1), at_ns=n * 20_000)
        for n, at in enumerate(places)
    ]
    with loop(image(tmp_path / "image", mib=97), "--direct-io=on") as disk:
        options = {"target": disk, "write_to": token_of(disk), "direct": "on"}
        with traced("block_bio_queue", only=disk) as lines:
            ran = replay(rows, engine=engine, submitters=2, **options)
    assert ran.code == 0, ran.messages
    # THEN the device did each once, and no more but what others read of the device's ends
    wanted = {(row[1], row[3]): "RW"[row[4] == WRITE] for row in rows}
    found = [(sector, sectors, flags) for flags, sector, sectors in bios(lines)]
    own = [one for one in found if one[:2] in wanted and "A" not in one[2]]  # none is read ahead
    others = len(found) - len(own)
    counted = ran.target["counted"]
    for kind, operation, more in (("reads", READ, others), ("writes", WRITE, 0)):
        asked = sum(row[4] == operation for row in rows)
        assert asked <= counted[kind]["done"] + counted[kind]["merged"] <= asked + more, kind
    # AND its bios are these; one that io_uring tried without waiting may be queued again
    expected = sorted((*place, kind) for place, kind in wanted.items())
    assert sorted(own if engine == "threads" else set(own)) == expected

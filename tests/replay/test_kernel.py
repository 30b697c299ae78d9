"""What the kernel saw of each request, and submitters: events, priority, counters, timelines."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
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
    play,
    record,
    write_plan,
)  # fmt: skip
from tracekit.capture.tracefs import tracefs_folder
from tracekit.plans.block_plan import (
    DISCARD,
    FLUSH,
    FUA,
    PREFLUSH,
    READ,
    WRITE,
    WRITE_ZEROES,
)  # fmt: skip
from tracekit.replay.compiler import PlanReport
from tracekit.replay.summary import find_warnings, summary_of
from tracekit.replay.words import describe

# A flush has no data, so the letter of its direction says nothing; write zeroes may have no letter
# of their own.
NAMES = {"FW": "flush", "FN": "flush", "F": "flush", "N": "zeroes", "WZ": "zeroes"}
QUEUED = re.compile(r"block_bio_queue: [\d,]+ (\w+) (\d+) \+ (\d+) ")
ISSUED = re.compile(r"block_rq_issue: (\d+),(\d+) \w+ \d+ \(.*?\) (\d+) \+ \d+ (\w+),\d+,(\d)")
EVERY_KIND = [
    record(READ, 8, 16),
    record(WRITE, 64, 8),
    record(WRITE, 128, 8, flags=FUA),
    record(WRITE, 256, 24, flags=PREFLUSH),
    record(WRITE, 512, 8, flags=PREFLUSH | FUA),
    record(FLUSH, flags=PREFLUSH),
    record(DISCARD, 1024, 2048),
    record(WRITE_ZEROES, 4096, 16),
    record(READ, 4096, 8),
]
COUNT = 64
NOTHING = PlanReport(
    requests=COUNT, duration_ns=0, level="queued", operations={}, skipped={}, guessed_times=0,
    rounded=0, without_completion=0, cut_requests=0, pieces=0, targets=[], extents=[]
)  # fmt: skip
both_engines = pytest.mark.parametrize("engine", ["threads", "io_uring"])


def kernel_test(function: Any) -> Any:
    """Mark a test that watches the kernel, which only one at a time can."""
    return pytest.mark.root(pytest.mark.xdist_group("kernel")(function))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with loop(image(tmp_path / "image", mib=17), "--direct-io=on") as device:
        yield device


@contextmanager
def traced(
    event: str, *, needs: str = "", only: Path | None = None, clock: str = "local"
) -> Iterator[list[str]]:
    """Yield a list that has the lines of a kernel event after the block.

    An instance of its own, so that no other tracing on the machine is touched.
    """
    place = tracefs_folder() / "instances" / f"tracekit-test-{os.getpid()}"
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"needs tracefs instances: {error}")
    lines: list[str] = []
    folder = place / "events/block" / event
    try:
        if needs not in (folder / "format").read_text():
            pytest.skip(f"this kernel's events have no {needs}")
        # An instance starts with the machine's options, which a capture may have changed.
        for option in ("bin", "raw", "hex"):
            (place / "options" / option).write_text("0")
        (place / "trace_clock").write_text(clock)
        if only:
            # Only this device, or a busy machine fills the buffer; the kernel packs the number so.
            number = os.stat(only).st_rdev
            (folder / "filter").write_text(f"dev == {(os.major(number) << 20) | os.minor(number)}")
        (folder / "enable").write_text("1")
        yield lines
        (folder / "enable").write_text("0")
        lines += (place / "trace").read_text().splitlines()
    finally:
        place.rmdir()


def bios(lines: list[str]) -> list[tuple[str, int, int]]:
    """Return (flags, sector, sectors) of each bio."""
    found = filter(None, map(QUEUED.search, lines))
    return [(one[1].replace("S", ""), int(one[2]), int(one[3])) for one in found]


@kernel_test
@both_engines
def test_the_device_gets_what_the_plan_says(replay: Replay, disk: Path, engine: str) -> None:
    # WHEN requests of every kind run one at a time on a block device that the kernel watches
    options = {"engine": engine, "pace": "fast", "depth": 1, "direct": "on"}
    with traced("block_bio_queue", only=disk) as lines:
        ran = replay(EVERY_KIND, target=disk, write_to=token_of(disk), **options)
    assert ran.code == 0, ran.messages
    # THEN its bios are these, in this order, before anything that closing the device adds
    kinds = [(NAMES.get(flags, flags), sector, sectors) for flags, sector, sectors in bios(lines)]
    start = kinds.index(("R", 8, 16))
    # After a synchronous FUA write Linux flushes a block device once more.
    again = [("flush", 0, 0)] if engine == "threads" else []
    expected = [
        ("R", 8, 16),
        ("W", 64, 8),
        ("WF", 128, 8),
        *again,
        ("flush", 0, 0),
        ("W", 256, 24),
        ("flush", 0, 0),
        ("WF", 512, 8),
        *again,
        ("flush", 0, 0),
        ("D", 1024, 2048),
        ("zeroes", 4096, 16),
        ("R", 4096, 8),
    ]
    assert kinds[start : start + len(expected)] == expected


@kernel_test
@both_engines
def test_reads_go_where_the_plan_says(replay: Replay, disk: Path, engine: str) -> None:
    # GIVEN 500 reads of different places and lengths
    records = [record(READ, (i * 7919 % 4000) * 8, 8 * (1 + i % 4), at_ns=i) for i in range(500)]
    # WHEN 16 of them are in flight on a device that may only be read
    with traced("block_bio_queue", only=disk) as lines:
        ran = replay(records, target=disk, engine=engine, pace="fast", depth=16, direct="on")
    assert ran.counts["done"] == 500
    # THEN the kernel saw exactly these
    found = [(sector, sectors) for _, sector, sectors in bios(lines) if sector < 32_100]
    assert [(row[1], row[3]) for row in records if (row[1], row[3]) not in found] == []
    assert {flags for flags, _, _ in bios(lines)} == {"R"}


@kernel_test
@both_engines
def test_the_kernel_gets_each_targets_own_priority(
    replay: Replay, tmp_path: Path, disk: Path, engine: str
) -> None:
    # GIVEN requests of two targets in turn, one with a priority of its own
    rows = [record(n // 2 % 2, 8 * n, 8, target=n % 2, at_ns=n * 1000) for n in range(40)]
    with loop(image(tmp_path / "b")) as other:
        devices = (disk, other)
        numbers = {f"{os.major(n)},{os.minor(n)}": d for d in devices for n in [d.stat().st_rdev]}
        # WHEN they run
        with traced("block_rq_issue", needs="ioprio") as lines:
            ran = replay(
                rows,
                labels=("fs", "journal"),
                needed_sectors=2048,
                target=[f"fs={disk}", f"journal={other}"],
                write_to=[token_of(device) for device in devices],
                priority=["journal=rt:2", "be:6"],
                direct="on",
                engine=engine,
                threads=2,
            )
    assert ran.code == 0, ran.messages
    # THEN every request has that of its target
    events = filter(None, map(ISSUED.search, lines))
    at = {(numbers.get(f"{e[1]},{e[2]}"), int(e[3])): f"{e[4]}:{e[5]}" for e in events}
    for row in rows:
        assert at[devices[row[6]], row[1]] == ("be:6", "rt:2")[row[6]]


@both_engines
def test_the_summary_names_the_priority_and_nothing_else_changes(
    replay: Replay, target: Path, engine: str
) -> None:
    rows = [record(WRITE, 0, 8), record(READ, 0, 8), record(FLUSH)]
    for words, told in (("idle", "idle"), ("be", "be:4"), ("be:0", "be:0")):
        ran = replay(rows, target=target, engine=engine, priority=words)
        assert ran.code == 0, ran.messages
        assert ran.target["priority"] == told
        assert ran.counts["done"] == 3
    assert replay(rows, target=target, engine=engine).target["priority"] == "none"


@pytest.mark.root
def test_a_class_that_the_kernel_does_not_grant_is_refused(tmp_path: Path, target: Path) -> None:
    # GIVEN a program without the right to it
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])
    limits = ["setpriv", "--bounding-set", "-sys_nice,-sys_admin"]
    ran = play(plan, [*limits, *command(plan, target=target, priority="rt")])
    # THEN that one is refused, and the others are not
    ran.refused("needs root or CAP_SYS_NICE")
    ran = play(plan, [*limits, *command(plan, target=target, priority="be:1")])
    assert ran.code == 0, ran.messages
    assert "CAP_SYS_NICE" not in ran.messages
    assert ran.target["priority"] == "be:1"


@contextmanager
def queue_with(disk: Path, name: str, value: str) -> Iterator[None]:
    """Set something of the device's queue, which would outlive the loop device."""
    place = Path("/sys/block") / disk.name / "queue" / name
    before = place.read_text()
    place.write_text(value)
    try:
        yield
    finally:
        place.write_text(before)


@pytest.fixture
def counted(replay: Replay, disk: Path) -> Any:
    """Return a function that runs records as fast as possible and returns the summary."""

    def summary(records: list[Record]) -> dict[str, Any]:
        # What udev does with a new device is over when the second run begins: it is counted too.
        for _ in range(2):
            ran = replay(records, target=disk, write_to=token_of(disk), pace="fast")
        assert ran.summary["outcome"] == "finished", ran.messages
        return ran.summary

    return summary


@pytest.mark.root
def test_the_device_gets_each_request_once(counted: Any, disk: Path) -> None:
    kinds = {READ: 8, WRITE: 16, FLUSH: 0, DISCARD: 64}
    records = [record(kind, 64 * n, kinds[kind]) for n in range(COUNT) for kind in kinds]
    with queue_with(disk, "nomerges", "2"):
        found = counted(records)["targets"][0]["counted"]
    expected = {
        "reads": {"done": COUNT, "merged": 0, "bytes": COUNT * 4096},
        # What only flushes is a write for the kernel.
        "writes": {"done": 2 * COUNT, "merged": 0, "bytes": COUNT * 8192},
        "discards": {"done": COUNT, "merged": 0, "bytes": COUNT * 32768},
    }
    assert {kind: found[kind] for kind in expected} == expected
    # Flushes that wait at one time become one for the device.
    assert 0 < found["flushes"]["done"] <= COUNT


@pytest.mark.root
def test_what_was_merged_is_told(counted: Any, tmp_path: Path, disk: Path) -> None:
    # GIVEN reads that touch each other, all due at one time
    with queue_with(disk, "nomerges", "0"):
        summary = counted([record(READ, 8 * n, 8) for n in range(COUNT)])
    # THEN each was done or merged into one that was
    reads = summary["targets"][0]["counted"]["reads"]
    assert reads["done"] + reads["merged"] == COUNT
    assert reads["bytes"] == COUNT * 4096
    assert reads["merged"] > 0
    assert f"{reads['merged']} were merged" in describe({**summary, "devices": [], "warnings": []})
    # AND as issued it is a warning, since the trace's device got them one by one
    for level, codes in (("issued", ["merged"]), ("queued", [])):
        summary["plan"]["level"] = level
        run = summary_of({**summary, "compiled": asdict(NOTHING)}, tmp_path / "summary.json")
        found = [warning.code for warning in find_warnings(run)]
        assert [code for code in found if code == "merged"] == codes


@pytest.mark.root
def test_a_device_that_is_not_counted_is_left_out(counted: Any, disk: Path) -> None:
    with queue_with(disk, "iostats", "0"):
        assert "counted" not in counted([record(READ, 0, 8)])["targets"][0]


def test_a_file_has_no_counters(replay: Replay, target: Path) -> None:
    target.write_bytes(bytes(4096))
    assert "counted" not in replay([record(READ, 0, 8)], target=target).target


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

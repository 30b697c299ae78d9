"""What the kernel saw of each request: its block trace events, its priority, its counters."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.replay.disk import image, loop, token_of
from tests.replay.program import Record, Replay, command, play, record, write_plan
from tracekit.capture.tracefs import tracefs_folder
from tracekit.plans.block_plan import DISCARD, FLUSH, FUA, PREFLUSH, READ, WRITE, WRITE_ZEROES
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

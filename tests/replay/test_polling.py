"""io_uring with a thread of the kernel that submits, and with completions that are looked for."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest

from tests.command_line import succeed
from tests.replay.disk import image, loop, token_of, unchanged
from tests.replay.program import WRITES, Record, Replay, content, expected_content, record
from tests.replay.trace import trace
from tracekit.errors import UsageError
from tracekit.plans.block_plan import DISCARD, FLUSH, FUA, PREFLUSH, READ, WRITE, WRITE_ZEROES
from tracekit.replay.player import PlayerOptions, describe_submission
from tracekit.report.sections.replay import how

SECTORS = 8192
KINDS = [READ, WRITE, WRITE, FLUSH, DISCARD, WRITE_ZEROES]
SQPOLL: dict[str, Any] = {"engine": "io_uring", "sqpoll": True, "sqpoll_idle_ms": 20}


def every_kind(count: int) -> list[Record]:
    """Return requests of all kinds, each on 4 KiB blocks of its own, so that order is no matter."""
    random = np.random.default_rng(3)
    rows = []
    for number, block in enumerate(random.permutation(SECTORS // 8)[:count]):
        kind = KINDS[number % len(KINDS)]
        flags = int(random.choice([0, FUA, PREFLUSH, FUA | PREFLUSH])) if kind == WRITE else 0
        place = (0, 0) if kind == FLUSH else (8 * int(block), 8)
        rows.append(record(kind, *place, at_ns=number * 2000, flags=flags))
    return rows


@pytest.fixture(params=["memory", "disk"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder of a tmpfs, whose files know no O_DIRECT on older kernels, and one of a disk."""
    if request.param == "disk":
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


@pytest.mark.parametrize("pace", ["trace", "fast"])
@pytest.mark.parametrize("more", [{}, {"sqpoll_cpu": 0}])
def test_a_thread_that_submits_changes_no_byte(
    replay: Replay, folder: Path, pace: str, more: dict[str, int]
) -> None:
    # GIVEN requests of all kinds that do not meet each other
    rows, target = every_kind(600), folder / "target"
    # WHEN a thread of the kernel submits them
    options = {"target": target, "pace": pace, "keep": True, **SQPOLL, **more}
    ran = replay(rows, needed_sectors=SECTORS, **options)
    # THEN each is done, once, with the same result as ever
    assert ran.code == 0, ran.messages
    assert ran.summary["engine"]["features"]["sqpoll"]
    assert not ran.summary["engine"]["features"]["iopoll"]
    kept = [row for row in rows if ran.target["can_discard"] or row[4] != DISCARD]
    assert ran.counts["done"] == len(kept)
    assert ran.by_id()["request_id"].tolist() == list(range(len(rows)))
    assert (content(target) == expected_content(kept, SECTORS * 512)).all()


def test_a_thread_that_fell_asleep_is_woken_and_counted(replay: Replay, target: Path) -> None:
    # GIVEN requests 20 ms apart, and a thread that sleeps after 1 ms
    rows = [record(READ, 8 * n, 8, at_ns=n * 20_000_000) for n in range(20)]
    # WHEN they run
    # (on a busy machine a thread may not come to its sleep, or late from it: several attempts)
    for _attempt in range(4):
        wakes = []
        for idle_ms in (1, 2000):
            ran = replay(rows, target=target, **(SQPOLL | {"sqpoll_idle_ms": idle_ms}))
            assert ran.counts["done"] == len(rows)
            wakes.append(ran.summary["engine"]["sqpoll_wakes"])
        if 10 <= wakes[0] <= len(rows) + 1 and wakes[1] <= 1:
            break
    # THEN it was woken for most of them, and not where it may wait longer than they are apart
    assert 10 <= wakes[0] <= len(rows) + 1
    assert wakes[1] <= 1


@pytest.mark.plain
def test_failures_come_back_from_a_thread_that_submits(replay: Replay, target: Path) -> None:
    # GIVEN a file that becomes shorter in the middle of two seconds of requests
    rows = [record(READ, 8 * n, 8, at_ns=n * 5_000_000) for n in range(400)]
    shrink = Timer(1.0, os.truncate, (image(target, mib=2), 8192))
    shrink.start()
    ran = replay(rows, target=target, no_calibration=True, **SQPOLL)
    shrink.join()
    # THEN those for its end have failed, and say why
    assert ran.code == 3
    assert set(ran.errors) == {"ENODATA"}
    assert ran.counts["done"] + ran.counts["failed"] == len(rows)


def test_a_processor_that_is_not_there_is_refused_by_name(replay: Replay, target: Path) -> None:
    ran = replay(WRITES, target=target, sqpoll=True, sqpoll_cpu=65000)
    ran.refused("io_uring", "--sqpoll", "Invalid argument")
    assert not target.exists()


@pytest.mark.root
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_device_without_queues_for_it_is_not_polled(
    replay: Replay, tmp_path: Path, words: tuple[str, ...]
) -> None:
    backing = image(tmp_path / "img")
    with loop(backing) as device, unchanged(backing):
        ran = replay(WRITES, *words, target=device, write_to=token_of(device), iopoll=True)
        ran.refused(str(device), "its device has no queues", "leave --iopoll out")


def test_a_file_whose_device_is_not_polled_is_refused(replay: Replay, folder: Path) -> None:
    # GIVEN a file on a device that interrupts, and one in memory, which has no device at all
    device = folder.stat().st_dev
    switch = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue/io_poll")
    if switch.exists() and switch.read_text().strip() == "1":
        pytest.skip("this disk is polled")
    target = image(folder / "target")
    with unchanged(target):
        ran = replay(WRITES, target=target, iopoll=True)
        ran.refused(str(target), "cannot be polled", "leave --iopoll out")


def test_the_command_passes_the_ways_on_and_the_report_tells_them(tmp_path: Path) -> None:
    # GIVEN a trace that is replayed with a thread that submits
    folder = trace(tmp_path / "trace", [{"queue_ns": 0}, {"queue_ns": 50_000, "sector": 8}])
    words = ("--engine", "io_uring", "--sqpoll", "cpu=0,idle=20ms")
    output = succeed("replay", folder.path, *words).output
    # THEN summary, terminal and report say so
    summary = json.loads((folder.path / "replays/latest/summary.json").read_text())
    assert summary["engine"]["features"]["sqpoll"]
    woken = summary["engine"]["sqpoll_wakes"]
    sentence = f"submitted by a thread of the kernel that was woken {woken} times"
    assert sentence in output
    assert sentence in how(summary)


@pytest.mark.parametrize(
    "words",
    ["", "off", "cpu=", "cpu=-1", "cpu=x", "idle=", "idle=0ms", "idle=500us", "on,cpu=1", "cpu=1,"],
)
def test_a_thread_that_cannot_be_had_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="--sqpoll"):
        PlayerOptions(sqpoll=words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (PlayerOptions(), []),
        (PlayerOptions(sqpoll="on", iopoll=True), ["--sqpoll", "--iopoll"]),
        (PlayerOptions(sqpoll="idle=2s"), ["--sqpoll", "--sqpoll-idle-ms", "2000"]),
        (
            PlayerOptions(depth=8, write_to=("a", "b")),
            ["--depth", "8", "--write-to", "a", "--write-to", "b"],
        ),
    ],
)
def test_options_in_the_words_of_the_program(options: PlayerOptions, words: list[str]) -> None:
    always = ["--pace", "trace", "--late", "catch-up", "--engine", "auto"]
    assert sorted(options.words()) == sorted([*always, *words])


@pytest.mark.parametrize(
    "wrong", [{"engine": "x"}, {"direct": "x"}, {"out_of_range": "x"}, {"overlaps": "x"}]
)
def test_a_word_that_the_program_does_not_have_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="x: not one of "):
        PlayerOptions(**wrong)


def test_a_polled_run_says_what_was_not_polled() -> None:
    features = {"sqpoll": False, "iopoll": True}
    engine = {"features": features, "unpolled": 1234, "sqpoll_wakes": 0}
    assert describe_submission(engine) == ["completions polled, but for 1,234 flushes and the like"]
    assert describe_submission({"features": {"defer_taskrun": True}}) == []

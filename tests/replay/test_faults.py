"""Errors, short transfers, full disks and signals: counted, drained, told."""

import json
import os
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.replay.processes import limited
from tests.replay.program import (
    Ran,
    Record,
    Replay,
    command,
    compiled_shim,
    content,
    expected_content,
    record,
    write_plan,
)
from tracekit.plans.block_plan import FLUSH, FUA, PREFLUSH, READ, WRITE
from tracekit.replay.completions import HEADER, RECORD

ENGINES = ("threads", "io_uring")
RWF_DSYNC = 2
Behind = Callable[..., tuple[Ran, list[str]]]


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that stands between the program and the C library."""
    return compiled_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def behind(tmp_path: Path, replay: Replay, target: Path, shim: Path) -> Behind:
    """Return a function that runs records behind the shim and returns the target's calls, too."""

    def run_behind(records: list[Record], **settings: str) -> tuple[Ran, list[str]]:
        log = tmp_path / "calls"
        shimmed = {"LD_PRELOAD": str(shim), "SHIM_LOG": str(log), "SHIM_TARGET": str(target)}
        options = {"engine": "threads", "pace": "fast", "depth": 1, "keep": True}
        ran = replay(records, target=target, env={**os.environ, **shimmed, **settings}, **options)
        return ran, log.read_text().splitlines() if log.exists() else []

    return run_behind


def test_flush_comes_before_the_data_and_fua_is_a_synchronous_write(behind: Behind) -> None:
    # GIVEN every combination of preflush and FUA, a flush and a read
    records = [
        record(WRITE, 0, 8),
        record(WRITE, 8, 8, flags=FUA),
        record(WRITE, 16, 8, flags=PREFLUSH),
        record(WRITE, 24, 8, flags=PREFLUSH | FUA),
        record(FLUSH, flags=PREFLUSH),
        record(READ, 8, 16),
    ]
    # WHEN they run one after the other
    ran, calls = behind(records)
    # THEN the system calls are these
    assert ran.code == 0, ran.messages
    assert calls == [
        "write 0 4096 0",
        f"write 4096 4096 {RWF_DSYNC}",
        "flush 0 0 0",
        "write 8192 4096 0",
        "flush 0 0 0",
        f"write 12288 4096 {RWF_DSYNC}",
        "flush 0 0 0",
        "read 4096 8192 0",
    ]


def test_a_failed_flush_stops_its_data(behind: Behind, target: Path) -> None:
    ran, calls = behind([record(WRITE, 0, 8, flags=PREFLUSH)], SHIM_FLUSH_EIO="1")
    assert calls == ["flush 0 0 0"]
    assert ran.code == 3
    assert list(ran.errors) == ["EIO"]
    assert not content(target).any()


def test_short_and_interrupted_transfers_are_carried_on(behind: Behind, target: Path) -> None:
    # GIVEN calls that move 512 bytes at most, every other one interrupted
    records = [record(WRITE, 8, 8), record(READ, 8, 8)]
    # WHEN a block of 4 KiB is written and read
    ran, calls = behind(records, SHIM_SHORT="512", SHIM_EINTR="1")
    # THEN each is done in eight steps, at the right places
    assert ran.counts["done"] == 2
    assert calls[:8] == [f"write {4096 + 512 * i} {4096 - 512 * i} 0" for i in range(8)]
    assert (content(target) == expected_content(records, 16 * 512)).all()


def test_errors_are_counted_by_number_and_keep_their_request(behind: Behind) -> None:
    # GIVEN a target whose second half fails
    records = [record(WRITE, 8 * i, 8, at_ns=i) for i in range(10)]
    ran, _ = behind(records, SHIM_EIO_AT=str(5 * 4096))
    # THEN the run goes on to its end, and says what failed
    assert ran.code == 3
    assert ran.summary["outcome"] == "finished"
    assert ran.summary["errors"] == [
        {"errno": 5, "name": "EIO", "meaning": "Input/output error", "count": 5}
    ]
    assert ran.statuses() == {i: "done" if i < 5 else "failed" for i in range(10)}
    assert set(ran.rows()["error"]) == {0, -5}
    assert ran.summary["operations"][0]["service"]["count"] == 5


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_size_limit_is_an_error_of_the_request(
    replay: Replay, target: Path, engine: str
) -> None:
    # GIVEN a file that may not grow: made before, limited while the program runs
    target.write_bytes(bytes(1 << 20))
    records = [record(WRITE, 8 * i, 8, at_ns=i) for i in range(256)]
    # WHEN half of the writes lie beyond the limit
    limit = limited(resource.RLIMIT_FSIZE, 1 << 19)
    options = {"confirmed": target, "engine": engine, "no_space_check": True}
    ran = replay(records, preexec_fn=limit, **options)
    # THEN these fail, the others are done, and no signal ends the program
    assert ran.code == 3, ran.messages
    assert Counter(ran.statuses().values()) == {"done": 128, "failed": 128}
    assert list(ran.errors) == ["EFBIG"]


def test_a_full_disk_under_the_completions_ends_the_run_and_keeps_them(
    replay: Replay, tmp_path: Path
) -> None:
    # GIVEN a limit that the completions of 100,000 requests pass
    records = [record(READ, 0, 8, at_ns=i) for i in range(100_000)]
    limit = limited(resource.RLIMIT_FSIZE, 1 << 20)
    options = {"engine": "null", "pace": "fast", "no_space_check": True}
    ran = replay(records, preexec_fn=limit, **options)
    # THEN it fails in clear words; what was written is kept under another name, not complete
    assert ran.code == 1
    assert "cannot write all completions" in ran.messages
    assert not ran.completions.exists()
    (kept,) = tmp_path.glob("a.done.*.part")
    data = kept.read_bytes()
    assert data[:8] == b"TKDONE\r\n"
    assert data[20:24] == bytes(4)
    assert int.from_bytes(data[24:32], "little") * 40 + 64 <= len(data) <= 1 << 20


def test_many_threads_on_few_processors_lose_no_turn(replay: Replay, target: Path) -> None:
    # GIVEN far more workers than processors, so that they are interrupted anywhere, and a queue of
    # two places, so that one who stands on a place is in the way
    two = set(sorted(os.sched_getaffinity(0))[:2])
    options = {"engine": "threads", "threads": 64, "depth": 2, "pace": "fast", "direct": "off"}
    # WHEN they run as fast as they can
    ran = replay(
        [record(READ, 0, 1)] * 400_000,
        target=target,
        preexec_fn=lambda: os.sched_setaffinity(0, two),
        **options,
    )
    # THEN nobody gives up
    assert (ran.code, ran.messages) == (0, "")
    assert ran.counts["done"] == 400_000


@contextmanager
def running(plan: Path, line: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a run that has put its first completions into a file."""
    with subprocess.Popen(line, stderr=subprocess.PIPE) as child:
        end_s = time.monotonic() + 30
        while not any(p.stat().st_size > HEADER.itemsize for p in plan.parent.glob("*.part")):
            assert time.monotonic() < end_s
            time.sleep(0.02)
        yield child


def reads(path: Path, *at_ns: int) -> Path:
    return write_plan(path / "a.plan", [record(READ, 0, 8, at_ns=ns) for ns in at_ns])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("engine", [*ENGINES, "null"])
def test_a_signal_drains_and_tells(
    tmp_path: Path, target: Path, number: signal.Signals, engine: str
) -> None:
    # GIVEN a plan of two requests a millisecond for a minute
    records = [record(WRITE, 8 * (i % 64), 8, at_ns=i * 500_000) for i in range(120_000)]
    plan = write_plan(tmp_path / "a.plan", records)
    words = () if engine == "null" else ("--target", target)
    # WHEN it is interrupted
    with running(plan, command(plan, *words, engine=engine)) as child:
        child.send_signal(number)
        code = child.wait(10)
    # THEN what was submitted is completed and on disk, and the target is gone
    told = json.loads(plan.with_suffix(".json").read_text())
    counts = told["counts"]
    assert (code, told["outcome"]) == (3, "interrupted")
    assert 0 < counts["done"] == counts["submitted"] < 10_000
    assert counts["done"] + counts["not_reached"] == 120_000
    assert plan.with_suffix(".done").stat().st_size == 64 + 40 * counts["done"]
    assert not target.exists()


def test_a_hangup_that_is_ignored_stops_nothing(tmp_path: Path) -> None:
    # GIVEN a run of 0.8 s that was started as nohup starts it
    plan = reads(tmp_path, 0, 800_000_000)
    # WHEN its terminal closes
    with running(plan, ["env", "--ignore-signal=HUP", *command(plan, engine="null")]) as child:
        child.send_signal(signal.SIGHUP)
        # THEN it goes on to the end
        assert child.wait(10) == 0
    assert json.loads(plan.with_suffix(".json").read_text())["outcome"] == "finished"


def test_a_time_that_no_clock_reaches_is_waited_for(tmp_path: Path) -> None:
    # GIVEN a request that is due in 31,000 years
    plan = reads(tmp_path, 0, 10**12)
    # WHEN the run is interrupted
    with running(plan, command(plan, engine="null", speed="0.000000001")) as child:
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == 3
    # THEN it was not issued at once
    assert json.loads(plan.with_suffix(".json").read_text())["counts"]["submitted"] == 1


@pytest.mark.plain
def test_a_run_that_never_began_leaves_no_completions(
    replay: Replay, tmp_path: Path, target: Path
) -> None:
    # GIVEN too little memory for the stacks of so many threads
    limit = limited(resource.RLIMIT_AS, 128 << 20)
    options = {"target": target, "engine": "threads", "threads": 1024}
    ran = replay([record(READ, 0, 8)], preexec_fn=limit, **options)
    # THEN no empty file is called complete
    assert ran.code == 1
    assert "cannot start the threads engine" in ran.messages
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.plan"]


def test_what_completed_before_a_kill_is_in_the_file(tmp_path: Path) -> None:
    # GIVEN a run at 1,000 requests a second
    plan = reads(tmp_path, *range(0, 100_000_000_000, 1_000_000))
    with running(plan, command(plan, engine="null")) as child:
        # WHEN it is killed half a second after the first of them, far fewer than a block of the log
        time.sleep(0.5)
        child.kill()
    # THEN no file bears the name of a complete one, and all but the last are in the other one
    assert not plan.with_suffix(".done").exists()
    (kept,) = tmp_path.glob("a.done.*.part")
    header = np.frombuffer(kept.read_bytes()[: HEADER.itemsize], HEADER)[0]
    assert header["is_complete"] == 0
    rows = np.frombuffer(kept.read_bytes()[HEADER.itemsize :], RECORD)
    assert len(rows) > 200
    assert sorted(rows["request_id"].tolist()) == list(range(len(rows)))

"""What a second signal does to a run whose target hangs, and how long EAGAIN is tried."""

import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest

from tests.replay.disk import call, image, loop, mounted
from tests.replay.failing import SIZE_BYTES, failing_file
from tests.replay.processes import await_in, await_true, replay_command
from tests.replay.program import Ran, Record, Replay, command, device, record, write_plan
from tests.replay.test_kernel import kernel_test
from tests.replay.trace import trace
from tests.replay_files import program as of_files
from tests.replay_files.program import OWN, do
from tests.replay_files.test_safety import LOOP
from tracekit.plans.block_plan import FLUSH, READ, WRITE
from tracekit.plans.file_plan import Setting

pytestmark = pytest.mark.root
BLOCKS = SIZE_BYTES // 4096
PARENT = """
import ctypes, os, subprocess, sys, threading, time
for number in range(8):
    threading.Thread(target=time.sleep, args=(1.0 + number / 100,), daemon=True).start()
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
child = subprocess.Popen([*sys.argv[1:], "--parent", str(os.getpid())])
time.sleep(0.99)
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
"""Whose threads end one by one, the first of which is the main one."""
ENDS_S = 2.0
"""A second, and as much again for a machine that has other things to do."""
ENGINES: dict[str, dict[str, Any]] = {
    "threads": {"engine": "threads"},
    "io_uring": {"engine": "io_uring"},
    "sqpoll": {"engine": "io_uring", "sqpoll": True},
    "dax": {"engine": "dax"},
    "emulated": {"engine": "emulated", "emulate": device()},
}


def requests(count: int, engine: str) -> list[Record]:
    """Return requests of each block in turn; a load cannot hang, so with dax the 100th flushes."""
    rows = [record((WRITE, READ)[n % 2], 8 * (n % BLOCKS), 8, at_ns=n * 1000) for n in range(count)]
    if engine == "dax":
        rows[100] = record(FLUSH, at_ns=100_000)
    return rows


def stopped(
    line: list[str], signals: list[int], amid: AbstractContextManager[None] | None = None
) -> tuple[float, str]:
    """Start a command line and send it signals; return how long it then took, and what it said.

    That it ended shows the end of its output: the kernel keeps a process whose requests hang.
    """
    with ExitStack() as stack:
        running = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        assert running.stderr is not None
        # It may take long to begin, on a busy machine or one that a sanitizer watches.
        (folder,) = {Path(word).parent for word in line if Path(word).name == "plan"}
        await_true(lambda: [*folder.glob("*.part")])
        time.sleep(1.0)
        if amid is not None:
            stack.enter_context(amid)
            time.sleep(0.3)
        for number in signals:
            running.send_signal(number)
            time.sleep(0.2)
        sent_s = time.monotonic()
        said = running.stderr.read()
        took_s = time.monotonic() - sent_s
    if amid is None:
        running.returncode = 3  # its requests hang until the file system is gone
    else:
        assert running.wait(10) == 3
    return took_s, said


@pytest.mark.parametrize("engine", ENGINES)
def test_a_second_signal_ends_what_hangs(tmp_path: Path, engine: str) -> None:
    # GIVEN requests on a file system that answers a hundred and no more
    faults = {"is_cached": 1, "flush_hangs": 1} if engine == "dax" else {"hangs_after": 100}
    plan = write_plan(tmp_path / "plan", requests(2000, engine))
    with failing_file(tmp_path / "fs", **faults) as target:
        # WHEN it gets two signals
        line = command(plan, confirmed=target, **ENGINES[engine])
        took_s, said = stopped(line, [signal.SIGINT, signal.SIGTERM])
    # THEN it has ended, and the results are whole: each request submitted is done or unknown
    assert took_s < ENDS_S, said
    ran = Ran(3, json.loads(plan.with_suffix(".json").read_text()), said, plan.with_suffix(".done"))
    rows = ran.rows()
    statuses = Counter(ran.statuses().values())
    assert len(ran.statuses()) == len(rows) == ran.counts["submitted"]
    assert statuses == Counter({name: ran.counts[name] for name in ("done", "unknown")})
    assert statuses["unknown"] > 0
    assert ran.summary["outcome"] == "interrupted"
    unknown = rows[rows["status"] == 7]
    assert set(unknown["error"]) == {-115}
    assert ran.summary["window"]["next"] == min(unknown["request_id"])
    assert ran.counts["submitted"] + ran.counts["not_reached"] == ran.counts["planned"]


@pytest.mark.parametrize("engine", ["threads", "io_uring"])
def test_a_second_signal_ends_the_command_too(tmp_path: Path, engine: str) -> None:
    # GIVEN a replay of requests that hang, one of them uninterruptibly where threads make them
    rows = [{"queue_ns": n, "sector": 8 * n, "operation": "read"} for n in range(BLOCKS)]
    folder = trace(tmp_path / "trace", rows)
    with failing_file(tmp_path / "fs", hangs_after=100) as target:
        line = replay_command(folder, "--target", str(target), "--engine", engine)
        with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
            await_true(lambda: [*folder.path.glob("replays/.*/*.part")])
            time.sleep(1.0)
            # WHEN the command alone gets two signals
            for _ in range(2):
                running.send_signal(signal.SIGINT)
                time.sleep(0.2)
            # THEN it does not wait for a program that the kernel cannot end
            assert running.wait(ENDS_S) == 3
    told = json.loads((folder.path / "replays/latest/summary.json").read_text())
    assert (told["outcome"], told["counts"]["unknown"] > 0) == ("interrupted", True)


@kernel_test
@pytest.mark.alone  # nobody can look into its loop device
def test_a_second_signal_ends_a_replay_that_is_observed(tmp_path: Path) -> None:
    # GIVEN an observed replay on a loop device, whose file hangs while the lead is measured
    rows = [{"queue_ns": n * 1_000_000, "sector": 8 * (n % BLOCKS)} for n in range(2000)]
    folder = trace(tmp_path / "trace", [{**row, "operation": "read"} for row in rows])
    with ExitStack() as ends:
        devices: list[str] = []
        ends.callback(lambda: [call("losetup", "--detach", one) for one in devices])
        target = ends.enter_context(failing_file(tmp_path / "fs", hangs_after=500))
        devices.append(call("losetup", "--find", "--show", target))
        line = replay_command(folder, "--target", devices[0], "--observe")
        with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
            assert running.stderr is not None
            await_in(running, lambda: [*folder.path.glob("replays/.*/lead-*/*.part")])
            time.sleep(2.0)
            # WHEN the command gets two signals
            for _ in range(2):
                running.send_signal(signal.SIGINT)
                time.sleep(0.2)
            # THEN it asks the device nothing more, and does not go on to the run itself
            with suppress(subprocess.TimeoutExpired):
                running.wait(ENDS_S)
            running.kill()
            assert b"nothing was replayed" in running.stderr.read()
            assert running.wait() == 3
    assert not [*folder.path.glob("replays/*")]


@pytest.mark.parametrize("engine", ["threads", "io_uring"])
@pytest.mark.parametrize("hung", [0, 1])
def test_a_second_signal_ends_several_submitters_of_which_one_hangs(
    tmp_path: Path, hung: int, engine: str
) -> None:
    # GIVEN two targets, one for each of two submitters, the first or the other of which hangs
    rows = [
        record((WRITE, READ)[n % 2], 8 * (n % BLOCKS), 8, at_ns=n // 2 * 1000, target=n % 2)
        for n in range(2000)
    ]
    plan = write_plan(tmp_path / "plan", rows, labels=("zero", "one"))
    (tmp_path / "quick").write_bytes(bytes(SIZE_BYTES))
    with failing_file(tmp_path / "fs", hangs_after=100) as hanging:
        files = [tmp_path / "quick"] * 2
        files[hung] = hanging
        words = [f"{label}={file}" for label, file in zip(("zero", "one"), files, strict=True)]
        line = command(plan, target=words, write_to=files, engine=engine, submitters=2, depth=64)
        # WHEN it gets two signals
        took_s, said = stopped(line, [signal.SIGINT, signal.SIGTERM])
    # THEN it has ended, what the one has in flight is unknown, and the other's is done
    assert took_s < ENDS_S, said
    ran = Ran(3, json.loads(plan.with_suffix(".json").read_text()), said, plan.with_suffix(".done"))
    done, counts = ran.rows(), ran.counts
    unknown = done[done["status"] == 7]
    assert len(done) == len({*done["request_id"]}) == counts["submitted"]
    assert (counts["done"], counts["unknown"]) == (len(done) - len(unknown), len(unknown))
    assert 0 < counts["unknown"] <= 32
    assert {*unknown["target"]} == {hung}
    assert counts["submitted"] + counts["not_reached"] == counts["planned"]
    # AND where it goes on is not behind any of them
    reached = ran.summary["window"]["next"]
    assert reached <= min(unknown["request_id"])
    assert set(range(reached)) <= set(done["request_id"].tolist())
    assert ran.summary["outcome"] == "interrupted"


def test_the_first_signal_waits_for_what_is_in_flight(tmp_path: Path) -> None:
    # GIVEN requests that take 400 ms each
    plan = write_plan(tmp_path / "plan", [record(READ, 8 * n, 8, at_ns=n) for n in range(100)])
    words = {"engine": "emulated", "emulate": device(read_setup_ns=400_000_000, lanes=4)}
    line = command(plan, depth=8, **words)
    took_s, said = stopped(line, [signal.SIGTERM])
    # THEN none is unknown, though the signal came amid them
    assert took_s < ENDS_S, said
    counts = json.loads(plan.with_suffix(".json").read_text())["counts"]
    assert (counts["unknown"], counts["done"]) == (0, counts["submitted"])
    assert 0 < counts["done"] < 100


def test_the_first_signal_ends_what_hangs_after_its_grace(tmp_path: Path) -> None:
    # GIVEN a target that answers no request any more, and so cannot be closed
    rows = [record(READ, 8 * (n % BLOCKS), 8, at_ns=n * 1000) for n in range(2000)]
    plan = write_plan(tmp_path / "plan", rows)
    with failing_file(tmp_path / "fs", hangs_after=100) as target:
        line = command(plan, target=target, engine="threads")
        running = subprocess.Popen(line, stderr=subprocess.PIPE)
        await_true(lambda: [*tmp_path.glob("*.part")])
        time.sleep(1.0)
        # WHEN one signal comes, and no other
        running.send_signal(signal.SIGTERM)
        # THEN the program has ended soon after the ten seconds that it gives the target
        is_over = closes_within(running.stderr, 10 + 3 + ENDS_S)
    running.returncode = 3  # its requests hang until the file system is gone
    assert is_over
    told = json.loads(plan.with_suffix(".json").read_text())
    assert (told["outcome"], told["counts"]["unknown"] > 0) == ("interrupted", True)


def closes_within(stream: IO[bytes] | None, seconds: float) -> bool:
    """Return whether the other end of a pipe is closed in time."""
    assert stream is not None
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        if select.select([stream], [], [], left_s)[0] and not os.read(stream.fileno(), 4096):
            return True
    return False


@contextmanager
def frozen(place: Path) -> Iterator[None]:
    """Let every change of a file system wait, uninterruptibly, until the block ends."""
    subprocess.run(["fsfreeze", "--freeze", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", place], check=True)


def test_a_second_signal_ends_file_operations_that_hang(tmp_path: Path) -> None:
    # GIVEN a thread that makes files, and one that only looks for one that nobody makes
    looks = [do("stat", "none", expected_error=errno.ENOENT)] * 3
    plan = of_files.write_plan(
        tmp_path / "plan", [LOOP, looks], setting=Setting(is_repeatable=True)
    )
    disk = image(tmp_path / "disk", mib=64)
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    with loop(disk) as device_node, mounted(device_node, tmp_path / "fs") as place:
        line = of_files.command(plan, place, "--repeat", "0", "--duration-ns", str(10**11))
        # WHEN the file system hangs, and two signals come
        took_s, said = stopped(line, [signal.SIGINT, signal.SIGINT], amid=frozen(place))
        assert took_s < ENDS_S, said
        assert f"{OWN} stays until the next run there" in said
        # THEN the results are whole: what the first thread did last is unknown
        ran = of_files.Ran(
            3, json.loads(plan.with_suffix(".json").read_text()), said, plan.with_suffix(".done")
        )
        rows = ran.rows()
        assert ran.summary["counts"]["unknown"] == 1
        assert (ran.summary["outcome"], ran.counts["operations"]) == ("interrupted", len(rows) - 1)
        (last,) = rows[rows["is_whole"] == 2]
        assert (last["thread"], last["result"], last["is_expected"]) == (0, -errno.EINPROGRESS, 0)
        # AND the next run there removes what it left
        again = of_files.run(plan, place)
        assert (again.code, again.summary["directory"]["replaced"]) == (0, "killed run")
        assert [path.name for path in place.iterdir()] == ["lost+found"]


def test_two_signals_at_once_end_file_operations(tmp_path: Path) -> None:
    # GIVEN runs of a minute that hang nowhere
    plan = of_files.write_plan(tmp_path / "plan", [LOOP], setting=Setting(is_repeatable=True))
    line = of_files.command(plan, tmp_path, "--repeat", "0", "--duration-ns", str(60 * 10**9))
    for _ in range(5):
        with subprocess.Popen(line, stderr=subprocess.PIPE) as running:
            await_true(lambda: [*tmp_path.glob("*.part")])
            time.sleep(0.3)
            # WHEN two signals come before the first is seen, THEN it ends all the same
            for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
                running.send_signal(number)
            assert running.wait(ENDS_S) == 3
        assert json.loads(plan.with_suffix(".json").read_text())["outcome"] == "interrupted"


@pytest.mark.parametrize("kind", ["blocks", "files"])
def test_the_end_of_a_parent_of_many_threads_is_one_signal(tmp_path: Path, kind: str) -> None:
    # GIVEN a run that its parent, which has threads, started
    if kind == "blocks":
        words = {"engine": "emulated", "emulate": device(read_setup_ns=200_000_000, lanes=8)}
        plan = write_plan(tmp_path / "plan", [record(READ, 8 * n, 8) for n in range(1000)])
        line = command(plan, depth=8, **words)
    else:
        plan = of_files.write_plan(tmp_path / "plan", [LOOP], setting=Setting(is_repeatable=True))
        line = of_files.command(plan, tmp_path, "--repeat", "0", "--duration-ns", str(60 * 10**9))
    # WHEN these end one after the other, as when it is killed
    with subprocess.Popen([sys.executable, "-c", PARENT, *line]) as parent:
        await_true(plan.with_suffix(".json").exists)
        parent.kill()
    # THEN the run ends in good order: what is in flight is waited for
    told = json.loads(plan.with_suffix(".json").read_text())
    assert (told["outcome"], told["counts"]["unknown"]) == ("interrupted", 0)


@pytest.mark.parametrize(("again", "code"), [(50, 0), (1 << 30, 3)])
def test_eagain_is_tried_for_a_second(
    replay: Replay, tmp_path: Path, again: int, code: int
) -> None:
    # GIVEN a file system that refuses the first requests for the moment, or all
    with failing_file(
        tmp_path / "fs", bad_from=1 << 19, bad_end=1 << 20, again=again, is_cached=1
    ) as target:
        began_s = time.monotonic()
        ran = replay(
            [record(READ, 1024 + 8 * n, 8) for n in range(4)],
            target=target,
            engine="io_uring",
            direct="off",
        )
        took_s = time.monotonic() - began_s
    # THEN they are tried again, each try is counted, and after a second they have failed
    assert ran.code == code, ran.messages
    assert ran.counts["done" if code == 0 else "failed"] == 4
    assert ran.errors == ({} if code == 0 else {"EAGAIN": 4})
    retried = ran.summary["engine"]["retried"]
    assert 0 < retried <= 50 if code == 0 else 4 * 100 < retried <= 4 * 1000
    assert took_s < 5

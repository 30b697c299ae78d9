"""What the program rejects before it begins, options of the two kinds of plan, and no io_uring."""

import ctypes
import errno
import shlex
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.replay.program import DISK, Replay, command, device, play, record, write_plan
from tests.replay_files import program as files
from tracekit._native import program_path
from tracekit.plans.block_plan import FLUSH, READ, WRITE

NULL = "--engine null"
SPEED = "--speed does not take"
PRIORITY = "not [LABEL=]rt[:0-7], be[:0-7] or idle"
EMULATED = "--engine emulated --emulate"
REJECTED = [
    *((f"{NULL} --speed '{x}'", 2, SPEED) for x in (0, -1, "x", "1/0", 0.0, "1e3", "", "2.", "/2")),
    (f"{NULL} --from-ns 99000000", 1, "has no requests in the part"),
    (f"{NULL} --first 9000", 1, "has no requests in the part"),
    (f"{NULL} --from-ns 5 --until-ns 5", 2, "must be later"),
    (f"{NULL} --from-ns 5 --first 5", 2, "exclude each other"),
    (f"{NULL} --pace closed --late slip", 2, "--late slip needs --pace trace"),
    (f"{NULL} --pace fast --late drop", 2, "--late drop needs --pace trace"),
    (f"{NULL} --late never", 2, "does not take 'never'"),
    (f"{NULL} --max-idle-ns -1", 2, "does not take '-1'"),
    *(
        (f"--target t --priority '{x}'", 1, PRIORITY)
        for x in ("", "high", "rt:8", "be:-1", "idle:3", "be:", "default=", "r")
    ),
    ("--target t --priority swap=be", 1, "no requests for it"),
    ("--target t --engine dax --priority be", 2, "--priority needs --engine io_uring or threads"),
    ("--target t --engine threads --sqpoll", 2, "--sqpoll needs --engine io_uring"),
    ("--target t --engine dax --iopoll", 2, "--iopoll needs --engine io_uring"),
    ("--target t --sqpoll-cpu 0", 2, "need --sqpoll"),
    ("--target t --sqpoll-idle-ms 5", 2, "need --sqpoll"),
    ("--target t --iopoll --direct off", 2, "--iopoll needs O_DIRECT"),
    ("--target t --sqpoll --sqpoll-idle-ms 0", 2, "--sqpoll-idle-ms"),
    ("--target swap=t --target u", 1, "no requests for a target 'swap'"),
    ("--engine emulated", 2, "need each other"),
    (f"{NULL} --emulate {device()}", 2, "need each other"),
    (f"{EMULATED} swap:{device()}", 1, "no requests for a device 'swap'"),
    (f"{EMULATED} read_setup_ns=1", 2, "--emulate: a key is missing"),
    (f"{EMULATED} ''", 2, "--emulate: a key is missing"),
    (f"{EMULATED} {device(empty_flush_ns=600_000)}", 2, "empty_flush_ns is more than flush_ns"),
    (f"{EMULATED} {device()},read_setup_ns=1", 2, "--emulate: read_setup_ns=1"),
    (f"{EMULATED} {device(read_bytes_s=0)}", 2, "--emulate: read_bytes_s=0"),
    (f"{EMULATED} {device(lanes=1025)}", 2, "--emulate: lanes=1025"),
    (f"{EMULATED} {device(colour=3)}", 2, "--emulate: colour=3"),
    (f"{EMULATED} {device()},flush_ns", 2, "--emulate: flush_ns"),
    (f"{EMULATED} {device(half_turn_ns=1)}", 2, ""),
    (f"{EMULATED} {device(**DISK, lanes=2)}", 2, ""),
    (f"{EMULATED} {device(**(DISK | {'half_turn_ns': 0}))}", 2, ""),
    (f"{EMULATED} {device(**(DISK | {'seek_linear_ns': -2_000_000}))}", 2, ""),
    (f"{EMULATED} {device(**(DISK | {'capacity_sectors': 0}))}", 2, ""),
    (f"{EMULATED} {device(read_setup_ns=-1)}", 2, ""),
]


@pytest.mark.parametrize(("words", "code", "message"), REJECTED)
def test_what_cannot_be_done_is_rejected(
    tmp_path: Path, replay: Replay, words: str, code: int, message: str
) -> None:
    ran = replay([record(READ, 0, 8)], *shlex.split(words), cwd=tmp_path)
    # With what is wrong about a device comes the list of its keys.
    ran.refused(message, code=code, lines=2 if words.startswith(EMULATED) and code == 2 else 1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.plan"]


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "blocks", [record(READ, 0, 8)])


@pytest.fixture
def of_files(tmp_path: Path) -> Path:
    return files.write_plan(tmp_path / "files", [[files.do("sync")]])


def rejected(*words: str | Path) -> str:
    """Return the line of a command line that makes no sense."""
    ran = subprocess.run([program_path(), *words], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), ran.stderr
    return ran.stderr.removeprefix("tracekit-replay: ").rstrip()


@pytest.mark.parametrize("words", ["--repeat 2", "--results r", "--cache cold", "--replace"])
def test_an_option_of_files_is_rejected_for_blocks(blocks: Path, words: str) -> None:
    option, *rest = words.split()
    assert rejected(blocks, "--engine", "null", option, *rest) == (
        f"{option} is only for a plan of files, and {blocks} is a plan of blocks"
    )


@pytest.mark.parametrize("words", ["--target t", "--engine null", "--completions c"])
def test_an_option_of_blocks_is_rejected_for_files(of_files: Path, words: str) -> None:
    option, *rest = words.split()
    assert rejected(of_files, of_files.parent, option, *rest) == (
        f"{option} is only for a plan of blocks, and {of_files} is a plan of files"
    )
    assert not (of_files.parent / "tracekit-files").exists()


def test_the_directory_is_that_of_a_plan_of_files(blocks: Path, of_files: Path) -> None:
    folder = blocks.parent
    assert rejected(blocks, folder, "--engine", "null") == (
        f"{blocks} is a plan of blocks, which takes no directory such as {folder}: name a --target"
    )
    assert rejected(of_files) == f"{of_files} is a plan of files: in which directory? see --help"
    assert rejected(of_files, "a", "b") == "one plan and at most one directory, not b as well"


def test_each_kind_has_its_own_pace(blocks: Path, of_files: Path) -> None:
    # THEN blocks run at the times of the plan and files as fast as they can
    assert play(blocks, command(blocks, engine="null")).summary["pace"] == "trace"
    assert files.run(of_files, of_files.parent).summary["pace"] == "fast"


IO_URING_SETUP, IO_URING_ENTER, IO_URING_REGISTER = 425, 426, 427  # the same on all machines
NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2
LOAD, IF_EQUAL, END = 0x20, 0x15, 0x06
REFUSE, ALLOW = 0x00050000 | errno.EPERM, 0x7FFF0000
ROWS = [record(WRITE, 8 * n, 8) for n in range(50)] + [record(FLUSH), record(READ, 0, 8)]


def limited(number: int) -> Callable[[], None]:
    """Return a function after which this system call fails with EPERM, as in containers."""
    steps = [
        struct.pack("HBBI", LOAD, 0, 0, 0),  # the number of the call
        struct.pack("HBBI", IF_EQUAL, 1, 0, number),
        *(struct.pack("HBBI", END, 0, 0, end) for end in (ALLOW, REFUSE)),
    ]
    code = ctypes.create_string_buffer(b"".join(steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    library = ctypes.CDLL(None, use_errno=True)

    def limit() -> None:
        assert library.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        assert library.prctl(SET_SECCOMP, FILTER, program) == 0
        assert len(code) > 0  # the filter points into it

    return limit


@pytest.mark.parametrize("call", [IO_URING_SETUP, IO_URING_ENTER, IO_URING_REGISTER])
@pytest.mark.parametrize("engine", ["auto", "io_uring"])
def test_threads_do_it_where_a_call_is_refused(
    replay: Replay, target: Path, call: int, engine: str
) -> None:
    ran = replay(ROWS, target=target, engine=engine, preexec_fn=limited(call))
    assert ran.code == 0, ran.messages
    assert ran.summary["engine"]["used"] == "threads"
    assert ran.summary["engine"]["fallback"]
    assert "io_uring is not available" in ran.messages
    assert ran.counts["done"] == len(ROWS)


def test_a_thread_that_submits_is_not_replaced(replay: Replay, target: Path) -> None:
    ran = replay(ROWS, target=target, sqpoll=True, preexec_fn=limited(IO_URING_SETUP))
    ran.refused("cannot start the io_uring engine with --sqpoll")
    assert not target.exists()

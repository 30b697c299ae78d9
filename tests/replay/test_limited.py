"""Where io_uring is refused the threads engine does the same, and it is told."""

import ctypes
import errno
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.replay.program import Replay, record
from tracekit.plans.block_plan import FLUSH, READ, WRITE

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

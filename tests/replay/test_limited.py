"""Where io_uring is refused the threads engine does the same, and it is told."""

from pathlib import Path

import pytest

from tests.replay.program import FLUSH, READ, WRITE, record, run, write_plan
from tests.replay.seccomp import IO_URING_ENTER, IO_URING_REGISTER, IO_URING_SETUP, limited

ROWS = [record(WRITE, 8 * n, 8) for n in range(50)] + [record(FLUSH), record(READ, 0, 8)]


@pytest.mark.parametrize("call", [IO_URING_SETUP, IO_URING_ENTER, IO_URING_REGISTER])
@pytest.mark.parametrize("engine", ["auto", "io_uring"])
def test_threads_do_it_where_a_call_is_refused(tmp_path: Path, call: int, engine: str) -> None:
    plan = write_plan(tmp_path / "a.plan", ROWS)
    target = ("--target", str(tmp_path / "t"))
    ran = run(plan, *target, "--engine", engine, preexec_fn=limited(call))
    assert ran.code == 0, ran.messages
    assert ran.summary["engine"]["used"] == "threads"
    assert ran.summary["engine"]["fallback"]
    assert "io_uring is not available" in ran.messages
    assert ran.summary["counts"]["done"] == len(ROWS)


def test_a_thread_that_submits_is_not_replaced(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "a.plan", ROWS)
    way = ("--target", str(tmp_path / "t"), "--sqpoll")
    ran = run(plan, *way, preexec_fn=limited(IO_URING_SETUP))
    assert ran.code == 1
    assert "cannot start the io_uring engine with --sqpoll" in ran.messages
    assert not ran.completions.exists()
    assert not (tmp_path / "t").exists()

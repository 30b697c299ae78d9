"""What a refusal looks like: one line, exit code 1, no byte changed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.replay.disk import digest
from tests.replay.program import WRITE, Ran, record, write_plan

RECORDS = [record(WRITE, 0, 64), record(WRITE, 2048, 8), record(WRITE, 16384, 8)]


def write_plan_of(folder: Path) -> Path:
    return write_plan(folder / "a.plan", RECORDS)


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Fail when a byte of the file has changed."""
    os.sync()
    before = digest(path)
    yield
    os.sync()
    assert digest(path) == before


def refused(ran: Ran, *words: str) -> None:
    assert ran.code == 1, ran.messages
    assert all(word in ran.messages for word in words), ran.messages
    assert len(ran.messages.splitlines()) == 1
    assert not ran.completions.exists()

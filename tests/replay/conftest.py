"""A folder in which plans written by hand run."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.replay.disk import image, loop, token_of
from tests.replay.program import (
    WRITES,
    Confirmed,
    Ran,
    Record,
    Replay,
    Word,
    command,
    run,
    write_plan,
)


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    """Return a function that writes records as a plan and runs the program on it."""

    def replay_records(
        records: Sequence[Record],
        *words: Word,
        labels: tuple[str, ...] = ("default",),
        needed_sectors: int | None = None,
        **options: Any,
    ) -> Ran:
        plan = tmp_path / "a.plan"
        write_plan(plan, records, labels=labels, needed_sectors=needed_sectors)
        return run(plan, *words, **options)

    return replay_records


@pytest.fixture
def free(tmp_path: Path) -> Iterator[Confirmed]:
    """Yield a loop device that nobody uses, and that a plan may write to."""
    file, plan = image(tmp_path / "t"), write_plan(tmp_path / "a.plan", WRITES)
    with loop(file) as device:
        line = command(plan, target=device, write_to=token_of(device))
        yield Confirmed(file, device, plan, line)


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return where a target goes, which is not there yet."""
    return tmp_path / "t"

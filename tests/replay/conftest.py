"""A folder in which plans written by hand run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.replay.program import Ran, Record, Replay, Word, run, write_plan


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
def target(tmp_path: Path) -> Path:
    """Return where a target goes, which is not there yet."""
    return tmp_path / "t"

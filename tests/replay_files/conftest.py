"""A directory in which plans written by hand run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.replay.program import Word
from tests.replay_files.program import Operation, Ran, Replay, run, write_plan
from tracekit.plans.file_plan import FileTable, Setting


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    """Return a function that writes threads as a plan and runs the program on it."""

    def replay_threads(
        threads: Sequence[Sequence[Operation]],
        *words: Word,
        files: FileTable | None = None,
        setting: Setting | None = None,
        directory: Path = tmp_path,
        **options: Any,
    ) -> Ran:
        plan = write_plan(tmp_path / "plan", threads, files=files, setting=setting)
        return run(plan, directory, *words, **options)

    return replay_threads


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return an empty directory of its own."""
    place = tmp_path / "target"
    place.mkdir()
    return place

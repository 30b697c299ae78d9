"""Where the tests of sweeps run."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory in memory where there is one: a busy disk does little in 100 ms."""
    memory = Path("/dev/shm")  # noqa: S108 - a directory of its own below it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as place:
        yield Path(place)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the folder of a sweep's results, which is not there yet."""
    return tmp_path / "out"

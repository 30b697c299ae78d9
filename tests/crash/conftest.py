"""What the crash tests share: started commands, and prepared folders in memory or on the disk."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.cases import Bases
from tests.crash.watched import Commands


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    # The address of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="crash-") as folder, Commands(Path(folder)) as started:
        yield started


@pytest.fixture(scope="session")
def bases(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return Bases(tmp_path_factory.mktemp("crash"), commands)

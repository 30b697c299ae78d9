"""What tests of scripts share: a machine with a disk and an NVM, and where the disk is mounted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recommend.carried import Host, host


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as found:
        yield found


@pytest.fixture
def point(tmp_path: Path) -> Path:
    return tmp_path / "fs"

"""What tests of scripts share: a machine with a disk and an NVM."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recommend.carried import Host, host


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as found:
        yield found

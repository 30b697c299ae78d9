"""The disk that all capture tests of one process share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.capture.machine import Disk, skip_unless_it_can_trace, small_disk


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    skip_unless_it_can_trace()
    with small_disk(tmp_path_factory.mktemp("disk")) as made:
        yield made

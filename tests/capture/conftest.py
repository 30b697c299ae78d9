"""The disk of the capture tests, for one test at a time."""

from collections.abc import Iterator

import pytest

from tests.capture.file_captures import SOURCES
from tests.capture.machine import Disk, skip_unless_it_can_trace, small_disk, tracer_turn


@pytest.fixture(scope="session")
def made_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    skip_unless_it_can_trace()
    with small_disk(tmp_path_factory.mktemp("disk")) as made:
        yield made


@pytest.fixture
def disk(made_disk: Disk) -> Iterator[Disk]:
    with tracer_turn():
        yield made_disk


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> str:
    """Return a source of file operations."""
    return str(request.param)

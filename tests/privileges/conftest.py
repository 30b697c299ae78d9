"""A folder of another user."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.privileges.others import other_folder


@pytest.fixture
def theirs() -> Iterator[Path]:
    """Return a folder of another user."""
    with other_folder() as folder:
        yield folder

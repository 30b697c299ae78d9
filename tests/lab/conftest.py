"""A folder for the guest of a file of tests."""

from pathlib import Path

import pytest

from tests.lab.guests import skip_unless_guests_run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an empty one to share, where guests run."""
    skip_unless_guests_run()
    folder = tmp_path_factory.mktemp("guest")
    (folder / "share").mkdir()
    return folder

"""What the tests of import share."""

from pathlib import Path

import pytest

from tests.import_.importer import Importer


@pytest.fixture
def read(tmp_path: Path) -> Importer:
    return Importer(tmp_path)

"""Trace folders for the report: small, whole, and with names that somebody hostile chose."""

from pathlib import Path

import pytest

from tests.report.folder import make_folder
from tracekit.store import TraceFolder


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> TraceFolder:
    """Return a folder with every table the report can show."""
    return make_folder(tmp_path_factory.mktemp("whole") / "trace")


@pytest.fixture
def parsed(tmp_path: Path) -> TraceFolder:
    """Return a folder as `parse` leaves it: requests, and nothing that a later stage makes."""
    return make_folder(tmp_path / "trace", stages=())

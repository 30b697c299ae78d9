"""Trace folders for the report: small, whole, and with names that somebody hostile chose."""

from pathlib import Path

import pytest

from tests.report.folder import HOSTILE, make_folder
from tests.report.golden import full_folder
from tracekit.report.page import report
from tracekit.store import TraceFolder


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> TraceFolder:
    """Return a folder with every table the report can show."""
    return make_folder(tmp_path_factory.mktemp("whole") / "trace")


@pytest.fixture
def parsed(tmp_path: Path) -> TraceFolder:
    """Return a folder as `parse` leaves it: requests, and nothing that a later stage makes."""
    return make_folder(tmp_path / "trace", stages=())


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page that has every section."""
    place = tmp_path_factory.mktemp("full")
    made = report(full_folder(tmp_path_factory), place / "report.html")
    assert made.missing == {}
    return made.path.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def full(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the page that has every section lies."""
    path = tmp_path_factory.mktemp("whole_page") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report of a trace whose names somebody hostile chose."""
    place = tmp_path_factory.mktemp("hostile")
    warning = {"code": HOSTILE[0], "message": HOSTILE[1], "advice": HOSTILE[2]}
    folder = make_folder(place / "<b>folder", processes=HOSTILE, warnings=[warning])
    guess = {"what": HOSTILE[0], "value": HOSTILE[1], "evidence": HOSTILE[3]}
    folder.save_info(inferences=[guess], hotness={HOSTILE[0]: [HOSTILE[1]]})
    return report(folder, place / "report.html").path

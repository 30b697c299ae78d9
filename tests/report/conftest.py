"""Trace folders for the report: small, whole, and with names that somebody hostile chose."""

from pathlib import Path

import pytest

from tests.report.folder import HOSTILE, make_folder
from tests.report.golden import full_folder
from tracekit.analyze import OF_FILES, analyze
from tracekit.model.database_logs import load_rules, with_logs
from tracekit.report.page import report
from tracekit.stack.file_map import given_table
from tracekit.store import TraceFolder, write_table


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
    # Files of the first half of the places of `fs`, and one of the journal's.
    pieces = [("sda", 64 * one, 64, f"/{HOSTILE[one % 2]}", 64 * one // 2) for one in range(4)]
    pieces.append(("sda", 80_000, 800, f"/{HOSTILE[2]}", 0))
    write_table(folder.path / "file_extents.parquet", with_logs(given_table(pieces), load_rules()))
    analyze(folder, only=OF_FILES)
    guess = {"what": HOSTILE[0], "value": HOSTILE[1], "evidence": HOSTILE[3]}
    folder.save_info(inferences=[guess], hotness={HOSTILE[0]: [HOSTILE[1]]})
    return report(folder, place / "report.html").path

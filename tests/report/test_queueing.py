"""The report on a placement under queueing: response times in place of elapsed ones."""

from pathlib import Path

import pytest

from tests.report.folder import make_folder, plain
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.report.inputs import Inputs
from tracekit.report.page import report
from tracekit.report.section import Section
from tracekit.report.sections.placement import capacity
from tracekit.store import TraceFolder


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    folder = make_folder(tmp_path / "trace")
    recommend(folder, RecommendOptions(base="hdd-7200-seek", queueing="open"))
    return folder


def test_the_section_tells_of_response_times(folder: TraceFolder) -> None:
    # GIVEN a recommendation with queues, WHEN its section is made
    section = capacity(Inputs(folder))
    # THEN title, figure and sentences are of the mean response time, in the table's numbers
    assert isinstance(section, Section)
    assert section.title == "Response time against NVM capacity"
    panel = section.parts["panels"][0]["figure"]
    assert panel.title == "Mean response time, hottest blocks first"
    assert plain(panel.sentences)[0].startswith("Without NVM a request takes on average ")
    # AND the disk's keys are among what is told of the devices
    assert ("seek_average_us", "\N{MICRO SIGN}s an average seek") in section.parts["profile_keys"]


def test_the_page_has_all_three_times(folder: TraceFolder) -> None:
    page = folder.path / "report.html"
    report(folder, page)
    text = page.read_text(encoding="utf-8")
    assert "from the first arrival to the last completion" in text
    assert "with a queue for each device" in text
    assert "Elapsed time of all requests" not in text

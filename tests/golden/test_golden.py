"""What a user reads and gets: one session of commands on the sample, refusals among them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.golden.session import (
    BLOCK,
    GUIDES,
    RECORDED,
    Step,
    comparable,
    play,
    same_each_time,
    steps,
)
from tests.house.tree import ROOT
from tracekit.api.results import HOW_TO
from tracekit.model.answer_rows import answer_text

QUEUED = re.compile(r"^\| Q queued \| (\d+) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("session")


@pytest.fixture(scope="module")
def session(place: Path) -> list[Step]:
    """Return the session as recorded, typed again."""
    return [same_each_time(step) for step in play(place, RECORDED.read_text())]


@pytest.mark.slow
def test_every_command_prints_what_is_recorded(session: list[Step]) -> None:
    # THEN it prints the same; if a sentence changes on purpose: python -m tests.golden
    for step, now in zip(steps(RECORDED.read_text()), session, strict=True):
        assert now.output == step.output, step.command


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_prints_what_it_shows(guide: Path, tmp_path: Path) -> None:
    # GIVEN the commands of a guide in their order
    text = "\n".join(BLOCK.findall(guide.read_text()))
    shown = steps(text)
    assert shown
    # THEN each prints what the guide shows; if that changes on purpose: python -m tests.golden
    for step, now in zip(shown, play(tmp_path, text), strict=True):
        assert comparable(now) == comparable(step), step.command


def test_the_demo_takes_the_sample_to_a_report_and_an_answer(
    place: Path, session: list[Step]
) -> None:
    # GIVEN the demo of the session, which ended with the path of the report and the answer
    trace = place / "out" / "demo"
    (demo,) = (step for step in session if step.command == "make demo")
    rows = json.loads((trace / "recommendation.json").read_text())["rows"]
    lines = ["report: out/demo/report.html", "", *answer_text(rows), "", HOW_TO]
    assert demo.output.splitlines() == lines
    # THEN the report says that first, and lacks nothing
    page = (trace / "report.html").read_text()
    assert "Not in this report yet" not in page
    shown = re.search(r"<h1>(.*?)</h1>", page)
    assert shown is not None
    assert shown[1] == f"Place {rows[0]['text']}"
    # AND every queued request of the capture has its row, as the sample's own table counts them
    queued = QUEUED.search((ROOT / "sample-traces" / "README.md").read_text())
    assert queued is not None
    assert pq.read_metadata(trace / "requests.parquet").num_rows == int(queued[1])
    # AND the replay really ran: each of its requests was done, once, on the file
    done = pq.read_table(trace / "replays" / "latest" / "completions.parquet").to_pandas()
    summary = json.loads((trace / "replays" / "latest" / "summary.json").read_text())
    assert summary["counts"]["done"] == len(done) > 1000
    assert done["request_id"].is_unique
    assert set(done["status"]) == {"done"}
    assert summary["targets"][0]["kind"] == "made file"


@pytest.mark.usefixtures("session")
def test_the_same_folder_is_reported_in_the_same_bytes_by_two_processes(place: Path) -> None:
    trace, again = place / "out" / "oltp", place / "again.html"
    command = [sys.executable, "-m", "tracekit", "report", str(trace), "-o", str(again)]
    subprocess.run(command, check=True, capture_output=True)
    assert again.read_bytes() == (trace / "report.html").read_bytes()


def test_only_measured_numbers_are_passed_over() -> None:
    def seen(command: str, output: str) -> list[str]:
        return comparable(Step(command, output))

    replay, other = "tracekit replay out/x", "tracekit parse x"
    assert seen(replay, "p50  3.5 us") == seen(replay, "p50 1,234 ns")
    assert seen(replay, "p50  3.5 us") != seen(replay, "p99 3.5 us")
    assert seen(other, "25 tables, 0.3 s") == seen(other, "25 tables, 1.2 s")
    assert seen(other, "48,698  requests") == ["48,698 requests"]
    assert seen(other, "48,698 requests") != seen(other, "48,699 requests")

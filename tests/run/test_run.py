"""One command does all stages, names the one that fails, and keeps what was done."""

import json
from pathlib import Path

import pytest

from tests.command_line import invoke, refused, succeed
from tests.report.folder import make_folder
from tracekit.api.results import HOW_TO
from tracekit.errors import InputError, PartialError, TracekitError, UsageError
from tracekit.model.answer_rows import answer_text
from tracekit.pipeline import PipelineOptions, Step, _requests_within, run
from tracekit.store import TraceFolder

STAGES = ("parse", "classify", "analyze", "recommend")
WITHOUT_IO = PipelineOptions(replay="null", replay_seconds=0.2)


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    """Return a trace as `parse` leaves it: 240 requests, one every 50 ms."""
    return make_folder(tmp_path / "trace", stages=())


def test_every_stage_runs_in_turn_and_leaves_its_tables(folder: TraceFolder) -> None:
    steps: list[Step] = []
    result = run([folder.path], None, options=WITHOUT_IO, on_step=steps.append)
    assert [step.stage for step in steps] == [*STAGES, "replay", "report"]
    assert result.steps == steps
    assert len(result.headline) == 9
    # AND the replay is of the first seconds: requests at 0, 50, 100 and 150 ms are within 0.2 s
    assert steps[-2].note == "4 of 240 requests, the first 0.1 s, by null on no target"
    assert result.unfinished == []
    assert result.report == folder.path / "report.html"
    text = result.report.read_text()
    assert "Not in this report yet" not in text
    assert "4\N{NO-BREAK SPACE}requests of the trace&#39;s 240 were replayed" in text
    for name in ("blocks", "findings/totals", "simulations/placement"):
        assert folder.has(name)
    assert folder.has("replays/latest/completions")


@pytest.mark.parametrize(
    ("seconds", "count"), [(0.001, 1), (0.05, 1), (0.0501, 2), (6, 120), (99, 240), (0, None)]
)
def test_requests_within(folder: TraceFolder, seconds: float, count: int | None) -> None:
    assert _requests_within(folder, seconds) == count


def test_a_failed_stage_is_named_and_what_was_done_is_kept(folder: TraceFolder) -> None:
    options = PipelineOptions(nvm="floppy", replay="none")
    with pytest.raises(UsageError, match="recommend: there is no device profile 'floppy'") as info:
        run([folder.path], None, options=options)
    assert info.value.exit_code == 2
    assert info.value.hint.endswith(f"what was done is in {folder.path}")
    assert folder.has("findings/totals")
    assert not (folder.path / "report.html").exists()


def test_a_failed_replay_lets_the_report_be_made(folder: TraceFolder) -> None:
    # GIVEN a folder in which no replay can be kept
    (folder.path / "replays").write_text("in the way")
    # WHEN everything is run
    result = invoke("run", folder.path, "--replay", "null", "--json")
    # THEN the answer and the report are there, and the exit code says that a part is missing
    refused(result, "replay: ", error=PartialError)
    assert PartialError.exit_code == 3
    content = json.loads(result.stdout)
    assert content["trace"] == str(folder.path)
    assert content["report"] == str(folder.path / "report.html")
    assert len(content["headline"]) == 9
    assert content["steps"][0]["stage"] == "parse"
    assert [part.split(":")[0] for part in content["unfinished"]] == ["replay"]
    assert "<code>tracekit replay trace</code>" in (folder.path / "report.html").read_text()


def test_an_error_of_the_system_names_the_stage_and_the_file(folder: TraceFolder) -> None:
    (folder.path / "simulations").write_text("in the way")
    with pytest.raises(TracekitError, match=r"recommend: .*/simulations: File exists"):
        run([folder.path], None, options=PipelineOptions(replay="none"))


def test_a_folder_where_the_report_goes_is_named(folder: TraceFolder) -> None:
    (folder.path / "report.html").mkdir()
    with pytest.raises(TracekitError, match=r"report: .*report\.html is a folder, not a file"):
        run([folder.path], None, options=PipelineOptions(replay="none"))


def test_a_trace_folder_stays_where_it_is(folder: TraceFolder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a trace folder, its results stay in it"):
        run([folder.path], tmp_path / "other", options=WITHOUT_IO)
    with pytest.raises(UsageError, match="a trace folder stands alone"):
        run([folder.path, tmp_path], None, options=WITHOUT_IO)


def test_what_is_no_trace_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("no trace")
    with pytest.raises(InputError, match=r"^parse: "):
        run([tmp_path / "note.txt"], tmp_path / "trace", options=WITHOUT_IO)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replay": "tape"}, "--replay tape: not one of file, null, none"),
        ({"replay_seconds": -1.0}, "--replay-duration -1.0: not a length of time"),
    ],
)
def test_options_are_checked_before_any_stage(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PipelineOptions(**options)  # type: ignore[arg-type]


def test_the_command_prints_the_report_and_the_answer(folder: TraceFolder) -> None:
    result = succeed("run", folder.path, "--replay", "none")
    lines = result.stdout.splitlines()
    rows = json.loads((folder.path / "recommendation.json").read_text())["rows"]
    assert lines == [f"report: {folder.path / 'report.html'}", "", *answer_text(rows), "", HOW_TO]
    assert [line.split()[0] for line in result.stderr.splitlines()] == [*STAGES, "report"]
    # AND the report says how to get what was left out
    assert "<code>tracekit replay trace</code>" in (folder.path / "report.html").read_text()

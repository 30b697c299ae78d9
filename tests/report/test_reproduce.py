"""The commands that make the report again, with the options that were given."""

from pathlib import Path

from tests.command_line import invoke
from tests.report.folder import make_folder
from tracekit.report.inputs import Inputs
from tracekit.report.section import Section
from tracekit.report.sections.front import reproduce
from tracekit.store import TraceFolder


def commands(folder: TraceFolder) -> list[str]:
    section = reproduce(Inputs(TraceFolder(folder.path)))
    assert isinstance(section, Section)
    found: list[str] = section.parts["commands"]
    return found


def test_replays_and_comparisons_are_told_as_they_were_asked(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a trace", stages=("classify", "analyze"))
    for words in (
        ["replay", "--engine", "null", "--pace", "fast", "--name", "b", "--repeat", "2", "--json"],
        ["replay", "--engine", "null", "--max-idle", "1ms", "--no-keep"],
    ):
        done = invoke(words[0], folder.path, *words[1:])
        assert done.exit_code == 0, done.output
    assert invoke("compare", folder.path, "trace", "b").exit_code == 0
    told = [line for line in commands(folder) if "replay" in line or "compare" in line]
    # THEN repeats are one command, and what only chose the output is left out
    assert told == [
        "tracekit replay 'a trace' --engine null --pace fast --name b --repeat 2",
        "tracekit replay 'a trace' --engine null --max-idle 1ms",
        "tracekit compare 'a trace' trace b",
    ]


def test_a_replay_of_no_command_is_told_by_its_summary(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "t")
    assert [line for line in commands(folder) if line.startswith("tracekit replay")]

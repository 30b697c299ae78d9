"""The what-if files that are shipped: each is on its page, and its command answers with it."""

import json
import shlex
from pathlib import Path

import pytest

from tests.command_line import invoke
from tests.house.tree import ROOT
from tests.simulate.asking import NAMES, SMALL, assert_finite, prepare
from tests.simulate.tier_traces import tier_trace
from tracekit.commands import load

PAGE = ROOT / "docs" / "what-if.md"
FILES = sorted((PAGE.parent / "what-ifs").glob("*.toml"))
COMMANDS = [
    shlex.split(line)[1:]
    for line in PAGE.read_text().splitlines()
    if line.startswith("tracekit simulate ")
]
# What the headline says only with the example.
SAID = {"tiers": "IOPS per EUR/GB", "endurance": "EUR.", "buffer": "slow: "}


def test_each_command_that_takes_a_what_if_has_an_example() -> None:
    takers = {
        name for name in NAMES if "what_if" in getattr(load(name, "simulate"), name).__annotations__
    }
    assert {words[1] for words in COMMANDS} == takers
    assert sorted(ROOT / words[-1] for words in COMMANDS) == FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_shown_as_it_is(file: Path) -> None:
    assert f"```toml\n{file.read_text()}```" in PAGE.read_text()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[1])
def test_the_command_of_an_example_answers_with_what_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    # GIVEN a small trace in the place of the page's
    folder = tier_trace(
        tmp_path / "trace", [(0, "read", 0, 4096), (1, "write", 1, 4096), (2, "write", 1, 8192)]
    )
    name = words[1]
    assert prepare(name, folder) is None
    monkeypatch.chdir(ROOT)
    # WHEN the page's command is run, with smaller extents
    asked = ["simulate", name, str(folder.path), *words[3:], *SMALL.get(name, []), "--json"]
    done = invoke(*asked)
    # THEN it answers about the file's prices or memories, and finitely
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert any(SAID[name] in line for line in answer["headline"])
    assert_finite(folder, name)

"""The documentation is what the code says now."""

import difflib
import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.exceptions import TyperException
from typer.main import get_command

from tests.docs import tables
from tests.docs.pages import FOLDER, pages
from tests.golden.session import (
    BLOCK,
    DEMO,
    GUIDES,
    README,
    RECORDED,
    ROW,
    answer,
    comparable,
    steps,
    with_answer,
)
from tests.house.tree import ROOT, files, place
from tracekit.cli import app
from tracekit.commands import COMMANDS, GROUPS
from tracekit.commands.examples import EXAMPLES, HEADINGS

SECURITY = ROOT / "docs" / "security.md"


def changes(committed: str, made: str) -> list[str]:
    """Return the lines that `make docs` would change."""
    lines = difflib.unified_diff(committed.splitlines(), made.splitlines(), n=0, lineterm="")
    return list(lines)[2:]


def test_every_page_is_what_the_help_says_now() -> None:
    committed = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    # WHEN they are made anew, THEN nothing differs; if it does, run: make docs
    made = {path.name: text for path, text in pages().items()}
    assert set(committed) == set(made)
    assert [line for name in made for line in changes(committed[name], made[name])] == []


def test_every_table_is_described_as_it_is_now() -> None:
    # GIVEN the page as committed, THEN the schema and the queries say the same; if not: make docs
    assert changes(tables.PAGE.read_text(), tables.page()) == []
    # and every column has a meaning
    lines = [line for line in tables.page().splitlines() if line.startswith("| `")]
    assert len(lines) > 100
    assert [line for line in lines if line.endswith("|  |")] == []


def test_every_option_has_a_sentence() -> None:
    # GIVEN the options of all pages, one a line, with what they mean beside or below them
    bare = []
    for path, text in pages().items():
        lines = [line for block in text.split("```")[1::2] for line in block.splitlines()]
        for line, following in pairwise([*lines, ""]):
            is_option = line.startswith("  -")
            has_meaning = len(line.strip().split("  ")) > 1 or following.startswith("        ")
            if is_option and not has_meaning:
                bare.append(f"{path.name}: {line.strip()}")
    assert bare == []


LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
PAGES = files("*.md")


@pytest.mark.parametrize("page", PAGES, ids=map(place, PAGES))
def test_links_lead_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings have on the web."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=map(place, PAGES))
def test_anchors_are_headings(page: Path) -> None:
    linked = re.findall(r"\]\(([\w./-]*\.md|)#([^)\s]+)\)", page.read_text())
    found = [(page.parent / name if name else page, anchor) for name, anchor in linked]
    assert [anchor for path, anchor in found if anchor not in anchors(path)] == []


FIRST_COMMAND_BEFORE_LINE = 25
TOUR = ROOT / "docs" / "tour.md"
TEXT = re.compile(r"(?<=^```text\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
TYPED = re.compile(r"^(?:sudo )?(tracekit .*?)(?: +#.*)?$", re.MULTILINE)


def test_every_promise_of_security_names_its_tests() -> None:
    # GIVEN the rows of all tables of promises
    rows = re.findall(r"^\| [^|]+ \| (`tests/[^|]+) \|$", SECURITY.read_text(), re.MULTILINE)
    assert len(rows) == SECURITY.read_text().count("`tests/") - sum(row.count(", ") for row in rows)
    # THEN each names files that are there and hold tests
    named = [ROOT / name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert [str(path) for path in named if "def test_" not in path.read_text()] == []


def test_the_first_command_comes_early() -> None:
    lines = README.read_text().splitlines()
    first = next(number for number, line in enumerate(lines, 1) if line.startswith("$ "))
    assert first < FIRST_COMMAND_BEFORE_LINE
    assert lines[first - 1].startswith("$ make demo ")
    # and it is what the tour runs
    command = ["make", "--no-print-directory", "--dry-run", "demo"]
    shown = subprocess.check_output(command, cwd=ROOT, text=True)
    assert shown.splitlines()[-1] == DEMO


def test_every_command_prints_what_is_shown() -> None:
    # GIVEN the session of tests/golden, whose test types its commands
    def seen(text: str) -> list[tuple[str, list[str]]]:
        return [(step.command, comparable(step)) for step in steps(text)]

    recorded = seen(RECORDED.read_text())
    # THEN the tour shows parts of it, in its order, and none that failed
    shown = seen("".join(BLOCK.findall(TOUR.read_text())))
    assert len(shown) >= 8
    rest = iter(recorded)
    assert [step for step in shown if step not in rest] == []
    assert [command for command, lines in shown if "(exit code" in " ".join(lines)] == []


def test_the_readme_shows_the_answer_of_the_demo() -> None:
    # GIVEN five rows, THEN each is as the demo prints it; if not: python -m tests.golden
    demo = steps(RECORDED.read_text())[0]
    page = README.read_text()
    assert sum(name in answer(demo) for name, _ in ROW.findall(page)) == 5
    assert changes(page, with_answer(page, demo)) == []
    assert len(page.splitlines()) <= 150


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """Return a command, and what is left of the words behind `tracekit`."""
    found: Any = get_command(app)
    while words and (part := getattr(found, "get_command", lambda *_: None)(None, words[0])):
        found, words = part, words[1:]
    return found, words


ALONE = {*COMMANDS} - {*GROUPS}
PARTS = {f"{group} {part}" for group, parts in GROUPS.items() for part in parts}


def test_every_command_has_examples() -> None:
    assert {*EXAMPLES} == {"", *ALONE, *PARTS}
    assert [name for name, lines in EXAMPLES.items() if len(lines) < 2] == []


def test_many_options_stand_below_headings() -> None:
    for name in (*ALONE, *PARTS):
        command, _ = command_of(name.split())
        below = " ".join(HEADINGS.get(name, {}).values()).split()
        names = [parameter.name for parameter in command.params]
        # THEN each that a heading names is there, and no list has more than a screen's worth
        assert [option for option in below if names.count(option) != 1] == [], name
        assert len(below) == len({*below}), name
        rest = len(names) - len(below)
        assert max(rest, *(len(one.split()) for one in HEADINGS.get(name, {}).values()), 0) <= 18


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_has_options_that_are_there(line: str) -> None:
    # GIVEN an example, WHEN its words are read THEN each option is one, and takes its value
    command, words = command_of(shlex.split(line)[1:])
    command.make_context(command.name, [*words])
    with pytest.raises(TyperException, match="No such option: --no-such-option"):
        command.make_context(command.name, ["--no-such-option", *words])
    # AND it stands under the command that it is of, on one line of a terminal
    name = next(name for name, lines in EXAMPLES.items() if line in lines)
    assert name in ("", " ".join(shlex.split(line)[1:])[: len(name)])
    assert len(line) <= 96


@pytest.mark.parametrize("page", [README, TOUR, *GUIDES], ids=lambda page: page.stem)
def test_a_shown_command_has_options_that_are_there(page: Path) -> None:
    # GIVEN what a page shows to be typed, without output
    blocks = "".join(TEXT.findall(page.read_text())).replace("\\\n", " ")
    # THEN each command is one, and takes these options and values
    for line in TYPED.findall(blocks):
        command, words = command_of(shlex.split(line)[1:])
        command.make_context(command.name, [*words])


VERDICTS = ("**shown**", "**differs**", "**refuted**", "**impossible here**", "**not tried**")


def test_every_finding_of_a_study_has_a_verdict_a_command_and_a_result() -> None:
    # GIVEN the table of all findings
    page = ROOT / "docs" / "studies.md"
    table = page.read_text().partition("| finding | here |")[2].splitlines()[2:]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]
    assert {finding[:3] for finding, *_ in rows} == {"A, ", "B, ", "C, ", "D, ", "E, "}
    for finding, here, command, result in rows:
        # THEN each says what became of it, and what was found can be looked up and made again
        assert here.startswith(VERDICTS), finding
        assert bool(command) == bool(result), finding
        assert result or here.startswith(VERDICTS[3:]), finding
        # AND each test that it names is there, and each command can be typed
        for name, path in re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", result):
            assert f"def {name}(" in (page.parent / path).read_text(), finding
        words = shlex.split(command.strip("`"))
        if words[:2] == ["python", "-m"]:
            assert (ROOT / words[2].replace(".", "/")).with_suffix(".py").exists(), finding
        elif words:
            assert words[0] == "tracekit", finding
            found, options = command_of(words[1:])
            found.make_context(found.name, options)

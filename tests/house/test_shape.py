"""Where things are: the top level, and what belongs to each command and each analysis."""

import subprocess

import pytest

from tests.house.tree import MADE, ROOT, files, place
from tracekit.commands import COMMANDS, GROUPS, function_name

TOP_LEVEL = """
    .ci .clang-format .gitignore CHANGELOG.md CMakeLists.txt CONTRIBUTING.md LICENSE Makefile
    README.md analyzers docs pyproject.toml replayer reports requirements.lock sample-traces tests
    tracekit
"""
MADE_BY_TOOLS = MADE | {".mypy_cache", ".pytest_cache", ".ruff_cache", ".github"}
NAMES = list(COMMANDS)
PIPELINE = """
    capture layout lab parse import generate fit export anonymize classify analyze sql report
    recommend simulate replay verify-placement prove compare verify-certificate
    characterize-device bench sweep counters run doctor profiles formats personalities
"""


def test_top_level_names_are_fixed() -> None:
    assert {path.name for path in ROOT.iterdir()} - MADE_BY_TOOLS == {*TOP_LEVEL.split()}


def test_commands_stand_in_the_order_of_the_pipeline() -> None:
    assert PIPELINE.split() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_command_has_its_file_page_and_tests(name: str) -> None:
    # GIVEN a command, THEN the same word names its module, its page and its tests
    folder = ROOT / "tracekit" / "commands"
    module = folder / f"{function_name(name)}.py"
    assert module.is_file() != (folder / name / "__init__.py").is_file()
    assert (ROOT / "docs" / "commands" / f"{name}.md").is_file()
    assert files("test_*.py", under=f"tests/{function_name(name)}") or files(
        f"test_{name}.py", under="tests"
    )


def test_no_command_module_is_left_over() -> None:
    folder = ROOT / "tracekit" / "commands"
    shared = {"__init__", "examples", "options"}
    single = {function_name(name) for name in NAMES} - {*GROUPS}
    assert {path.stem for path in folder.glob("*.py")} - shared == single
    for name, parts in GROUPS.items():
        modules = {path.stem for path in (folder / name).glob("*.py")}
        assert modules - {"__init__"} == {*parts}


def test_every_analysis_has_an_example_by_hand() -> None:
    # GIVEN the queries whose result is a table; views and macros are tried by those that use them
    queries = [path for path in files("*.sql", under="analyzers") if path.parent.name != "lib"]
    assert queries
    # THEN each has the rows that should come out of an input small enough to check by hand
    missing = [
        place(path)
        for path in queries
        if not (ROOT / "tests" / path.relative_to(ROOT).with_suffix("") / "expected.csv").is_file()
    ]
    assert missing == []


def test_make_help_is_complete() -> None:
    # GIVEN the targets that the Makefile declares
    text = (ROOT / "Makefile").read_text()
    phony = text.partition(".PHONY:")[2].partition("\n")[0].split()
    targets = {name for name in phony if not name.startswith("$")}
    # WHEN make is asked for help
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # THEN each is named, with a sentence
    described = {line.split()[1] for line in shown.splitlines() if len(line.split()) > 2}
    assert described == targets


def test_every_file_of_the_player_is_described() -> None:
    # GIVEN the lists of files in the replayer's design
    text = (ROOT / "replayer/DESIGN.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = [name.removesuffix(".h") for row in rows for name in row.split("`")[1::2]]
    there = {path.stem for path in files("*.[ch]", under="replayer/play")}
    # THEN each file stands there once by its name, and nothing else does
    assert sorted(named) == sorted(there)

"""What an error advises can be typed: the options that it names are of the command, or of some."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import invoke, typed
from tests.contract.test_paths import COMMANDS
from tests.house.tree import ROOT
from tests.report.folder import make_folder
from tracekit.cli import ADVISED_BY_PLAYER
from tracekit.errors import TracekitError

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OPTIONS = {
    name: {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    for name, command in COMMANDS.items()
}
PLAYERS = ("replay", "bench", "verify-placement", "prove", "characterize-device")
"""Commands that run the native program."""
GIVEN = {"--emulate", "--iopoll", "--replace", "--sqpoll", "--submitters", "--engine", "--priority"}
"""What it says of options that it was given, or of its own that no command of ours has."""
OF_OTHERS = {"--per-thread", "--for-each-cgroup", "--deltatime", "--units"}
"""Of perf, perf script and LVM, said by the name of the program or of what it wrote."""


def words_of(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(words_of, node.values))
    if isinstance(node, ast.BinOp):
        return words_of(node.left) + words_of(node.right)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(node.value) if is_text and isinstance(node, ast.Constant) else ""


def said_in(file: Path) -> Iterator[str]:
    """Yield messages and hints of the errors that a module raises."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            yield from (words_of(one.value) for one in node.keywords if one.arg == "hint")
            if ast.unparse(node.func).endswith("Error"):
                yield from map(words_of, node.args)


def test_an_error_names_options_that_there_are() -> None:
    known = set().union(*OPTIONS.values(), OF_OTHERS, {"--help", "--version"})
    said = [
        (file.name, option)
        for file in sorted((ROOT / "tracekit").rglob("*.py"))
        for text in said_in(file)
        for option in OPTION.findall(text)
    ]
    assert len(said) > 300
    assert [one for one in said if one[1] not in known] == []


def test_what_the_native_program_advises_is_of_every_command_or_left_out() -> None:
    files = sorted((ROOT / "replayer/play").glob("*.c"))
    texts = [
        text
        for file in files
        if file.name != "options.c"
        for text in re.findall(r'"([^"\n]*)"', file.read_text())
    ]
    named = {option for text in texts for option in OPTION.findall(text) if len(option) > 2}
    everywhere = set.intersection(*(OPTIONS[name] for name in PLAYERS if name != "prove"))
    assert named >= ADVISED_BY_PLAYER
    assert (
        named - everywhere - ADVISED_BY_PLAYER - GIVEN - {"--target", "--dry-run", "--help"}
        == set()
    )


@pytest.mark.parametrize(
    ("message", "left"),
    [
        (
            "it is too small; choose a larger one or --expand it",
            "it is too small; choose a larger one",
        ),
        ("it holds ext; to destroy it: --overwrite-signature ext", "it holds ext"),
        ("whole blocks only: 512; add --expand", "whole blocks only: 512"),
        ("it has --expand; go on", "it has --expand; go on"),
    ],
)
def test_advice_is_left_out(message: str, left: str) -> None:
    error = TracekitError(message)
    error.leave_out(ADVISED_BY_PLAYER)
    assert str(error) == left


def test_a_command_advises_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a file that is too small for any request
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "trace", stages=())
    (tmp_path / "small").write_bytes(bytes(3000))
    # THEN what replay says to do is not said by a command that cannot
    code, printed = typed("replay", "trace", "--target", "small")
    assert code == 1
    assert "choose a larger one or --out-of-range" in printed
    code, printed = typed("characterize-device", "small", "-o", "out", "--quick")
    assert code == 1
    assert printed.endswith("choose a larger one\n")
    assert isinstance(invoke("characterize-device", "small", "-o", "out").exception, TracekitError)

"""Every path and size that a command takes.

A path that is not there is a wrong use, what is to be made is made, and a size needs its unit.
"""

import inspect
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
import typer

from tests.api.test_options import CALLS
from tests.command_line import typed
from tests.house.tree import ROOT
from tests.report.folder import make_folder
from tests.shared import made_once
from tests.simulate.memory_models import some_accesses, with_accesses
from tracekit.cli import app

LINES = {
    "capture": "{device} -o out",
    "layout": "{device}",
    "lab run": "-- true",
    "lab capture": "-o out --disk fs=64MiB -- true",
    "lab uses": "-o out --disk fs=64MiB:1ms --nvm 1us -- true",
    "parse": "{inputs} -o out",
    "import": "{sources} -o out",
    "generate": "{profile} -o out --requests 10",
    "fit": "{trace} -o out.toml --limit 20 --no-compare",
    "export": "{trace} --format fio -o out.log",
    "anonymize": "{trace} -o out",
    "set add": "{place} {traces}",
    "set list": "{place}",
    "set info": "{place}",
    "set groups": "{place}",
    "prove": "{trace} --base hdd-7200 --nvm dram",
    "compare": "{trace} latest latest",
    "verify-certificate": "{replay}",
    "characterize-device": "{target} -o out --device dram --quick --scale 0.001",
    "bench": "{definition} -o out --engine null --requests 10 --no-report",
    "sweep": "{personality} --target . -o out --duration 100ms --files 10 --repeat 1 --no-report",
    "counters": "-o out --from counts --workload a",
    "run": "{inputs} -o out --replay none",
}
"""Of each command what it cannot do without, if that is more than a trace folder."""
GOOD = {
    "inputs": f"{ROOT}/sample-traces/gnuplot",
    "sources": "requests.csv",
    "profile": "web-server",
    "definition": "web-server",
    "personality": "varmail",
    "replay": "trace",
    "traces": "trace",
    "trace": "trace",
    "place": "set",
    "target": "",
    "device": "",
}
INSTEAD = {
    "capture --below": "-o out --files -- true",
    "import --layout": "events.txt -o out",
    "sql --file": "trace",
    "sql --output": "trace select(1)",
    "recommend --files": "trace --unit file",
    "prove --output": "trace --base ssd-sata --nvm dram --quick --scale 0.001 --rounds 1"
    " --size 4MiB --duration 100ms --repeat 1",
    "replay --target": "trace",
    "simulate buffer --what-if": "accesses",
    "bench --target": "web-server -o out --requests 10 --no-report",
    "characterize-device TARGET": "{target} -o out",
    "characterize-device --trace": "--device dram -o out",
}
"""The line for one path, where it goes with other options."""
TEXTS = (
    "capture DEVICE", "layout DEVICE", "layout --text", "generate PROFILE", "bench NAME",
    "sweep PERSONALITY", "sweep --target", "counters --from", "simulate purchase --share",
    "replay --target", "prove --base", "prove --nvm",
)  # fmt: skip
"""Paths that are texts for the parser, as more can be in the word."""
MADE = ("output", "script")
"""Names of the paths that a command makes."""
OF_THE_RUN = ("counters --summary",)
"""What the command that is run makes, while it runs."""
TARGETS = ("replay --target", "bench --target", "characterize-device TARGET")
"""What a command makes for a time, in a folder that is there."""
NOT_HERE = ("capture --output", "lab run --output", "lab capture --output", "lab uses --output")
"""What needs a disk or a guest: tests of these make new folders above the output."""


def parts_of(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    for part in command.list_commands(None):
        yield from parts_of(command.get_command(None, part), f"{name} {part}".strip())


COMMANDS = dict(parts_of(typer.main.get_command(app)))


def word_of(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name).upper().split("...")[0]
    return name if parameter.param_type_name == "argument" else str(parameter.opts[0])


PATHS = {
    where: parameter
    for name, command in COMMANDS.items()
    for parameter in command.params
    if (where := f"{name} {word_of(parameter)}") in TEXTS
    or "TyperPath" in type(parameter.type).__name__
}
RESULTS = [where for where, one in PATHS.items() if one.name in MADE or where == "set add SET"]
INPUTS = [where for where in PATHS if where not in (*RESULTS, *TARGETS, *OF_THE_RUN)]


def line_of(where: str, path: str) -> list[str]:
    """Return the words of the command in which this path is the only one that is not as usual."""
    name, parameter = where.rpartition(" ")[0], PATHS[where]
    line = INSTEAD.get(where, LINES.get(name, "{trace}" if takes_trace(name) else ""))
    fields = {field for _, field, _, _ in Formatter().parse(line) if field}
    if parameter.param_type_name == "argument":
        assert parameter.name in fields
        return [*name.split(), *line.format(**GOOD | {parameter.name: path}).split()]
    words = line.format(**GOOD).split()
    given = next((option for option in parameter.opts if option in words), None)
    if given is not None:
        words[words.index(given) + 1] = path
        return [*name.split(), *words]
    return [*name.split(), parameter.opts[0], path, *words]


def takes_trace(name: str) -> bool:
    return any(parameter.name == "trace" for parameter in COMMANDS[name].params)


@pytest.fixture
def place(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return the working folder, in which all that a line names is there."""

    def make(folder: Path) -> None:
        trace = make_folder(folder / "trace")
        shutil.copytree(trace.path, folder / "accesses")
        with_accesses(make_folder(folder / "accesses", stages=()), some_accesses(300))
        (folder / "counts").write_text("100,,cycles,1,100.00,,\n")
        (folder / "requests.csv").write_text(
            "".join(f"128166372003{n:02}1629,hm,0,Read,{4096 * n},4096,100\n" for n in range(1, 40))
        )
        (folder / "events.txt").write_text(
            "8,0 0 1 0.000000000 7 Q R 8 + 8 [a]\n8,0 0 2 0.000010000 7 D R 8 + 8 [a]\n"
            "8,0 0 3 0.000100000 0 C R 8 + 8 [0]\n"
        )
        typed("recommend", str(folder / "trace"))
        typed("set", "add", str(folder / "set"), str(folder / "trace"))

    whole = made_once(tmp_path_factory, "paths", make)
    shutil.copytree(whole, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_every_path_that_is_a_text_is_one_of_a_command() -> None:
    assert {*TEXTS, *TARGETS, *OF_THE_RUN, *INSTEAD, *NOT_HERE} <= {*PATHS}
    assert {*LINES} <= {*COMMANDS}


@pytest.mark.parametrize("where", INPUTS)
def test_a_path_that_does_not_exist_is_a_usage_error(place: Path, where: str) -> None:
    before = sorted(os.listdir(place))
    code, printed = typed(*line_of(where, "missing.toml"))
    assert code == 2, printed
    assert "missing.toml" in printed
    assert "Traceback" not in printed
    assert sorted(os.listdir(place)) == before


@pytest.mark.parametrize("where", TARGETS)
def test_the_folder_for_a_target_is_not_made(place: Path, where: str) -> None:
    before = sorted(os.listdir(place))
    code, printed = typed(*line_of(where, "missing/target"))
    assert code == 2, printed
    assert "missing: there is no such file or folder" in printed
    assert sorted(os.listdir(place)) == before


@pytest.mark.xdist_group("kernel")  # `layout` reads all disks, as tests capture them
@pytest.mark.parametrize("where", [one for one in RESULTS if one not in NOT_HERE])
def test_folders_above_a_result_are_made(place: Path, where: str) -> None:
    code, printed = typed(*line_of(where, "new/folders/result"))
    assert code in (0, 4, 5), printed
    assert (place / "new/folders/result").exists()


def test_folders_above_a_result_that_fails_go_again(place: Path) -> None:
    before = sorted(os.listdir(place))
    for words in (["parse", "counts", "-o", "new/out"], ["sql", "trace", "no", "-o", "new/a.csv"]):
        assert typed(*words)[0] != 0
        assert sorted(os.listdir(place)) == before


SIZES = [
    f"{name} --{option.replace('_', '-')}"
    for name, calls in CALLS.items()
    for option in dict.fromkeys(
        one.name
        for call in calls
        for one in inspect.signature(call).parameters.values()
        if "Size" in str(one.annotation)
    )
    if any(option == parameter.name for parameter in COMMANDS[name].params)
]
AMONG_WORDS = (
    "recommend trace --unit extent=16384",
    "simulate buffer accesses --caches 32768/8",
    "lab run --disk fs=16384 -- true",
    "sweep varmail -o out --target lab:dax=16384",
)
"""Sizes that stand beside something else."""


def line_with(where: str, value: str) -> list[str]:
    name, _, option = where.rpartition(" ")
    line = LINES.get(name, "{trace}").format(**GOOD | {"device": "nosuch"})
    return [*name.split(), option, value, *line.split()]


@pytest.mark.parametrize("where", SIZES)
def test_a_size_needs_its_unit(place: Path, where: str) -> None:
    before = sorted(os.listdir(place))
    code, printed = typed(*line_with(where, "16384"))
    assert code == 2, printed
    assert f"{where.rsplit(maxsplit=1)[-1]} 16384: a size needs a unit" in printed
    assert "write 16384B, 16384KiB, 16384MiB or 16384GiB" in printed
    assert sorted(os.listdir(place)) == before


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("line", AMONG_WORDS)
def test_a_size_among_other_words_needs_its_unit(line: str) -> None:
    code, printed = typed(*line.split())
    assert code == 2, printed
    assert "a size needs a unit" in printed

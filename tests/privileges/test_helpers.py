"""What runs with the rights of root is root's own, and nobody else steers it."""

import ast
import os
import re
from pathlib import Path

import pytest

from tests.house.tree import ROOT, nodes, place, product
from tests.privileges.others import OTHER, as_other
from tracekit.errors import TracekitError
from tracekit.helper_programs import find_helper, helper_environment, run_helper, why_missing

STEERED = {"LD_BIND_NOW": "1", "PYTHONPATH": "/nothing", "IFS": "x", "GLIBC_TUNABLES": "a=b"}


def program(folder: Path, name: str = "tool") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\nenv\n")
    (folder / name).chmod(0o755)
    return folder / name


@pytest.mark.root
def test_a_helper_of_root_gets_nothing_that_steers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'bin').parent}:/usr/bin:/bin")
    for name, value in {**STEERED, "LANG": "C", "PERL5OPT": "-d"}.items():
        monkeypatch.setenv(name, value)
    # WHEN it shows its variables
    shown = run_helper(["tool"], variables={"LC_ALL": "C"}, capture_output=True, text=True).stdout
    variables = dict(line.split("=", 1) for line in shown.splitlines())
    # THEN those that choose what it loads are gone, and others are there
    assert not {*STEERED, "PERL5OPT"} & variables.keys()
    assert (variables["LANG"], variables["LC_ALL"]) == ("C", "C")


@pytest.mark.parametrize("opened", ["owner", "group", "others", "sticky", "above"])
def test_root_runs_no_program_that_others_can_replace(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: str
) -> None:
    # GIVEN a folder in front of PATH that somebody else can change, or put another in its place
    folder = theirs / "bin" if opened == "above" else tmp_path / "bin"
    bad, good = program(folder), program(tmp_path / "safe")
    if opened == "owner":
        os.chown(folder, OTHER, 0)
    elif opened == "group":
        os.chown(folder, 0, OTHER)
        folder.chmod(0o775)
    elif opened in ("others", "sticky"):
        folder.chmod(0o757 if opened == "others" else 0o1777)
    # THEN the next one is taken, or none with the reason
    monkeypatch.setenv("PATH", f"{folder}:{good.parent}")
    assert find_helper("tool") == str(good)
    monkeypatch.setenv("PATH", f"{folder}:bin")
    assert find_helper("tool") is None
    assert why_missing("tool") == f"{bad} is not run by root: others than root can replace it"
    with pytest.raises(TracekitError, match="others than root can replace it"):
        run_helper(["tool"])


@pytest.mark.root
def test_folders_of_root_stay_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN one below a folder in which only owners remove files, and one that is not there
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    folder = program(tmp_path / "shared/bin").parent
    path = f"{folder}:{tmp_path}/nothing:/usr/bin"
    monkeypatch.setenv("PATH", path)
    assert helper_environment()["PATH"] == path


@pytest.mark.usefixtures("theirs")
def test_a_plain_user_keeps_path_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_BIND_NOW", "1")
    monkeypatch.setenv("PATH", f"relative:{os.environ['PATH']}")
    assert as_other(lambda: helper_environment() == dict(os.environ)) == "True"


STARTERS = {"run", "Popen", "call", "check_call", "check_output", "system", "popen", "fork"}
ALLOWED = {
    "tracekit/helper_programs.py",  # programs of others
    "tracekit/capture/command.py",  # the user's own command
    "tracekit/_native/players.py",  # the replay program, found beside the package
}


def test_every_program_is_started_in_one_of_three_places() -> None:
    found = {
        place(path)
        for path in product()
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("subprocess", "os")
        and (
            node.func.attr in STARTERS
            or node.func.attr.startswith(("exec", "spawn", "posix_spawn"))
        )
    }
    assert found == ALLOWED


def test_no_name_in_a_shared_folder_can_be_guessed() -> None:
    # Those of tempfile are random; the guest's scripts are alone in their machine.
    sources = [*product(), *(ROOT / "replayer").rglob("*.[ch]")]
    shared = re.compile(r"""["'](/tmp|/var/tmp|/dev/shm|/var/lock|/run/lock)\b""")
    assert [str(path) for path in sources if shared.search(path.read_text())] == []

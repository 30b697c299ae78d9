"""The man pages say what the commands' own help says, and troff has nothing to warn of."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command

from tests.house.tree import ROOT
from tracekit.cli import app

INSTALLED = Path(sysconfig.get_path("data")) / "share" / "man" / "man1"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, ROOT / "docs" / "man.py", folder], check=True)
    return {path.stem: path for path in folder.iterdir()}


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for part in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from commands(command.get_command(None, part), f"{name}-{part}")


def squeezed(text: str) -> str:
    return "".join(text.replace("`", "").split())


def rendered(page: Path) -> str:
    if shutil.which("groff") is None:
        pytest.skip("needs groff")
    # -rHY=0: no word is broken, all warnings are on
    words = ["groff", "-man", "-ww", "-rHY=0", "-P-cbou", "-Tascii", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return squeezed(done.stdout)


def test_each_command_has_a_page_with_all_its_options(pages: dict[str, Path]) -> None:
    found = dict(commands(get_command(app), "tracekit"))
    assert set(found) == set(pages)
    for name, command in found.items():
        shown = rendered(pages[name])
        # GIVEN the options as the parser has them, THEN each stands there with its words
        context = Context(command, info_name=name)
        records = [one for p in command.get_params(context) if (one := p.get_help_record(context))]
        assert len(records) >= 1
        assert [one for one in records if squeezed("".join(one)) not in shown] == [], name


def test_the_program_has_its_exit_codes_and_commands(pages: dict[str, Path]) -> None:
    shown = rendered(pages["tracekit"])
    assert "EXITCODES0done1failed,suchasbyafile" in shown
    assert "tracekit-replayReplaythetraceonfiles" in shown


def test_mandoc_has_nothing_to_warn_of(pages: dict[str, Path]) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("needs mandoc")
    words = ["mandoc", "-Tlint", "-Wwarning", *map(str, pages.values())]
    assert subprocess.run(words, capture_output=True, text=True, check=False).stdout == ""


def test_man_finds_what_set_up_installed(pages: dict[str, Path]) -> None:
    # GIVEN a path that begins with the environment's programs, WHEN man looks for a page
    assert (INSTALLED / "tracekit.1").exists(), "not there: run make setup"
    if shutil.which("man") is None:
        pytest.skip("needs man")
    path = f"{sysconfig.get_path('scripts')}:/usr/bin:/bin"
    environment = {"PATH": path, "HOME": os.environ.get("HOME", "/")}
    words = ["man", "-w", "tracekit-simulate-cache"]
    found = subprocess.check_output(words, env=environment, text=True).strip()
    # THEN it is this one, with the same text
    assert Path(found).parent.samefile(INSTALLED)
    assert Path(found).read_text() == pages["tracekit-simulate-cache"].read_text()

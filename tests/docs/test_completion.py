"""Completion, as a shell asks for it."""

import os
import subprocess
import sysconfig

import pytest

from tracekit.commands import COMMANDS

SCRIPTS = sysconfig.get_path("scripts")
NAMES = list(COMMANDS)


def complete_in_bash(line: str) -> list[str]:
    """Return what bash offers for a half-typed line, with the page's own line to switch it on."""
    script = f"""
        eval "$(_TRACEKIT_COMPLETE=source_bash tracekit)"
        COMP_WORDS=({line}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _tracekit_completion tracekit
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_bash_completes_commands() -> None:
    assert complete_in_bash("tracekit re") == [name for name in NAMES if name.startswith("re")]


def test_bash_completes_options() -> None:
    assert complete_in_bash("tracekit parse --out") == ["--output"]


@pytest.mark.parametrize(
    ("shell", "beginning"),
    [("bash", "_tracekit_completion()"), ("zsh", "#compdef tracekit"), ("fish", "complete ")],
)
def test_every_shell_gets_its_script(shell: str, beginning: str) -> None:
    result = subprocess.run(
        [f"{SCRIPTS}/tracekit"],
        env={**os.environ, "_TRACEKIT_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0
    assert result.stdout.strip().startswith(beginning)

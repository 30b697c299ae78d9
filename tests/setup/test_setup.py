"""What `.ci/setup` says where something is missing: nothing is installed and nothing is left."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.tree import ROOT

ALWAYS_THERE = ["bash", "cat", "cut", "dirname", "echo", "flock", "grep", "id", "mkdir"]
ALWAYS_THERE += ["sha256sum", "tail", "xargs"]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A copy of the script in a checkout, and a machine that has no compiler and no apt."""
    (tmp_path / "checkout").mkdir()
    shutil.copytree(ROOT / ".ci", tmp_path / "checkout" / ".ci")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ALWAYS_THERE:
        found = shutil.which(name)
        assert found, name
        (tools / name).symlink_to(found)
    return tmp_path


def setup(bare: Path, level: str, **variables: str) -> subprocess.CompletedProcess[str]:
    script = (bare / "checkout" / ".ci" / "setup").read_text()
    # The script adds the system's own folders to PATH, which would bring the compiler back.
    script = script.replace(':/usr/sbin:/sbin"', '"')
    (bare / "checkout" / ".ci" / "setup").write_text(script)
    return subprocess.run(
        ["bash", ".ci/setup", level],
        cwd=bare / "checkout",
        env={"PATH": str(bare / "bin"), "HOME": str(bare), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


OLD = '[ "$1" = -V ] && echo "Python 3.9.18" && exit 0; exit 1'
WITHOUT_VENV = 'case "$2" in *ensurepip*) exit 1;; esac; exit 0'
PACKAGES = "sudo apt-get install -y python3-venv gcc libc6-dev\n"
NO_PYTHON = "there is no python3; name one with: make PYTHON=python3.12"
TOO_OLD = "Python 3.9.18 is too old, 3.11 is needed"


@pytest.mark.parametrize(
    ("python", "body", "level", "message"),
    [
        pytest.param("python3", WITHOUT_VENV, "runtime", PACKAGES, id="no venv, no compiler"),
        pytest.param("python3", "exit 0", "runtime", "-y gcc libc6-dev\n", id="no compiler"),
        pytest.param("", "", "runtime", NO_PYTHON, id="no Python"),
        pytest.param("python3.9", OLD, "runtime", TOO_OLD, id="an old Python"),
        pytest.param("", "", "everything", "usage: .ci/setup runtime|dev", id="unknown level"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_made(
    bare: Path, python: str, body: str, level: str, message: str
) -> None:
    # GIVEN what stands in for a Python
    if python:
        (bare / "bin" / python).write_text(f"#!/bin/sh\n{body}\n")
        (bare / "bin" / python).chmod(0o755)
    # WHEN set-up is asked for, THEN it stops, says what to do, and has made no environment
    result = setup(bare, level, **({"PYTHON": python} if python == "python3.9" else {}))
    assert result.returncode == 1
    assert message in result.stderr
    made = set(os.listdir(bare / "checkout")) - {".ci"}
    assert made <= (set() if level == "everything" else {"build"})

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


def python(folder: Path, name: str, body: str) -> None:
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def setup(bare: Path, level: str = "runtime", **variables: str) -> subprocess.CompletedProcess[str]:
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


def test_missing_packages_are_named_with_the_command_to_type(bare: Path) -> None:
    # GIVEN a Python without venv, and no compiler
    python(bare, "python3", 'case "$2" in *ensurepip*) exit 1;; esac; exit 0')
    # WHEN set-up is asked for
    result = setup(bare)
    # THEN it stops, says what to type, and has made no environment
    assert result.returncode == 1
    assert "sudo apt-get install -y python3-venv gcc libc6-dev\n" in result.stderr
    assert not (bare / "checkout" / ".venv").exists()


def test_only_what_is_missing_is_named(bare: Path) -> None:
    # GIVEN a complete Python and no compiler
    python(bare, "python3", "exit 0")
    # THEN only the compiler is asked for
    assert "apt-get install -y gcc libc6-dev\n" in setup(bare).stderr


def test_no_python(bare: Path) -> None:
    result = setup(bare)
    assert result.returncode == 1
    assert "there is no python3; name one with: make PYTHON=python3.12" in result.stderr


def test_old_python(bare: Path) -> None:
    python(bare, "python3.9", '[ "$1" = -V ] && echo "Python 3.9.18" && exit 0; exit 1')
    result = setup(bare, PYTHON="python3.9")
    assert result.returncode == 1
    assert "Python 3.9.18 is too old, 3.11 is needed" in result.stderr


def test_unknown_level(bare: Path) -> None:
    result = setup(bare, "everything")
    assert result.returncode == 1
    assert "usage: .ci/setup runtime|dev" in result.stderr
    assert os.listdir(bare / "checkout") == [".ci"]

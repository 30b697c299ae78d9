"""What `.ci/setup` says where something is missing, and how pip's configuration reaches uv."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

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
        pytest.param("", "", "everything", "usage: .ci/setup runtime|dev|site", id="unknown level"),
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


NAMES = ["PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CERT"]
NAMES += ["PIP_PROXY", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT", "PIP_TIMEOUT", "SSL_CERT_FILE"]
NAMES += ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"]
NAMES += ["UV_INSECURE_HOST", "UV_HTTP_TIMEOUT", "ALL_PROXY"]


@pytest.fixture
def uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The wrapper, on a machine that says nothing about packages."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    spec = importlib.util.spec_from_file_location("uv_wrapper", ROOT / ".ci" / "uv.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CERTIFICATES", tmp_path / "no-such-file")
    return module


def test_a_machine_that_says_nothing(uv: ModuleType) -> None:
    assert uv.uv_environment({}) == {}


def test_everything_that_pip_was_told(uv: ModuleType, tmp_path: Path) -> None:
    # GIVEN a pip configuration with two extra indexes and a folder of wheels that is not there
    links = tmp_path / "wheels"
    links.mkdir()
    pip = {
        "index-url": ["https://mirror.example/simple"],
        "extra-index-url": ["https://a.example", "https://b.example"],
        "find-links": [str(links), str(tmp_path / "gone"), "https://c.example/wheels"],
        "trusted-host": ["mirror.example"],
        "default-timeout": ["180"],
        "cert": ["/etc/company.pem"],
        "proxy": ["http://proxy.example:3128"],
    }
    # WHEN it is translated, THEN uv is told the same
    assert uv.uv_environment(pip) == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_INDEX": "https://a.example https://b.example",
        "UV_FIND_LINKS": f"{links},https://c.example/wheels",
        "UV_INSECURE_HOST": "mirror.example",
        "UV_HTTP_TIMEOUT": "180",
        "SSL_CERT_FILE": "/etc/company.pem",
        "ALL_PROXY": "http://proxy.example:3128",
    }


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_what_uv_was_told_itself_wins(
    uv: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "https://own.example/simple")
    assert uv.uv_environment({"index-url": ["https://mirror.example/simple"]}) == {}


def test_the_environment_wins_over_the_file(
    uv: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # GIVEN a file and a variable that name different indexes, and a certificate in the file only
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://file.example\ncert = /etc/company.pem\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_INDEX_URL", "https://variable.example")
    monkeypatch.setattr("sys.executable", _python_with_pip())
    # WHEN pip is asked, THEN the variable is taken, and the certificate stays
    options = uv.pip_options()
    assert options["index-url"] == ["https://variable.example"]
    assert options["cert"] == ["/etc/company.pem"]


def _python_with_pip() -> str:
    """uv's own environment has pip; this one need not."""
    own = ROOT / "build" / "uv" / "bin" / "python"
    if not own.exists():
        pytest.skip("build/uv is not there: UV names another uv")
    return str(own)

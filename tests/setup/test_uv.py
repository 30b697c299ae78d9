"""pip's configuration reaches uv."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.tree import ROOT

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

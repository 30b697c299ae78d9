"""The native parts are built so that a mistake in them is stopped early."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tracekit._native import library_path, program_path

pytestmark = pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
LANDING = b"\xf3\x0f\x1e\xfa"
"""endbr64, where an indirect call may land."""


@pytest.fixture(params=[library_path, program_path], ids=["library", "program"])
def native(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param()
    return path


def told(path: Path, *options: str) -> str:
    words = ["readelf", "--wide", *options, str(path)]
    printed: str = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return printed


def test_no_address_in_it_is_known_before_it_runs(native: Path) -> None:
    assert re.search(r"Type: +DYN ", told(native, "--file-header"))
    if native == program_path():
        assert re.search(r"\(FLAGS_1\).*\bPIE\b", told(native, "--dynamic"))


def test_what_the_loader_wrote_cannot_be_overwritten(native: Path) -> None:
    assert "GNU_RELRO" in told(native, "--program-headers")
    assert re.search(r"\(FLAGS\).*\bBIND_NOW\b", told(native, "--dynamic"))


def test_no_memory_is_both_written_and_run(native: Path) -> None:
    headers = told(native, "--program-headers")
    assert re.search(r"GNU_STACK .* RW +0x", headers)
    assert not re.search(r"^ +(LOAD|GNU_STACK) .* RWE ", headers, re.MULTILINE)


def test_overwritten_stacks_and_overlong_copies_end_it(native: Path) -> None:
    symbols = told(native, "--dyn-syms")
    assert "__stack_chk_fail" in symbols
    assert re.search(r"__(memcpy|snprintf)_chk", symbols)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="of x86-64")
def test_indirect_calls_land_where_they_may(native: Path) -> None:
    # More than the few of the C library's own start files.
    assert native.read_bytes().count(LANDING) > 20

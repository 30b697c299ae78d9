"""The wheel works away from the checkout, and its native parts stop a mistake in them early."""

import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tracekit._native import library_path, program_path

UV_PYTHON = ROOT / "build" / "uv" / "bin" / "python"
SAMPLE = ROOT / "sample-traces" / "oltp"
LOCKED = re.compile(r"^([\w.-]+)==[^;\n]*?\\?$", re.MULTILINE)


def uv(*words: str | Path) -> None:
    """Run uv, if it can be on what set-up has already brought to this machine."""
    command = [UV_PYTHON, ROOT / ".ci" / "uv.py", *words, "--quiet"]
    for extra in (["--offline"], []):
        result = subprocess.run(
            [*command, *extra], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if result.returncode == 0:
            return
    pytest.fail(result.stderr)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not UV_PYTHON.exists():
        pytest.skip("build/uv is not there: run make setup")
    folder = tmp_path_factory.mktemp("wheel")
    uv(
        *("build", "--wheel", "--out-dir", folder, "-C", f"build-dir={folder / 'build'}"),
        # What it holds is the same, made in a third of the time.
        *("-C", "cmake.build-type=Debug", "--build-constraints", ".ci/requirements.lock"),
    )
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment that holds the wheel and what a user gets with it."""
    environment = tmp_path_factory.mktemp("environment") / "venv"
    uv("venv", "--no-project", "--python", sys.executable, environment)
    (site,) = environment.glob("lib/*/site-packages")
    # GIVEN the packages that are locked for users, and no other of this environment
    own = Path(sysconfig.get_path("purelib"))
    for name in LOCKED.findall((ROOT / "requirements.lock").read_text()):
        for top in {file.parts[0] for file in distribution(name).files or ()} - {".."}:
            if not (site / top).exists():
                (site / top).symlink_to(own / top)
    uv("pip", "install", "--python", environment, "--no-deps", wheel)
    return environment / "bin"


def test_one_wheel_serves_every_python(wheel: Path) -> None:
    assert wheel.name.startswith("tracekit-")
    assert "-py3-none-linux_" in wheel.name


def test_the_wheel_holds_all_parts(wheel: Path) -> None:
    # GIVEN the names in the wheel
    names = set(zipfile.ZipFile(wheel).namelist())
    # THEN the library, the program, every query and every page template are among them
    assert "tracekit/libtracekit.so" in names
    assert any(name.endswith(".data/scripts/tracekit-replay") for name in names)
    for folder in ("analyzers", "reports"):
        committed = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
        assert committed
        wanted = {f"tracekit/data/{path.relative_to(ROOT)}" for path in committed}
        assert wanted - names == set()
    # AND the man pages
    assert any(name.endswith(".data/data/share/man/man1/tracekit-replay.1") for name in names)
    # AND no test, no sample and no build output is
    assert [name for name in names if name.startswith(("tests/", "sample-traces/", "build/"))] == []


@pytest.mark.slow
def test_the_wheel_runs_away_from_the_checkout(scripts: Path, tmp_path: Path) -> None:
    # GIVEN only the wheel's environment, in an empty folder
    environment = {"PATH": f"{scripts}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}

    def tracekit(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [scripts / "tracekit", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    # WHEN the machine is examined and the sample trace is run through the whole pipeline
    doctor = tracekit("doctor")
    run = tracekit("run", str(SAMPLE), "-o", "trace")
    # THEN both succeed, and the report is there
    assert doctor.returncode == 0, doctor.stderr
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "trace" / "report.html").stat().st_size > 100_000
    # AND it is not the checkout that did it
    place = [str(scripts / "python"), "-c", "import tracekit; print(tracekit.__file__)"]
    assert subprocess.check_output(place, cwd=tmp_path, text=True).startswith(str(scripts.parent))


LANDING = b"\xf3\x0f\x1e\xfa"
"""endbr64, where an indirect call may land."""


@pytest.fixture(params=[library_path, program_path], ids=["library", "program"])
def native(request: pytest.FixtureRequest) -> Path:
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
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

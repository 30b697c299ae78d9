"""What the tests that boot a guest share: when they run, and how they call the lab."""

import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tracekit.errors import TracekitError
from tracekit.lab.image import (
    ABOUT,
    build,
    cache_folder,
    in_loading_order,
    loadable,
    reason_not_to_run,
    unpack,
)

CHOSEN = "TRACEKIT_LAB"
GUEST_PYTHON = (3, 11)
"""Of the guest's distribution: libraries with compiled parts must be made for it."""
LIBRARIES = (
    *("_cffi_backend*", "annotated_doc", "cffi", "click", "markdown_it", "mdurl", "msgspec"),
    *("numpy", "numpy.libs", "pyarrow", "pycparser", "pygments", "rich", "shellingham"),
    *("typer", "typing_extensions.py"),
)


def skip_unless_guests_run() -> None:
    """Skip where guests were not asked for or cannot run, with the reason."""
    if not os.environ.get(CHOSEN):
        pytest.skip("boots virtual machines: make lab-test")
    reason = reason_not_to_run()
    if reason:
        pytest.skip(reason)


def lab(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tracekit", "lab", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def with_packages(names: Sequence[str]) -> list[str]:
    """Return the options of a guest that has these packages."""
    return [word for name in names for word in ("--package", name)]


def run_script(place: Path, script: str, *options: str, out: str = "out", code: int = 0) -> Path:
    """Run a script of bash in a guest that shares `place/share`; return what it brought."""
    folders = ("--share", str(place / "share"), "-o", str(place / out))
    ran = lab("run", *options, *folders, "--", "bash", "-c", script)
    (place / "stdout").write_text(ran.stdout)
    (place / "stderr").write_text(ran.stderr)
    assert ran.returncode == code, ran.stderr
    return place / out / "files"


def share_tracekit(share: Path, script: str) -> None:
    """Put tracekit, its libraries and a script of in_guest where the guest's Python finds them."""
    if sys.version_info[:2] != GUEST_PYTHON:
        pytest.skip(f"the libraries here are not for the guest's Python {GUEST_PYTHON}")
    passed_over = shutil.ignore_patterns("tests", "include", "*flight*")
    shutil.copytree(ROOT / "tracekit", share / "tracekit", ignore=passed_over)
    packages = Path(site.getsitepackages()[0])
    # What the build made lies there in an editable install.
    shutil.copytree(packages / "tracekit", share / "tracekit", dirs_exist_ok=True)
    for source in (path for name in LIBRARIES for path in packages.glob(name)):
        if source.is_dir():
            shutil.copytree(source, share / source.name, ignore=passed_over)
        else:
            shutil.copy(source, share)
    shutil.copy(Path(__file__).parent / "in_guest" / script, share)


def share_modules(share: Path, *names: str, packages: Sequence[str]) -> None:
    """Put modules for the guest with these packages into `modules`, numbered in their order.

    Those that its kernel does not have are left out. The guest is built if it was not yet.
    """
    image = build(packages, on_step=lambda _: None)
    kernel = json.loads((image.folder / ABOUT).read_text())["kernel"]
    order: dict[Path, None] = {}
    with tempfile.TemporaryDirectory() as folder:
        unpack(cache_folder() / "archives" / kernel, Path(folder))
        for name in names:
            with suppress(TracekitError):
                order |= dict.fromkeys(in_loading_order(Path(folder), (name,)))
        (share / "modules").mkdir()
        for number, path in enumerate(order):
            name = path.name.removesuffix(".xz")
            (share / f"modules/{number:02}-{name}").write_bytes(loadable(path))

"""What the tests that boot a guest share: when they run, and how they call the lab."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit.lab.image import reason_not_to_run

CHOSEN = "TRACEKIT_LAB"


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


def run_script(place: Path, script: str, *options: str, out: str = "out", code: int = 0) -> Path:
    """Run a script of bash in a guest that shares `place/share`; return what it brought."""
    folders = ("--share", str(place / "share"), "-o", str(place / out))
    ran = lab("run", *options, *folders, "--", "bash", "-c", script)
    (place / "stdout").write_text(ran.stdout)
    (place / "stderr").write_text(ran.stderr)
    assert ran.returncode == code, ran.stderr
    return place / out / "files"

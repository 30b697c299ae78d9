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

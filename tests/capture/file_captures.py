"""Runs `tracekit capture --files`."""

import subprocess
from pathlib import Path

import pytest

from tests.capture.machine import CAPTURE
from tracekit.capture import files

NEEDS_STRACE = pytest.mark.skipif(
    files.probe() is not None, reason="needs strace, and the right to trace"
)


def capture(work: Path, *command: str, options: tuple[str, ...] = ()) -> tuple[Path, str]:
    """Capture a command in the folder `work`; return the trace and what was printed."""
    trace = work.parent / "trace"
    ran = subprocess.run(
        [*CAPTURE, "--files", "-o", str(trace), *options, "--", *command],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return trace, ran.stdout

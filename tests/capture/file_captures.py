"""Runs `tracekit capture --files`."""

import subprocess
from pathlib import Path

import pytest

from tests.capture.machine import CAPTURE
from tracekit.capture import bpf_files, strace

NEEDS_STRACE = pytest.mark.skipif(
    strace.probe() is not None, reason="needs strace, and the right to trace"
)
NEEDS_BPF = pytest.mark.skipif(
    bpf_files.why_not() is not None, reason="needs BPF programs, and root"
)
SOURCES = (
    pytest.param("strace", marks=NEEDS_STRACE),
    pytest.param("bpf", marks=[NEEDS_BPF, pytest.mark.root]),
)


def capture(
    work: Path, *command: str, options: tuple[str, ...] = (), source: str = "strace"
) -> tuple[Path, str]:
    """Capture a command in the folder `work`; return the trace and what was printed."""
    trace = work.parent / f"trace-{source}"
    ran = subprocess.run(
        [*CAPTURE, "--files", "--source", source, "-o", str(trace), *options, "--", *command],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return trace, ran.stdout

"""The command line starts quickly, because nothing slow is imported before it is needed."""

from __future__ import annotations

import resource
import subprocess
import sys
import sysconfig
from pathlib import Path

HELP_LIMIT_S = 0.3
RUNS = 7
SLOW = {"pyarrow", "duckdb", "pandas", "numpy", "seaborn", "matplotlib", "jinja2", "rich"}


def help_s() -> float:
    """Return the processor time of the command: unlike the clock's, others hardly change it."""
    program = Path(sysconfig.get_path("scripts")) / "tracekit"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_is_quick() -> None:
    # The least of several: what else the machine does can only make it slower.
    assert min(help_s() for _ in range(RUNS)) < HELP_LIMIT_S


def test_nothing_slow_is_imported_for_help() -> None:
    code = "import sys, tracekit.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert SLOW & set(loaded) == set()

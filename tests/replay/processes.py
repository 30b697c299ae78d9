"""Replays in processes of their own: started, waited for, gone."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracekit.store import TraceFolder


def await_true(what: Callable[[], Any], *, pause_s: float = 0.02) -> Any:
    """Return what `what` returns as soon as that is something."""
    end_s = time.monotonic() + 120
    while time.monotonic() < end_s:
        if found := what():
            return found
        time.sleep(pause_s)
    raise AssertionError("it did not happen in time")


def await_in(
    child: subprocess.Popen[Any], what: Callable[[], Any], *, pause_s: float = 0.02
) -> Any:
    """Return what `what` returns as soon as that is something, however long the child takes."""
    while not (found := what()):
        assert child.poll() is None, f"it ended with {child.returncode}, and that did not happen"
        time.sleep(pause_s)
    return found


def is_gone(process: int) -> bool:
    """Return whether a process has ended, whoever is to wait for it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def limited(kind: int, soft: int, hard: int | None = None) -> Callable[[], None]:
    """Return what sets a limit of resources in a child before it runs a program."""
    pair = (soft, soft if hard is None else hard)
    return lambda: resource.setrlimit(kind, pair)


def replay_command(folder: TraceFolder, *words: str) -> list[str]:
    return [sys.executable, "-m", "tracekit", "replay", str(folder.path), *words]

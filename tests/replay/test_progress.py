"""What a replay shows on a terminal while it runs."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.replay.trace import trace


def test_only_one_line_of_progress_is_shown_at_a_time(tmp_path: Path) -> None:
    # GIVEN a replay of 2 s, on a terminal
    rows = [{"queue_ns": number * 1_000_000, "sector": 0} for number in range(2000)]
    folder = trace(tmp_path / "trace", rows)
    command = [sys.executable, "-m", "tracekit", "replay", str(folder.path), "--engine", "null"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as child:
        os.close(theirs)
        shown = b"".join(_read_all(ours))
    assert child.returncode == 0
    # THEN the plan's line is gone for good when the requests' line appears
    assert b"requests (" in shown
    assert b"plan" in shown[: shown.index(b"requests (")]
    last = shown.rindex(b"requests (")
    assert b"plan" not in shown[shown.index(b"requests (") : last]


def _read_all(terminal: int) -> Iterator[bytes]:
    """Yield what is written to a terminal until its other side is closed."""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux tells the end
            break
        yield part
    os.close(terminal)

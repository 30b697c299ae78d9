"""A statement that runs for long ends when the command is stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.simulate.placement_models import Request, write_trace

LONG = "select count(*) from range(1000000000000) a where a.range % 7 = 3"
SORTED = "select * from range(300000000) a order by hash(a.range) desc"
SECONDS = 20
BUSY_SECONDS = 1


@pytest.mark.parametrize("statement", [LONG, SORTED])
def test_a_signal_ends_a_statement(tmp_path: Path, statement: str) -> None:
    # GIVEN a statement that takes minutes
    write_trace(tmp_path / "t", [Request("fs", 0)])
    command = [sys.executable, "-m", "tracekit", "sql", str(tmp_path / "t"), statement]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            _wait_until_busy(child.pid, tmp_path)
            # WHEN it is terminated, THEN it ends at once, and with it what it wrote beside
            child.send_signal(signal.SIGTERM)
            assert child.wait(SECONDS) == 128 + signal.SIGTERM
        finally:
            child.kill()
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def _wait_until_busy(pid: int, place: Path) -> None:
    """Wait until the command has opened its database, and used more time than its tables take."""
    opened: int | None = None
    ticks = os.sysconf("SC_CLK_TCK")
    deadline = time.monotonic() + 3 * SECONDS
    while time.monotonic() < deadline:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used = int(fields[11]) + int(fields[12])
        if opened is None and len(list(place.iterdir())) > 1:
            opened = used
        if opened is not None and used > opened + BUSY_SECONDS * ticks:
            return
        time.sleep(0.05)

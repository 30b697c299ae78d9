"""A guest ends in time, and when it is asked to."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.guests import lab, skip_unless_guests_run
from tracekit.lab.image import cache_folder

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _guests() -> None:
    skip_unless_guests_run()


def test_a_command_that_runs_too_long_is_ended() -> None:
    ran = lab("run", "--timeout", "2", "--", "sh", "-c", "echo begun; sleep 100")
    assert ran.returncode == 3
    assert ran.stdout == "begun\n"
    assert "ran past --timeout" in ran.stderr


def test_a_guest_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    # GIVEN a lab whose guest is running
    command = [sys.executable, "-m", "tracekit", "lab", "run", "-o", str(tmp_path / "out")]
    with subprocess.Popen([*command, "--", "sleep", "100"]) as running:
        end_s = time.monotonic() + 30
        while not (folders := list(cache_folder().glob(f".run.tracekit-{running.pid}-*/*.log"))):
            assert time.monotonic() < end_s
            time.sleep(0.1)
        # WHEN it is asked to end
        running.send_signal(signal.SIGTERM)
    # THEN neither guest, nor disks, nor output is left
    assert running.returncode == 128 + signal.SIGTERM
    assert not folders[0].parent.exists()
    assert not (tmp_path / "out").exists()
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(folders[0].parent) not in processes.stdout

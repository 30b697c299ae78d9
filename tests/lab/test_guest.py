"""A guest boots, has what was asked for, and brings back what its command wrote."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.guests import lab, skip_unless_guests_run
from tests.replay.program import READ, record, write_plan
from tracekit.lab.build import cache_folder

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _guests() -> None:
    skip_unless_guests_run()


MAPPED = """
import mmap, os
MAP_SHARED_VALIDATE, MAP_SYNC = 3, 0x80000
for name in ("LAB_DAX", "LAB_FS"):
    fd = os.open(os.environ[name] + "/file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 4096)
    try:
        mmap.mmap(fd, 4096, flags=MAP_SHARED_VALIDATE | MAP_SYNC)[:5] = b"bytes"
        print(name, os.pread(fd, 5, 0))
    except OSError as error:
        print(name, error.strerror)
"""


def test_dax_replayer_share_and_exit_status(tmp_path: Path) -> None:
    # GIVEN a share with a program and a plan of one read
    share = tmp_path / "share"
    share.mkdir()
    (share / "mapped.py").write_text(MAPPED)
    write_plan(share / "one.plan", [record(READ, 0, 8)])
    script = (
        "python3 mapped.py; truncate -s 1M $LAB_DAX/target;"
        "tracekit-replay one.plan --target $LAB_DAX/target > $LAB_OUT/summary.json;"
        "echo to stderr >&2; exit 7"
    )
    # WHEN a guest with persistent memory and a plain disk runs it
    ran = lab(
        *("run", "--pmem", "128MiB", "--disk", "fs=64MiB", "--share", str(share)),
        *("-o", str(tmp_path / "out"), "--", "sh", "-c", script),
    )
    # THEN MAP_SYNC works on DAX, and not on the disk
    assert ran.stdout.splitlines() == ["LAB_DAX b'bytes'", "LAB_FS Operation not supported"]
    # AND the replayer has replayed the plan there
    summary = json.loads((tmp_path / "out/files/summary.json").read_text())
    assert summary["counts"]["done"] == 1
    assert summary["targets"][0]["path"] == "/mnt/dax/target"
    # AND the command's own failure is told, with what it said
    assert ran.returncode == 3
    assert "to stderr\n" in ran.stderr
    assert "failed in the guest with status 7" in ran.stderr
    assert json.loads((tmp_path / "out/lab.json").read_text())["exit_status"] == 7


def test_emulated_latencies_are_exact_under_icount() -> None:
    # GIVEN a disk of 5 ms, in time counted by instructions
    script = (
        "import mmap, os, time\n"
        "fd = os.open(open('/run/disk0').read().strip(), os.O_RDONLY | os.O_DIRECT)\n"
        "page = mmap.mmap(-1, 4096)\n"
        "times = []\n"
        "for at in range(50):\n"
        "    start = time.monotonic_ns(); os.preadv(fd, [page], at * 4096)\n"
        "    times.append(time.monotonic_ns() - start)\n"
        "print(sorted(times)[25])\n"
    )
    # WHEN single blocks are read past the cache
    ran = lab("run", "--exact", "--disk", "fs=32M:5ms", "--json", "--", "python3", "-c", script)
    # THEN the median is 5 ms and the path through the kernel
    result = json.loads(ran.stdout)
    assert result["accelerator"] == "icount"
    assert 5_000_000 < int(result["stdout"]) < 5_300_000


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

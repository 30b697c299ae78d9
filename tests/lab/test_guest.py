"""Guests: how they end, a capture of three roles, and a sweep on DAX and a slow disk."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command_line import succeed
from tests.lab.guests import lab, skip_unless_guests_run
from tracekit.lab.image import cache_folder
from tracekit.store import TraceFolder

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


LOAD = """
import os
memory = bytearray(96 << 20)
for at in range(0, len(memory), 4096):
    memory[at] = 1
with open(os.environ["LAB_FS"] + "/log", "wb") as log:
    for _ in range(50):
        log.write(b"x" * 8192)
        log.flush()
        os.fsync(log.fileno())
assert sum(memory[::4096]) == 24576
"""


def info_of(capture: Path, folder: Path) -> dict[str, Any]:
    """Parse and classify a capture; return what the trace says of itself."""
    succeed("parse", capture, "-o", folder)
    succeed("classify", folder)
    return TraceFolder(folder).content


def test_three_roles_are_captured_parsed_and_classified(tmp_path: Path) -> None:
    # GIVEN a load that syncs a file and touches twice the memory it may have
    disks = ["--disk", "fs=256MiB", "--disk", "journal=32MiB", "--disk", "swap=256MiB"]
    output = tmp_path / "load"
    # WHEN it is captured in a guest
    ran = lab(
        *("capture", *disks, "--limit", "48MiB", "-o", str(output), "--json"),
        *("--compress", "xz", "--", "python3", "-c", LOAD),
    )
    assert ran.returncode == 0, ran.stderr
    kept = json.loads(ran.stdout)
    # THEN nothing is lost and nothing is of blktrace itself
    assert kept["dropped"] == kept["own_requests"] == 0
    assert sorted(kept["files"]) == ["load.blktrace.0.xz", "load.blktrace.1.xz"]
    layout = json.loads((output / "layout.json").read_text())
    assert [part["role"] for part in layout["partitions"]] == ["fs", "journal", "swap"]
    assert layout["capture"]["command"] == ["python3", "-c", LOAD]
    # AND parse and classify read the folder as it is
    info = info_of(output, tmp_path / "trace")
    loss = info["loss"]
    assert loss["sequence_gaps"] == loss["lost_records"] == loss["dropped"] == 0
    assert loss["unmatched"]["complete"] == 0
    # AND each fsync wrote data and committed; each page was swapped out at least once
    requests = info["classification"]["requests"]
    assert requests["fs"] >= 50
    assert requests["journal"] >= 100
    swapped = info["hotness"]["roles"]["swap"]
    assert swapped["blocks"]["cold"] + swapped["blocks"]["warm"] > 12288 - 2048
    assert info["source"]["kernel"].endswith("-amd64")


def test_disks_have_files_of_their_own_also_when_the_command_failed(tmp_path: Path) -> None:
    # GIVEN a journal on a faster disk than its file system, and swap that nothing uses on a third
    ran = lab(
        *("capture", "--disk", "fs=64M:1ms", "--disk", "journal=16M:50us", "--disk", "swap=32M"),
        *("-o", str(tmp_path / "two"), "--", "sh", "-c"),
        "dd if=/dev/zero of=$LAB_FS/a bs=4k count=20 oflag=dsync; exit 4",
    )
    # THEN the failure is told
    assert ran.returncode == 3
    assert "failed with status 4" in ran.stderr
    assert (tmp_path / "two/layout.json").is_file()
    # WHEN what was kept is parsed and classified
    info = info_of(tmp_path / "two", tmp_path / "trace")
    # THEN those that were used are there, each with its role
    assert [device["device"] for device in info["devices"]] == ["nullb0", "nullb1"]
    requests = info["classification"]["requests"]
    assert requests["fs"] >= 20
    assert requests.get("swap", 0) == 0
    assert requests["journal"] >= 20


TARGETS = ("dax=lab:dax=512MiB", "hdd=lab:fs=512MiB:5ms:1")


def test_durable_writes_wait_for_a_slow_disk_and_hardly_on_dax(tmp_path: Path) -> None:
    # GIVEN a mail server on ext4-DAX, and on a disk that serves one request in 5 ms
    out = tmp_path / "out"
    words = [*(f"--target={target}" for target in TARGETS), "--json", "--files", "200"]
    words += ["--threads", "2", "--duration", "1s", "--repeat", "2"]
    # WHEN it is swept
    told = json.loads(succeed("sweep", "varmail", "--exact", "-o", out, *words).stdout)
    assert told["made"] == 4
    # THEN it says that DAX pays, and why
    (verdict,) = told["dax"]
    assert (verdict["target"], verdict["other"], verdict["run_count"]) == ("dax", "hdd", 2)
    assert (verdict["verdict"], verdict["step"]) == ("pays", "fsync")
    assert verdict["ratio_low"] > 1.5
    # AND an fsync takes at least the time of one request on the disk, and a tenth of it on DAX
    found = {
        (row["target"], row["step"]): row
        for row in pq.read_table(out / "files/file_runs.parquet").to_pylist()
        if row["run"] == 1
    }
    assert {target: found[target, "all"]["is_dax"] for target in ("dax", "hdd")} == {
        "dax": True,
        "hdd": False,
    }
    assert all(row["failed"] == 0 for row in found.values())
    assert found["hdd", "fsync"]["p50_ns"] > 5e6
    assert found["dax", "fsync"]["mean_ns"] * 10 < found["hdd", "fsync"]["mean_ns"]
    assert found["dax", "all"]["steps_per_second"] > 5 * found["hdd", "all"]["steps_per_second"]
    # AND the slow disk leaves nothing else to wait for
    assert found["hdd", "fsync"]["time_ratio"] > 0.9


def test_slower_memory_adds_its_time_to_each_line_that_is_read(tmp_path: Path) -> None:
    # GIVEN files of 64 KiB, so of 1,024 lines, on DAX, and on DAX that takes 100 ns more for a line
    out = tmp_path / "out"
    words = ["--target=dram=lab:dax=512MiB", "--target=pcm=lab:dax=512MiB:100ns:450ns"]
    words += ["--files", "50", "--vary", "mean_size=64KiB", "--vary", "size_shape=0"]
    words += ["--threads", "1", "--duration", "500ms", "--repeat", "1", "--no-report"]
    # WHEN whole files are read there
    succeed("sweep", "webserver", "--exact", "-o", out, *words)
    found = {
        (row["target"], row["step"]): row["p50_ns"]
        for row in pq.read_table(out / "files/file_runs.parquet").to_pylist()
    }
    # THEN half of the reads take these 102,400 ns longer; buckets of times are 0.8 % wide
    added_ns = found["pcm", "read_file"] - found["dram", "read_file"]
    assert 0.95 * 102_400 < added_ns < 1.15 * 102_400
    # AND what is neither read nor written takes as long as before
    assert found["pcm", "open"] < 1.1 * found["dram", "open"]

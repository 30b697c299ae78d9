"""A sweep in guests: durable writes on DAX and on a slow disk, and memory that is slower."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command_line import succeed
from tests.lab.guests import skip_unless_guests_run

pytestmark = pytest.mark.slow
TARGETS = ("dax=lab:dax=512MiB", "hdd=lab:fs=512MiB:5ms:1")


def test_durable_writes_wait_for_a_slow_disk_and_hardly_on_dax(tmp_path: Path) -> None:
    skip_unless_guests_run()
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
    skip_unless_guests_run()
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

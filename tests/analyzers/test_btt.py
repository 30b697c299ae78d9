"""The table `btt` is what btt itself prints of the sample capture."""

import lzma
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.analyzers.folder import FIXTURES
from tests.decode.records import pack
from tracekit import query
from tracekit.readers.blktrace import parse

SAMPLE = FIXTURES.parents[1] / "sample-traces" / "oltp"
LINE = re.compile(r"^(\w2\w)\s+(\d+\.\d{9})\s+(\d+\.\d{9})\s+(\d+\.\d{9})\s+(\d+)$", re.MULTILINE)


BTT_IS_HERE = pytest.mark.skipif(
    not (shutil.which("btt") and shutil.which("blkparse")), reason="btt is not installed: blktrace"
)
# On each of two disks two reads; btt wants whole microseconds to print them exactly.
TWO_DISKS = "\n".join(
    f"{time_us * 1000} {action} R {sector}+8 dev={disk}"
    for time_us, action, sector, disk in (
        (1000, "Q", 1000, "8,0"),
        (1100, "Q", 1000, "8,16"),
        (1110, "D", 1000, "8,0"),
        (1130, "D", 1000, "8,16"),
        (2000, "C", 1000, "8,0"),
        (2100, "C", 1000, "8,16"),
        (3000, "Q", 2000, "8,0"),
        (3030, "D", 2000, "8,0"),
        (3500, "Q", 2000, "8,16"),
        (3530, "D", 2000, "8,16"),
        (4000, "C", 2000, "8,0"),
        (4600, "C", 2000, "8,16"),
    )
)


def real_btt(folder: Path, name: str) -> dict[str, list[int]]:
    """Return N, and min, avg and max in nanoseconds, of each line of btt's first table."""
    merge = ["blkparse", "-i", name, "-d", "merged", "-O", "-q"]
    subprocess.run(merge, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(
        ["btt", "-i", "merged"], cwd=folder, check=True, capture_output=True, text=True
    )
    table = done.stdout.partition("Device Overhead")[0]
    return {
        step.lower(): [int(count), *(int(text.replace(".", "")) for text in times)]
        for step, *times, count in LINE.findall(table)
    }


@BTT_IS_HERE
def test_table_is_that_of_btt(tmp_path: Path) -> None:
    # GIVEN what btt says of the sample capture
    for file in SAMPLE.glob("*.xz"):
        (tmp_path / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
    expected = real_btt(tmp_path, "oltp")
    assert set(expected) == {"q2q", "q2g", "g2i", "q2m", "i2d", "m2d", "d2c", "q2c"}
    # WHEN the capture is parsed by us and analysed
    folder, _tally = parse([SAMPLE], tmp_path / "trace")
    with query.connect(folder) as connection:
        rows = query.run(connection, "latency/btt").to_pylist()
    # THEN number, least and most agree to the nanosecond, and the mean as far as btt prints it
    assert [row["step"] for row in rows] == ["q2q", "q2g", "g2i", "q2m", "i2d", "m2d", "d2c", "q2c"]
    for row in rows:
        count, least, mean, most = expected[row["step"]]
        found = (row["request_count"], row["latency_min_ns"], row["latency_max_ns"])
        assert found == (count, least, most), row["step"]
        assert abs(row["latency_avg_ns"] - mean) <= 1, row["step"]


@BTT_IS_HERE
def test_q2q_is_over_all_devices(tmp_path: Path) -> None:
    # GIVEN what btt says of reads on two disks that take turns
    capture = tmp_path / "two.blktrace.0"
    capture.write_bytes(pack(TWO_DISKS))
    assert real_btt(tmp_path, "two")["q2q"] == [3, 100_000, 833_333, 1_900_000]
    # WHEN we analyse them
    folder, _tally = parse([capture], tmp_path / "trace")
    with query.connect(folder) as connection:
        (q2q, *_) = query.run(connection, "latency/btt").to_pylist()
    # THEN the gaps between the disks count as well
    found = (q2q["step"], q2q["request_count"], q2q["latency_min_ns"], q2q["latency_max_ns"])
    assert found == ("q2q", 3, 100_000, 1_900_000)

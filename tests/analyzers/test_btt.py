"""The table `btt` is what btt itself prints of the sample capture."""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.analyzers.folder import FIXTURES
from tracekit import query
from tracekit.parse import parse

SAMPLE = FIXTURES.parents[1] / "sample-traces" / "oltp"
LINE = re.compile(r"^(\w2\w)\s+(\d+\.\d{9})\s+(\d+\.\d{9})\s+(\d+\.\d{9})\s+(\d+)$", re.MULTILINE)


def real_btt(folder: Path) -> dict[str, list[int]]:
    """Return N, and min, avg and max in nanoseconds, of each line of btt's first table."""
    for file in SAMPLE.glob("*.xz"):
        (folder / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
    merge = ["blkparse", "-i", "oltp", "-d", "merged", "-O", "-q"]
    subprocess.run(merge, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(
        ["btt", "-i", "merged"], cwd=folder, check=True, capture_output=True, text=True
    )
    table = done.stdout.partition("Device Overhead")[0]
    return {
        step.lower(): [int(count), *(int(text.replace(".", "")) for text in times)]
        for step, *times, count in LINE.findall(table)
    }


@pytest.mark.skipif(
    not (shutil.which("btt") and shutil.which("blkparse")), reason="btt is not installed: blktrace"
)
def test_table_is_that_of_btt(tmp_path: Path) -> None:
    # GIVEN what btt says of the sample capture
    expected = real_btt(tmp_path)
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

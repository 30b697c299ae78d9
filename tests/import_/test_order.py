"""Traces whose requests are far from the order of time: read once more, and put in order."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tracekit.errors import InputError
from tracekit.readers import blocks
from tracekit.readers.importing import import_trace
from tracekit.store import TraceFolder

SMALL = (
    "from tracekit.readers import blocks; blocks.CHUNK_BYTES = 4096;"
    "from tracekit.cli import main; main()"
)
TICK = 128166372003061629  # in filetime, of 100 ns
COUNT = 6000


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "CHUNK_BYTES", 4096)


def lines() -> list[tuple[int, int, int, str]]:
    """Return time, volume, response and the line of requests in order; some share their time."""
    choose = random.Random(7)  # noqa: S311 - test data
    found = []
    for number in range(COUNT):
        time, volume, response = number // 3 * 1000, choose.randrange(3), choose.randrange(1, 9000)
        place = choose.randrange(1 << 20) * 512
        text = f"{TICK + time},src1,{volume},Read,{place},4096,{response}"
        found.append((time, volume, response, text))
    return found


def columns(folder: TraceFolder) -> dict[str, list[Any]]:
    table = pq.read_table(folder.path / "requests.parquet")
    return {name: table[name].to_pylist() for name in table.schema.names}


def warned(folder: TraceFolder) -> dict[str, str]:
    return {one["code"]: one["message"] for one in folder.content["warnings"]}


def test_any_disorder_is_put_in_order(tmp_path: Path) -> None:
    # GIVEN a trace, and its lines shuffled
    whole = lines()
    shuffled = random.Random(1).sample(whole, len(whole))  # noqa: S311 - test data
    for name, rows in (("whole", whole), ("shuffled", shuffled)):
        (tmp_path / f"{name}.csv").write_text("".join(f"{row[3]}\n" for row in rows))
    # WHEN the latter is imported
    found = import_trace(tmp_path / "shuffled.csv", tmp_path / "found")
    # THEN requests are in order of time, those of one time as they stood in the file
    expected = sorted(shuffled, key=lambda row: row[0])
    got = columns(found)
    assert got["request_id"] == list(range(COUNT))
    assert got["queue_ns"] == [time * 100 for time, *_ in expected]
    assert got["complete_ns"] == [(time + response) * 100 for time, _, response, _ in expected]
    assert got["device"] == [f"src1,{volume}" for _, volume, _, _ in expected]
    # AND the queue depths are those of requests that came in order
    depths = [
        sum(
            other[1] == row[1] and other[0] <= row[0] < other[0] + other[2]
            for other in expected[max(0, at - 90) : at]
        )
        + 1
        for at, row in enumerate(expected)
    ]
    assert got["depth"] == depths
    # AND it is told how many stood behind a later one, and nothing else lies in the folder
    latest, behind = 0, 0
    for row in shuffled:
        behind, latest = behind + (row[0] < latest), max(latest, row[0])
    assert warned(found)["reordered_records"] == f"{behind:,} requests stood behind a later one"
    assert sorted(os.listdir(found.path)) == ["requests.parquet", "trace.json"]
    # AND the file's digest is that of the file, read twice as it was
    assert found.content["counts"]["requests"] == COUNT
    assert (
        found.content["source"]["files"][0]["bytes"] == (tmp_path / "shuffled.csv").stat().st_size
    )


def test_volumes_one_after_the_other_become_one_trace(tmp_path: Path) -> None:
    # GIVEN the trace with one volume after the other, compressed
    import gzip

    whole = lines()
    text = "".join(f"{row[3]}\n" for row in sorted(whole, key=lambda row: row[1]))
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress(text.encode()))
    got = columns(import_trace(tmp_path / "trace.csv.gz", tmp_path / "found"))
    assert got["queue_ns"] == [time * 100 for time, *_ in whole]


def test_a_file_on_standard_input_can_be_read_twice(tmp_path: Path) -> None:
    # GIVEN a trace in no order, plain and compressed, behind a first line that was read already
    import gzip

    text = "".join(f"{row[3]}\n" for row in reversed(lines())).encode()
    title = b"a title of my own\n"
    for name, data in (("plain", title + text), ("packed", title + gzip.compress(text))):
        (tmp_path / name).write_bytes(data)
        command = [sys.executable, "-c", SMALL, "import", "-", "-o", str(tmp_path / f"{name}-out")]
        # WHEN it is imported from standard input
        with (tmp_path / name).open("rb") as file:
            os.lseek(file.fileno(), len(title), os.SEEK_SET)
            subprocess.run(command, stdin=file, capture_output=True, check=True)
        # THEN all requests are there in order, and the digest is of what was read
        folder = TraceFolder(tmp_path / f"{name}-out")
        assert columns(folder)["queue_ns"] == [time * 100 for time, *_ in lines()]
        stored = folder.content["source"]["files"][0]
        assert stored["bytes"] == len(data) - len(title)
        assert stored["sha256"] == hashlib.sha256(data[len(title) :]).hexdigest()


def test_a_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "".join(f"{row[3]}\n" for row in reversed(lines()))
    writer = threading.Thread(target=lambda: _write(pipe, text))
    writer.start()
    with pytest.raises(InputError, match=f"^{pipe}: time runs backwards by") as caught:
        import_trace(pipe, tmp_path / "found")
    writer.join()
    assert "give the trace as a file" in caught.value.hint
    assert not (tmp_path / "found").exists()


def _write(pipe: Path, text: str) -> None:
    try:
        pipe.write_text(text)
    except BrokenPipeError:
        return

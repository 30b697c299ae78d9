"""Traces whose requests are far from the order of time: read once more, and put in order."""

import gzip
import hashlib
import os
import random
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests import parsed as traces
from tests.import_.importer import Importer
from tracekit.readers import reading
from tracekit.store import TraceFolder

SMALL = (
    "from tracekit.readers import reading; reading.CHUNK_BYTES = 4096;"
    "from tracekit.cli import main; main()"
)
TICK = 128166372003061629  # in filetime, of 100 ns
COUNT = 6000
Line = tuple[int, int, int, str]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 4096)


@pytest.fixture(scope="module")
def whole() -> list[Line]:
    """Return time, volume, response and the line of requests in order; some share their time."""
    choose = random.Random(7)  # noqa: S311 - test data
    found = []
    for number in range(COUNT):
        time, volume, response = number // 3 * 1000, choose.randrange(3), choose.randrange(1, 9000)
        place = choose.randrange(1 << 20) * 512
        text = f"{TICK + time},src1,{volume},Read,{place},4096,{response}\n"
        found.append((time, volume, response, text))
    return found


def text_of(lines: list[Line]) -> str:
    return "".join(line[3] for line in lines)


def times_of(folder: TraceFolder) -> list[int | None]:
    return [row[0] for row in traces.rows(folder)]


def test_any_disorder_is_put_in_order(read: Importer, whole: list[Line]) -> None:
    # GIVEN a trace whose lines are shuffled
    shuffled = random.Random(1).sample(whole, COUNT)  # noqa: S311 - test data
    # WHEN it is imported
    found = read(text_of(shuffled))
    # THEN requests are in order of time, those of one time as they stood in the file
    expected = sorted(shuffled, key=lambda line: line[0])
    got = traces.requests(found).to_pydict()
    assert got["request_id"] == list(range(COUNT))
    assert got["queue_ns"] == [time * 100 for time, *_ in expected]
    assert got["complete_ns"] == [(time + response) * 100 for time, _, response, _ in expected]
    assert got["device"] == [f"src1,{volume}" for _, volume, _, _ in expected]
    # AND the queue depths are those of requests that came in order
    depths = [
        sum(
            other[1] == line[1] and other[0] <= line[0] < other[0] + other[2]
            for other in expected[max(0, at - 90) : at]
        )
        + 1
        for at, line in enumerate(expected)
    ]
    assert got["depth"] == depths
    # AND the number of those behind a later one is reported, and nothing else lies in the folder
    latest, behind = 0, list[int]()
    for number, line in enumerate(shuffled, start=1):
        behind += [number] if line[0] < latest else []
        latest = max(latest, line[0])
    message = f"{len(behind):,} requests stood behind a later one, the first of them: line "
    assert traces.warnings(found)["reordered_records"].startswith(f"{message}{behind[0]}: ")
    assert sorted(os.listdir(found.path)) == ["requests.parquet", "trace.json"]
    # AND the file's size is that of the file, read twice as it was
    assert found.content["counts"]["requests"] == COUNT
    assert found.content["source"]["files"][0]["bytes"] == read.source.stat().st_size


def test_volumes_one_after_the_other_become_one_trace(read: Importer, whole: list[Line]) -> None:
    # GIVEN the trace with one volume after the other, compressed
    text = text_of(sorted(whole, key=lambda line: line[1]))
    found = read(gzip.compress(text.encode()))
    assert times_of(found) == [time * 100 for time, *_ in whole]


@pytest.mark.parametrize("squeeze", [bytes, gzip.compress], ids=["plain", "packed"])
def test_a_file_on_standard_input_can_be_read_twice(
    tmp_path: Path, whole: list[Line], squeeze: type[bytes]
) -> None:
    # GIVEN a trace in no order behind a first line that was read already
    title, data = b"a title of my own\n", squeeze(text_of(whole[::-1]).encode())
    (tmp_path / "x").write_bytes(title + data)
    command = [sys.executable, "-c", SMALL, "import", "-", "-o", str(tmp_path / "out")]
    # WHEN it is imported from standard input
    with (tmp_path / "x").open("rb") as file:
        os.lseek(file.fileno(), len(title), os.SEEK_SET)
        subprocess.run(command, stdin=file, capture_output=True, check=True)
    # THEN all requests are there in order, and the digest is of what was read
    folder = TraceFolder(tmp_path / "out")
    assert times_of(folder) == [time * 100 for time, *_ in whole]
    stored = folder.content["source"]["files"][0]
    assert stored["bytes"] == len(data)
    assert stored["sha256"] == hashlib.sha256(data).hexdigest()


def test_a_pipe_cannot_be_read_twice(read: Importer, whole: list[Line]) -> None:
    os.mkfifo(read.source)

    def write() -> None:
        with suppress(BrokenPipeError):
            read.source.write_text(text_of(whole[::-1]))

    writer = threading.Thread(target=write)
    writer.start()
    message = f"^{read.source}: time runs backwards by"
    read.rejects(read.source, message, hint="give the trace as a file")
    writer.join()

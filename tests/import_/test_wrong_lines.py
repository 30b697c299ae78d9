"""Wrong lines wherever they stand, and numbers out of range: each is counted and shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.import_.test_import import rows, stored
from tracekit.errors import InputError
from tracekit.readers import blocks
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions
from tracekit.store import TraceFolder

REGEX = r"^at (?P<time>[0-9.]+): +(?P<op>\w+) (?P<length>[0-9]+)@(?P<offset>[0-9]+)$"
TICK = 128166372003061629


def msr(number: int, *, time: int = 0, place: int = 0, word: str = "Read", more: int = 30) -> str:
    when, where = time or TICK + 1000 * number, place or 4096 * number
    return f"{when},src1,0,{word},{where},4096,{more}"


def bad(folder: TraceFolder) -> list[tuple[int, str]]:
    counts = folder.content["counts"]
    assert counts["bad_lines"] == len(counts["bad_examples"])
    return [(one["line"], one["text"]) for one in counts["bad_examples"]]


def test_wrong_lines_before_the_first_good_one(tmp_path: Path) -> None:
    # GIVEN a header, a line whose begin is missing, and one of an unknown word, before good ones
    before = ["Timestamp,Hostname,Disk,Type,Offset,Size,Response", "61,0,Read,0,4096,30\r"]
    before += ["# 2 disks", msr(1, word="Raed")]
    text = "\n".join([*before, *map(msr, range(400))])
    # WHEN it is imported THEN both are wrong lines, and the header and the comment are none
    folder = import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    assert bad(folder) == [(2, before[1].strip()), (4, before[3])]
    assert folder.content["counts"]["preamble_lines"] == 2
    assert folder.content["counts"]["requests"] == 400
    # AND many of them stop the import
    text = "\n".join([*(msr(n, word="Raed") for n in range(20)), *map(msr, range(400))])
    with pytest.raises(InputError, match="20 of 420 lines are wrong\n  line 1: 128166"):
        import_trace(stored(tmp_path / "y", text), tmp_path / "none")


def test_what_stands_before_the_first_request_is_told(tmp_path: Path) -> None:
    stored(tmp_path / "x", "at the begin\n" + "at 5: read 8@16\n")
    command = [sys.executable, "-m", "tracekit", "import", "x", "--regex", REGEX, "-o", "out"]
    command += ["--unit", "offset=sectors"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "  1 lines before the first request passed over\n" in done.stdout


@pytest.mark.parametrize(
    "line",
    [
        msr(500, place=(1 << 62) - 1 + 1),
        msr(500, time=(1 << 63) - 1),
        msr(500, more=(1 << 62) // 200 + 1),
    ],
)
def test_a_number_out_of_range_is_a_wrong_line(tmp_path: Path, line: str) -> None:
    text = "\n".join([*map(msr, range(500)), line, *map(msr, range(501, 999))])
    folder = import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    assert bad(folder) == [(501, line)]
    assert folder.content["counts"]["requests"] == 998


def at(number: int, *, word: str = "read", place: str = "", time: str = "") -> str:
    return f"at {time or number}: {word} 8@{place or 16 * number}"


@pytest.mark.parametrize(
    "line",
    [
        at(300, word="frob"),
        at(300, place="9" * 20),
        at(300, place=str(1 << 62)),
        at(300, time="3.0.0"),
        at(300, time="9" * 15),
        "what is this",
    ],
)
def test_one_wrong_line_of_a_pattern_costs_no_other(
    tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a text in several blocks, of which one has a line that matches and has no good value
    monkeypatch.setattr(blocks, "CHUNK_BYTES", 4096)
    lines = [*map(at, range(300)), line, *map(at, range(301, 600))]
    units = ("time=ms", "offset=sectors", "length=sectors")
    choice = ImportOptions(regex=REGEX, units=units)
    # WHEN it is imported THEN only that line is missing
    folder = import_trace(
        stored(tmp_path / "x", "\n".join(lines)), tmp_path / "out", options=choice
    )
    assert bad(folder) == [(301, line)]
    expected = [number for number in range(600) if number != 300]
    assert [row[3] for row in rows(folder.path)] == [16 * number for number in expected]


def test_groups_that_take_no_part(tmp_path: Path) -> None:
    regex = REGEX.removesuffix("$") + r"(?: by (?P<process>\S+))?(?: \((?P<pid>\d+)\))?"
    text = "at 1: read 8@16 by dd (12)\nat 2.0000000001999: w 8@16\nat 3: w 8@16 by x\n"
    choice = ImportOptions(regex=regex, units=("offset=sectors",))
    folder = import_trace(stored(tmp_path / "x", text), tmp_path / "out", options=choice)
    import pyarrow.parquet as pq

    found = pq.read_table(folder.table("requests"), columns=["queue_ns", "process", "pid"])
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (0, "dd", 12),
        (1_000_000_000, "?", 0),
        (2_000_000_000, "x", 0),
    ]


def test_a_head_of_many_wrong_lines_is_known_and_told(tmp_path: Path) -> None:
    # GIVEN a text of which a third of the first lines is wrong
    text = "\n".join(msr(n, word="Read" if n % 3 else "?") for n in range(1, 31))
    with pytest.raises(InputError, match="10 of 30 lines are wrong\n  line 3: 1281663720"):
        import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    # AND one of which most are wrong is of no format
    text = "\n".join(msr(n, word="?" if n % 3 else "Read") for n in range(1, 31))
    with pytest.raises(InputError, match="of no known format"):
        import_trace(stored(tmp_path / "x", text), tmp_path / "out")


def test_a_message_of_the_decoder_names_the_file(tmp_path: Path) -> None:
    text = "fio version 2 iolog\na add\na wait 20 0\na read 0 512\na wait 10 0\na read 0 512\n"
    with pytest.raises(InputError, match=f"^{tmp_path}/x: the waits run backwards"):
        import_trace(stored(tmp_path / "x", text), tmp_path / "out")


def test_filetimes_of_ones_own(tmp_path: Path) -> None:
    # GIVEN the columns of a text whose times count from 1601
    text = "\n".join(f"{TICK + 10 * n};R;{8 * n};8" for n in range(9))
    choice = ImportOptions(
        columns="time,op,offset,length",
        delimiter=";",
        units=("time=filetime", "offset=sectors", "length=sectors"),
    )
    info = import_trace(stored(tmp_path / "x", text), tmp_path / "out", options=choice).content
    # THEN they are a date: 2007-02-22 16:20:00.306 UTC
    assert json.dumps(info["clock"]) == json.dumps(
        {"base_ns": 1172163600306162900, "wall_ns": 1172163600306162900, "duration_ns": 8000}
    )

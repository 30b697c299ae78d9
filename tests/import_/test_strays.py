"""Single lines whose numbers lie far from all others: left out, doubted or named."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.import_.test_import import rows, stored
from tracekit.errors import InputError
from tracekit.readers import blocks
from tracekit.readers.importing import import_trace
from tracekit.readers.units import SAMPLED, ImportOptions, Sample

START_US = 1_577_808_144_360_767
COUNT = 400
AT = 250
"""The line that is another one in most tests, from 0."""


def alibaba(number: int, *, time: int | None = None, place: int = 0, length: int = 4096) -> str:
    moment = START_US + 1000 * number if time is None else time
    return f"419,W,{place or 8192 * number},{length},{moment}"


def fiu(number: int, *, time: int | None = None, place: int = 0, length: int = 8) -> str:
    moment = 89_966_104_000_000 + 1_000_000 * number if time is None else time
    return f"{moment} 48 syslogd {place or 16 * number} {length} W 6 0 531e"


def with_one(lines: list[str], line: str) -> str:
    return "\n".join([*lines[:AT], line, *lines[AT + 1 :]]) + "\n"


STRAYS = [
    ("alibaba", alibaba(AT, time=0)),
    ("alibaba", alibaba(AT, time=START_US // 1_000_000)),
    ("alibaba", alibaba(AT, time=10**18)),
    ("alibaba", alibaba(AT, time=2 * START_US)),
    ("alibaba", alibaba(AT, length=10**12)),
    ("alibaba", alibaba(AT, place=4 * 10**18)),
    ("fiu", fiu(AT, time=10**18)),
    ("fiu", fiu(AT, length=4_000_000)),
    ("fiu", fiu(AT, place=4 * 10**15)),
]


@pytest.mark.parametrize(("name", "line"), STRAYS)
@pytest.mark.parametrize("block_bytes", [4096, blocks.CHUNK_BYTES])
def test_a_stray_is_a_wrong_line(
    tmp_path: Path, name: str, line: str, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a trace of one block or several, one line of which has a number that no unit explains
    monkeypatch.setattr(blocks, "CHUNK_BYTES", block_bytes)
    good = [(alibaba if name == "alibaba" else fiu)(number) for number in range(COUNT)]
    source = stored(tmp_path / "x", with_one(good, line))
    # WHEN it is imported
    made = import_trace(source, tmp_path / "out")
    # THEN it is left out, counted and shown as any wrong line, and the others are all there
    assert made.content["source"]["format"] == name
    assert made.content["counts"]["bad_examples"] == [{"line": AT + 1, "text": line}]
    expected = [16 * number for number in range(COUNT) if number != AT]
    assert [row[3] for row in rows(made.path)] == expected
    # AND with a limit that it exceeds, the import stops with its number and text
    with pytest.raises(InputError, match=f"line {AT + 1}: {line}"):
        import_trace(source, tmp_path / "none", options=ImportOptions(most_bad_ratio=0.001))
    assert not (tmp_path / "none").exists()


def test_what_was_left_out_is_told_where_it_lies(tmp_path: Path) -> None:
    text = with_one([alibaba(n) for n in range(COUNT)], alibaba(AT, time=0))
    made = import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    # The lines are those of 1990 to 2100 at most, in us, and a thousand spans around the others.
    told = [one for one in made.content["inferences"] if one["what"] == "strays"]
    assert [one["value"] for one in told] == ["1 wrong lines"]
    bounds = [int(word) for word in told[0]["evidence"].split() if word.isdigit()]
    assert bounds[0] < START_US - 300 * 1_000_000
    assert bounds[0] >= 631_152_000_000_000


def test_many_strays_stop_and_are_named(tmp_path: Path) -> None:
    # GIVEN a tenth of the lines without a time, which is more than may be wrong
    text = "\n".join(alibaba(n, time=None if n % 10 else 0) for n in range(COUNT))
    with pytest.raises(InputError, match="the first time is 0 s after 1970") as refused:
        import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    assert f"line 1: {alibaba(0, time=0)}" in str(refused.value)


def test_a_number_that_another_unit_explains_is_no_stray(tmp_path: Path) -> None:
    # GIVEN lengths in bytes that are taken for sectors, one of them 4 MiB long
    sizes = [4 << 20 if n == AT else 4096 for n in range(COUNT)]
    text = "\n".join(f"{n},R,{40960 * n},{size}" for n, size in enumerate(sizes))
    choice = ImportOptions(columns="time,op,offset,length", units=("length=sectors",))
    # WHEN it is imported THEN that line is named and the unit is asked for: nothing is left out
    with pytest.raises(InputError, match="longer than 1 GiB: another unit") as refused:
        import_trace(stored(tmp_path / "x", text), tmp_path / "out", options=choice)
    assert f"line {AT + 1}: {AT},R,{40960 * AT},{4 << 20}" in str(refused.value)


def test_a_far_time_that_can_be_is_kept_and_doubted(tmp_path: Path) -> None:
    # GIVEN ns since the machine's start, a day, and one request at its very start
    text = with_one([fiu(number) for number in range(COUNT)], fiu(AT, time=0))
    made = import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    assert len(rows(made.path)) == COUNT
    doubts = [one["message"] for one in made.content["warnings"] if one["code"] == "lone_times"]
    assert f"line {AT + 1}: {fiu(AT, time=0)}" in doubts[0]
    # AND a trace with a pause in it, or of ever rarer requests, is not doubted
    for times in (
        [n + 5000 * (n > AT) for n in range(COUNT)],
        [n**4 // 1000 for n in range(COUNT)],
    ):
        text = "\n".join(fiu(n, time=10**13 + 10**6 * time) for n, time in enumerate(times))
        made = import_trace(stored(tmp_path / "y", text), tmp_path / "out", options=OVER)
        assert "lone_times" not in [one["code"] for one in made.content["warnings"]]


OVER = ImportOptions(overwrite=True)


def test_a_stray_of_a_pipe_is_named(tmp_path: Path) -> None:
    text = with_one([alibaba(number) for number in range(COUNT)], alibaba(AT, time=0))
    command = [sys.executable, "-m", "tracekit", "import", "-", "-o", str(tmp_path / "out")]
    done = subprocess.run(
        command, input=text.encode(), capture_output=True, check=False, env=os.environ
    )
    assert done.returncode == 1
    assert f"line {AT + 1}: {alibaba(AT, time=0)}" in done.stderr.decode()
    assert "as a file" in done.stderr.decode()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("sector", "time", "length", "told"),
    [
        (8, 0, 4096, "a time of 0 is too small"),
        (8, (1 << 63) + 5, 4096, "a time of 9223372036854775813 is too large"),
        (1 << 63, 10**15, 4096, "a place of 9223372036854775808 is too large"),
        (8, 10**15, (1 << 32) - 1, "a length of 4294967295 is too large"),
    ],
)
def test_strays_of_records(tmp_path: Path, sector: int, time: int, length: int, told: str) -> None:
    # GIVEN records of vscsi, us, of which the last one lies apart
    packed = [(n, 4096, 1, 0x28, 0x100, 8 * n, 10**15 + n) for n in range(COUNT)]
    packed.append((COUNT, length, 1, 0x28, 0x100, sector, time))
    data = b"".join(struct.pack("<IIIHHQQ", *record) for record in packed)
    made = import_trace(stored(tmp_path / "x", data), tmp_path / "out")
    assert len(rows(made.path)) == COUNT
    examples = made.content["counts"]["bad_examples"]
    assert examples == [{"line": 0, "text": f"record {COUNT + 1}: {told}"}]


def test_one_object_that_is_no_place_is_a_wrong_record(tmp_path: Path) -> None:
    records = [(n, 8 * n, 512, -1) for n in range(COUNT)] + [(COUNT, 1 << 63, 512, -1)]
    data = b"".join(struct.pack("<IQIq", *record) for record in records)
    made = import_trace(stored(tmp_path / "x", data), tmp_path / "out")
    assert (len(rows(made.path)), made.content["counts"]["bad_lines"]) == (COUNT, 1)
    # AND a trace of such objects is none of blocks
    data = b"".join(struct.pack("<IQIq", n, (1 << 63) + 8 * n, 512, -1) for n in range(COUNT))
    with pytest.raises(InputError, match="the objects are hashes or keys"):
        import_trace(stored(tmp_path / "y", data), tmp_path / "none")


def test_wrong_and_empty_lines_do_not_shift_the_numbers(tmp_path: Path) -> None:
    # GIVEN blank and wrong lines before the stray, and a log whose waits stand on their own lines
    good = [alibaba(number) for number in range(COUNT)]
    text = "\n".join([*good[:9], "", "what", "  ", *good[9:30], alibaba(9, time=0), *good[30:]])
    made = import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    examples = [(one["line"], one["text"]) for one in made.content["counts"]["bad_examples"]]
    assert examples == [(11, "what"), (34, alibaba(9, time=0))]
    log = [f"f wait {n} 0\nf read {4096 * n} 4096\n" for n in range(COUNT)]
    log.append(f"f wait {10**12} 0\nf read 0 4096\n")
    source = stored(tmp_path / "y", "fio version 2 iolog\nf add\nf open\n" + "".join(log))
    made = import_trace(source, tmp_path / "log")
    examples = [(one["line"], one["text"]) for one in made.content["counts"]["bad_examples"]]
    assert examples == [(3 + 2 * COUNT + 2, "f read 0 4096")]


@pytest.mark.parametrize("block", [7, 1000, 1 << 17])
def test_a_sample_is_even(block: int) -> None:
    # GIVEN the numbers 0, 1, ... in blocks, and their quantiles by hand
    sample, values = Sample(), np.arange(10 * SAMPLED)
    for first in range(0, len(values), block):
        sample.add(values[first : first + block])
    low, high = sample.middle()
    assert low == pytest.approx(0.05 * len(values), rel=0.02)
    assert high == pytest.approx(0.95 * len(values), rel=0.02)


def test_strays_of_a_disordered_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN requests in any order over many blocks, and a stray
    monkeypatch.setattr(blocks, "CHUNK_BYTES", 4096)
    chance = random.Random(3)  # noqa: S311 - a fixed sequence, no secret
    good = [alibaba(number) for number in range(COUNT)]
    text = with_one(good, alibaba(AT, time=0)).splitlines()
    chance.shuffle(text)
    made = import_trace(stored(tmp_path / "x", "\n".join(text)), tmp_path / "out")
    expected = [16 * number for number in range(COUNT) if number != AT]
    assert [row[3] for row in rows(made.path)] == expected
    assert made.content["counts"]["bad_lines"] == 1

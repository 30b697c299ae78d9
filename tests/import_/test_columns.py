"""The native reader of columns against Python: which lines are good, and what they say."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from tests.import_.test_import import TEXTS
from tracekit._native.columns import ColumnReader, Kind
from tracekit.readers.formats import FORMATS
from tracekit.readers.importing import import_trace
from tracekit.readers.text import DECIMALS, BadLines, TextFormat, user_format
from tracekit.readers.units import ImportOptions

CHANCE = random.Random(3)  # noqa: S311 - a fixed sequence, no secret
SPOILS = "0129.-+ \t,;xRW\0\x7f\xe9"
# Passed over without a look, or cut at any number of blanks, where the expression is strict.
LAX = ("arc", "fiu", "blkreplay", "fio2", "fio3")


def mutated(line: str) -> str:
    """Return the line with a few characters changed, added or taken away."""
    letters = list(line)
    for _ in range(CHANCE.choice((0, 1, 1, 2, 3))):
        place = CHANCE.randrange(len(letters) + 1)
        letters[place : place + CHANCE.choice((0, 1))] = CHANCE.choice((*SPOILS, ""))
    return "".join(letters)


def comma_formats() -> list[str]:
    names = [name for name, known in FORMATS.items() if type(known) is TextFormat]
    return [name for name in names if name in TEXTS and name not in LAX]


@pytest.mark.parametrize("name", comma_formats())
def test_good_lines_are_those_of_the_expression(name: str) -> None:
    # GIVEN the format's lines, and many that were made of them by small changes
    form = FORMATS[name]
    assert isinstance(form, TextFormat)
    good = re.compile(form.line())
    lines = [line for line in TEXTS[name][0].splitlines() if good.match(line)]
    tried = [mutated(CHANCE.choice(lines)) for _ in range(3000)]
    # WHEN they are read
    told = BadLines()
    columns = form.decode("".join(f"{line}\n" for line in tried).encode(), told)
    # THEN the good ones are those that match, but for numbers beyond 64 bits, and blanks that are
    # delimiters may be many
    expected = [line for line in tried if line.strip(" \t\r") and good.match(line)]
    expected = [line for line in expected if fits(line, form)]
    assert columns is not None
    if form.delimiter == " ":
        assert columns.rows >= len(expected) > 100
    else:
        assert columns.rows == len(expected) > 100
        assert told.bad == sum(bool(line.strip(" \t\r")) for line in tried) - len(expected)
        numbers = {key: values.tolist() for key, values in columns.numbers.items()}
        for row, line in enumerate(expected):
            words = dict(zip(form.columns, words_of(line, form), strict=False))
            for key, values in numbers.items():
                assert values[row] == exact(words[key], form, key), (line, key)
    assert told.lines == len(tried)


def words_of(line: str, form: TextFormat) -> list[str]:
    return line.split() if form.delimiter == " " else line.split(form.delimiter)


def fits(line: str, form: TextFormat) -> bool:
    """Say whether the line's numbers are within the limits, which are written out below."""
    words = zip(form.columns, words_of(line, form), strict=False)
    numbers = ((word, key) for key, word in words if form.columns[key] in ("int", *DECIMALS))
    return all(exact(word, form, key) <= form.largest(key) for word, key in numbers)


def test_the_largest_numbers_by_hand() -> None:
    # GIVEN times of 100 ns since 1601, places and lengths in bytes, and responses of 100 ns
    msr, spc, own = (
        FORMATS["msr"],
        FORMATS["spc"],
        user_format("time,op,offset,length,pid", ",", units=()),
    )
    assert isinstance(msr, TextFormat)
    assert isinstance(spc, TextFormat)
    # THEN two of them in ns or bytes have a 64-bit sum, and three of times
    half = (1 << 62) - 1
    expected = {"offset": half, "length": half, "response": half // 200, "device": 0}
    assert {name: msr.largest(name) for name in expected} == expected
    assert msr.largest("time") == 116_444_736_000_000_000 + half // 100
    # AND decimals are ns already, places sectors, and a pid a 32-bit number
    assert (spc.largest("time"), spc.largest("offset")) == (half, half // 512)
    assert (own.largest("pid"), own.largest("op")) == ((1 << 31) - 1, 0)


def exact(word: str, form: TextFormat, name: str) -> int:
    if not word.strip():
        return -1
    if form.columns[name] not in DECIMALS:
        return int(word, 16 if "x" in word.lower() else 10)
    unit = form.units.response if name == "response" else form.units.time
    return int(Decimal(word.strip()) * {"s": 10**9, "ms": 10**6, "filetime": 1}[unit or "s"])


def test_each_kind_by_hand() -> None:
    kinds = [Kind.INTEGER, Kind.DECIMAL, Kind.POINT, Kind.MAYBE, Kind.CHOICE, Kind.DIGITS]
    reader = ColumnReader(
        [*((kind, 3) for kind in kinds), (Kind.PASSED, 0), (Kind.WORD, 0)],
        ",",
        choices=["read", "r"],
    )
    found = reader.read(
        b" 7 ,1.2345, 0.5,,R , 01,x y, a b \r\n"
        b"\n"
        b"7,1,1,,r,1,,a\n"  # a point is missing
        b"7,1,1.,2,read,1,,a\n"
        b"7,1,1.,2,read,1,,\n"  # an empty word
        b"7,9223372036854775.807,1.,2,read,1,,a\n"
        b"7,9223372036854775.808,1.,2,read,1,,a\n"  # beyond 64 bits
        b"7,1,1.,2,reads,1,,a\n"
        b"7,1,1.,2,read,x,,a\n"
        b"7,1,1.,2,read,1,,a,b\n"
    )
    assert (found.rows, found.lines) == (3, 10)
    assert [number for number, _ in found.wrong] == [2, 4, 6, 7, 8, 9]
    assert found.wrong[0][1] == b"7,1,1,,r,1,,a"
    values = [column.tolist() for column in found.values]
    assert values[:5] == [
        [7, 7, 7],
        [1234, 1000, 9223372036854775807],
        [500, 1000, 1000],
        [-1, 2000, 2000],
        [1, 0, 0],
    ]
    assert reader.words(5).to_pylist() == [" 01", "1"]
    assert reader.words(7).to_pylist() == [" a b ", "a"]


def test_microseconds_since_1970_in_a_text_of_ones_own(tmp_path: Path) -> None:
    # GIVEN times that are no 64-bit number in billionths
    (tmp_path / "t.csv").write_text(
        "1577808144360767,r,8,1\n1577808144360768.25,w,16,1\n1577808144460768,w,16,1\n"
    )
    choice = ImportOptions(
        columns="time,op,offset,length",
        units=("time=us", "offset=sectors", "length=sectors"),
    )
    # WHEN they are imported THEN they count in nanoseconds
    import pyarrow.parquet as pq

    made = import_trace(tmp_path / "t.csv", tmp_path / "made", options=choice)
    times = pq.read_table(made.table("requests"))["queue_ns"].to_pylist()
    assert times == [0, 1250, 100_001_000]


def test_whole_seconds_taken_for_milliseconds_are_doubted(tmp_path: Path) -> None:
    # GIVEN a trace that counts whole seconds, with requests in each
    lines = [f"{second},r,{place * 8},8\n" for second in range(200) for place in range(15)]
    (tmp_path / "t.csv").write_text("".join(lines))
    units = ("offset=sectors", "length=sectors")
    doubts = {}
    for unit in ("ms", "s"):
        choice = ImportOptions(columns="time,op,offset,length", units=(f"time={unit}", *units))
        made = import_trace(tmp_path / "t.csv", tmp_path / unit, options=choice)
        doubts[unit] = [
            found["message"]
            for found in made.content["warnings"]
            if found["code"] == "doubtful_units"
        ]
    # WHEN it is imported as ms THEN the trace says so
    assert doubts["s"] == []
    assert doubts["ms"][0].startswith("200 different times fill every ms of the trace, with 15.0")


def test_an_import_does_not_load_pandas(tmp_path: Path) -> None:
    # GIVEN Arrow's own conversions, which would load it, most of a short run
    (tmp_path / "t.csv").write_text(TEXTS["alibaba"][0])
    code = (
        "import sys; from pathlib import Path; from tracekit.readers.importing import import_trace;"
        "import_trace(Path(sys.argv[1]), Path(sys.argv[2])); sys.exit('pandas' in sys.modules)"
    )
    # WHEN a text is imported THEN nothing did
    command = [sys.executable, "-c", code, str(tmp_path / "t.csv"), str(tmp_path / "made")]
    assert subprocess.run(command, check=False).returncode == 0

"""The native reader of columns against Python: lines, numbers, dates and words."""

import random
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

import pytest

from tests.import_.examples import TEXTS
from tests.import_.importer import Importer
from tracekit._native.readers import ColumnReader, Kind
from tracekit.readers.formats import FORMATS
from tracekit.readers.text import DECIMALS, BadLines, TextFormat, user_format

CHANCE = random.Random(3)  # noqa: S311 - a fixed sequence, no secret
LARGEST = (1 << 63) - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    msr, spc = FORMATS["msr"], FORMATS["spc"]
    own = user_format("time,op,offset,length,pid", ",", units=())
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
    number = Decimal(word.strip().replace(",", "."))
    return int(number * {"s": 10**9, "ms": 10**6, "filetime": 1}[unit or "s"])


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


def numbers(kind: Kind, digits: int, words: list[str]) -> list[int | None]:
    """Return what the reader makes of each word, None of a wrong one."""
    reader = ColumnReader([(Kind.PASSED, 0), (kind, digits)], ",")
    block = reader.read("".join(f"x,{word}\n" for word in words).encode())
    wrong = {number for number, _ in block.wrong}
    good = iter(block.values[1].tolist())
    return [None if number in wrong else next(good) for number in range(len(words))]


def test_whole_numbers_by_hand() -> None:
    words = {
        "9223372036854775807": LARGEST,
        "9223372036854775808": None,
        "99999999999999999999": None,
        "0x1F": 31,
        "0X7fffffffffffffff": LARGEST,
        "0x8000000000000000": None,
        "0x": None,
        "0x1g": None,
        "12345678": 12345678,
        "123456789012": 123456789012,
        '" 7 "': 7,
        '"7': None,
        '"7"8': None,
        "1e3": None,
    }
    assert numbers(Kind.INTEGER, 0, list(words)) == list(words.values())


def test_decimals_by_hand() -> None:
    words = {
        "1.2e-05": 12_000,
        "1E3": 1_000_000_000_000,
        "0e99": 0,
        "1e99": None,
        "1e-99": 0,
        "0.0262140000000000020": 26_214_000,
        "1e": None,
        "1e+": None,
        ".5": None,
        "5.": 5_000_000_000,
        "9223372036.854775807999": LARGEST,
        "9223372036.854775808": None,
        "0000000000000000000000001.5": 1_500_000_000,
        "1.5e100": None,
    }
    assert numbers(Kind.DECIMAL, 9, list(words)) == list(words.values())
    assert numbers(Kind.POINT, 3, ["1", "1e-1", "1.", "12e1"]) == [None, 100, 1000, 120_000]


@pytest.mark.parametrize("digits", [0, 3, 6, 9])
def test_decimals_are_those_of_exact_arithmetic(digits: int) -> None:
    chance = random.Random(digits)  # noqa: S311 - a fixed sequence, no secret
    words, expected = [], []
    for _ in range(3000):
        word = "".join(chance.choices("0123456789", k=chance.randrange(1, 22)))
        word += chance.choice(["", ".", "." + "".join(chance.choices("0123456789", k=12))])
        word += chance.choice(["", "", f"e{chance.choice('+- ').strip()}{chance.randrange(25)}"])
        words.append(word)
        value = int((Decimal(word) * 10**digits).to_integral_value(ROUND_DOWN))
        expected.append(value if value <= LARGEST else None)
    assert numbers(Kind.DECIMAL, digits, words) == expected
    assert None in expected


def test_a_word_with_a_null_byte_is_no_text() -> None:
    reader = ColumnReader([(Kind.WORD, 0)], ",")
    assert [text for _, text in reader.read(b"a\nb\0c\n").wrong] == [b"b\0c"]


def test_dates_are_those_of_the_calendar() -> None:
    # GIVEN random moments of 1970 to 2115 in random zones, as people write them
    chance = random.Random(2)  # noqa: S311 - a fixed sequence, no secret
    words, expected = [], []
    for _ in range(3000):
        minutes = chance.choice((0, 0, 60, 330, -570, 840, -45))
        zone = timezone(timedelta(minutes=minutes))
        moment = datetime.fromtimestamp(chance.randrange(10**5, 4_607_000_000), zone)
        moment = moment.replace(microsecond=chance.choice((0, 5, 123456, 999999)))
        word = moment.strftime(chance.choice(("%Y-%m-%dT%H:%M:%S.%f", "%Y/%m/%d %H:%M:%S.%f")))
        plain = chance.choice(("", "Z", " UTC", "+00:00")) if not minutes else ""
        ahead = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
        words.append(word + (plain if not minutes else chance.choice((ahead, f" {ahead}"))))
        expected.append((moment - EPOCH) // timedelta(microseconds=1) * 1000)
    # WHEN they are read THEN they are the calendar's
    assert numbers(Kind.DATE, 0, words) == expected


def test_dates_by_hand() -> None:
    words = {
        "1970-01-01T00:00:00": 0,
        "1970-01-01 00:00:00.000000001234Z": 1,
        "2000-02-29t12:00:00+0130": 951_820_200_000_000_000,
        "2016-12-31T23:59:60Z": 1_483_228_800_000_000_000,
        "2100-02-29T00:00:00": None,
        "2023-13-01T00:00:00": None,
        "2023-00-01T00:00:00": None,
        "2023-01-32T00:00:00": None,
        "2023-01-01T24:00:00": None,
        "2023-01-01T00:60:00": None,
        "2023-01-01T00:00": None,
        "2023-01-01": None,
        "2023-01/01T00:00:00": None,
        "2023-01-01T00:00:00.": None,
        "2023-01-01T00:00:00+1": None,
        "2023-01-01T00:00:00+15:00": None,
        "1970-01-01T00:00:00+01:00": None,
        "1969-12-31T23:59:59": None,
        "2116-01-01T00:00:00": None,
        '"2023-01-01 00:00:00"': 1_672_531_200_000_000_000,
        "1672531200": None,
    }
    assert numbers(Kind.DATE, 0, list(words)) == list(words.values())


def some_words(count: int) -> list[str]:
    """Return words of 1 to 11 letters, of which many begin alike and some come again."""
    return [
        "".join(CHANCE.choice("ab7") for _ in range(CHANCE.randrange(1, 12))) for _ in range(count)
    ]


@pytest.mark.parametrize("blocks", [1, 7])
def test_words_are_numbered_as_they_come(blocks: int) -> None:
    # GIVEN more words than are kept at hand, two columns of them and one of choices
    lines = [
        (first, second, CHANCE.choice(("R", "w", " W ", "r")))
        for first, second in zip(some_words(6000), some_words(6000), strict=True)
    ]
    reader = ColumnReader(
        [(Kind.WORD, 0), (Kind.WORD, 0), (Kind.CHOICE, 0)], ",", choices=["r", "w"]
    )
    # WHEN they are read in blocks
    read: list[list[int]] = [[], [], []]
    size = len(lines) // blocks + 1
    for at in range(0, len(lines), size):
        text = "".join(f"{','.join(line)}\n" for line in lines[at : at + size])
        found = reader.read(text.encode())
        assert not found.wrong
        for numbers, values in zip(read, found.values, strict=True):
            numbers.extend(values.tolist())
    # THEN each word has the number of its first place among the column's different words
    for column in (0, 1):
        known: dict[str, int] = {}
        expected = [known.setdefault(line[column], len(known)) for line in lines]
        assert read[column] == expected
        assert reader.words(column).to_pylist() == list(known)
        assert len(known) > 2000
    assert read[2] == ["rw".index(line[2].strip().lower()) for line in lines]


def test_a_word_with_a_zero_is_wrong_each_time() -> None:
    # GIVEN a word that no text has, beside the same letters without what is behind them
    reader = ColumnReader([(Kind.WORD, 0), (Kind.DIGITS, 0)], ",")
    # WHEN lines of them are read twice
    for _ in range(2):
        found = reader.read(b"ab,12\nab\0,12\nab,1x\nab, 12\nab\0,12\n,12\nab,\n" + b"a,0\n" * 3)
        # THEN the good ones are the same
        assert [number for number, _ in found.wrong] == [1, 2, 4, 5, 6]
        assert [values.tolist() for values in found.values] == [[0, 0, 1, 1, 1], [0, 1, 2, 2, 2]]


def test_lines_become_shorter_than_the_block_before_told() -> None:
    # GIVEN blocks of long lines, and one of short and wrong ones behind them
    reader = ColumnReader([(Kind.INTEGER, 0), (Kind.WORD, 0)], ",")
    reader.read(b"1234567890123,averylongwordindeed\n" * 1000)
    # WHEN it is read
    found = reader.read(b"1,b\nx,b\n" * 5000 + b"2,c\n")
    # THEN nothing is missing, nor there twice
    assert found.rows == 5001
    assert found.lines == 10001
    assert len(found.wrong) == 5000
    assert found.values[0].tolist() == [1] * 5000 + [2]
    assert found.values[1].tolist() == [1] * 5000 + [2]
    assert reader.words(1).to_pylist() == ["averylongwordindeed", "b", "c"]


def test_a_file_of_lines_that_become_shorter(read: Importer) -> None:
    # GIVEN a file of several blocks, of long lines first and of short ones then
    name = f"a-long-name-of-a-device-{9:030}"
    long = (f"{n:019},read,{n * 512:019},4096,{name}\n" for n in range(100_000))
    short = (f"{n},r,0,512,s\n" for n in range(100_000, 700_000))
    options = {"columns": "time,op,offset,length,device", "units": ("time=us", "offset=bytes")}
    # WHEN it is imported THEN all lines are there
    found = read("".join((*long, *short)), **options).content
    assert (found["counts"]["requests"], found["counts"]["bad_lines"]) == (700_000, 0)
    assert [device["device"] for device in found["devices"]][1] == "s"

"""What others make of the formats: other endings, quotes, delimiters, numbers and headers."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import struct
from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tests.import_.test_import import TEXTS, rows, stored
from tracekit._native.columns import ColumnReader, Kind
from tracekit.errors import InputError, TracekitError
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions

BY_COMMAS = ("msr", "spc", "alibaba", "tencent", "systor")
BY_BLANKS = ("fiu", "mqsim", "disksim", "arc")
LARGEST = (1 << 63) - 1


def quoted(text: str) -> str:
    lines = [",".join(f'"{word}"' for word in line.split(",")) for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize(
    ("names", "change"),
    [
        (TEXTS, lambda text: "\N{BYTE ORDER MARK}" + text),
        (TEXTS, lambda text: text + "\n\n   \n"),
        (TEXTS, lambda text: text.rstrip("\n")),
        (TEXTS, lambda text: text.replace("\n", "  \n")),
        (BY_COMMAS, quoted),
        (BY_COMMAS, lambda text: text.replace(",", "\t")),
        (("msr", "alibaba", "tencent", "systor"), lambda text: text.replace(",", ";")),
        (BY_COMMAS, lambda text: text.replace(",", ", ")),
        (("msr", "spc", "alibaba", "systor"), lambda text: text.replace("\n", ",7,x\n")),
        (BY_BLANKS, lambda text: text.replace(" ", "\t")),
        (BY_BLANKS, lambda text: "  " + text.replace(" ", "   ").replace("\n", "\n  ").rstrip(" ")),
    ],
    ids=["mark", "blank lines", "no end", "blanks behind", "quotes", "tabs", "semicolons",
         "blanks", "more columns", "tabs for blanks", "many blanks"],
)  # fmt: skip
def test_variants_of_the_texts(
    tmp_path: Path, names: tuple[str, ...], change: Callable[[str], str]
) -> None:
    for name in names:
        # GIVEN a format as another program may write it
        text, expected = TEXTS[name]
        source = stored(tmp_path / name, change(text))
        # WHEN it is imported, by its content and by its name, THEN the rows are the same
        for form in (None, name):
            made = import_trace(
                source, tmp_path / f"{name}-{form}", options=ImportOptions(form=form)
            )
            assert made.content["source"]["format"] == name
            assert rows(made.path) == expected
            assert made.content["counts"]["bad_lines"] == 0


LETTERS = {",R,": ",Read,", ",r,": ",read,", ",W,": ",Write,", ",w,": ",write,"}
WORDS = {",Read,": ",R,", ",Write,": ",w,", ",0,1063": ",R,1063", ",1,1360": ",W,1360"}


@pytest.mark.parametrize("name", BY_COMMAS)
@pytest.mark.parametrize("words", [LETTERS, WORDS], ids=["words", "letters"])
def test_operations_as_words_or_letters(tmp_path: Path, name: str, words: dict[str, str]) -> None:
    text, expected = TEXTS[name]
    for old, new in words.items():
        text = text.replace(old, new)
    made = import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    assert made.content["source"]["format"] == name
    assert rows(made.path) == expected


def test_spc_and_tencent_with_letters_are_told_by_the_first_number(tmp_path: Path) -> None:
    # GIVEN lines of five numbers and a letter, of which the first is a number of a unit, or a time
    for form, first in (("spc", 3), ("tencent", 1538323200)):
        text = "".join(f"{first},{n * 8},8,R,{n}\n" for n in range(30))
        source, choice = stored(tmp_path / form, text), ImportOptions(forces_units=True)
        made = import_trace(source, tmp_path / f"{form}-out", options=choice)
        assert made.content["source"]["format"] == form


def test_disksim_times_may_be_whole(tmp_path: Path) -> None:
    # GIVEN times in ms without a point where they are whole
    text = "0 1 100 8 0\n1.5 1 108 8 1\n3 1 116 8 1\n"
    expected = [(0, "write"), (1_500_000, "read"), (3_000_000, "read")]
    made = import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    assert made.content["source"]["format"] == "disksim"
    assert [(row[0], row[5]) for row in rows(made.path)] == expected
    # AND all of them, which the name of the format tells from MQSim's
    source = stored(tmp_path / "y", text.replace("1.5", "2"))
    made = import_trace(source, tmp_path / "whole", options=ImportOptions(form="disksim"))
    assert [row[0] for row in rows(made.path)] == [0, 2_000_000, 3_000_000]


def parallel_zstd(data: bytes) -> bytes:
    """Return what begins with a frame to be skipped, as parallel compressors write it."""
    return struct.pack("<II", 0x184D2A50, 4) + b"size" + zstd(data)


@pytest.mark.parametrize(
    "squeeze", [gzip.compress, lzma.compress, bz2.compress, zstd, parallel_zstd]
)
def test_files_that_were_joined_after_compression(
    tmp_path: Path, squeeze: Callable[[bytes], bytes]
) -> None:
    text, expected = TEXTS["alibaba"]
    half = len(text) // 3  # within a line
    data = squeeze(text[:half].encode()) + squeeze(text[half:].encode())
    assert rows(import_trace(stored(tmp_path / "x", data), tmp_path / "out").path) == expected


@pytest.mark.parametrize("behind", ["", " 0123456789abcdef0123456789abcdef" * 4, " 01ab"])
def test_fiu_has_any_number_of_hashes(tmp_path: Path, behind: str) -> None:
    text = f"1234567890123456789 48 syslogd 904265560 8 W 6 0{behind}\n"
    text += f"1234567890123456999 48 kworker/0:1 8 8 r 6 0{behind}\n"
    made = import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    assert made.content["source"]["format"] == "fiu"
    assert [(row[0], row[3], row[5]) for row in rows(made.path)] == [
        (0, 904265560, "write"),
        (210, 8, "read"),
    ]


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


@pytest.mark.parametrize(
    ("head", "told", "hint"),
    [
        (b"PK\x03\x04" + bytes(60), "a zip archive", "unpack"),
        (b"x".ljust(257, b"\0") + b"ustar\0" + b"1,R,0,512,9\n" * 99, "a tar archive", "tar -x"),
        (b"\x04\x22\x4d\x18" + bytes(60), "compressed by lz4", "lz4 -dc"),
        (b"PERFILE2" + bytes(60), "a recording of perf", "perf script"),
        (b"\x17\x08\x44tracing" + bytes(60), "a recording of trace-cmd", "trace-cmd report"),
        ("1,R,0,512,9\n".encode("utf-16"), "UTF-16", "iconv"),
        (b"PAR1" + bytes(60), "a Parquet file", "CSV"),
    ],
)  # fmt: skip
def test_what_must_be_made_readable_first(
    tmp_path: Path, head: bytes, told: str, hint: str
) -> None:
    with pytest.raises(InputError, match=told) as refused:
        import_trace(stored(tmp_path / "x", head), tmp_path / "out")
    assert hint in (refused.value.hint or "")


def test_a_place_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    records = [struct.pack("<IIIHHQQ", n, 512, 1, 0x28, 0x100, 8 * n, 1000 * n) for n in range(9)]
    records.append(struct.pack("<IIIHHQQ", 9, 512, 1, 0x28, 0x100, 1 << 63, 9999))
    with pytest.raises(TracekitError, match="a place of 9223372036854775808 is too large"):
        import_trace(stored(tmp_path / "x", b"".join(records)), tmp_path / "out")


def test_places_in_bytes_that_were_taken_for_sectors(tmp_path: Path) -> None:
    # GIVEN a copy of a Tencent trace with places in bytes and lengths in sectors
    lines = [f"{1538323200 + n},{n * 4096},8,0,1063" for n in range(200)]
    source = stored(tmp_path / "x", "\n".join(lines))
    # WHEN it is imported, THEN that is told, and right with the unit that was told
    with pytest.raises(InputError, match="places look like bytes, not sectors: 199 requests"):
        import_trace(source, tmp_path / "out")
    made = import_trace(source, tmp_path / "out", options=ImportOptions(units=("offset=bytes",)))
    assert [row[3] for row in rows(made.path)] == [8 * n for n in range(200)]
    # AND where nothing follows anything it is doubted
    chance = random.Random(1)  # noqa: S311 - a fixed sequence, no secret
    lines = [f"{1538323200 + n},{chance.randrange(1 << 20) * 4096},8,0,1063" for n in range(200)]
    made = import_trace(stored(tmp_path / "y", "\n".join(lines)), tmp_path / "doubted")
    doubts = [one["message"] for one in made.content["warnings"] if one["code"] == "doubtful_units"]
    assert "multiple of 512 sectors" in doubts[0]


def test_a_file_that_is_still_being_written(tmp_path: Path) -> None:
    # GIVEN a trace to which lines are added while it is read
    path = stored(tmp_path / "x", TEXTS["alibaba"][0])

    def add(_done: int, _total: int | None) -> None:
        with path.open("a") as file:
            file.write("419,W,8192,16384,1577808144360999\n")

    # WHEN it is imported THEN it is refused, and nothing is left behind
    with pytest.raises(InputError, match="it changed while it was read, from 66 to") as refused:
        import_trace(path, tmp_path / "out", on_bytes=add)
    assert "head -c 66 FILE" in (refused.value.hint or "")
    assert not (tmp_path / "out").exists()

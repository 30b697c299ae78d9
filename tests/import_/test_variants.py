"""The formats as others write them: endings, quotes, delimiters, comments, columns, compression."""

import gzip
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests import parsed as traces
from tests.import_ import octf
from tests.import_.examples import TEXTS, vscsi
from tests.import_.importer import Importer
from tests.parsed import COMPRESSORS, Row
from tracekit.errors import InputError, UsageError
from tracekit.readers.importing import import_trace

BY_COMMAS = ("msr", "spc", "alibaba", "tencent", "systor")
BY_BLANKS = ("fiu", "mqsim", "disksim", "arc")
Change = Callable[[str], str]


def quoted(text: str) -> str:
    lines = [",".join(f'"{word}"' for word in line.split(",")) for line in text.splitlines()]
    return "\n".join(lines) + "\n"


CHANGES: dict[str, tuple[Iterable[str], Change]] = {
    "mark": (TEXTS, lambda text: "\N{BYTE ORDER MARK}" + text),
    "blank lines": (TEXTS, lambda text: text + "\n\n   \n"),
    "no end": (TEXTS, lambda text: text.rstrip("\n")),
    "blanks behind": (TEXTS, lambda text: text.replace("\n", "  \n")),
    "quotes": (BY_COMMAS, quoted),
    "tabs": (BY_COMMAS, lambda text: text.replace(",", "\t")),
    "semicolons": (
        ("msr", "alibaba", "tencent", "systor"),
        lambda text: text.replace(",", ";"),
    ),
    "blanks": (BY_COMMAS, lambda text: text.replace(",", ", ")),
    "more columns": (
        ("msr", "spc", "alibaba", "systor"),
        lambda text: text.replace("\n", ",7,x\n"),
    ),
    "tabs for blanks": (BY_BLANKS, lambda text: text.replace(" ", "\t")),
    "many blanks": (
        BY_BLANKS,
        lambda text: "  " + text.replace(" ", "   ").replace("\n", "\n  ").rstrip(" "),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_variants_of_the_texts(read: Importer, name: str) -> None:
    names, change = CHANGES[name]
    for form in names:
        # GIVEN a format as another program may write it
        text, expected = TEXTS[form]
        # WHEN it is imported, by its content and by its name, THEN the rows are the same
        for given in (None, form):
            read.gives(change(text), form, expected, form=given)


LETTERS = {",R,": ",Read,", ",r,": ",read,", ",W,": ",Write,", ",w,": ",write,"}
WORDS = {",Read,": ",R,", ",Write,": ",w,", ",0,1063": ",R,1063", ",1,1360": ",W,1360"}


@pytest.mark.parametrize("name", BY_COMMAS)
@pytest.mark.parametrize("words", [LETTERS, WORDS], ids=["words", "letters"])
def test_operations_as_words_or_letters(read: Importer, name: str, words: dict[str, str]) -> None:
    text, expected = TEXTS[name]
    for old, new in words.items():
        text = text.replace(old, new)
    read.gives(text, name, expected)


MSR = "128166372003061629,src1,1,Read,5120,4096,"
OTHERS: list[tuple[str, str, list[Row]]] = [
    ("msr", f"{MSR}30.5\n{MSR}\n", [(0, 3000, "src1,1", 10, 4096, "read"),
                                    (0, None, "src1,1", 10, 4096, "read")]),
    ("msr", f"{MSR[:-1]}\n", [(0, None, "src1,1", 10, 4096, "read")]),
    ("msr", f"0,{MSR}30,\n1,{MSR}40,\n", [(0, 3000, "src1,1", 10, 4096, "read"),
                                          (0, 4000, "src1,1", 10, 4096, "read")]),
    ("alibaba", "7,R,512,512,1577808144.25\n7,W,0,512,1577808144.5\n",
     [(0, None, "7", 1, 512, "read"), (250_000_000, None, "7", 0, 512, "write")]),
    ("tencent", "1538323200,8,8,0,1063,\n", [(0, None, "1063", 8, 4096, "read")]),
    ("spc", "0 303567 3584 w 0.000000\n", [(0, None, "0", 303567, 3584, "write")]),
    ("fiu", "89966104,4892,syslogd,8,8,W,6,0,5\n", [(0, None, "6,0", 8, 4096, "write")]),
    ("fiu", "89966104, 4892, a b, 8, 8, W, 6, 0\n", [(0, None, "6,0", 8, 4096, "write")]),
    ("fiu", "89966104 4892 amavisd (ch12-P 8 8 W 6 0 5\n", [(0, None, "6,0", 8, 4096, "write")]),
    ("mqsim", "4851300,1,524288,16,0\n", [(0, None, "1", 524288, 8192, "write")]),
    ("mqsim", "// zones\n4851300 1 524288 0 2\n// 7 1 8 8 2\n",
     [(0, None, "1", 524288, 0, "zone")]),
    ("mqsim", "4851300 1 524288 16 R\n", [(0, None, "1", 524288, 8192, "read")]),
    ("disksim", "0.5 0 1000 8 00000001\n0.5 0 8 8 0x00000000\n0.5 0 8 8 W\n",
     [(0, None, "0", 1000, 4096, "read"), *[(0, None, "0", 8, 4096, "write")] * 2]),
    ("blkreplay", "0.5 ; 100 ; 16 ; RM\n", [(0, None, "trace", 100, 8192, "read")]),
    ("blkreplay", "0.5;100;16;DS;0;0;\n", [(0, None, "trace", 100, 8192, "discard")]),
    ("own", "timestamp_ns,hostname,disk,type,offset,size\n0,hm,1,Read,512,512\n",
     [(0, None, "1", 1, 512, "read")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), OTHERS)
def test_dialects(read: Importer, name: str, text: str, expected: list[Row]) -> None:
    read.gives(text, name, expected)


def test_spc_and_tencent_with_letters_are_known_by_the_first_number(read: Importer) -> None:
    # GIVEN lines of five numbers and a letter, of which the first is a number of a unit, or a time
    for form, first in (("spc", 3), ("tencent", 1538323200)):
        text = "".join(f"{first},{n * 8},8,R,{n}\n" for n in range(30))
        assert read(text, forces_units=True).content["source"]["format"] == form


def test_disksim_times_may_be_whole(read: Importer) -> None:
    # GIVEN times in ms without a point where they are whole
    text = "0 1 100 8 0\n1.5 1 108 8 1\n3 1 116 8 1\n"
    expected: list[Row] = [
        (0, None, "1", 100, 4096, "write"),
        (1_500_000, None, "1", 108, 4096, "read"),
        (3_000_000, None, "1", 116, 4096, "read"),
    ]
    read.gives(text, "disksim", expected)
    # AND all of them, which the name of the format tells from MQSim's
    whole = read.rows(text.replace("1.5", "2"), form="disksim")
    assert [row[0] for row in whole] == [0, 2_000_000, 3_000_000]


@pytest.mark.parametrize("behind", ["", " 0123456789abcdef0123456789abcdef" * 4, " 01ab"])
def test_fiu_has_any_number_of_hashes(read: Importer, behind: str) -> None:
    text = f"1234567890123456789 48 syslogd 904265560 8 W 6 0{behind}\n"
    text += f"1234567890123456999 48 kworker/0:1 8 8 r 6 0{behind}\n"
    expected: list[Row] = [
        (0, None, "6,0", 904265560, 4096, "write"),
        (210, None, "6,0", 8, 4096, "read"),
    ]
    read.gives(text, "fiu", expected)


def test_names_may_hold_blanks_before_a_number(read: Importer) -> None:
    # GIVEN process names of several words, of digits, and one that a number cuts
    names = ["kworker/0:1 x", "7", "(a b) c", "a 7 b"]
    text = "".join(f"{9 * n} 48 {name} {8 * n} 8 W 6 0 5\n" for n, name in enumerate(names))
    made = read(text, form="fiu", most_bad_ratio=0.3)
    assert traces.requests(made)["process"].to_pylist() == names[:3]
    assert [row[3] for row in traces.rows(made)] == [0, 8, 16]
    assert [one["line"] for one in made.content["counts"]["bad_examples"]] == [4]


@pytest.mark.parametrize("name", ["alibaba", "spc", "msr", "systor", "fiu", "mqsim", "disksim"])
def test_comments_and_headers_within_are_no_requests(read: Importer, name: str) -> None:
    # GIVEN two files that were joined, each with its header, and a comment
    text, expected = TEXTS[name]
    header = "" if text.startswith("Timestamp") else "A,Title,Of,Columns\n"
    counts = read(f"{header}{text}# a comment\r\n{header}{text}").content["counts"]
    # THEN neither is a wrong line, and both are counted
    assert (counts["requests"], counts["bad_lines"]) == (2 * len(expected), 0)
    assert (counts["preamble_lines"], counts["passed_lines"]) == (1, 2)


def parallel_zstd(data: bytes) -> bytes:
    """Return what begins with a frame to be skipped, as parallel compressors write it."""
    return struct.pack("<II", 0x184D2A50, 4) + b"size" + COMPRESSORS["zstd"](data)


@pytest.mark.parametrize(
    "squeeze", [*COMPRESSORS.values(), parallel_zstd], ids=[*COMPRESSORS, "parallel zstd"]
)
def test_files_that_were_joined_after_compression(
    read: Importer, squeeze: Callable[[bytes], bytes]
) -> None:
    text, expected = TEXTS["alibaba"]
    half = len(text) // 3  # within a line
    assert read.rows(squeeze(text[:half].encode()) + squeeze(text[half:].encode())) == expected


LINE = TEXTS["msr"][0]


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (LINE.encode("utf-16-le"), "UTF-16", "-f UTF-16LE"),
        (LINE.encode("utf-16-be"), "UTF-16", "-f UTF-16BE"),
        (LINE.encode("utf-16"), "UTF-16", "iconv"),
        (LINE.replace("\n", "\r"), "CR alone", "tr '\\r' '\\n'"),
        (b"PK\x03\x04" + bytes(60), "a zip archive", "unpack"),
        (b"x".ljust(257, b"\0") + b"ustar\0" + b"1,R,0,512,9\n" * 99, "a tar archive", "tar -x"),
        (b"\x04\x22\x4d\x18" + bytes(60), "compressed by lz4", "lz4 -dc"),
        (b"PERFILE2" + bytes(60), "a recording of perf", "perf script"),
        (b"\x17\x08\x44tracing" + bytes(60), "a recording of trace-cmd", "trace-cmd report"),
        (b"PAR1" + bytes(60), "a Parquet file", "CSV"),
    ],
)
def test_what_must_be_converted_first(
    read: Importer, content: str | bytes, message: str, hint: str
) -> None:
    read.rejects(content, message, hint=hint)


def writes(count: int, version: int = 1) -> bytes:
    return vscsi(((0x2A, 4096, 8 * n, n) for n in range(count)), version=version)


GROWING: dict[str, tuple[bytes, bytes]] = {
    "text": (TEXTS["alibaba"][0].encode(), b"419,W,8192,16384,1577808144360999\n"),
    "records": (writes(3000), b"abc"),
    "whole records": (writes(3000, 2), writes(1, 2)),
    "octf": (b"".join(octf.io(n + 1, n + 1, number=n + 1) for n in range(900)), b"\x01"),
    "compressed": (gzip.compress(LINE.encode()), gzip.compress(b"1,a,1,Read,5,5,5")),
    "events": (b"  8,0   0  1  0.000000005 12 Q R 8 + 8 [a]\n" * 2, b"  8,0   0  2  0.1"),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_file_that_is_still_written(tmp_path: Path, name: str) -> None:
    # GIVEN a file that grows while it is read
    data, more = GROWING[name]
    path = tmp_path / "x"
    path.write_bytes(data)

    def grow(_done: int, _total: int | None) -> None:
        with path.open("ab") as file:
            file.write(more)

    # WHEN it is imported THEN it is rejected with what is there already, and nothing is left
    message = f"it changed while it was read, from {len(data):,} to .*it is still written"
    with pytest.raises(InputError, match=message) as rejected:
        import_trace(path, tmp_path / "out", on_bytes=grow)
    assert f"head -c {len(data)} FILE" in rejected.value.hint
    assert not (tmp_path / "out").exists()


def test_vscsistats_text_is_known_by_its_columns(read: Importer) -> None:
    # GIVEN the text without its title and without the #, whose lines could be those of SPC
    text, expected = TEXTS["vscsi-text"]
    header, *lines = text.splitlines(keepends=True)[1:]
    read.gives("".join([header.lstrip("#"), *lines]), "vscsi-text", expected)


def test_an_untold_unit_names_the_file(read: Importer) -> None:
    read.rejects("time,op,size,lbn\n5,read,512,8\n", "/x: its header names", error=UsageError)


def test_commas_in_quoted_decimals_are_points(read: Importer) -> None:
    # GIVEN columns between commas, and numbers in quotes with commas for points
    lines = [f'"{1267408000 + n},5","1,250",R,3,{n * 4096},4096\n' for n in range(100)]
    made = read("".join(lines) + 'lost,"\r,\n')
    # THEN times and response times are those with points, which is told
    assert made.content["source"]["format"] == "systor"
    assert traces.rows(made)[99] == (99 * 10**9, 100_250_000_000, "3", 99 * 8, 4096, "read")
    told = {one["what"]: one["evidence"] for one in made.content["inferences"]}
    assert told["commas in numbers"] == "1267408000,5 in the first 64 KiB"
    assert "doubtful_commas" not in traces.warnings(made)
    # AND where all of them may group digits, that is a warning
    made = read("".join(lines).replace(',5"', '"'))
    assert traces.warnings(made)["doubtful_commas"].endswith("a decimal point: 1,250")

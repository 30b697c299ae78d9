"""The formats as others write them: names with blanks, comments, more or fewer columns."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from tests.import_ import octf
from tests.import_.test_import import TEXTS, Row, rows, stored
from tests.import_.test_variants import zstd
from tracekit.errors import InputError
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions

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
def test_dialects(tmp_path: Path, name: str, text: str, expected: list[Row]) -> None:
    made = import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    assert made.content["source"]["format"] == name
    assert rows(made.path) == expected
    assert made.content["counts"]["bad_lines"] == 0


def test_names_may_hold_blanks_before_a_number(tmp_path: Path) -> None:
    # GIVEN process names of several words, of digits, and one that a number cuts
    names = ["kworker/0:1 x", "7", "(a b) c", "a 7 b"]
    text = "".join(f"{9 * n} 48 {name} {8 * n} 8 W 6 0 5\n" for n, name in enumerate(names))
    made = import_trace(
        stored(tmp_path / "x", text),
        tmp_path / "out",
        options=ImportOptions("fiu", most_bad_ratio=0.3),
    )
    import pyarrow.parquet as pq

    found = pq.read_table(made.table("requests"), columns=["process", "sector"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(names[0], 0), ("7", 8), (names[2], 16)]
    assert [one["line"] for one in made.content["counts"]["bad_examples"]] == [4]


@pytest.mark.parametrize("name", ["alibaba", "spc", "msr", "systor", "fiu", "mqsim", "disksim"])
def test_comments_and_headers_within_are_no_requests(tmp_path: Path, name: str) -> None:
    # GIVEN two files that were joined, each with its header, and a comment
    text, expected = TEXTS[name]
    header = "" if text.startswith("Timestamp") else "A,Title,Of,Columns\n"
    source = stored(tmp_path / "x", f"{header}{text}# a comment\r\n{header}{text}")
    made = import_trace(source, tmp_path / "out")
    # THEN neither is a wrong line, and both are counted
    counts = made.content["counts"]
    assert (counts["requests"], counts["bad_lines"]) == (2 * len(expected), 0)
    assert (counts["preamble_lines"], counts["passed_lines"]) == (1, 2)


@pytest.mark.parametrize(
    ("data", "told", "hint"),
    [
        (TEXTS["msr"][0].encode("utf-16-le"), "UTF-16", "-f UTF-16LE"),
        (TEXTS["msr"][0].encode("utf-16-be"), "UTF-16", "-f UTF-16BE"),
        (TEXTS["msr"][0].replace("\n", "\r").encode(), "CR alone", "tr '\\r' '\\n'"),
    ],
)
def test_texts_that_must_be_converted(tmp_path: Path, data: bytes, told: str, hint: str) -> None:
    with pytest.raises(InputError, match=told) as refused:
        import_trace(stored(tmp_path / "x", data), tmp_path / "out")
    assert hint in refused.value.hint


def vscsi(version: int, count: int, *, command: int = 0x2A) -> bytes:
    if version == 1:
        records = [(n, 4096, 1, command, 0x100, 8 * n, n) for n in range(count)]
        return b"".join(struct.pack("<IIIHHQQ", *record) for record in records)
    pieces = [(command, 0x200, n, 4096, 1, 8 * n, n, 7) for n in range(count)]
    return b"".join(struct.pack("<HHIIIQQQ", *piece) for piece in pieces)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_vscsi_of_few_records(tmp_path: Path, version: int, count: int) -> None:
    # Also behind a thousand commands that move no data.
    for number, before in enumerate((0, 1000)):
        data = vscsi(version, before, command=0x12) + vscsi(version, count)
        made = import_trace(stored(tmp_path / "x", data), tmp_path / f"out{number}")
        assert made.content["source"]["format"] == f"vscsi{version}"
        assert len(rows(made.path)) == before + count
    # One record that is no whole file, or of no known command, tells nothing.
    for data in (vscsi(version, 1)[:-1], vscsi(version, 1, command=0x12)):
        with pytest.raises(InputError, match="no known format"):
            import_trace(stored(tmp_path / "y", data), tmp_path / "none")


@pytest.mark.parametrize(("ticks", "unit"), [(1577808144, "s"), (1577808144360, "ms")])
def test_the_unit_that_would_fit_is_named(tmp_path: Path, ticks: int, unit: str) -> None:
    # GIVEN a format whose times are us, with coarser ones
    text = "".join(f"419,W,{8192 * n},512,{ticks + n}\n" for n in range(50))
    source = stored(tmp_path / "x", text)
    with pytest.raises(InputError, match=f"cannot be us, and can be {unit}: --unit time={unit}"):
        import_trace(source, tmp_path / "out")
    made = import_trace(source, tmp_path / "out", options=ImportOptions(units=(f"time={unit}",)))
    assert len(rows(made.path)) == 50


def test_waits_that_are_all_the_same_count_from_the_one_before(tmp_path: Path) -> None:
    # GIVEN a log of version 2 whose waits are 5 ms after one another, as its documentation has it
    text = "fio version 2 iolog\nf add\nf open\n"
    text += "".join(f"f wait 5 0\nf read {4096 * n} 4096\n" for n in range(300))
    source = stored(tmp_path / "x", text)
    with pytest.raises(InputError, match="each of 300 waits is 5: fio takes them as ms since"):
        import_trace(source, tmp_path / "out")
    # AND two waits of one moment, or many of different ones, are as fio takes them
    for fine in (text.splitlines()[:7], text.replace("wait 5 0\nf read 0 ", "wait 1 0\nf read 0 ")):
        log = fine if isinstance(fine, str) else "\n".join(fine)
        made = import_trace(stored(tmp_path / "y", log), tmp_path / "fine", options=OVER)
        assert made.content["source"]["format"] == "fio2"


OVER = ImportOptions(overwrite=True)


def test_a_windows_log_by_a_regular_expression(tmp_path: Path) -> None:
    # GIVEN lines of a Windows trace: us, and bytes in hexadecimal, with other events between them
    text = "BeginHeader\nDiskRead, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset\n"
    text += "EndHeader\n"
    text += (
        "   DiskRead,  5129,  app.exe (24),  31, 0xfffffa80, 0x0006e2c000, 0x00010000,  52,  4\n"
    )
    text += (
        "  DiskWrite,  6129,  app.exe (24),  31, 0xfffffa80, 0x0006e3c000, 0x00002000,  23,  4\n"
    )
    pattern = (
        r"\s*(?P<op>Disk\w+),\s*(?P<time>\d+),\s*(?P<process>[^(]+?) *\((?P<pid>\d+)\),[^,]*,[^,]*,"
        r"\s*(?P<offset>0x[0-9a-f]+),\s*(?P<length>0x[0-9a-f]+),\s*(?P<response>\d+),\s*(?P<device>\d+)"
    )
    choice = ImportOptions(regex=pattern, units=("time=us", "response=us"))
    made = import_trace(stored(tmp_path / "x", text), tmp_path / "out", options=choice)
    assert rows(made.path) == [
        (0, 52_000, "4", 0x6E2C000 // 512, 65536, "read"),
        (1_000_000, 1_023_000, "4", 0x6E3C000 // 512, 8192, "write"),
    ]


def test_objects_of_many_equal_seconds_and_no_size(tmp_path: Path) -> None:
    # GIVEN accesses of a cache simulator's trace, 50 of each second since 1970, some of no size,
    # and next accesses told by a search, compressed
    objects = [8 * (n * 7 % 31) for n in range(500)]
    last = (1 << 63) - 1
    following = [next((at for at in range(n + 1, 500) if objects[at] == objects[n]), last)
                 for n in range(500)]  # fmt: skip
    sizes = [0 if n % 3 == 0 else 4096 for n in range(500)]
    moments = [1_538_323_200 + n // 50 for n in range(500)]
    records = zip(moments, objects, sizes, following, strict=True)
    data = b"".join(struct.pack("<IQIq", *record) for record in records)
    made = import_trace(stored(tmp_path / "x", zstd(data)), tmp_path / "out")
    # THEN each is a read of its size, in the order of the file
    assert made.content["source"]["format"] == "oracleGeneral"
    assert rows(made.path) == [
        (n // 50 * 10**9, None, "trace", objects[n], sizes[n], "read") for n in range(500)
    ]


GROWING = {
    "records": (vscsi(1, 3000), b"abc"),
    "whole records": (vscsi(2, 3000), vscsi(2, 1)),
    "octf": (b"".join(octf.io(n + 1, n + 1, number=n + 1) for n in range(900)), b"\x01"),
    "compressed": (gzip.compress(TEXTS["msr"][0].encode()), gzip.compress(b"1,a,1,Read,5,5,5")),
    "events": (b"  8,0   0  1  0.000000005 12 Q R 8 + 8 [a]\n" * 2, b"  8,0   0  2  0.1"),
}


@pytest.mark.parametrize("name", GROWING)
def test_what_is_still_written_is_told(tmp_path: Path, name: str) -> None:
    # GIVEN a file that grows while it is read
    data, more = GROWING[name]
    path = stored(tmp_path / "x", data)

    def grow(_done: int, _total: int | None) -> None:
        with path.open("ab") as file:
            file.write(more)

    # WHEN it is imported THEN it is refused with what is there already, and nothing is left
    with pytest.raises(InputError, match="it is still written") as refused:
        import_trace(path, tmp_path / "out", on_bytes=grow)
    assert f"head -c {len(data)}" in refused.value.hint
    assert not (tmp_path / "out").exists()

"""`tracekit import`: hand-written lines of each format, wrong lines, and units that contradict."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions

# Format, lines, and for each: queue_ns, complete_ns, device, sector, bytes, operation.
Row = tuple[int, int | None, str, int, int, str]
TEXTS: dict[str, tuple[str, list[Row]]] = {
    "blkreplay": (
        "A licence.\n\nstart ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n"
        "      0.000000001 ;    100 ;   16 ; R ; 0.0 ; 0.0\n"
        "      1.500000000 ;    200 ;   8 ; RA ; 0.0 ; 0.0\n",
        [(0, None, "trace", 100, 8192, "read"), (1499999999, None, "trace", 200, 4096, "read")],
    ),
    "msr": (
        "128166372003061629,src1,1,Read,5120,4096,30\n128166372003061639,src1,0,Write,512,512,10\n",
        [(0, 3000, "src1,1", 10, 4096, "read"), (1000, 2000, "src1,0", 1, 512, "write")],
    ),
    "spc": (
        "0,303567,3584,w,0.000000\n1,55590,3072,R,0.026214,extra\n",
        [(0, None, "0", 303567, 3584, "write"), (26214000, None, "1", 55590, 3072, "read")],
    ),
    "alibaba": (
        "419,W,8192,16384,1577808144360767\n725,R,512,4096,1577808144360867\n",
        [(0, None, "419", 16, 16384, "write"), (100_000, None, "725", 1, 4096, "read")],
    ),
    "tencent": (
        "1538323200,12910952,128,0,1063\n1538323201,6338688,8,1,1360\n",
        [
            (0, None, "1063", 12910952, 65536, "read"),
            (1_000_000_000, None, "1360", 6338688, 4096, "write"),
        ],
    ),
    "systor": (
        "Timestamp,Response,IOType,LUN,Offset,Size\n"
        "1455592799.000000000,0.000400000,R,5,1024,8192\n1455592799.500000000,,W,5,2048,512\n",
        [(0, 400_000, "5", 2, 8192, "read"), (500_000_000, None, "5", 4, 512, "write")],
    ),
    "fiu": (
        "89966104 4892 syslogd 904265560 8 W 6 0 531e779d3a44a5aa2c1d8d1a4d1c2b3e\n"
        "89966204 4893 find 8 16 R 6 0 00000000000000000000000000000000\n",
        [(0, None, "6,0", 904265560, 4096, "write"), (100, None, "6,0", 8, 8192, "read")],
    ),
    "mqsim": (
        "938513000 4 264719034 16 0\n938828000 3 197570570 8 1\n",
        [(0, None, "4", 264719034, 8192, "write"), (315000, None, "3", 197570570, 4096, "read")],
    ),
    "disksim": (
        "0.000000 1 100 8 0\n2.500000 1 108 16 1\n",
        [(0, None, "1", 100, 4096, "write"), (2_500_000, None, "1", 108, 8192, "read")],
    ),
    "arc": (
        "10 2 0 0\n30 1 3 2\n",
        [(0, None, "trace", 80, 8192, "read"), (1000, None, "trace", 240, 4096, "read")],
    ),
}


def rows(folder: Path) -> list[Row]:
    names = ["queue_ns", "complete_ns", "device", "sector", "length_bytes", "operation"]
    table = pq.read_table(folder / "requests.parquet", columns=names)
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def stored(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_text_is_known_by_its_content(tmp_path: Path, name: str, ending: str) -> None:
    # GIVEN lines of a format under a name that says nothing
    text, expected = TEXTS[name]
    source = stored(tmp_path / "x", gzip.compress(text.replace("\n", ending).encode()))
    # WHEN they are imported
    folder = import_trace(source, tmp_path / "out")
    # THEN the format is known and the rows are those written out by hand
    assert folder.content["source"]["format"] == name
    assert rows(folder.path) == expected
    assert folder.content["counts"]["bad_lines"] == 0


@pytest.mark.parametrize("version", [1, 2])
def test_vscsi(tmp_path: Path, version: int) -> None:
    # GIVEN three records of a read, a write and a command that is neither
    packed = [
        struct.pack("<IIIHHQQ", n, 4096, 1, op, version << 8, 8 * n, 1000 + n)
        if version == 1
        else struct.pack("<HHIIIQQQ", op, version << 8, n, 4096, 1, 8 * n, 1000 + n, 7)
        for n, op in enumerate((0x28, 0x2A, 0x12))
    ]
    # WHEN they are imported, THEN lengths are bytes, times us, and only version 2 has responses
    folder = import_trace(stored(tmp_path / "x", b"".join(packed)), tmp_path / "out")
    end = [7000, 8000, 9000] if version == 2 else [None] * 3
    assert folder.content["source"]["format"] == f"vscsi{version}"
    assert rows(folder.path) == [
        (1000 * n, end[n], "trace", 8 * n, 4096, op)
        for n, op in enumerate(("read", "write", "other"))
    ]


def lines(count: int, *, length: int = 4096) -> list[str]:
    return [f"{1000 * n},r,{8 * n},{length}" for n in range(count)]


OWN = ImportOptions(columns="time,op,offset,length", units=("time=us", "offset=sectors"))


def test_wrong_lines_are_counted_with_number_and_text(tmp_path: Path) -> None:
    # GIVEN 400 lines of which three are wrong, each in its own way, and one is empty
    text = lines(400)
    text[9], text[19], text[29] = "what is this", "20000,r,-8,4096", "30000,x,8,4096"
    text.insert(15, "")
    source = stored(tmp_path / "x", "\n".join(text))
    # WHEN they are imported, THEN 0.75 % is left out, and told
    folder = import_trace(source, tmp_path / "out", options=OWN)
    assert folder.content["counts"]["bad_lines"] == 3
    assert folder.content["counts"]["bad_examples"] == [
        {"line": 10, "text": "what is this"},
        {"line": 21, "text": "20000,r,-8,4096"},
        {"line": 31, "text": "30000,x,8,4096"},
    ]
    assert len(rows(folder.path)) == 397
    # AND a stricter limit stops it with the same lines and leaves nothing behind
    strict = ImportOptions(columns=OWN.columns, units=OWN.units, most_bad_ratio=0.005)
    with pytest.raises(InputError, match=r"3 of 400 lines are wrong\n  line 10: what is this"):
        import_trace(source, tmp_path / "none", options=strict)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("units", "told"),
    [
        (("time=us", "offset=sectors", "length=sectors"), "lengths look like bytes"),
        (("time=s", "offset=sectors"), "times cannot be s"),
        (("time=us", "offset=bytes"), "are no whole sectors"),
    ],
)
def test_a_contradicting_unit_stops(tmp_path: Path, units: tuple[str, ...], told: str) -> None:
    # GIVEN 400 sequential requests of 4096 bytes, a second apart if times were 1e-3 s
    text = [f"{1000 * 3600 * n},r,{8 * n + 1},4096" for n in range(400)]
    source = stored(tmp_path / "x", "\n".join(text))
    # WHEN the unit is a wrong one, THEN it is explained, and only --force-units goes on
    with pytest.raises(InputError, match=told):
        import_trace(
            source, tmp_path / "none", options=ImportOptions(columns=OWN.columns, units=units)
        )
    assert not (tmp_path / "none").exists()
    forced = ImportOptions(columns=OWN.columns, units=units, forces_units=True)
    info = import_trace(source, tmp_path / "out", options=forced).content
    assert "doubtful_units" in [doubt["code"] for doubt in info["warnings"]]


def test_order_and_depth_are_those_of_a_plain_count(tmp_path: Path) -> None:
    # GIVEN requests of two disks out of order, with response times
    rng = random.Random(5)  # noqa: S311 - not for secrets
    made = sorted((rng.randrange(10_000), rng.randrange(2), rng.randrange(300)) for _ in range(500))
    text = [f"{t},r,0,512,{disk},{response}" for t, disk, response in made]
    text[100:110] = reversed(text[100:110])
    choice = ImportOptions(
        columns="time,op,offset,length,device,response", units=("time=us", "response=us")
    )
    folder = import_trace(stored(tmp_path / "x", "\n".join(text)), tmp_path / "out", options=choice)
    # WHEN read back, THEN they are in order, and the depth is what a count over all says
    table: list[dict[str, Any]] = pq.read_table(folder.table("requests")).to_pylist()
    times = [row["queue_ns"] for row in table]
    assert times == sorted(times)
    for place, row in enumerate(table):
        before = [one for one in table[:place] if one["device"] == row["device"]]
        begun = sum(one["complete_ns"] > row["queue_ns"] for one in before)
        assert row["depth"] == max(begun + (row["complete_ns"] > row["queue_ns"]), 1)


@pytest.mark.parametrize("content", [b"", b"\0\1\2" * 50, b"hello\n" * 20, b"\xff\xfe1,2\n"])
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"empty|of no known format|UTF-16"):
        import_trace(stored(tmp_path / "x", content), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "choice",
    [
        ImportOptions(form="nosuch"),
        ImportOptions(columns="time,op"),
        ImportOptions(columns="time,op,offset,length,colour"),
        ImportOptions(columns="time,op,offset,length", units=("time=weeks",)),
        ImportOptions(columns="time,op,offset,length", delimiter=";;"),
    ],
)
def test_wrong_choices_are_refused(tmp_path: Path, choice: ImportOptions) -> None:
    with pytest.raises(UsageError) as caught:
        import_trace(stored(tmp_path / "x", "1,r,0,512\n"), tmp_path / "out", options=choice)
    assert isinstance(caught.value, TracekitError)
    assert caught.value.hint

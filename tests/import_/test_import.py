"""`tracekit import`: lines of each format by hand, the user's own texts, units that contradict."""

import gzip
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from tests import parsed as traces
from tests.import_.examples import BIOSNOOP, FIO2, FIO3, TEXTS, oracle, vscsi
from tests.import_.importer import Importer
from tests.parsed import Row
from tracekit.choices import ImportFormat, words
from tracekit.errors import UsageError
from tracekit.readers import memory, octf
from tracekit.readers.formats import FORMATS
from tracekit.readers.metadata import EVENT_TEXTS
from tracekit.readers.perfetto import PERFETTO
from tracekit.readers.rbd_replay import RBD_REPLAY

OWN: dict[str, Any] = {"columns": "time,op,offset,length"}


def told(read: Importer, content: str, **options: Any) -> dict[str, dict[str, str]]:
    """Return what an import inferred, by its subject."""
    return {one["what"]: one for one in read(content, **options).content["inferences"]}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_text_is_known_by_its_content(read: Importer, name: str, ending: str) -> None:
    # GIVEN lines of a format under a name that says nothing, compressed
    text, expected = TEXTS[name]
    # WHEN they are imported, THEN the format is known and the rows are those written by hand
    read.gives(gzip.compress(text.replace("\n", ending).encode()), name, expected)


@pytest.mark.parametrize("version", [1, 2])
def test_vscsi(read: Importer, version: int) -> None:
    # GIVEN three records of a read, a write and a command that is neither
    data = vscsi(
        [(command, 4096, 8 * n, 1000 + n) for n, command in enumerate((0x28, 0x2A, 0x12))],
        version=version,
    )
    # WHEN they are imported, THEN lengths are bytes, times us, and only version 2 has responses
    end = [7000, 8000, 9000] if version == 2 else [None] * 3
    expected: list[Row] = [
        (1000 * n, end[n], "trace", 8 * n, 4096, op)
        for n, op in enumerate(("read", "write", "other"))
    ]
    read.gives(data, f"vscsi{version}", expected)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_vscsi_of_few_records(read: Importer, version: int, count: int) -> None:
    def records(count: int, command: int = 0x2A) -> bytes:
        return vscsi(((command, 4096, 8 * n, n) for n in range(count)), version=version)

    # Also behind a thousand commands that move no data.
    for before in (0, 1000):
        made = read(records(before, 0x12) + records(count))
        assert made.content["source"]["format"] == f"vscsi{version}"
        assert len(traces.rows(made)) == before + count
    # One record that is no whole file, or of no known command, is not enough.
    for data in (records(1)[:-1], records(1, 0x12)):
        read.rejects(data, "no known format")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_fio2_waits_are_ms_since_the_start(read: Importer, ending: str) -> None:
    # GIVEN waits of 20 and 1500 ms between requests, THEN a request has the time of the wait before
    expected: list[Row] = [
        (0, None, "/dev/sdb", 8, 512, "write"),
        (20_000_000, None, "/dev/sdb", 16, 4096, "read"),
        (20_000_000, None, "/dev/sdb", 0, 0, "flush"),
        (1_500_000_000, None, "/dev/sdb", 0, 65536, "discard"),
    ]
    counts = read.gives(FIO2.replace("\n", ending), "fio2", expected).content["counts"]
    assert (counts["passed_lines"], counts["preamble_lines"]) == (1, 3)


def test_fio2_in_us_or_relative_is_rejected(read: Importer) -> None:
    message = "of this format are ms by its own reader, not us"
    read.rejects(FIO2, message, units=("time=us",))
    text = FIO2.replace("wait 1500", "wait 15")
    read.rejects(text, f"^{read.source}: the waits run backwards, from 20 to 15")


def test_fio2_waits_that_are_all_the_same_count_from_the_one_before(read: Importer) -> None:
    # GIVEN a log of version 2 whose waits are 5 ms after one another, as its documentation has it
    text = "fio version 2 iolog\nf add\nf open\n"
    text += "".join(f"f wait 5 0\nf read {4096 * n} 4096\n" for n in range(300))
    read.rejects(text, "each of 300 waits is 5: fio takes them as ms since")
    # AND two waits of one moment, or many of different ones, are as fio takes them
    other = text.replace("wait 5 0\nf read 0 ", "wait 1 0\nf read 0 ")
    for fine in ("\n".join(text.splitlines()[:7]), other):
        assert read(fine).content["source"]["format"] == "fio2"


def test_fio2_waits_go_on_over_blocks(read: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN blocks so small that a wait and its requests are in different ones
    monkeypatch.setattr("tracekit.readers.reading.CHUNK_BYTES", 40)
    for name in ("importing", "reading"):
        monkeypatch.setattr(f"tracekit.readers.{name}.HEAD_BYTES", 60)
    text = "".join(f"f wait {7 * n} 0\nf read {4096 * n} 4096\nf write 0 512\n" for n in range(50))
    found = read.rows("fio version 2 iolog\nf add\nf open\n" + text)
    assert [row[0] for row in found] == [7_000_000 * n for n in range(50) for _ in range(2)]


def test_fio3_times_are_us(read: Importer) -> None:
    expected: list[Row] = [
        (0, None, "a", 8, 4096, "read"),
        (1_500_000, None, "b", 2, 512, "write"),
        (1_590_000, None, "b", 0, 0, "flush"),
    ]
    assert read.gives(FIO3, "fio3", expected).content["counts"]["passed_lines"] == 2
    # AND a wrong line among the others is reported, the lines that open files are not
    message = r"1 of 3 lines are wrong\n  line 6: 1510 b erase"
    read.rejects(FIO3.replace("b write", "b erase"), message)


BIOSNOOP_QUEUE = """TIME(s)     COMM    PID    DISK    T   SECTOR     BYTES  QUE(ms) LAT(ms)
1.000000    jbd2/a  9      sda     FWFS  16       4096   0.250   0.750
1.002000    cp      10     sda     RA  64       8192   1.000   1.000
"""
BIOSNOOP_ODD = """Tracing block device I/O... Hit Ctrl-C to end.
TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)
1.000000    jbd2/sda1-8    300     sda     FF   -1         0        -1.000   1.000
2.000000    jbd2/sda1-8    300     sda     R    18446744073709551615 0        0.250   0.750
3.000000    fstrim         301     Unknown DE   2048       1048576  -1.000   1.000
4.000000    ?              0               W    0          4096     0.500   0.500
5.000000    dd             302     nvme0n1 WS   64         1048576S    1.000   1.000
^C
"""
"""Flushes, whose place is printed as -1, a queue not seen, no disk, and the pattern of -P."""


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        (
            BIOSNOOP,
            (0, 1),
            [
                (0, 500_000, "xvda1", 13092560, 4096, "write"),
                (1_499_246_000, 1_500_496_000, "sdb", 8, 512, "read"),
            ],
        ),
        (
            BIOSNOOP_QUEUE,
            (0, 1),
            [
                (0, 1_000_000, "sda", 16, 4096, "write"),
                (1_000_000, 3_000_000, "sda", 64, 8192, "read"),
            ],
        ),
        (
            BIOSNOOP_ODD,
            (1, 2),
            [
                (0, 1_000_000, "sda", 0, 0, "flush"),
                (1_000_000_000, 1_001_000_000, "sda", 0, 0, "read"),
                (2_000_000_000, 2_001_000_000, "Unknown", 2048, 1048576, "discard"),
                (3_000_000_000, 3_001_000_000, "?", 0, 4096, "write"),
                (3_999_000_000, 4_001_000_000, "nvme0n1", 64, 1048576, "write"),
            ],
        ),
    ],
    ids=["plain", "queue times", "odd lines"],
)
def test_biosnoop_prints_completions(
    read: Importer, text: str, lines: tuple[int, int], expected: list[Row]
) -> None:
    # GIVEN lines with the time of completion, THEN requests begin queue and latency before
    counts = read.gives(text, "biosnoop", expected).content["counts"]
    assert (counts["passed_lines"], counts["preamble_lines"]) == lines


IOSNOOP_HEAD = "COMM             PID    TYPE DEV      BLOCK        BYTES     LATms\n"
IOSNOOP_LINES = [
    ("200.000100", "200.001100", "a name  7  WS  8,0  1000  4096  1.00\n"),
    ("200.000600", "200.000850", "tar  8  RM  8,16  8  512  0.25\n"),
]


@pytest.mark.parametrize("times", ["STARTs ENDs", "STARTs", "ENDs", ""])
def test_iosnoop_has_times_of_issue_of_completion_or_none(times: str, read: Importer) -> None:
    # GIVEN the forms of perf-tools' iosnoop -ts, -s, -t and without
    chosen = {"STARTs": 0, "ENDs": 1}
    lines = [
        "".join(f"{line[chosen[name]]} " for name in times.split()) + line[2]
        for line in IOSNOOP_LINES
    ]
    head = f"Tracing block I/O. Ctrl-C to end.\n{times and times + ' '}{IOSNOOP_HEAD}"
    expected: list[Row] = [
        (0, 1_000_000, "8,0", 1000, 4096, "write"),
        (500_000, 750_000, "8,16", 8, 512, "read"),
    ]
    if not times:
        expected = [(None, None, *row[2:]) for row in expected]
    folder = read.gives(head + "".join(lines) + "^C\nEnding tracing...\n", "iosnoop", expected)
    assert folder.content["counts"]["bad_lines"] == 0


def test_oracle_general(read: Importer) -> None:
    # GIVEN four accesses to three objects, with the next access of the first
    last = (1 << 63) - 1
    content = oracle([(5, 80, 4096, 2), (5, 8, 512, -1), (6, 80, 4096, last), (9, 1, 5, -1)])
    expected: list[Row] = [
        (0, None, "trace", 80, 4096, None),
        (0, None, "trace", 8, 512, None),
        (1_000_000_000, None, "trace", 80, 4096, None),
        (4_000_000_000, None, "trace", 1, 5, None),
    ]
    read.gives(content, "oracleGeneral", expected)
    # AND a next access that is of another object, or a hash as object, is not taken for a trace
    other = oracle([(5, 80, 4096, 1), (5, 8, 512, -1), (6, 81, 4096, -1)])
    read.rejects(other, "of no known format")
    read.rejects(oracle([(5, 1 << 62, 4096, -1), (5, 8, 512, -1)]), "too large for a place")


def test_objects_of_many_equal_seconds_and_no_size(read: Importer) -> None:
    # GIVEN accesses of a cache simulator's trace, 50 of each second since 1970, some of no size,
    # and next accesses found by a search, compressed
    objects = [8 * (n * 7 % 31) for n in range(500)]
    last = (1 << 63) - 1
    following = [
        next((at for at in range(n + 1, 500) if objects[at] == objects[n]), last)
        for n in range(500)
    ]
    sizes = [0 if n % 3 == 0 else 4096 for n in range(500)]
    moments = [1_538_323_200 + n // 50 for n in range(500)]
    data = oracle(zip(moments, objects, sizes, following, strict=True))
    # THEN each is there with its size, in the order of the file
    expected: list[Row] = [
        (n // 50 * 10**9, None, "trace", objects[n], sizes[n], None) for n in range(500)
    ]
    read.gives(traces.COMPRESSORS["zstd"](data), "oracleGeneral", expected)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        (("time=us", "offset=sectors", "length=sectors"), "lengths look like bytes"),
        (("time=s", "offset=sectors"), "times cannot be s"),
        (("time=us", "offset=bytes"), "are no whole sectors"),
    ],
)
def test_a_contradicting_unit_stops(read: Importer, units: tuple[str, ...], message: str) -> None:
    # GIVEN 400 sequential requests of 4096 bytes, a second apart if times were 1e-3 s
    text = "\n".join(f"{1000 * 3600 * n},r,{8 * n + 1},4096" for n in range(400))
    # WHEN the unit is a wrong one, THEN it is explained, and only --force-units goes on
    read.rejects(text, message, units=units, **OWN)
    assert "doubtful_units" in traces.warnings(read(text, units=units, forces_units=True, **OWN))


@pytest.mark.parametrize(("ticks", "unit"), [(1577808144, "s"), (1577808144360, "ms")])
def test_the_unit_that_would_fit_is_named(read: Importer, ticks: int, unit: str) -> None:
    # GIVEN a format whose times are us, with coarser ones
    text = "".join(f"419,W,{8192 * n},512,{ticks + n}\n" for n in range(50))
    read.rejects(text, f"cannot be us, and can be {unit}: --unit time={unit}")
    assert len(read.rows(text, units=(f"time={unit}",))) == 50


def test_places_in_bytes_that_were_taken_for_sectors(read: Importer) -> None:
    # GIVEN a copy of a Tencent trace with places in bytes and lengths in sectors
    text = "\n".join(f"{1538323200 + n},{n * 4096},8,0,1063" for n in range(200))
    # WHEN it is imported, THEN that is reported, and right with the unit that was named
    read.rejects(text, "places look like bytes, not sectors: 199 requests")
    found = read.rows(text, units=("offset=bytes",))
    assert [row[3] for row in found] == [8 * n for n in range(200)]
    # AND where nothing follows anything it is doubted
    chance = random.Random(1)  # noqa: S311 - a fixed sequence, no secret
    places = [chance.randrange(1 << 20) * 4096 for _ in range(200)]
    text = "\n".join(f"{1538323200 + n},{place},8,0,1063" for n, place in enumerate(places))
    assert "multiple of 512 sectors" in traces.warnings(read(text))["doubtful_units"]


def test_whole_seconds_taken_for_milliseconds_are_doubted(read: Importer) -> None:
    # GIVEN a trace that counts whole seconds, with requests in each
    text = "".join(f"{second},r,{n * 8},8\n" for second in range(200) for n in range(15))
    units = ("offset=sectors", "length=sectors")
    # WHEN it is imported as ms THEN the trace says so
    right, wrong = (
        traces.warnings(read(text, units=(f"time={unit}", *units), **OWN)) for unit in ("s", "ms")
    )
    assert "doubtful_units" not in right
    message = "200 different times fill every ms of the trace, with 15.0"
    assert wrong["doubtful_units"].startswith(message)


def test_microseconds_since_1970_in_a_text_of_ones_own(read: Importer) -> None:
    # GIVEN times that are no 64-bit number in billionths
    text = "1577808144360767,r,8,1\n1577808144360768.25,w,16,1\n1577808144460768,w,16,1\n"
    # WHEN they are imported THEN they count in nanoseconds
    found = read.rows(text, units=("time=us", "offset=sectors", "length=sectors"), **OWN)
    assert [row[0] for row in found] == [0, 1250, 100_001_000]


def test_filetimes_of_ones_own(read: Importer) -> None:
    # GIVEN the columns of a text whose times count from 1601
    text = "\n".join(f"{128166372003061629 + 10 * n};R;{8 * n};8" for n in range(9))
    units = ("time=filetime", "offset=sectors", "length=sectors")
    clock = read(text, delimiter=";", units=units, **OWN).content["clock"]
    # THEN they are a date: 2007-02-22 16:20:00.306 UTC
    moment = 1172163600306162900
    assert clock == {"base_ns": moment, "wall_ns": moment, "duration_ns": 8000}


def test_order_and_depth_are_those_of_a_plain_count(read: Importer) -> None:
    # GIVEN requests of two disks out of order, with response times; many begin at the same time,
    # and some of these take none
    rng = random.Random(5)  # noqa: S311 - not for secrets
    made = sorted(
        (rng.randrange(1000) * 10, rng.randrange(2), rng.choice((0, rng.randrange(300))))
        for _ in range(500)
    )
    text = [f"{t},r,0,512,{disk},{response}" for t, disk, response in made]
    text[100:110] = reversed(text[100:110])
    columns = "time,op,offset,length,device,response"
    folder = read("\n".join(text), columns=columns, units=("time=us", "response=us"))
    # WHEN read back, THEN they are in order, and the depth is what a count over all says
    table: list[dict[str, Any]] = traces.requests(folder).to_pylist()
    times = [row["queue_ns"] for row in table]
    assert times == sorted(times)
    for place, row in enumerate(table):
        before = [one for one in table[:place] if one["device"] == row["device"]]
        begun = sum(one["complete_ns"] > row["queue_ns"] for one in before)
        assert row["depth"] == max(begun + (row["complete_ns"] > row["queue_ns"]), 1)


@pytest.mark.parametrize("content", [b"", b"\0\1\2" * 50, b"hello\n" * 20, b"\xff\xfe1,2\n"])
def test_what_is_no_trace_is_rejected(read: Importer, content: bytes) -> None:
    read.rejects(content, r"empty|of no known format|UTF-16")


REGEX = r"^at (?P<time>[0-9]+): +(?P<op>\w+) (?P<length>[0-9]+)@(?P<offset>[0-9]+)$"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "nosuch"}, "nosuch"),
        ({"columns": "time,op"}, "offset"),
        ({"columns": "time,op,offset,length,colour"}, "colour"),
        ({"units": ("time=weeks",), **OWN}, "weeks"),
        ({"units": ("response=date",), **OWN}, "not one of time, response"),
        ({"delimiter": ";;", **OWN}, ";;"),
        ({"regex": "(?P<time>[0-9]+"}, "missing \\)"),
        ({"regex": r"(?P<time>\d+) (?P<op>\w)"}, "no offset, length"),
        ({"regex": REGEX + "(?P<colour>x)?"}, "unknown groups colour"),
        ({"regex": REGEX + "(?=x)"}, "invalid perl operator"),
        ({"form": "spc", **OWN}, "--format spc names the columns, as --columns"),
        ({"delimiter": ";"}, "--delimiter ';': it belongs to --columns"),
        ({"delimiter": ",", "regex": REGEX}, "--delimiter ',': it belongs to --columns"),
    ],
)
def test_wrong_choices_are_rejected(read: Importer, options: dict[str, Any], message: str) -> None:
    read.rejects("1,r,0,512\n", message, error=UsageError, **options)


def test_own_text_by_regex(read: Importer) -> None:
    text = "# made by hand\nat 100: read 8@16\nat 250:   w 16@32\n"
    units = ("time=ms", "offset=sectors", "length=sectors")
    assert read.rows(text, regex=REGEX, units=units) == [
        (0, None, "trace", 16, 4096, "read"),
        (150_000_000, None, "trace", 32, 8192, "write"),
    ]


def test_groups_that_take_no_part(read: Importer) -> None:
    regex = REGEX.replace("[0-9]+): ", "[0-9.]+): ").removesuffix("$")
    regex += r"(?: by (?P<process>\S+))?(?: \((?P<pid>\d+)\))?"
    text = "at 1: read 8@16 by dd (12)\nat 2.0000000001999: w 8@16\nat 3: w 8@16 by x\n"
    found = traces.requests(read(text, regex=regex, units=("offset=sectors",)))
    assert found.select(["queue_ns", "process", "pid"]).to_pydict() == {
        "queue_ns": [0, 1_000_000_000, 2_000_000_000],
        "process": ["dd", None, "x"],
        "pid": [12, None, None],
    }


def test_a_windows_log_by_a_regular_expression(read: Importer) -> None:
    # GIVEN lines of a Windows trace: us, and bytes in hexadecimal, with other events between them
    text = """BeginHeader
DiskRead, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset
EndHeader
   DiskRead,  5129,  app.exe (24),  31, 0xfffffa80, 0x0006e2c000, 0x00010000,  52,  4
  DiskWrite,  6129,  app.exe (24),  31, 0xfffffa80, 0x0006e3c000, 0x00002000,  23,  4
"""
    pattern = (
        r"\s*(?P<op>Disk\w+),\s*(?P<time>\d+),\s*(?P<process>[^(]+?) *\((?P<pid>\d+)\),[^,]*,[^,]*,"
        r"\s*(?P<offset>0x[0-9a-f]+),\s*(?P<length>0x[0-9a-f]+),\s*(?P<response>\d+),\s*(?P<device>\d+)"
    )
    assert read.rows(text, regex=pattern, units=("time=us", "response=us")) == [
        (0, 52_000, "4", 0x6E2C000 // 512, 65536, "read"),
        (1_000_000, 1_023_000, "4", 0x6E3C000 // 512, 8192, "write"),
    ]


@pytest.mark.parametrize(
    ("header", "line", "units"),
    [
        ("version,time,op,size,lbn", "1,563,2a,512,16", ("time=s",)),
        ("Timestamp_us;IOType;LBA;Size (bytes)", "563;WS;16;512", ()),
        ("time [us]|op|offset [sectors]|length [bytes]", "563|W|16|512", ()),
        ("time_ns      op  sector   nsectors", "     563 W       16 1", ()),
        ("# ts(ns)\toperation\tOffset\tlength", "563\tW\t8192\t512", ()),
        ('"Time (ms)","Type","Start Sector","Sectors","Name"', '"563","write","16","1","x,y"', ()),
    ],
)
def test_a_header_names_the_columns(
    read: Importer, header: str, line: str, units: tuple[str, ...]
) -> None:
    made = read(f"{header}\n{line}\n", units=units)
    assert traces.rows(made) == [(0, None, "trace", 16, 512, "write")]
    assert made.content["counts"]["bad_lines"] == 0
    assert made.content["inferences"][0]["evidence"] == f"its header: {header.lstrip('# ')}"


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("5,w,512,512\n", {"units": ("time=us",), **OWN},
         ["not given, that of a text of one's own", "given by the user"]),
        ("time_us,op,offset,size\n5,w,512,512\n", {"units": ("offset=bytes",)},
         ["given by the user", "its header: time_us,op,offset,size"]),
        ("5 0 16 1 0\n", {"units": ("time=ms",)}, ["format mqsim", "given by the user"]),
    ],
)  # fmt: skip
def test_the_source_of_a_unit_is_named(
    read: Importer, text: str, options: dict[str, Any], expected: list[str]
) -> None:
    found = told(read, text, **options)
    assert [found[f"unit of {what}"]["evidence"] for what in ("places", "times")] == expected


def test_a_header_without_the_unit_of_time_is_not_enough(read: Importer) -> None:
    text = "time,op,size,lbn,latency\n5,w,512,16,3\n"
    message = "not the unit of time and response"
    read.rejects(text, message, error=UsageError, hint="--unit time=UNIT")
    # AND a header without one of the columns is none
    read.rejects("time,op,size\n5,w,512\n", "of no known format")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("2024-02-29T03:04:05.5Z,R,4096,512\n2024-02-29 03:04:06,W,8192,512\n", OWN),
        (
            "ts,op,offset,size\n2024-02-29T03:04:05.5,R,4096,512\n2024-02-29T03:04:06,W,8192,512\n",
            {},
        ),
        (
            "[2024/02/29 03:04:05.5] R at 4096: 512\n[2024/02/29 03:04:06] W at 8192: 512\n",
            {"regex": r"\[(?P<time>[^]]+)\] (?P<op>\w) at (?P<offset>\d+): (?P<length>\d+)"},
        ),
        (
            "2024-02-29 05:04:05.5+02:00 R 4096 512\n2024-02-29 03:04:06 W 8192 512\n",
            {"delimiter": " ", **OWN},
        ),
    ],
    ids=["columns", "header", "regex", "blanks"],
)
@pytest.mark.parametrize("units", [(), ("time=date",)], ids=["known", "given"])
def test_dates_as_times_of_ones_own(
    read: Importer, text: str, options: dict[str, Any], units: tuple[str, ...]
) -> None:
    # GIVEN a text of one's own whose times are dates WHEN it is imported
    made = read(text, units=units, **options)
    # THEN they count from the first, the clock knows its date, and what was taken is recorded
    assert [row[0] for row in traces.rows(made)] == [0, 500_000_000]
    moment = datetime(2024, 2, 29, 3, 4, 5, tzinfo=UTC)
    assert made.content["clock"]["wall_ns"] == int(moment.timestamp()) * 10**9 + 500_000_000
    found = {one["what"]: one for one in made.content["inferences"]}["unit of times"]
    assert found["value"] == "date"
    assert "taken as UTC" in found["evidence"]


def test_dates_in_a_known_format(read: Importer) -> None:
    text = "419,W,8192,512,2020-01-01 00:00:00.5\n725,R,512,512,2020-01-01 00:00:01\n"
    made = read(text)
    assert made.content["source"]["format"] == "alibaba"
    assert [row[0] for row in traces.rows(made)] == [0, 500_000_000]


def test_the_option_offers_the_formats_that_are_read() -> None:
    assert words(ImportFormat) == (
        *EVENT_TEXTS,
        octf.NAME,
        PERFETTO,
        RBD_REPLAY,
        *FORMATS,
        *memory.FORMATS,
    )

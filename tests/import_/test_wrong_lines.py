"""Wrong lines, numbers out of range, and outliers: left out, counted and shown, or named."""

import gzip
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import parsed as traces
from tests.import_.examples import oracle, vscsi
from tests.import_.importer import Importer
from tests.import_.test_tool_texts import XPERF
from tracekit.errors import TracekitError
from tracekit.readers import reading
from tracekit.readers.outliers import SAMPLED, Sample
from tracekit.readers.within import TECTONIC_HEADER, THESIOS_HEADER
from tracekit.store import TraceFolder

REGEX = r"^at (?P<time>[0-9.]+): +(?P<op>\w+) (?P<length>[0-9]+)@(?P<offset>[0-9]+)$"
TICK = 128166372003061629
START_US = 1_577_808_144_360_767
COUNT = 400
AT = 250
"""The line that is another one in most tests, from 0."""


def msr(number: int, *, time: int = 0, place: int = 0, word: str = "Read", more: int = 30) -> str:
    when, where = time or TICK + 1000 * number, place or 4096 * number
    return f"{when},src1,0,{word},{where},4096,{more}"


def at(number: int, *, word: str = "read", place: str = "", time: str = "") -> str:
    return f"at {time or number}: {word} 8@{place or 16 * number}"


def alibaba(number: int, *, time: int | None = None, place: int = 0, length: int = 4096) -> str:
    moment = START_US + 1000 * number if time is None else time
    return f"419,W,{place or 8192 * number},{length},{moment}"


def fiu(number: int, *, time: int | None = None, place: int = 0, length: int = 8) -> str:
    moment = 89_966_104_000_000 + 1_000_000 * number if time is None else time
    return f"{moment} 48 syslogd {place or 16 * number} {length} W 6 0 531e"


GOOD = [alibaba(number) for number in range(COUNT)]
LINES = {"alibaba": GOOD, "fiu": [fiu(number) for number in range(COUNT)]}


def with_one(line: str, name: str = "alibaba") -> str:
    """Return good lines of a format, of which one is replaced."""
    good = LINES[name]
    return "\n".join([*good[:AT], line, *good[AT + 1 :]]) + "\n"


def sectors(folder: TraceFolder) -> list[int]:
    return [row[3] for row in traces.rows(folder)]


def wrong(folder: TraceFolder) -> list[tuple[int, str]]:
    """Return number and text of each wrong line, of which there are few enough to be shown."""
    counts = folder.content["counts"]
    assert counts["bad_lines"] == len(counts["bad_examples"])
    return [(one["line"], one["text"]) for one in counts["bad_examples"]]


def test_wrong_lines_are_counted_with_number_and_text(read: Importer) -> None:
    # GIVEN 400 lines of which three are wrong, each in its own way, and one is empty
    text = [f"{1000 * n},r,{8 * n},4096" for n in range(COUNT)]
    text[9], text[19], text[29] = "what is this", "20000,r,-8,4096", "30000,x,8,4096"
    text.insert(15, "")
    options: dict[str, Any] = {
        "columns": "time,op,offset,length",
        "units": ("time=us", "offset=sectors"),
    }
    # WHEN they are imported, THEN 0.75 % is left out, and shown
    folder = read("\n".join(text), **options)
    assert wrong(folder) == [(10, "what is this"), (21, "20000,r,-8,4096"), (31, "30000,x,8,4096")]
    assert len(sectors(folder)) == 397
    # AND a stricter limit stops it with the same lines and leaves nothing behind
    message = r"3 of 400 lines are wrong\n  line 10: what is this"
    read.rejects("\n".join(text), message, most_bad_ratio=0.005, **options)


def test_wrong_lines_before_the_first_good_one(read: Importer) -> None:
    # GIVEN a header, a line whose begin is missing, and two of unknown words, before good ones
    before = ["Timestamp,Hostname,Disk,Type,Offset,Size,Response", "61,0,Read,0,4096,30\r"]
    before += ["# 2 disks", msr(1, word="Raed"), '" 61 ",web,0,Raed," 0 "," 4096 "," 30 "']
    # WHEN it is imported THEN these are wrong lines, and the header and the comment are none
    folder = read("\n".join([*before, *map(msr, range(400))]))
    assert wrong(folder) == [(2, before[1].strip()), (4, before[3]), (5, before[4])]
    assert folder.content["counts"]["preamble_lines"] == 2
    assert folder.content["counts"]["requests"] == 400
    # AND many of them stop the import
    text = "\n".join([*(msr(n, word="Raed") for n in range(20)), *map(msr, range(400))])
    read.rejects(text, "20 of 420 lines are wrong\n  line 1: 128166")


def test_a_head_of_many_wrong_lines_is_known_and_reported(read: Importer) -> None:
    # GIVEN a text of which a third of the first lines is wrong
    text = "\n".join(msr(n, word="Read" if n % 3 else "?") for n in range(1, 31))
    read.rejects(text, "10 of 30 lines are wrong\n  line 3: 1281663720")
    # AND one of which most are wrong is of no format
    text = "\n".join(msr(n, word="?" if n % 3 else "Read") for n in range(1, 31))
    read.rejects(text, "of no known format")


def test_the_command_counts_lines_before_the_first_request(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("at the begin\nat 5: read 8@16\n")
    command = [sys.executable, "-m", "tracekit", "import", "x", "--regex", REGEX, "-o", "out"]
    command += ["--unit", "offset=sectors"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "  1 line before the first request passed over\n" in done.stdout


@pytest.mark.parametrize(
    "line",
    [
        msr(500, place=(1 << 62) - 1 + 1),
        msr(500, time=(1 << 63) - 1),
        msr(500, more=(1 << 62) // 200 + 1),
    ],
)
def test_a_number_out_of_range_is_a_wrong_line(read: Importer, line: str) -> None:
    folder = read("\n".join([*map(msr, range(500)), line, *map(msr, range(501, 999))]))
    assert wrong(folder) == [(501, line)]
    assert folder.content["counts"]["requests"] == 998


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
    read: Importer, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a text in several blocks, of which one has a line that matches and has no good value
    monkeypatch.setattr(reading, "CHUNK_BYTES", 4096)
    lines = [*map(at, range(300)), line, *map(at, range(301, 600))]
    units = ("time=ms", "offset=sectors", "length=sectors")
    # WHEN it is imported THEN only that line is missing
    folder = read("\n".join(lines), regex=REGEX, units=units)
    assert wrong(folder) == [(301, line)]
    assert sectors(folder) == [16 * number for number in range(600) if number != 300]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("alibaba", alibaba(AT, time=0)),
        ("alibaba", alibaba(AT, time=START_US // 1_000_000)),
        ("alibaba", alibaba(AT, time=10**18)),
        ("alibaba", alibaba(AT, time=2 * START_US)),
        ("alibaba", alibaba(AT, length=10**12)),
        ("alibaba", alibaba(AT, place=4 * 10**18)),
        ("fiu", fiu(AT, time=10**18)),
        ("fiu", fiu(AT, length=4_000_000)),
        ("fiu", fiu(AT, place=4 * 10**15)),
    ],
)
@pytest.mark.parametrize("block_bytes", [4096, reading.CHUNK_BYTES])
def test_an_outlier_is_a_wrong_line(
    read: Importer, name: str, line: str, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a trace of one block or several, one line of which has a number that no unit explains
    monkeypatch.setattr(reading, "CHUNK_BYTES", block_bytes)
    # WHEN it is imported
    made = read(with_one(line, name))
    # THEN it is left out, counted and shown as any wrong line, and the others are all there
    assert made.content["source"]["format"] == name
    assert wrong(made) == [(AT + 1, line)]
    assert sectors(made) == [16 * number for number in range(COUNT) if number != AT]
    # AND with a limit that it exceeds, the import stops with its number and text
    read.rejects(with_one(line, name), f"line {AT + 1}: {line}", most_bad_ratio=0.001)


def test_the_bounds_of_outliers_are_recorded(read: Importer) -> None:
    made = read(with_one(alibaba(AT, time=0)))
    # The lines are those of 1990 to 2100 at most, in us, and a thousand spans around the others.
    told = [one for one in made.content["inferences"] if one["what"] == "strays"]
    assert [one["value"] for one in told] == ["1 wrong lines"]
    bounds = [int(word) for word in told[0]["evidence"].split() if word.isdigit()]
    assert 631_152_000_000_000 <= bounds[0] < START_US - 300 * 1_000_000


def test_many_outliers_stop_and_are_named(read: Importer) -> None:
    # GIVEN a tenth of the lines without a time, which is more than may be wrong
    text = "\n".join(alibaba(n, time=None if n % 10 else 0) for n in range(COUNT))
    message = read.rejects(text, "the first time is 0 s after 1970")
    assert f"line 1: {alibaba(0, time=0)}" in message


def test_a_number_that_another_unit_explains_is_no_outlier(read: Importer) -> None:
    # GIVEN lengths in bytes that are taken for sectors, one of them 4 MiB long
    sizes = [4 << 20 if n == AT else 4096 for n in range(COUNT)]
    text = "\n".join(f"{n},R,{40960 * n},{size}" for n, size in enumerate(sizes))
    options: dict[str, Any] = {"columns": "time,op,offset,length", "units": ("length=sectors",)}
    # WHEN it is imported THEN that line is named and the unit is asked for: nothing is left out
    message = read.rejects(text, "longer than 1 GiB: another unit", **options)
    assert f"line {AT + 1}: {AT},R,{40960 * AT},{4 << 20}" in message


def test_a_far_time_that_can_be_is_kept_and_doubted(read: Importer) -> None:
    # GIVEN ns since the machine's start, a day, and one request at its very start
    made = read(with_one(fiu(AT, time=0), "fiu"))
    assert len(sectors(made)) == COUNT
    assert f"line {AT + 1}: {fiu(AT, time=0)}" in traces.warnings(made)["lone_times"]
    # AND a trace with a pause in it, or of ever rarer requests, is not doubted
    for times in (
        [n + 5000 * (n > AT) for n in range(COUNT)],
        [n**4 // 1000 for n in range(COUNT)],
    ):
        text = "\n".join(fiu(n, time=10**13 + 10**6 * time) for n, time in enumerate(times))
        assert "lone_times" not in traces.warnings(read(text))


def test_an_outlier_of_a_pipe_is_named(tmp_path: Path) -> None:
    text = with_one(alibaba(AT, time=0)).encode()
    command = [sys.executable, "-m", "tracekit", "import", "-", "-o", str(tmp_path / "out")]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert done.returncode == 1
    assert f"line {AT + 1}: {alibaba(AT, time=0)}" in done.stderr.decode()
    assert "as a file" in done.stderr.decode()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("sector", "time", "length", "message"),
    [
        (8, 0, 4096, "a time of 0 is too small"),
        (8, (1 << 63) + 5, 4096, "a time of 9223372036854775813 is too large"),
        (1 << 63, 10**15, 4096, "a place of 9223372036854775808 is too large"),
        (8, 10**15, (1 << 32) - 1, "a length of 4294967295 is too large"),
    ],
)
def test_outliers_of_records(
    read: Importer, sector: int, time: int, length: int, message: str
) -> None:
    # GIVEN records of vscsi, us, of which the last one lies apart
    records = [(0x28, 4096, 8 * n, 10**15 + n) for n in range(COUNT)]
    made = read(vscsi([*records, (0x28, length, sector, time)]))
    assert len(sectors(made)) == COUNT
    assert wrong(made) == [(0, f"record {COUNT + 1}: {message}")]


def test_a_place_beyond_64_bits_stops_a_few_records(read: Importer) -> None:
    records = [(0x28, 512, 8 * n, 1000 * n) for n in range(9)]
    data = vscsi([*records, (0x28, 512, 1 << 63, 9999)])
    read.rejects(data, "a place of 9223372036854775808 is too large", error=TracekitError)


def test_one_object_that_is_no_place_is_a_wrong_record(read: Importer) -> None:
    records = [(n, 8 * n, 512, -1) for n in range(COUNT)]
    made = read(oracle([*records, (COUNT, 1 << 63, 512, -1)]))
    assert (len(sectors(made)), made.content["counts"]["bad_lines"]) == (COUNT, 1)
    # AND a trace of such objects is none of blocks
    data = oracle((n, (1 << 63) + 8 * n, 512, -1) for n in range(COUNT))
    read.rejects(data, "the objects are hashes or keys")


def test_wrong_and_empty_lines_do_not_shift_the_numbers(read: Importer) -> None:
    # GIVEN blank and wrong lines before the outlier, and a log whose waits are lines of their own
    lines = [*GOOD[:9], "", "what", "  ", *GOOD[9:30], alibaba(9, time=0), *GOOD[30:]]
    assert wrong(read("\n".join(lines))) == [(11, "what"), (34, alibaba(9, time=0))]
    log = [f"f wait {n} 0\nf read {4096 * n} 4096\n" for n in range(COUNT)]
    log.append(f"f wait {10**12} 0\nf read 0 4096\n")
    made = read("fio version 2 iolog\nf add\nf open\n" + "".join(log))
    assert wrong(made) == [(3 + 2 * COUNT + 2, "f read 0 4096")]


@pytest.mark.parametrize("block", [7, 1000, 1 << 17])
def test_a_sample_is_even(block: int) -> None:
    # GIVEN the numbers 0, 1, ... in blocks, and their quantiles by hand
    sample, values = Sample(), np.arange(10 * SAMPLED)
    for first in range(0, len(values), block):
        sample.add(values[first : first + block])
    low, high = sample.middle()
    assert low == pytest.approx(0.05 * len(values), rel=0.02)
    assert high == pytest.approx(0.95 * len(values), rel=0.02)


def test_outliers_of_a_disordered_trace(read: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN requests in any order over many blocks, and an outlier
    monkeypatch.setattr(reading, "CHUNK_BYTES", 4096)
    text = with_one(alibaba(AT, time=0)).splitlines()
    random.Random(3).shuffle(text)  # noqa: S311 - a fixed sequence, no secret
    made = read("\n".join(text))
    assert sectors(made) == [16 * number for number in range(COUNT) if number != AT]
    assert made.content["counts"]["bad_lines"] == 1


XPERF_HEAD = XPERF[: XPERF.index("OS Version")]
HEADS = {
    "fio, version 3": "fio version 3 iolog\n0 a add\n0 a open\n",
    "fio, version 2": "fio version 2 iolog\na add\na open\na wait 5 0\n",
    "names and units": "time_s,op,offset_bytes,length_bytes\n",
    "names": "time;op;offset;length\n",
    "biosnoop": "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n",
    "biosnoop, stopped": "Tracing block device I/O... Hit Ctrl-C to end.\nTIME(s) COMM PID\n^C\n",
    "iosnoop": "Tracing block I/O. Ctrl-C to end.\nCOMM PID TYPE DEV BLOCK BYTES LATms\n",
    "systor": "Timestamp,Response,IOType,LUN,Offset,Size\n",
    "systor, no newline": "Timestamp,Response,IOType,LUN,Offset,Size",
    "systor, of Windows": "Timestamp,Response,IOType,LUN,Offset,Size\r\n\r\n",
    "msr": "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n",
    "tencent": "Timestamp,Offset,Size,IOType,VolumeID\n",
    "alibaba": "device_id,opcode,offset,length,timestamp\n",
    "blkreplay": "start ; sector ; length ; op ;  replay_delay ; replay_duration\n",
    "a comment": "# start ; sector ; length ; op ; replay_delay ; replay_duration\n",
    "the kernel's": "# tracer: blk\n#\n",
    "vscsiStats": "VSCSI cmd trace\nserial number,IO data length,number of SG entries\n",
    "thesios": f"{THESIOS_HEADER}\n",
    "tectonic": f"{TECTONIC_HEADER}\n",
    "xperf": XPERF_HEAD,
    "DTrace": "  UID   PID D    BLOCK   SIZE       COMM PATHNAME\n",
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_without_requests_is_no_wrong_line(read: Importer, name: str) -> None:
    read.rejects(HEADS[name], "x: there is no request in it")


@pytest.mark.parametrize("name", ["biosnoop", "systor", "blkreplay", "fio3", "vscsi-text"])
def test_a_head_of_a_given_format(read: Importer, name: str) -> None:
    heads = {"fio3": "fio, version 3", "vscsi-text": "vscsiStats"}
    read.rejects(HEADS[heads.get(name, name)], "x: there is no request in it", form=name)


def test_a_text_of_words_is_no_head(read: Importer) -> None:
    read.rejects("hello\nworld\n", "no known format")


LAST = {
    "as long as others": (alibaba(COUNT), False),
    "a shorter last number": (alibaba(COUNT)[:-3], True),
    "a column less": (alibaba(COUNT)[:14], True),
    "half a column": (fiu(COUNT)[:-2], True),
}


@pytest.mark.parametrize("block_bytes", [4096, reading.CHUNK_BYTES])
@pytest.mark.parametrize("name", LAST)
def test_a_last_line_without_newline(
    read: Importer, name: str, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", block_bytes)
    # GIVEN lines of which the last has no newline
    line, is_left_out = LAST[name]
    good = LINES["fiu" if name == "half a column" else "alibaba"]
    made = read("\n".join([*good, line]))
    # THEN it is shown; it is left out where it is shorter than each of those before
    said = traces.warnings(made)["open_end"]
    assert f"line {COUNT + 1}: {line.strip()}" in said
    assert ("left out" in said) == is_left_out
    assert len(sectors(made)) == COUNT + 1 - is_left_out
    assert wrong(made) == [(COUNT + 1, line)] * is_left_out
    # AND with a newline it is shown only if it could be taken for a request, and is shorter
    ended = read("\n".join([*good, line]) + "\n")
    assert wrong(ended) == wrong(made)
    said = traces.warnings(ended).get("open_end", "")
    assert said.startswith("the last line is shorter") == bool(said)
    assert bool(said) == (is_left_out and name != "a column less")


def test_a_last_line_of_a_shorter_number_is_taken(read: Importer) -> None:
    # GIVEN responses of three to five digits, and of one in the last line; a log that is closed
    lines = [
        f"{128166372003061629 + n * 10**5},hm,0,Read,512,512,{10 ** (2 + n % 3)}\n"
        for n in range(200)
    ]
    assert not wrong(read("".join(lines) + "128166372093061999,hm,0,Read,512,512,7\n"))
    log = "".join(f"{n * 99} a read {n * 4096} 4096\n" for n in range(200))
    made = read(f"fio version 3 iolog\n{log}30000 a close\n")
    assert "open_end" not in traces.warnings(made)


def test_a_wrong_last_line_without_newline_is_not_taken(read: Importer) -> None:
    said = traces.warnings(read("\n".join([*GOOD, "419,W,8192,16384,what is this line?"])))[
        "open_end"
    ]
    assert "is wrong: it was left out: line 401: 419,W" in said


@pytest.mark.parametrize("block_bytes", [4096, reading.CHUNK_BYTES])
def test_bytes_of_wrong_lines_are_reported(
    read: Importer, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", block_bytes)
    # GIVEN 20,000 zeros in the place of as many bytes in the middle
    text = ("\n".join(alibaba(number) for number in range(4000)) + "\n").encode()
    at = 50_000
    text = text[:at] + bytes(20_000) + text[at + 20_000 :]
    begin = text.rfind(b"\n", 0, at) + 1
    end = text.index(b"\n", at)
    line = text.count(b"\n", 0, at) + 1
    # WHEN it is imported THEN the warning has their place and what they are
    said = traces.warnings(read(text))["bad_lines"]
    assert f"1 line was wrong and left out: {end - begin:,} bytes from byte {begin:,}" in said
    assert f"(line {line:,}), 20,000 of them zero; about " in said
    gone = 4000 - len(text.splitlines()) + 1
    told = int(said.split("about ")[1].split(" lines")[0].replace(",", ""))
    assert abs(told - gone) < gone * 0.05


@pytest.mark.parametrize("block_bytes", [512, reading.CHUNK_BYTES])
def test_scattered_wrong_lines_are_not_one_place(
    read: Importer, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", block_bytes)
    # GIVEN wrong lines here and there, some of them one behind the other over several blocks
    wrong = [3, *range(10, 90), 200, 202, 300, 301, 350, 390]
    text = [b"what?\n" if number in wrong else f"{line}\n".encode()
            for number, line in enumerate(GOOD, 1)]  # fmt: skip
    said = traces.warnings(read(b"".join(text), most_bad_ratio=0.5))["bad_lines"]
    # THEN the first places are told with their lines and bytes, of the others how many there are
    begin = {number: sum(map(len, text[: number - 1])) for number in wrong}
    places = [("line 3", 3), ("lines 10 to 89", 10), ("line 200", 200), ("line 202", 202)]
    places.append(("lines 300 to 301", 300))
    shown = [f"{lines} from byte {begin[first]:,}" for lines, first in places]
    assert said == (
        f"{len(wrong)} lines were wrong and left out: {5 * len(wrong)} bytes at 7 places,"
        f" {', '.join(shown)}, 2 more, the last with line 390"
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("0.5,R,4096.0,512", "its offset is 4096.0, no whole number"),
        ("0.5,R,4096,4K", "its length is 4K, no whole number"),
        ("-0.5,R,4096,512", "its time is -0.5, below zero"),
    ],
)
def test_what_is_wrong_with_a_line_is_told(read: Importer, line: str, why: str) -> None:
    columns = "time,op,offset,length"
    read.rejects(f"{line}\n" * 10, "lines are wrong", hint=why, columns=columns)


def test_what_is_compressed_twice_is_told(read: Importer) -> None:
    twice = gzip.compress(gzip.compress(b"419,W,8192,16384,1577808144360767\n"))
    read.rejects(twice, "compressed twice", hint="unpack it once")

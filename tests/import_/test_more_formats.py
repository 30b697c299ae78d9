"""fio's logs, biosnoop, oracleGeneral and --regex: lines by hand, and units that contradict."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.import_.test_import import rows, stored
from tracekit.errors import InputError, UsageError
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions

FIO2 = """fio version 2 iolog
/dev/sdb add
/dev/sdb open
/dev/sdb write 4096 512
/dev/sdb wait 20 0
/dev/sdb read 8192 4096
/dev/sdb sync 8192 4096
/dev/sdb wait 1500 0
/dev/sdb trim 0 65536
/dev/sdb close
"""
FIO3 = """fio version 3 iolog
0 a add
3 a open
10 a read 4096 4096
20 b add
1510 b write 1024 512
1600 b datasync 1024 512
1700 a close
"""
BIOSNOOP = """TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)
1.000004    super vise     1950   xvda1   W 13092560   4096      0.50
2.500000    bash           12     sdb     R 8          512       1.25
"""
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


def run(tmp_path: Path, content: str | bytes, **choice: object) -> Path:
    made = ImportOptions(overwrite=True, **choice)  # type: ignore[arg-type]
    return import_trace(stored(tmp_path / "x", content), tmp_path / "out", options=made).path


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_fio2_waits_are_ms_since_the_start(tmp_path: Path, ending: str) -> None:
    # GIVEN waits of 20 and 1500 ms between requests, THEN a request has the time of the wait before
    found = import_trace(stored(tmp_path / "x", FIO2.replace("\n", ending)), tmp_path / "out")
    assert found.content["source"]["format"] == "fio2"
    assert rows(found.path) == [
        (0, None, "/dev/sdb", 8, 512, "write"),
        (20_000_000, None, "/dev/sdb", 16, 4096, "read"),
        (20_000_000, None, "/dev/sdb", 0, 0, "flush"),
        (1_500_000_000, None, "/dev/sdb", 0, 65536, "discard"),
    ]
    assert found.content["counts"]["passed_lines"] == 1
    assert found.content["counts"]["preamble_lines"] == 3
    assert found.content["counts"]["bad_lines"] == 0


def test_fio2_in_us_or_relative_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="of this format are ms by its own reader, not us"):
        run(tmp_path, FIO2, units=("time=us",))
    with pytest.raises(InputError, match="waits run backwards, from 20 to 15"):
        run(tmp_path, FIO2.replace("wait 1500", "wait 15"))
    assert not (tmp_path / "out").exists()


def test_fio2_waits_go_on_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN blocks so small that a wait and its requests are in different ones
    monkeypatch.setattr("tracekit.readers.blocks.CHUNK_BYTES", 40)
    monkeypatch.setattr("tracekit.readers.importing.HEAD_BYTES", 60)
    text = "".join(f"f wait {7 * n} 0\nf read {4096 * n} 4096\nf write 0 512\n" for n in range(50))
    found = rows(run(tmp_path, "fio version 2 iolog\nf add\nf open\n" + text))
    assert [row[0] for row in found] == [7_000_000 * n for n in range(50) for _ in range(2)]


def test_fio3_times_are_us(tmp_path: Path) -> None:
    found = import_trace(stored(tmp_path / "x", FIO3), tmp_path / "out")
    assert found.content["source"]["format"] == "fio3"
    assert rows(found.path) == [
        (0, None, "a", 8, 4096, "read"),
        (1_500_000, None, "b", 2, 512, "write"),
        (1_590_000, None, "b", 0, 0, "flush"),
    ]
    assert found.content["counts"]["passed_lines"] == 2
    # AND a wrong line among the others is told, the lines that open files are not
    with pytest.raises(InputError, match=r"1 of 3 lines are wrong\n  line 6: 1510 b erase"):
        run(tmp_path, FIO3.replace("b write", "b erase"))


def test_biosnoop_prints_completions(tmp_path: Path) -> None:
    # GIVEN lines with the time of completion, THEN requests begin their latency before
    found = import_trace(stored(tmp_path / "x", BIOSNOOP), tmp_path / "out")
    assert found.content["source"]["format"] == "biosnoop"
    assert rows(found.path) == [
        (0, 500_000, "xvda1", 13092560, 4096, "write"),
        (1_499_246_000, 1_500_496_000, "sdb", 8, 512, "read"),
    ]


def test_biosnoop_with_queue_times(tmp_path: Path) -> None:
    assert rows(run(tmp_path, BIOSNOOP_QUEUE)) == [
        (0, 1_000_000, "sda", 16, 4096, "write"),
        (1_000_000, 3_000_000, "sda", 64, 8192, "read"),
    ]


def oracle(accesses: list[tuple[int, int, int, int]]) -> bytes:
    return b"".join(struct.pack("<IQIq", *access) for access in accesses)


def test_oracle_general(tmp_path: Path) -> None:
    # GIVEN four accesses to three objects, with the next access of the first
    content = oracle(
        [(5, 80, 4096, 2), (5, 8, 512, -1), (6, 80, 4096, (1 << 63) - 1), (9, 1, 5, -1)]
    )
    found = import_trace(stored(tmp_path / "x", content), tmp_path / "out")
    assert found.content["source"]["format"] == "oracleGeneral"
    second = 1_000_000_000
    assert rows(found.path) == [
        (0, None, "trace", 80, 4096, "read"),
        (0, None, "trace", 8, 512, "read"),
        (second, None, "trace", 80, 4096, "read"),
        (4 * second, None, "trace", 1, 5, "read"),
    ]
    # AND a next access that is of another object, or a hash as object, is not taken for a trace
    with pytest.raises(InputError, match="of no known format"):
        run(tmp_path, oracle([(5, 80, 4096, 1), (5, 8, 512, -1), (6, 81, 4096, -1)]))
    with pytest.raises(InputError, match="too large for a place"):
        run(tmp_path, oracle([(5, 1 << 62, 4096, -1), (5, 8, 512, -1)]))


REGEX = r"^at (?P<time>[0-9]+): +(?P<op>\w+) (?P<length>[0-9]+)@(?P<offset>[0-9]+)$"


def test_own_text_by_regex(tmp_path: Path) -> None:
    text = "# made by hand\nat 100: read 8@16\nat 250:   w 16@32\n"
    units = ("time=ms", "offset=sectors", "length=sectors")
    assert rows(run(tmp_path, text, regex=REGEX, units=units)) == [
        (0, None, "trace", 16, 4096, "read"),
        (150_000_000, None, "trace", 32, 8192, "write"),
    ]


@pytest.mark.parametrize(
    ("regex", "told"),
    [
        ("(?P<time>[0-9]+", "missing \\)"),
        (r"(?P<time>\d+) (?P<op>\w)", "no offset, length"),
        (REGEX + "(?P<colour>x)?", "unknown groups colour"),
        (REGEX + "(?=x)", "invalid perl operator"),
    ],
)
def test_wrong_regexes_are_refused(tmp_path: Path, regex: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        run(tmp_path, "at 1: r 8@8\n", regex=regex)


def test_biosnoop_without_a_place_a_queue_or_a_disk(tmp_path: Path) -> None:
    # GIVEN flushes, whose place is printed as -1, a queue not seen, no disk, and the pattern of -P
    found = import_trace(stored(tmp_path / "x", BIOSNOOP_ODD), tmp_path / "out")
    # THEN each is a request, which began its queue and its latency before
    assert rows(found.path) == [
        (0, 1_000_000, "sda", 0, 0, "flush"),
        (1_000_000_000, 1_001_000_000, "sda", 0, 0, "read"),
        (2_000_000_000, 2_001_000_000, "Unknown", 2048, 1048576, "discard"),
        (3_000_000_000, 3_001_000_000, "?", 0, 4096, "write"),
        (3_999_000_000, 4_001_000_000, "nvme0n1", 64, 1048576, "write"),
    ]
    counts = found.content["counts"]
    assert (counts["bad_lines"], counts["passed_lines"], counts["preamble_lines"]) == (0, 1, 2)

"""Texts that print each I/O when it ends: Windows' xperf and DTrace's iosnoop."""

import pytest

from tests import parsed as traces
from tests.import_.importer import Importer
from tests.parsed import Row

# By the published header of SNIA's Microsoft Production Server traces.
XPERF = """BeginHeader
 DiskRead, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset, IOSize, ElapsedTime
 DiskFlush, TimeStamp,  Process Name ( PID), ThreadID, IrpPtr, ElapsedTime, DiskNum
EndHeader
OS Version: 6.0.6001, Trace Size: 3014KB, Events Lost: 0
  DiskRead, 5129, app.exe (  24),  31, 0xfffffa80, 0x6e2c000, 0x10000,  52,  4, 0x43, 52, "C:\\a, b"
 DiskReadInit,  6000,  app.exe (  24),  31, 0xfffffa80
    DiskWrite,  6129,  Unknown (4294967295),  31, 0xfffffa80, 0x0006e3c000, 0x00002000,  23,  5
    DiskFlush,  6400,  System (   4),  31, 0xfffffa80,  120,  4, 0x0, 120, Normal
      CSwitch,  6500,  Idle (   0), 0
"""


def test_xperf_prints_ends(read: Importer) -> None:
    # GIVEN a dump of Windows' events, of disks and others, with bytes in hexadecimal
    expected: list[Row] = [
        (0, 52_000, "4", 0x6E2C000 // 512, 65536, "read"),
        (1_029_000, 1_052_000, "5", 0x6E3C000 // 512, 8192, "write"),
        (1_203_000, 1_323_000, "4", 0, 0, "flush"),
    ]
    # THEN requests begin so long before as they took; what is of no disk is passed over
    folder = read.gives(XPERF, "xperf", expected)
    assert folder.content["counts"]["passed_lines"] == 2
    found = traces.requests(folder).select(["process", "pid"]).to_pydict()
    assert found == {"process": ["app.exe", "Unknown", "System"], "pid": [24, None, 4]}


MAIN = "UID PID D BLOCK SIZE COMM PATHNAME"


@pytest.mark.parametrize(
    ("head", "before", "expected"),
    [
        ("", ("", ""), [(None, None), (None, None)]),
        ("STIME(us) DELTA(us) ", ("900 50 ", "1000 70 "), [(0, 50_000), (100_000, 170_000)]),
        ("STIME(us) ", ("900 ", "1000 "), [(0, None), (100_000, None)]),
        ("TIME(us) DELTA(us) ", ("950 50 ", "1070 70 "), [(0, 50_000), (100_000, 170_000)]),
        ("STIME(us) TIME(us) DELTA(us) DTIME(us) ", ("900 950 50 50 ", "1000 1070 70 9 "),
         [(0, 50_000), (100_000, 170_000)]),
    ],
)  # fmt: skip
def test_dtrace_iosnoop_names_its_columns(
    read: Importer,
    head: str,
    before: tuple[str, str],
    expected: list[tuple[int | None, int | None]],
) -> None:
    # GIVEN lines of DTrace's iosnoop with some of its options, which its header tells
    lines = [
        f"{before[0]}  100 15795 R 3808 8192 tar /usr/bin/eject\n",
        f"{before[1]}    0 3 W 1584 4096 sched <none>\n",
    ]
    # THEN it is known by the header, and users' numbers are no places
    folder = read.gives(
        f"{head}{MAIN}\n{''.join(lines)}^C\n",
        "dtrace-iosnoop",
        [
            (*expected[0], "trace", 3808, 8192, "read"),
            (*expected[1], "trace", 1584, 4096, "write"),
        ],
    )
    assert traces.requests(folder)["process"].to_pylist() == ["tar", "sched"]


def test_dtrace_iosnoop_of_several_devices(read: Importer) -> None:
    text = "DEVICE UID PID D BLOCK SIZE COMM PATHNAME\ncmdk0 0 527 W 1584 4096 sched <none>\n"
    row: Row = (None, None, "cmdk0", 1584, 4096, "write")
    read.gives(text, "dtrace-iosnoop", [row])


def test_data_without_a_place_is_a_wrong_line(read: Importer) -> None:
    # GIVEN requests of biosnoop without a place: a flush, and a write that has data
    head = "TIME(s)     COMM  PID  DISK  T SECTOR  BYTES  LAT(ms)\n"
    lines = "".join(f"{n / 1000 + 1:.6f} dd 100 sda W {n * 8} 4096 0.45\n" for n in range(300))
    odd = "0.9 jbd 1 sda FF -1 0 0.1\n0.95 dd 100 sda W -1 65536 0.45\n"
    counts = read(head + odd + lines).content["counts"]
    assert counts["operations"] == {"write": 300, "flush": 1}
    assert counts["bad_lines"] == 1

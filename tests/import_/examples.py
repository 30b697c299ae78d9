"""Traces in the formats that import knows, written out by hand, with the rows that they are."""

import random
import struct
from collections.abc import Iterable
from pathlib import Path

from tests.parsed import Row

RECORDED = Path(__file__).parent / "recorded"
# Format, lines, and for each: queue_ns, complete_ns, device, sector, bytes, operation.
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
        [(None, None, "trace", 80, 8192, None), (None, None, "trace", 240, 4096, None)],
    ),
}
TEXTS |= {
    "vscsi-text": (
        "#Vscsi Cmd Trace. (Trace Format Version 1)\n"
        "#Serial Number,IO Data Length,Num SG Entries,Command Type,LBN,Time Stamp (microseconds)\n"
        "2147483692,4096,1,write,24048800,2756778716647\n"
        "12,4608,2,read,6322464,2756778716650\n",
        [(0, None, "trace", 24048800, 4096, "write"), (3000, None, "trace", 6322464, 4608, "read")],
    ),
    "k5cloud": (
        "1157,0.000000,R,8192,16384\n20,0.000215,W,512,4096\n",
        [(0, None, "1157", 16, 16384, "read"), (215_000, None, "20", 1, 4096, "write")],
    ),
}
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


def vscsi(records: Iterable[tuple[int, int, int, int]], *, version: int = 1) -> bytes:
    """Return the file of vscsiStats with these commands, bytes, sectors and us."""
    if version == 1:
        pieces = [
            struct.pack("<IIIHHQQ", number, length, 1, command, 0x100, sector, time_us)
            for number, (command, length, sector, time_us) in enumerate(records)
        ]
    else:
        pieces = [
            struct.pack("<HHIIIQQQ", command, 0x200, number, length, 1, sector, time_us, 7)
            for number, (command, length, sector, time_us) in enumerate(records)
        ]
    return b"".join(pieces)


def oracle(accesses: Iterable[tuple[int, int, int, int]]) -> bytes:
    """Return the file of oracleGeneral with these seconds, objects, bytes and next accesses."""
    return b"".join(struct.pack("<IQIq", *access) for access in accesses)


def lines_of(form: str, count: int = 300, **unlike: int) -> str:
    """Return lines with bytes where they do not belong."""
    choose, found = random.Random(3), list[str]()  # noqa: S311 - test data
    for number in range(count):
        place, length = choose.randrange(10**6) * 4096, choose.choice([4096, 8192, 65536])
        sector, sectors = unlike.get("place", place), unlike.get("length", length)
        found.append(form.format(number=number, place=sector, length=sectors, seconds=number / 10))
    return "".join(found)

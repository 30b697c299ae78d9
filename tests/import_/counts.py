"""Requests, bytes and span of each import beside a counter that shares nothing with it.

`python -m tests.import_.counts [FOLDER]` prints them for the traces that the tests write and for
public ones in FOLDER: cloudPhysicsIO.vscsi and .csv (libCacheSim), linux-webserver-2.load.gz
(blkreplay), tpcc-small.trace (MQSim). It ends with 1 where a number is another.
"""

import argparse
import gzip
import re
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tests import parsed as traces
from tests.import_.damages import EVENTS, Request, made_requests, texts
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions
from tracekit.store import TraceFolder

Event = tuple[Fraction, str, int]
"""Time in ns, operation as "R", "W" or another letter, bytes."""


@dataclass(frozen=True)
class Counts:
    """What a trace is in numbers."""

    requests: int
    reads: int
    writes: int
    total_bytes: int
    span_ns: int

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Counts":
        """Count in plain Python; times are cut to whole ns from the first one on."""
        found = list(events)
        times = [row[0] for row in found]
        return cls(
            len(found),
            sum(row[1] == "R" for row in found),
            sum(row[1] == "W" for row in found),
            sum(row[2] for row in found),
            int(max(times) - min(times)),
        )


def counted_by_tracekit(folder: TraceFolder) -> Counts:
    """Count the rows of the table of requests."""
    table = traces.requests(folder)
    words, times = table["operation"].to_pylist(), table["queue_ns"].drop_null().to_pylist()
    return Counts(
        len(words),
        words.count("read"),
        words.count("write"),
        sum(table["length_bytes"].to_pylist()),
        max(times, default=0) - min(times, default=0),
    )


WRITTEN: dict[str, Callable[[list[str]], Event]] = {
    "msr": lambda words: (Fraction(int(words[0]) * 100), words[3][0], int(words[5])),
    "spc": lambda words: (Fraction(words[4]) * 10**9, words[3], int(words[2])),
    "alibaba": lambda words: (Fraction(int(words[4]) * 1000), words[1], int(words[3])),
    "tencent": lambda words: (
        Fraction(int(words[0]) * 10**9),
        "RW"[int(words[3])],
        int(words[2]) * 512,
    ),
    "systor": lambda words: (Fraction(words[0]) * 10**9, words[2], int(words[5])),
    "fiu": lambda words: (Fraction(int(words[0])), words[5], int(words[4]) * 512),
    "mqsim": lambda words: (Fraction(int(words[0])), "WR"[int(words[4])], int(words[3]) * 512),
    "disksim": lambda words: (
        Fraction(words[0]) * 10**6,
        "WR"[int(words[4]) & 1],
        int(words[3]) * 512,
    ),
}
"""The columns of a line, by the format's definition."""


def written(name: str, lines: Iterable[str]) -> Iterator[Event]:
    """Read lines of columns between commas or blanks."""
    return (WRITTEN[name](line.replace(",", " ").split()) for line in lines)


QUEUED = {
    "blk": re.compile(rb" ([0-9.]+): +[0-9]+,[0-9]+ +Q +([A-Z]+) (?:[0-9]+ \+ ([0-9]+) )?"),
    "ftrace": re.compile(rb" ([0-9.]+): block_bio_queue: [0-9,]+ ([A-Z]+) [0-9]+ \+ ([0-9]+) "),
    "perf": re.compile(
        rb" ([0-9.]+): +block:block_bio_queue: [0-9,]+ ([A-Z]+) [0-9]+ \+ ([0-9]+) "
    ),
}


def queued(text: bytes, pattern: re.Pattern[bytes]) -> Iterator[Event]:
    """Read the events of requests that are queued; N is what the blk tracer calls a write."""
    for time, words, sectors in pattern.findall(text):
        letter = words.decode().lstrip("F")[:1].replace("N", "W") if int(sectors or 0) else "F"
        yield Fraction(time.decode()) * 10**9, letter, int(sectors or 0) * 512


def vscsi(data: bytes) -> Iterator[Event]:
    for _, length, _, command, _, _, time_us in struct.iter_unpack("<IIIHHQQ", data):
        yield Fraction(time_us * 1000), {0x28: "R", 0x2A: "W"}.get(command, "-"), length


def vscsi_csv(data: bytes) -> Iterator[Event]:
    for line in data.decode().splitlines()[1:]:
        _, time_s, command, size, _ = line.split(",")
        yield Fraction(int(time_s) * 10**9), {"28": "R", "2a": "W"}.get(command, "-"), int(size)


def blkreplay(data: bytes) -> Iterator[Event]:
    for line in data.decode().splitlines():
        words = [word.strip() for word in line.split(";")]
        if len(words) == 6 and words[0][:1].isdigit():
            yield Fraction(words[0]) * 10**9, words[3][0], int(words[2]) * 512


def mqsim(data: bytes) -> Iterator[Event]:
    return written("mqsim", data.decode().splitlines())


PUBLIC: dict[str, tuple[Callable[[bytes], Iterator[Event]], ImportOptions]] = {
    "cloudPhysicsIO.vscsi": (vscsi, ImportOptions()),
    "cloudPhysicsIO.csv": (
        vscsi_csv,
        ImportOptions(
            columns="-,time,op,length,offset",
            units=("time=s", "offset=sectors"),
            operations=("2a=write", "28=read"),
        ),
    ),
    "linux-webserver-2.load.gz": (blkreplay, ImportOptions()),
    "tpcc-small.trace": (mqsim, ImportOptions()),
}


FIRST_S = 1_577_808_144
"""Added where times count from 1970."""


@dataclass(frozen=True)
class Form:
    """How requests are written in a format, by its definition, and what of them it keeps."""

    write: Callable[[int, Request], str | bytes]
    head: str | bytes = ""
    tick_ns: int | None = 1000
    """To which times are cut; None where it has none."""
    has_operations: bool = True

    def content(self, requests: Sequence[Request]) -> bytes:
        """Return the trace."""
        parts = [self.head, *(self.write(*one) for one in enumerate(requests))]
        return b"".join(one if isinstance(one, bytes) else one.encode() for one in parts)

    def counts(self, requests: Sequence[Request]) -> Counts:
        """Count what the format keeps of the requests."""
        tick, is_told = self.tick_ns, self.has_operations
        events = [
            (
                Fraction(round(one.time_s * 1e6) * 1000 // tick * tick if tick else 0),
                one.letter if is_told else "-",
                one.sectors * 512,
            )
            for one in requests
        ]
        return Counts.of(events)


def us_of(one: Request) -> int:
    """Return the time in us."""
    return round(one.time_s * 1e6)


FORMS = {
    "blkparse": Form(
        lambda n, one: "".join(
            f"  8,0    1 {3 * n + i + 1:8} {us_of(one) // 10**6:5}.{us_of(one) % 10**6:06}{i:03}"
            f"    42  {act}   {one.letter} {one.sector} + {one.sectors}"
            f" [{0 if act == 'C' else 'x'}]\n"
            for i, act in enumerate("QDC")
        )
    ),
    "blkreplay": Form(
        lambda _, one: f"{one.time_s:.6f} ; {one.sector} ; {one.sectors} ; {one.letter} ; 0 ; 0\n",
        "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n",
    ),
    "vscsi1": Form(
        lambda n, one: struct.pack(
            "<IIIHHQQ",
            *(n + 1, one.sectors * 512, 1, 0x28 if one.is_read else 0x2A, 0x100),
            *(one.sector, us_of(one)),
        )
    ),
    "vscsi2": Form(
        lambda n, one: struct.pack(
            "<HHIIIQQQ",
            *(0x28 if one.is_read else 0x2A, 0x200, n + 1, one.sectors * 512, 1),
            *(one.sector, us_of(one), one.response_us),
        )
    ),
    "vscsi-text": Form(
        lambda n, one: (
            f"{n + 1},{one.sectors * 512},1,{'read' if one.is_read else 'write'},{one.sector},"
            f"{us_of(one)}\n"
        ),
        "#Vscsi Cmd Trace. (Trace Format Version 1)\n#Serial Number,IO Data Length,Num SG Entries,"
        "Command Type,LBN,Time Stamp (microseconds)\n",
    ),
    "oracleGeneral": Form(
        lambda _, one: struct.pack("<IQIq", int(one.time_s), one.sector, one.sectors * 512, -1),
        tick_ns=10**9,
        has_operations=False,
    ),
    "oracleGeneralOpNS": Form(
        lambda _, one: struct.pack(
            "<IQIBhq",
            *(int(one.time_s), one.sector, one.sectors * 512, 1 if one.is_read else 3, 0, -1),
        ),
        tick_ns=10**9,
    ),
    "k5cloud": Form(
        lambda _, one: (
            f"1157,{one.time_s:.6f},{one.letter},{one.sector * 512},{one.sectors * 512}\n"
        )
    ),
    "xperf": Form(
        lambda _, one: (
            f"   Disk{'Read' if one.is_read else 'Write'}, {us_of(one) + one.response_us}, a ( 24),"
            f" 31, 0xfa80, 0x{one.sector * 512:x}, 0x{one.sectors * 512:x}, {one.response_us}, 4\n"
        )
    ),
    "thesios": Form(
        lambda _, one: (
            f"a1,{one.sector * 512},x,1,WARM,REPLICATED,{'READ' if one.is_read else 'WRITE'},OTHER,"
            f"0,0,{one.sectors * 512},0,0,{one.time_s + FIRST_S:.6f},0.01,0,0.012\n"
        ),
        "filename,file_offset,application,c_time,io_zone,redundancy_type,op_type,service_class,"
        "from_flash_cache,cache_hit,request_io_size_bytes,disk_io_size_bytes,"
        "response_io_size_bytes,start_time,disk_time,simulated_disk_start_time,"
        "simulated_latency\n",
    ),
    "tectonic": Form(
        lambda n, one: (
            f"{int(one.time_s) + FIRST_S},{n:08x}-1,40,{one.sectors * 512},0,42,34,"
            f"{'get' if one.is_read else 'put'}Chunk.Permanent,1,51,4\n"
        ),
        "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,"
        "op_count,host_name,rs_shard_id\n",
        tick_ns=10**9,
    ),
    "fio3": Form(
        lambda _, one: (
            f"{us_of(one)} a {'read' if one.is_read else 'write'} {one.sector * 512}"
            f" {one.sectors * 512}\n"
        ),
        "fio version 3 iolog\n0 a add\n0 a open\n",
    ),
    "biosnoop": Form(
        lambda _, one: (
            f"{one.time_s + 1:.6f} x 42 sda {one.letter} {one.sector} {one.sectors * 512} 0.50\n"
        ),
        "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n",
    ),
    "iosnoop": Form(
        lambda _, one: (
            f"{one.time_s:.6f} {one.time_s + one.response_us / 1e6:.6f} x 42 {one.letter} 8,0"
            f" {one.sector} {one.sectors * 512} {one.response_us / 1e3:.2f}\n"
        ),
        "Tracing block I/O. Ctrl-C to end.\nSTARTs ENDs COMM PID TYPE DEV BLOCK BYTES LATms\n",
    ),
    "dtrace-iosnoop": Form(
        lambda _, one: (
            f"  100 15795 {one.letter} {one.sector} {one.sectors * 512} tar /usr/bin/eject\n"
        ),
        "  UID   PID D    BLOCK   SIZE       COMM PATHNAME\n",
        tick_ns=None,
    ),
    "arc": Form(
        lambda n, one: f"{one.sector // 8} {one.sectors // 8} 0 {n}\n",
        tick_ns=None,
        has_operations=False,
    ),
}


def trials(folder: Path | None) -> Iterator[tuple[str, str, bytes, Counts]]:
    """Return name, origin, bytes and counts of each trace."""
    requests = made_requests()
    for name, form in FORMS.items():
        yield name, "written", form.content(requests), form.counts(requests)
    for text in texts():
        content = b"".join(text.lines)
        if text.name in EVENTS:
            yield text.name, "recorded", content, Counts.of(queued(content, QUEUED[text.name]))
        else:
            lines = (line.decode() for line in text.lines if line[:1].isdigit())
            yield text.name, "written", content, Counts.of(written(text.name, lines))
    if folder is None:
        return
    for name, (read, _) in PUBLIC.items():
        data = (folder / name).read_bytes()
        plain = gzip.decompress(data) if name.endswith(".gz") else data
        yield name, "public", data, Counts.of(read(plain))


def rows(folder: Path | None) -> Iterator[tuple[str, str, Counts, Counts]]:
    """Return name, origin, and the counts of each trace by the counter here and by the import."""
    with tempfile.TemporaryDirectory() as work:
        for name, origin, data, counted in trials(folder):
            source = Path(work, "trace")
            source.write_bytes(data)
            options = PUBLIC[name][1] if name in PUBLIC else ImportOptions()
            made = import_trace(source, Path(work, name), options=options)
            yield name, origin, counted, counted_by_tracekit(made)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="of public traces")
    unlike = 0
    print("| format or file | origin | requests | reads | writes | bytes | span | equal |")
    print("|---|---|---|---|---|---|---|---|")
    for name, origin, counted, found in rows(parser.parse_args().folder):
        numbers = f"{counted.requests:,} | {counted.reads:,} | {counted.writes:,}"
        span = f"{counted.total_bytes:,} | {counted.span_ns / 1e9:,.6f} s"
        print(
            f"| {name} | {origin} | {numbers} | {span} | {'yes' if found == counted else found} |"
        )
        unlike += found != counted
    return int(unlike > 0)


if __name__ == "__main__":
    sys.exit(main())

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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tests import parsed as traces
from tests.import_.damages import EVENTS, texts
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


def trials(folder: Path | None) -> Iterator[tuple[str, str, bytes, Counts]]:
    """Return name, origin, bytes and counts of each trace."""
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

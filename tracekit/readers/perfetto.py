"""Perfetto's traces: events of the kernel in protocol buffers, put in order and read as its text.

As published: github.com/google/perfetto, protos/perfetto/trace/trace_packet.proto and
ftrace/{ftrace_event_bundle,ftrace_event,block,ufs,ftrace_stats}.proto. Other packets and events
are counted.
"""

from __future__ import annotations

import heapq
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tracekit.errors import InputError
from tracekit.readers.drivers import in_words
from tracekit.readers.stream import Feed, messages_of
from tracekit.readers.units import OnBytes

PERFETTO = "perfetto"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED = {FIXED64: 8, FIXED32: 4}
PACKET = 1
FTRACE_EVENTS, FTRACE_STATS, COMPRESSED = 1, 34, 50
"""Of a TracePacket."""
CPU, EVENT = 1, 2
"""Of an FtraceEventBundle."""
TIMESTAMP, PID = 1, 2
"""Of an FtraceEvent; its third field is the event itself."""
END_OF_TRACE = 2
OVERRUN, DROPPED = 3, 8
"""Of FtraceCpuStats."""
EXT4 = {*range(41, 45), *range(134, 235)}
F2FS = {*range(243, 274), 419, 420, 495, 496, 497}
MOST_UNPACKED = 64 << 20
TIME_DIGITS = 20
"""Of 64 bits."""
MOST_LINES = 1 << 18
"""In memory: some 60 MiB."""
MOST_RUNS = 256
"""Open at the same time."""
KNOWN_FIELDS = {FTRACE_EVENTS, 8, 10, 33, FTRACE_STATS, 36, COMPRESSED, 58}
"""Which a packet has, nearly each: a time, a sequence, a clock, the trace's settings."""

Fields = Mapping[int, int | bytes]


class Shape(NamedTuple):
    """How an event is printed, and which fields that takes."""

    name: str
    print: Callable[[Fields], str]


def fields_of(data: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each field of a message; raise ValueError for what is none."""
    view, at = memoryview(data), 0
    while at < len(view):
        tag, at = _varint(view, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(view, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = _varint(view, at)
        elif kind in FIXED:
            size = FIXED[kind]
        else:
            raise ValueError(f"a field of type {kind}")
        if at + size > len(view) or not number:
            raise ValueError("a field that reaches beyond its message")
        yield number, view[at : at + size]
        at += size


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(view) and shift < 70:
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    raise ValueError("a number without an end")


def _number(fields: Fields, number: int) -> int:
    value = fields.get(number, 0)
    return value if isinstance(value, int) else 0


def _signed(fields: Fields, number: int) -> int:
    """Return an int32, which stands as a 64-bit number."""
    value = _number(fields, number) & (1 << 32) - 1
    return value - (1 << 32) if value >> 31 else value


def _text(fields: Fields, number: int, default: str = "") -> str:
    value = fields.get(number, b"")
    found = value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
    return found.replace("\n", "?") or default


def _device(number: int) -> str:
    return f"{number >> 20},{number & 0xFFFFF}"


def _place(fields: Fields, rwbs: int) -> str:
    """Return device, letters and place, between which a request's bytes and command stand."""
    sectors = f"{_number(fields, 2)} + {_number(fields, 3)}"
    return f"{_device(_number(fields, 1))} {_text(fields, rwbs, 'N')} {{}}{sectors}"


def _issued(fields: Fields) -> str:
    command = f"{_number(fields, 4)} () "
    return f"{_place(fields, 5).format(command)} [{_text(fields, 6, '<...>')}]"


def _completed(fields: Fields) -> str:
    return f"{_place(fields, 5).format('() ')} [{_signed(fields, 4)}]"


def _of_bio(fields: Fields) -> str:
    return f"{_place(fields, 4).format('')} [{_text(fields, 5, '<...>')}]"


def _bio_completed(fields: Fields) -> str:
    return f"{_place(fields, 5).format('')} [{_signed(fields, 4)}]"


def _remapped(rwbs: int) -> Callable[[Fields], str]:
    return lambda fields: (
        f"{_place(fields, rwbs).format('')} <- ({_device(_number(fields, 4))}) {_number(fields, 5)}"
    )


def _split(fields: Fields) -> str:
    head = f"{_device(_number(fields, 1))} {_text(fields, 4, 'N')}"
    places = f"{_number(fields, 2)} / {_number(fields, 3)}"
    return f"{head} {places} [{_text(fields, 5, '<...>')}]"


UFS_STEPS = ("send_req", "complete_rsp", "dev_complete")
"""By str_t; the others are no commands. Older kernels have the word itself."""


def _ufs(fields: Fields) -> str:
    step = _number(fields, 10)
    word = _text(fields, 6) or (UFS_STEPS[step] if step < len(UFS_STEPS) else "other")
    return (
        f"{word}: {_text(fields, 1, 'ufs')}: tag: {_number(fields, 7)}, DB: 0x0,"
        f" size: {_signed(fields, 8)}, IS: 0, LBA: {_number(fields, 4)},"
        f" opcode: 0x{_number(fields, 5):x} (), group_id: 0x0"
    )


SHAPES = {
    45: Shape("block_rq_issue", _issued),
    126: Shape("block_rq_insert", _issued),
    125: Shape("block_rq_complete", _completed),
    129: Shape("block_rq_requeue", _completed),
    117: Shape("block_bio_complete", _bio_completed),
    119: Shape("block_bio_queue", _of_bio),
    115: Shape("block_bio_backmerge", _of_bio),
    118: Shape("block_bio_frontmerge", _of_bio),
    116: Shape("block_bio_bounce", _of_bio),
    122: Shape("block_getrq", _of_bio),
    130: Shape("block_sleeprq", _of_bio),
    120: Shape("block_bio_remap", _remapped(6)),
    128: Shape("block_rq_remap", _remapped(7)),
    131: Shape("block_split", _split),
    406: Shape("ufshcd_command", _ufs),
}
"""By the number of their field in FtraceEvent."""
COMMS = {45: 6, 126: 6, 119: 5, 115: 5, 118: 5, 116: 5, 122: 5, 130: 5, 131: 5}
"""Where the name of the process stands."""


@dataclass
class Found:
    """What a trace holds."""

    scratch: Path
    """A folder for them."""
    lines: list[bytes] = field(default_factory=list)
    """Time in ns, of TIME_DIGITS, and the text of each event, in the order of the file."""
    runs: list[Path] = field(default_factory=list)
    """Files of such lines, each in order of time; one comes after those before it."""
    has_blocks: bool = False
    """There are events of blocks, not of UFS alone."""
    others: Counter[str] = field(default_factory=Counter)
    """Events that are passed over, by sort."""
    cpus: set[int] = field(default_factory=set)
    lost: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Events lost by phase and CPU."""
    packets: int = 0

    def passed(self) -> str:
        """Return which events are passed over, in words."""
        return f"events of {in_words(self.others) or 'no other sorts'}"

    def add(self, time_ns: int, text: str, *, is_block: bool) -> None:
        """Keep an event: in memory until there are MOST_LINES."""
        self.has_blocks |= is_block
        self.lines.append(f"{time_ns:0{TIME_DIGITS}}{text}\n".encode())
        if len(self.lines) >= MOST_LINES:
            self._sort()

    def _sort(self) -> None:
        """Put what is in memory into a file, in order of time."""
        if len(self.runs) >= MOST_RUNS:
            self.runs = [self._merged(self.scratch / f"all.{self.packets}", skipped=0)]
        self.runs.append(self.scratch / f"run.{len(self.runs)}.{self.packets}")
        self.lines.sort(key=_time_of)
        with self.runs[-1].open("wb") as out:
            out.writelines(self.lines)
        self.lines = []

    def _merged(self, file: Path, *, head: str = "", skipped: int) -> Path:
        """Put all runs into one file, each line without so many first bytes."""
        with file.open("wb") as out, ExitStack() as stack:
            out.write(head.encode())
            runs = [stack.enter_context(run.open("rb")) for run in self.runs]
            out.writelines(line[skipped:] for line in heapq.merge(*runs, key=_time_of))
        for run in self.runs:
            run.unlink()
        return file

    def text(self) -> Path:
        """Return a file of the events in order of time, as the kernel prints them."""
        lost = sum(
            count - self.lost[phase - 1, cpu]
            for (phase, cpu), count in list(self.lost.items())
            if phase == END_OF_TRACE
        )
        head = f"# tracer: nop\n# entries-in-buffer/entries-written: 0/{lost}   #P:"
        head += f"{max(self.cpus, default=-1) + 1}\n"
        self._sort()
        return self._merged(self.scratch / "events.txt", head=head, skipped=TIME_DIGITS)


def _time_of(line: bytes) -> bytes:
    return line[:TIME_DIGITS]


def is_perfetto(head: bytes) -> bool:
    """Say whether a file begins with packets, of which one has a field that packets have."""
    known, at, packets = False, 0, 0
    view = memoryview(head)
    try:
        while at < len(view):
            packet, at = _packet(view, at)
            known |= any(number in KNOWN_FIELDS for number, _ in fields_of(packet))
            packets += 1
    except ValueError:
        return known and packets > 1
    return known


def _packet(view: memoryview, at: int) -> tuple[memoryview, int]:
    """Return the packet that begins here, and its end; raise ValueError where none does."""
    tag, begin = _varint(view, at)
    size, begin = _varint(view, begin)
    if tag != PACKET << 3 | BYTES or begin + size > len(view):
        raise ValueError("no packet begins here, or it is cut")
    return view[begin : begin + size], begin + size


def read_perfetto(feed: Feed, head: bytes, *, found: Found, on_bytes: OnBytes) -> None:
    """Read the events of a trace, packet by packet; raise InputError for damage, with its byte."""
    hint = "copy the file again: it is damaged, or no trace of Perfetto"
    for at, packet in messages_of(feed, head, take=_packet, hint=hint, on_bytes=on_bytes):
        try:
            _take_packet(packet, found)
        except (ValueError, zlib.error) as error:
            raise InputError(f"{feed.name}: byte {at:,}: {error}", hint=hint) from None


def _take_packet(packet: memoryview, found: Found) -> None:
    found.packets += 1
    for number, value in fields_of(packet):
        if isinstance(value, int):
            continue
        if number == FTRACE_EVENTS:
            _take_bundle(value, found)
        elif number == FTRACE_STATS:
            _take_stats(value, found)
        elif number == COMPRESSED:
            unpacked = zlib.decompressobj().decompress(value, MOST_UNPACKED)
            if len(unpacked) == MOST_UNPACKED:
                raise ValueError(f"compressed packets of more than {MOST_UNPACKED >> 20} MiB")
            for inner, content in fields_of(unpacked):
                if inner == PACKET and not isinstance(content, int):
                    _take_packet(content, found)


def _take_bundle(bundle: memoryview, found: Found) -> None:
    cpu, events = 0, list[memoryview]()
    for number, value in fields_of(bundle):
        if number == CPU and isinstance(value, int):
            cpu = value
        elif number == EVENT and not isinstance(value, int):
            events.append(value)
    found.cpus.add(cpu)
    for event in events:
        _take_event(event, cpu, found)


def _take_event(event: memoryview, cpu: int, found: Found) -> None:
    time_ns = pid = 0
    for number, value in fields_of(event):
        if number == TIMESTAMP and isinstance(value, int):
            time_ns = value
        elif number == PID and isinstance(value, int):
            pid = value
        elif number in SHAPES and not isinstance(value, int):
            fields = {n: v if isinstance(v, int) else bytes(v) for n, v in fields_of(value)}
            shape, comm = SHAPES[number], _text(fields, COMMS.get(number, 0), "<...>")
            head = f"{comm}-{pid} [{cpu:03}] ..... {time_ns // 10**9}.{time_ns % 10**9:09}"
            text = f"{head}: {shape.name}: {shape.print(fields)}"
            found.add(time_ns, text, is_block=shape.name.startswith("block_"))
        elif not isinstance(value, int):
            sort = "ext4" if number in EXT4 else "f2fs" if number in F2FS else "other"
            found.others[sort] += 1


def _take_stats(stats: memoryview, found: Found) -> None:
    phase, cpus = 0, list[Fields]()
    for number, value in fields_of(stats):
        if number == 1 and isinstance(value, int):
            phase = value
        elif number == 2 and not isinstance(value, int):
            cpus.append({n: v for n, v in fields_of(value) if isinstance(v, int)})
    for one in cpus:
        cpu = _number(one, 1)
        found.cpus.add(cpu)
        found.lost[phase, cpu] = _number(one, OVERRUN) + _number(one, DROPPED)

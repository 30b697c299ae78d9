"""Hand-made blktrace records, written one event a line as blkparse prints them.

    TIME ACTION RWBS SECTOR+COUNT [key=value ...]

RWBS has R, W, D or N and F (before it: flush; behind it: FUA), S, A, M. Keys: pid, cpu,
dev (major,minor), error, to (new sector of X), of (origin of A: major,minor:sector), bytes, seq,
kind (zone). ACTION may also be `process` (comm), `timestamp` (sec, nsec) or `message` (text).
"""

import os
import struct
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tracekit._native.decode import ACTIONS, NOTIFIES, Decoder, DecodeStats, Place

READ, WRITE, FLUSH, SYNC = 1 << 16, 1 << 17, 1 << 18, 1 << 19
PASSTHROUGH, NOTIFY, AHEAD, META, DISCARD, FUA = (1 << bit for bit in (25, 26, 27, 28, 29, 31))
ZONE_RESET = 1 << 33
CGROUP = 0x100
SIZES = {7: 48, 8: 64}


@dataclass(frozen=True)
class Event:
    """One record before it is packed."""

    time_ns: int
    action: int
    sector: int = 0
    length_bytes: int = 0
    pid: int = 1
    device: int = 7 << 20
    cpu: int = 0
    error: int = 0
    payload: bytes = b""
    sequence: int | None = None

    def pack(self, sequence: int, *, version: int = 7, order: str = "<") -> bytes:
        """Return the record's bytes."""
        number = sequence if self.sequence is None else self.sequence
        head = (0x65617400 | version, number, self.time_ns, self.sector, self.length_bytes)
        tail = (self.error & 0xFFFF, len(self.payload))
        if version == 7:
            middle = (self.action, self.pid, self.device, self.cpu)
            return struct.pack(order + "IIQQIIIIIHH", *head, *middle, *tail) + self.payload
        packed = struct.pack(
            order + "IIQQIIQIIHH12x", *head, self.pid, self.action, self.device, self.cpu, *tail
        )
        return packed + self.payload


def flags(rwbs: str) -> int:
    """Return the category bits of blkparse's letters."""
    bits = 0
    for place, letter in enumerate(rwbs):
        if letter == "F":
            bits |= FLUSH if place == 0 else FUA
        else:
            simple = {"R": READ, "W": WRITE, "D": WRITE | DISCARD, "N": READ, "S": SYNC}
            bits |= {**simple, "A": AHEAD, "M": META, "P": PASSTHROUGH, "Z": WRITE | ZONE_RESET}[
                letter
            ]
    return bits


def event(line: str, *, order: str = "<") -> Event:
    """Read one line."""
    time, action, *words = line.split()
    keys = dict(word.split("=", 1) for word in words if "=" in word)
    plain = [word for word in words if "=" not in word]
    common: dict[str, Any] = {"time_ns": int(time), "pid": int(keys.get("pid", 1))}
    common |= {"cpu": int(keys.get("cpu", 0)), "error": int(keys.get("error", 0))}
    if "dev" in keys:
        common["device"] = number(keys["dev"])
    if "seq" in keys:
        common["sequence"] = int(keys["seq"])
    if action in NOTIFIES:
        payload = notify_payload(action, keys, order)
        return Event(action=NOTIFIES.index(action) | NOTIFY, payload=payload, **common)
    code = ACTIONS.index(action) | flags(plain[0])
    sector, _, count = (plain[1] if len(plain) > 1 else "0+0").partition("+")
    payload = b""
    if "to" in keys:
        payload = struct.pack(">Q", int(keys["to"]))
    if "of" in keys:
        origin, _, origin_sector = keys["of"].partition(":")
        payload = struct.pack(">IIQ", number(origin), 7 << 20, int(origin_sector))
    if "cgroup" in keys:
        code |= CGROUP
        payload = struct.pack(order + "Q", int(keys["cgroup"])) + payload
    return Event(
        action=code,
        sector=int(sector),
        length_bytes=int(keys.get("bytes", int(count or 0) * 512)),
        payload=payload,
        **common,
    )


def number(text: str) -> int:
    """Return a device number from `major,minor`."""
    major, minor = text.split(",")
    return int(major) << 20 | int(minor)


def notify_payload(action: str, keys: dict[str, str], order: str) -> bytes:
    if action == "process":
        return keys["comm"].encode().ljust(16, b"\0")
    if action == "timestamp":
        return struct.pack(order + "II", int(keys["sec"]), int(keys["nsec"]))
    return keys["text"].encode()


def pack(lines: str, *, version: int = 7, order: str = "<") -> bytes:
    """Return the file that holds the lines' records, numbered from 1."""
    events = [event(line, order=order) for line in lines.splitlines() if line.strip()]
    return pack_events(events, version=version, order=order)


def pack_events(events: Iterable[Event], *, version: int = 7, order: str = "<") -> bytes:
    packed = []
    sequence = 0
    for one in events:
        sequence += not one.action & NOTIFY
        packed.append(one.pack(sequence, version=version, order=order))
    return b"".join(packed)


@dataclass
class Decoded:
    """What became of a capture."""

    rows: list[dict[str, Any]]
    stats: DecodeStats
    devices: list[tuple[int, int]]
    cuts: list[Place | None] = field(default_factory=list)

    def unmatched(self) -> dict[str, int]:
        from tracekit._native.decode import UNMATCHED

        found = zip(UNMATCHED, self.stats.unmatched, strict=True)
        return {name: count for name, count in found if count}

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows]


def decode(*files: bytes, keeps_whole: bool = False) -> Decoded:
    """Run the decoder over files in memory; raise DecodeError."""
    with ExitStack() as stack:
        fds = [memory_file(data) for data in files]
        for fd in fds:
            stack.callback(os.close, fd)
        decoder = stack.enter_context(Decoder(fds, keeps_whole=keeps_whole))
        rows = [row for batch in decoder.batches() for row in batch.to_pylist()]
        cuts = [decoder.cut(place) for place in range(len(fds))]
        return Decoded(rows, decoder.stats(), decoder.devices(), cuts)


def memory_file(data: bytes) -> int:
    fd = os.memfd_create("trace")
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def decode_lines(*files: str) -> Decoded:
    """Pack each text as a file of version 7 and decode them together."""
    return decode(*(pack(text) for text in files))


def times(row: dict[str, Any]) -> Sequence[int | None]:
    """Return queue, getrq, insert, merge, issue, transfer and complete time of a row."""
    names = ("queue", "getrq", "insert", "merge", "issue", "transfer", "complete")
    return [row[f"{name}_ns"] for name in names]

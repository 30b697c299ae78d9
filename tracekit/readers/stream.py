"""Opens trace files for the decoder, which reads descriptors: decompressed, hashed and counted.

A plain file goes to the decoder as it is, while a thread hashes it. What comes from a pipe or is
compressed, known by its first bytes and not by its name, goes through a thread into a pipe, so that
the native code needs no decompressor.
"""

from __future__ import annotations

import bz2
import contextlib
import fcntl
import hashlib
import io
import itertools
import lzma
import os
import select
import stat
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

import pyarrow as pa

from tracekit.errors import InputError
from tracekit.metadata import SourceFile
from tracekit.prefetch import STOP_SECONDS
from tracekit.readers.files import STANDARD_INPUT
from tracekit.readers.salvage import (
    HEAD_BYTES,
    Packed,
    Salvage,
    is_text,
    plain_pieces,
    zeros_in_words,
)

CHUNK_BYTES = 1 << 20
COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    **{bytes([first]) + b"\x2a\x4d\x18": "zstd" for first in range(0x50, 0x60)},
}
"""By the first bytes; zstd's parallel compressors begin with a frame to be skipped."""
FEW_BYTES = 1 << 12
"""Given to a decompressor first: it copies what is behind the end of a stream."""
LONGEST_MAGIC = 6
Zeros = list[tuple[int, int]]
OPENERS: dict[str | None, Callable[[Any, Zeros], Any]] = {
    None: lambda plain, _: plain,
    "gzip": lambda packed, zeros: _Streams(packed, _Gzip, zeros),
    "xz": lambda packed, zeros: _Streams(packed, lzma.LZMADecompressor, zeros),
    "bz2": lambda packed, zeros: _Streams(packed, bz2.BZ2Decompressor, zeros),
    "zstd": lambda packed, _: pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd"),
}
"""Each takes what is stored, and a list of the zeros between members, first bytes and ends."""


class _Gzip:
    """A member of gzip, with the interface of the other decompressors."""

    def __init__(self) -> None:
        self._member, self._left = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._member, name)

    @property
    def needs_input(self) -> bool:
        return not self._left

    def decompress(self, data: bytes, most: int) -> bytes:
        out = self._member.decompress(self._left + data, most)
        self._left = self._member.unconsumed_tail
        return out


class _Streams:
    """Unpacks members of gzip, or streams of xz or bzip2, one behind the other.

    Python's own readers take a damaged stream behind a whole one for garbage, and end there, or
    pass over zeros in silence.
    """

    def __init__(self, packed: io.BufferedReader, decoder: Callable[[], Any], zeros: Zeros) -> None:
        self._packed, self._make, self._zeros = packed, decoder, zeros
        self._stream, self._size = decoder(), FEW_BYTES
        self._chunk, self._at, self._before = b"", 0, 0
        """What was read, how much of it is taken, and bytes before it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._packed.close()

    def read(self, size: int) -> bytes:
        """Return up to so many bytes; none at the end. Raise what the decompressor raises."""
        out = b""
        while not out:
            data = b""
            if self._stream.eof:
                if not self._next():
                    return b""
                self._stream, self._size = self._make(), FEW_BYTES
            if self._stream.needs_input:
                if not (data := self._more(self._size)):
                    raise EOFError("it ends within a stream")
                self._size = min(2 * self._size, CHUNK_BYTES)
            out = self._stream.decompress(data, size)
        return out

    def _more(self, size: int) -> bytes:
        if self._at == len(self._chunk):
            self._before += self._at
            self._chunk, self._at = self._packed.read1(CHUNK_BYTES), 0
        data = self._chunk[self._at : self._at + size]
        self._at += len(data)
        return data

    def _next(self) -> bool:
        """Go behind a stream and zeros that follow it, which are noted; False at the end."""
        self._at -= len(self._stream.unused_data)
        first, data = self._before + self._at, b""
        while (more := self._more(FEW_BYTES)) and not (data := more.lstrip(b"\0")):
            pass
        self._at -= len(data)
        if (end := self._before + self._at) > first:
            self._zeros.append((first, end))
        return bool(data)


@dataclass
class Feed:
    """One trace file while it is read."""

    path: Path
    fd: int = -1
    """What the decoder reads."""
    is_direct: bool = False
    """The decoder reads the file itself."""
    total_bytes: int | None = None
    """Of the stored file; None for a pipe."""
    compression: str | None = None
    source: IO[bytes] | None = None
    """The stored file while it is open."""
    stored: os.stat_result | None = None
    """What was known of the stored file at first; None for a pipe."""
    hashed_bytes: int = 0
    is_empty: bool = True
    """Nothing was in it, after decompression; known when it was finished."""
    failure: Exception | None = None
    digest: Any = field(default_factory=hashlib.sha256)
    thread: threading.Thread | None = None
    zeros: Zeros = field(default_factory=list)
    """Between or behind members of a compressed file."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when nobody wants the data any more."""
    salvage: Salvage | None = None
    """What is damaged in a text is passed over."""

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return "standard input" if self.path == STANDARD_INPUT else str(self.path)

    @property
    def has_doubt(self) -> bool:
        """Whether lines that were salvaged may be wrong; known when it was read to its end."""
        return self.salvage is not None and self.salvage.has_doubt

    @property
    def done_bytes(self) -> int:
        """How much of the stored file has been decoded, about."""
        is_open = self.is_direct and self.fd >= 0
        return os.lseek(self.fd, 0, os.SEEK_CUR) if is_open else self.hashed_bytes

    def describe(self) -> SourceFile:
        """Return the entry of trace.json; only after the feeds were finished."""
        name = "-" if self.path == STANDARD_INPUT else self.path.name
        return SourceFile(name=name, bytes=self.hashed_bytes, sha256=self.digest.hexdigest())

    def passed_over(self) -> list[str]:
        """Return in words what was passed over; only after the feeds were finished."""
        if self.salvage is None:
            return [f"{self.name}: {said}" for said in zeros_in_words(self.zeros)]
        said = self.salvage.in_words(self.name)
        return [said] if said else []

    def close(self) -> None:
        """Close it; a thread that waits for room in its pipe ends then."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        self.finish()
        if self.source is not None:
            self.source.close()
        self.source = None

    def finish(self) -> None:
        """Wait until the stored file has been read to its end."""
        if self.thread is not None and self.thread.ident is not None:
            self.thread.join()

    def wait_for_failure(self) -> None:
        """Wait a moment for the thread, which may be about to say why its data ended."""
        if self.thread is not None and not self.is_direct:
            self.thread.join(timeout=1.0)

    def problem(self) -> InputError | None:
        """Return what went wrong with reading or decompressing the stored file.

        A file that changes meanwhile is one that is still being written: what was decoded and what
        was hashed may differ.
        """
        if self.stored is not None and self.source is not None:
            states = (self.stored, os.fstat(self.source.fileno()))
            before, now = ((one.st_size, one.st_mtime_ns) for one in states)
            if error := changed(self.name, before=before, now=now):
                return error
        if self.failure is None or isinstance(self.failure, InputError):
            return self.failure
        message = f"{self.name}: byte {self.hashed_bytes:,}: cannot be read: {self.failure}"
        if self.compression:
            place = f"{self.name}: the compressed file is damaged before byte"
            message = f"{place} {self.hashed_bytes:,}: {self.compression}: {self.failure}"
        return InputError(
            message,
            hint="copy the file again, it is damaged or cut short; or keep the rest: --salvage",
        )


def changed(name: str, *, before: tuple[int, int], now: tuple[int, int]) -> InputError | None:
    """Return that a file is still written, if its size or its time of change is another one."""
    if before == now:
        return None
    sizes = f"from {before[0]:,} to {now[0]:,} bytes"
    return InputError(
        f"{name}: it changed while it was read, {sizes}: it is still written",
        hint=f"wait until it is complete, or take what is there: head -c {before[0]} FILE",
    )


class _Hashing(io.RawIOBase):
    """The stored file: its first bytes are looked at, all are hashed and counted."""

    def __init__(self, feed: Feed, source: IO[bytes]) -> None:
        self._feed, self._source = feed, source
        self._peeked = b""

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def peek(self, size: int) -> bytes:
        """Return the first bytes without taking them."""
        while len(self._peeked) < size and (more := self._read(size - len(self._peeked))):
            self._peeked += more
        return self._peeked

    def _read(self, size: int) -> bytes:
        # A pipe may stay silent for ever; whoever ends the parsing must not wait for it.
        while not self._feed.stop.is_set():
            if select.select([self._source], [], [], STOP_SECONDS)[0]:
                return self._source.read(size)
        return b""

    def readinto(self, buffer: Any) -> int:
        """Read some bytes; none at the end, or when nobody wants them any more."""
        data = self._peeked or self._read(len(buffer))
        taken, self._peeked = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(taken)] = taken
        self._feed.digest.update(taken)
        self._feed.hashed_bytes += len(taken)
        return len(taken)


@contextmanager
def open_feeds(
    files: Sequence[Path], *, salvages: bool = False, is_late: bool = False
) -> Iterator[list[Feed]]:
    """Open the files; when the block ends, threads are stopped and descriptors closed.

    With `salvages` they are texts, of which what is damaged is passed over; InputError for a pipe,
    in which nothing can be searched. With `is_late` each is opened where it is asked for: by
    `take_head`, `open_all` or `opened`.
    """
    feeds = [
        Feed(path, total_bytes=_size_of(path), salvage=Salvage() if salvages else None)
        for path in files
    ]
    try:
        if not is_late:
            open_all(feeds)
        yield feeds
    finally:
        stop_feeds(feeds)
        for feed in feeds:
            feed.close()


def _size_of(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return path.stat().st_size if path.is_file() else None
    return None


def open_all(feeds: Sequence[Feed]) -> None:
    """Open those that are not open."""
    for feed in feeds:
        if feed.fd < 0:
            _open(feed)


@contextmanager
def opened(feed: Feed) -> Iterator[None]:
    """Open a feed for the block, at whose end it was read to its own; an open one stays so.

    What went wrong with it is its failure.
    """
    if feed.fd >= 0:
        yield
        return
    try:
        _open(feed)
        yield
        feed.finish()
        feed.failure = feed.problem()
    finally:
        feed.stop.set()
        feed.close()


def take_head(feeds: Sequence[Feed], most: int) -> tuple[list[Feed], bytes]:
    """Take up to `most` first bytes of the first feed that has any, which is moved to the front.

    Raise InputError when all are empty.
    """
    for place, feed in enumerate(feeds):
        open_all([feed])
        head = b""
        while len(head) < most and (more := _read_awake(feed.fd, most - len(head))):
            head += more
        if head:
            return [*feeds[place:], *feeds[:place]], head
        feed.finish()
    problems = [problem for feed in feeds if (problem := feed.problem())]
    raise problems[0] if problems else InputError(f"{feeds[0].name}: empty", hint="check the file")


def skip(feed: Feed, at: int, *, head: bytes) -> bytes:
    """Go to a byte of the text, of which the head was read; return what is left of the head."""
    left = at - len(head)
    if left < 0:
        return head[at:]
    if feed.is_direct:
        os.lseek(feed.fd, left, os.SEEK_CUR)
        return b""
    while left and (more := os.read(feed.fd, min(left, CHUNK_BYTES))):
        left -= len(more)
    return b""


def drain(feed: Feed) -> None:
    """Pass over the text of a feed: what it is stored in is hashed nevertheless."""
    while not feed.is_direct and os.read(feed.fd, CHUNK_BYTES):
        pass


MOST_MESSAGE_BYTES = 64 << 20
Take = Callable[[memoryview, int], tuple[memoryview, int]]
"""Returns the message that begins at a place, and its end; raises ValueError if none is whole."""


def messages_of(
    feed: Feed,
    head: bytes,
    *,
    take: Take,
    hint: str,
    on_bytes: Callable[[int, int | None], None],
    begin: int = 0,
) -> Iterator[tuple[int, memoryview]]:
    """Yield each message of a file, from byte `begin` of its head on, and its place in bytes.

    `head` was read from the feed already. Raise InputError where none begins, or one is cut or
    larger than MOST_MESSAGE_BYTES.
    """
    data, before, at, is_over = head, 0, begin, False
    while True:
        view = memoryview(data)
        try:
            while at < len(view):
                message, end = take(view, at)
                yield before + at, message
                at = end
        except ValueError as error:
            if is_over or len(view) - at > MOST_MESSAGE_BYTES:
                feed.wait_for_failure()
                failure = InputError(f"{feed.name}: byte {before + at:,}: {error}", hint=hint)
                raise feed.problem() or failure from None
        if is_over:
            return
        on_bytes(feed.done_bytes, feed.total_bytes)
        more = os.read(feed.fd, CHUNK_BYTES)
        data, before, at, is_over = data[at:] + more, before + at, 0, not more


def _read_awake(descriptor: int, size: int) -> bytes:
    """Read as soon as there is something, and meanwhile look for signals.

    One that comes just before a read that waits is not seen by Python until that ends.
    """
    while not select.select([descriptor], [], [], STOP_SECONDS)[0]:
        pass
    return os.read(descriptor, size)


def finish_feeds(feeds: Sequence[Feed]) -> None:
    """Wait until all files have been read to their ends; raise what went wrong with one."""
    for feed in feeds:
        feed.finish()
        if problem := feed.problem():
            raise problem


def progress_of(feeds: Sequence[Feed]) -> tuple[int, int | None]:
    """Return how many bytes of how many were decoded; None if that is not known."""
    totals = [feed.total_bytes for feed in feeds]
    total = None if None in totals else sum(filter(None, totals))
    return sum(feed.done_bytes for feed in feeds), total


def stop_feeds(feeds: Sequence[Feed]) -> None:
    """Let the feeds end early, so that the decoder comes to the end of what it reads."""
    for feed in feeds:
        feed.stop.set()


def _open(feed: Feed) -> None:
    try:
        is_standard = feed.path == STANDARD_INPUT
        path = Path("/proc/self/fd/0") if is_standard else feed.path
        is_file = stat.S_ISREG(path.stat().st_mode)
        # A file is opened once more, to have a place of its own: it may be read twice.
        raw = os.open(path, os.O_RDONLY) if is_file or not is_standard else os.dup(0)
        start = os.lseek(0, 0, os.SEEK_CUR) if is_file and is_standard else 0
        first = os.pread(raw, LONGEST_MAGIC, start) if is_file else b""
        if is_file:
            os.lseek(raw, start, os.SEEK_SET)
    except OSError as error:
        message = f"{feed.name}: cannot be opened: {error.strerror}"
        raise InputError(message, hint="check the permissions") from None
    source = feed.source = os.fdopen(raw, "rb", buffering=0)
    if is_file:
        feed.stored = os.fstat(raw)
        feed.total_bytes = feed.stored.st_size
        feed.compression = _compression(first)
    if feed.salvage is not None and not is_file:
        message = f"{feed.name}: --salvage: a pipe, in which no place can be searched"
        raise InputError(message, hint="give it as a file")
    if is_file and feed.compression is None and feed.salvage is None:
        feed.is_direct = True
        feed.fd = os.open(f"/proc/self/fd/{raw}", os.O_RDONLY)
        os.lseek(feed.fd, start, os.SEEK_SET)
        feed.thread = threading.Thread(target=_hash_all, args=(feed, source))
    else:
        feed.fd, write_fd = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)
        if feed.salvage is not None:
            feed.thread = threading.Thread(target=_salvage, args=(feed, source, start, write_fd))
        else:
            hashing = _Hashing(feed, source)
            feed.thread = threading.Thread(target=_pump, args=(feed, hashing, write_fd))
    feed.thread.start()


def is_plain(path: Path) -> bool:
    """Say whether a file is read as it is."""
    with path.open("rb") as source:
        return path.is_file() and _compression(source.read(LONGEST_MAGIC)) is None


def _compression(first: bytes) -> str | None:
    return next((name for magic, name in COMPRESSIONS.items() if first.startswith(magic)), None)


def _hash_all(feed: Feed, source: Any) -> None:
    buffer = memoryview(bytearray(CHUNK_BYTES >> 2))  # stays in the processor's cache
    try:
        while not feed.stop.is_set() and (got := source.readinto(buffer)):
            feed.digest.update(buffer[:got])
            feed.hashed_bytes += got
            feed.is_empty = False
    except OSError as error:
        feed.failure = error


def _pump(feed: Feed, source: _Hashing, write_fd: int) -> None:
    """Move the decompressed bytes into the pipe, to the end or until nobody reads it any more."""
    try:
        feed.compression = _compression(source.peek(LONGEST_MAGIC))
        packed = io.BufferedReader(source, CHUNK_BYTES)
        open_packed = OPENERS[feed.compression]
        with (
            os.fdopen(write_fd, "wb", buffering=0) as sink,
            open_packed(packed, feed.zeros) as plain,
        ):
            while data := plain.read(CHUNK_BYTES):
                feed.is_empty = False
                _write(sink, data)
    except BrokenPipeError:
        return
    # Decompressors raise their own errors besides OSError and EOFError.
    except Exception as error:
        feed.failure = error


def _write(sink: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[sink.write(view) :]


def _salvage(feed: Feed, source: Any, start: int, write_fd: int) -> None:
    """Move the whole lines of a text into the pipe, and then hash the file."""
    fd, found = source.fileno(), feed.salvage or Salvage()
    packed = Packed(fd, feed.total_bytes or 0, feed.compression) if feed.compression else None
    found.packed_bytes = feed.total_bytes or 0 if packed else 0
    pieces = packed.pieces() if packed else plain_pieces(fd, start)
    try:
        with os.fdopen(write_fd, "wb", buffering=0) as sink:
            first = next(pieces, b"")
            # A long damage at the beginning leaves what is behind it.
            if isinstance(first, bytes) and not (is_text(first[:HEAD_BYTES]) or is_text(first)):
                hint = "leave --salvage out; captures of blktrace: tracekit parse --salvage"
                feed.failure = InputError(f"{feed.name}: --salvage: this is no text", hint=hint)
                return
            for data in found.whole(itertools.chain([first], pieces)):
                if not found.lines:
                    continue
                feed.is_empty = False
                feed.hashed_bytes = packed.at if packed else feed.hashed_bytes + len(data)
                _write(sink, data)
    except BrokenPipeError:
        return
    except Exception as error:
        feed.failure = error
        return
    if not found.lines and (said := found.in_words(feed.name)):
        feed.failure = InputError(f"{said}: there is no whole line", hint="copy the file again")
    feed.hashed_bytes = 0
    _hash_all(feed, source)

"""What a damaged text still has: its whole lines, and the places and sizes of what was passed over.

A line with a byte that no text has is damaged, and what lies between two such lines within a few
bytes. Where compressed data cannot be unpacked, the next gzip member, zstd frame, xz or bzip2
stream goes on; the lines that the damage cut are passed over, too. For each damage there is an
empty line, so that numbers of lines stay nearly those of the file.
"""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit.units import counted

READ_BYTES = 1 << 16
"""Where data cannot be unpacked is known to so many bytes."""
UNPACKED_BYTES = 1 << 20
SCAN_BYTES = 1 << 20
LONGEST_LINE_BYTES = 1 << 20
NEAR_BYTES = 16
"""Between two damaged lines: no line of a trace is so short."""
MOST_GAPS = 1000
NO_TEXT = bytes([*range(9), 11, 12, *range(14, 32), 127, 192, 193, *range(245, 256)])
"""Control characters, and what UTF-8 never has."""
IS_NO_TEXT = np.isin(np.arange(256), list(NO_TEXT))
NEWLINE = ord("\n")


@dataclass
class Gap:
    """What was passed over: bytes of the text, or of the compressed file."""

    first: int
    size: int
    is_packed: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Lost:
    """Bytes of the file that cannot be unpacked, and why; none where it ends too early."""

    first: int
    end: int
    reason: str
    is_check: bool = False
    """These are a checksum and a length that differ; all before them was unpacked."""
    is_zero: bool = False
    """They are zeros where a member may begin, or behind the last one."""

    @property
    def is_end(self) -> bool:
        """Whether what is missing is not in the file."""
        return self.first == self.end


@dataclass
class Salvage:
    """The whole lines of a text, and its gaps while it is read."""

    gaps: list[Gap] = field(default_factory=list)
    count: int = 0
    """All gaps; the first MOST_GAPS are kept."""
    lines: int = 0
    """Whole ones."""
    text_bytes: int = 0
    """Of the whole lines."""
    lost_bytes: int = 0
    packed_bytes: int = 0
    """Of the compressed file, and of its gaps; 0 of a plain one."""
    lost_packed_bytes: int = 0
    is_cut: bool = False
    """The file ends within compressed data."""
    zeros: list[Lost] = field(default_factory=list)
    checks: list[int] = field(default_factory=list)
    """Bytes of the compressed file up to which its data do not agree with a checksum."""
    _at: int = 0
    """Where in the text the next byte stands."""

    def whole(self, pieces: Iterable[bytes | Lost]) -> Iterator[bytes]:
        """Yield the whole lines of a text that comes in pieces, and in the end what has no end."""
        rest, is_cut = b"", False
        for piece in pieces:
            if isinstance(piece, Lost) and piece.is_check:
                self.checks.append(piece.first)
                continue
            if isinstance(piece, Lost):
                self._lose(piece, len(rest))
                # Where the lines before zeros are whole, so are those behind them.
                is_cut = is_cut or bool(rest) or not piece.is_zero
                rest = b""
                yield b"\n"
                continue
            data = rest + piece
            if is_cut:
                begin = data.find(b"\n") + 1
                self._skip(begin or len(data))
                is_cut, data = not begin, data[begin:] if begin else b""
            end = data.rfind(b"\n") + 1
            if end:
                yield self._good(data[:end])
            rest = data[end:]
            if len(rest) > LONGEST_LINE_BYTES and has_damage(rest):
                self._skip(len(rest))
                rest, is_cut = b"", True
                yield b"\n"
        if rest and has_damage(rest):
            self._skip(len(rest))
        elif rest:
            self.lines += 1
            yield rest

    def _good(self, data: bytes) -> bytes:
        """Return lines without those that are damaged."""
        first, self._at = self._at, self._at + len(data)
        if not has_damage(data):
            self.lines += data.count(b"\n")
            self.text_bytes += len(data)
            return data
        codes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(codes == NEWLINE) + 1
        begins = np.concatenate(([0], ends[:-1]))
        damaged = np.unique(np.searchsorted(ends, np.flatnonzero(IS_NO_TEXT[codes]), side="right"))
        parts, done = [], 0
        for begin, end in _joined(begins[damaged].tolist(), ends[damaged].tolist()):
            parts += [data[done:begin], b"\n"]
            self._add(Gap(first + begin, end - begin))
            done = end
        kept = b"".join([*parts, data[done:]])
        self.lines += kept.count(b"\n") - len(parts) // 2
        self.text_bytes += len(kept) - len(parts) // 2
        return kept

    def _skip(self, size: int) -> None:
        """Pass over what is damaged, or is the rest of a line that is."""
        if self.gaps and self.gaps[-1].is_packed:
            self.lost_bytes += size
        else:
            self._add(Gap(self._at, size))
        self._at += size

    def _lose(self, lost: Lost, cut_bytes: int) -> None:
        self._at += cut_bytes
        if lost.is_zero:
            self.zeros.append(lost)
            if cut_bytes:
                self._add(Gap(self._at - cut_bytes, cut_bytes))
            return
        if lost.is_end:
            self.is_cut = True
            return
        self.lost_packed_bytes += lost.end - lost.first
        self.lost_bytes += cut_bytes
        self._add(Gap(lost.first, lost.end - lost.first, is_packed=True, reason=lost.reason))

    def _add(self, gap: Gap) -> None:
        last = self.gaps[-1] if self.gaps else None
        self.lost_bytes += 0 if gap.is_packed else gap.size
        if last and not gap.is_packed and not last.is_packed:
            between = gap.first - last.first - last.size
            if 0 <= between <= NEAR_BYTES:
                last.size += between + gap.size
                return
        self.count += 1
        if self.count <= MOST_GAPS:
            self.gaps.append(gap)

    @property
    def has_doubt(self) -> bool:
        """Whether lines that were unpacked may be wrong."""
        return bool(self.lost_packed_bytes or self.checks)

    def lost_lines(self) -> str:
        """Say about how many lines were passed over, by the size of the others."""
        text_bytes = float(self.lost_bytes)
        unpacked = self.packed_bytes - self.lost_packed_bytes
        if self.lost_packed_bytes and unpacked > 0:
            text_bytes += self.lost_packed_bytes * (self.text_bytes / unpacked)
        if not self.text_bytes:
            return "of how many lines is not known"
        return f"about {counted(round(text_bytes * self.lines / self.text_bytes), 'line')}"

    def in_words(self, name: str, *, most: int = 5) -> str:
        """Say what was passed over, or nothing."""
        found = []
        if self.count:
            shown = [
                f"{counted(gap.size, 'byte')} from byte {gap.first:,}"
                f"{' of the compressed file' if gap.is_packed else ''}"
                f"{f' ({gap.reason})' if gap.reason else ''}"
                for gap in self.gaps[:most]
            ]
            shown += [f"{self.count - most:,} more"] if self.count > most else []
            lost = counted(self.lost_packed_bytes + self.lost_bytes, "damaged byte")
            found.append(f"{lost} passed over, {self.lost_lines()}: {', '.join(shown)}")
        if self.lost_packed_bytes:
            found.append("lines before it may be wrong: compressed data shows damage late")
        if self.checks:
            places = ", ".join(f"{at:,}" for at in self.checks[:most])
            places += f" and {len(self.checks) - most:,} more" if len(self.checks) > most else ""
            found.append(
                f"the checksum at byte {places} of the compressed file does not agree with the"
                " lines before it: all that were unpacked are kept, and some may be wrong"
            )
        found += zeros_in_words([(one.first, one.end) for one in self.zeros])
        if self.is_cut:
            found.append(
                f"it ends within compressed data: {counted(self.lines, 'whole line')} up to its"
                f" last byte, {self.packed_bytes:,}; how many are missing is not known"
            )
        return f"{name}: {'; '.join(found)}" if found else ""


def zeros_in_words(stretches: Sequence[tuple[int, int]]) -> list[str]:
    """Say where zeros stand between or behind the members of a compressed file, if they do."""
    if not stretches:
        return []
    count = counted(sum(end - first for first, end in stretches), "zero byte")
    places = "" if len(stretches) == 1 else f" at {len(stretches):,} places"
    return [
        f"{count}{places} from byte {stretches[0][0]:,} of the compressed file, between or behind"
        " its members: padding, or damage that took some"
    ]


def has_damage(data: bytes) -> bool:
    """Say whether a byte that no text has is among them."""
    return len(data.translate(None, NO_TEXT)) < len(data)


def _joined(begins: list[int], ends: list[int]) -> Iterator[tuple[int, int]]:
    """Yield damaged stretches; those that are near one another are one."""
    begin, end = begins[0], ends[0]
    for next_begin, next_end in zip(begins[1:], ends[1:], strict=True):
        if next_begin - end > NEAR_BYTES:
            yield begin, end
            begin = next_begin
        end = next_end
    yield begin, end


HEAD_BYTES = 1 << 16


def is_text(head: bytes) -> bool:
    """Say whether most of the first bytes of a file are lines without damage."""
    good = sum(len(line) for line in head.splitlines(keepends=True) if not has_damage(line))
    return 2 * good >= len(head)


class _Gzip:
    """A member of gzip (RFC 1952), with the interface of the other decompressors.

    If its checksum or its length agrees with the data and the other does not, or both are zeros,
    only these are wrong, and all data are returned.
    """

    def __init__(self) -> None:
        self._body = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self.left, self.eof, self._has_header = b"", False, False
        self._checksum = self._size = 0
        self.has_wrong_check = False

    @property
    def needs_input(self) -> bool:
        fewest = TRAILER_BYTES if self._body.eof else 1
        return not self._has_header or len(self.left) < fewest

    @property
    def unused_data(self) -> bytes:
        return self.left

    def decompress(self, data: bytes, most: int) -> bytes:
        self.left += data
        out = b""
        if not self._has_header:
            size = _header_bytes(self.left)
            self._has_header, self.left = size > 0, self.left[size:]
        elif not self._body.eof:
            out = self._body.decompress(self.left, most)
            self.left = self._body.unused_data or self._body.unconsumed_tail
            self._checksum, self._size = zlib.crc32(out, self._checksum), self._size + len(out)
        if self._body.eof and len(self.left) >= TRAILER_BYTES:
            self._end()
        return out

    def _end(self) -> None:
        trailer, self.left, self.eof = self.left[:TRAILER_BYTES], self.left[TRAILER_BYTES:], True
        given = [int.from_bytes(trailer[at : at + 4], "little") for at in (0, 4)]
        agrees = [given[0] == self._checksum, given[1] == self._size % (1 << 32)]
        self.has_wrong_check = not all(agrees)
        if not any(agrees) and any(given):
            raise zlib.error("neither checksum nor length agrees with the data")


def _header_bytes(data: bytes) -> int:
    """Return the size of the header of a gzip member; 0 where more of it is needed."""
    if not data.startswith(MAGICS["gzip"][: len(data)]):
        raise zlib.error("no member of gzip begins here")
    if len(data) < HEADER_BYTES + 2:
        return 0
    flags, at = data[3], HEADER_BYTES
    if flags & 0xE0:  # reserved: RFC 1952 wants such a member refused
        raise zlib.error("no header of gzip has these flags")
    if flags & 4:  # more fields
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for text in (8, 16):  # a name, a comment
        if flags & text:
            at = data.find(0, at) + 1
            if not at:
                return 0
    at += flags & 2  # a checksum of it, two bytes
    return at if at <= len(data) else 0


ZSTD = b"\x28\xb5\x2f\xfd"
MAGICS = {"gzip": b"\x1f\x8b\x08", "xz": b"\xfd7zXZ\x00", "bz2": b"BZh", "zstd": ZSTD}
DECODERS: dict[str, Callable[[], Any]] = {
    "gzip": _Gzip,
    "xz": lzma.LZMADecompressor,
    "bz2": bz2.BZ2Decompressor,
}
HEADER_BYTES, TRAILER_BYTES = 10, 8
DAMAGES = (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, pa.ArrowException)
CUT = "it ends within compressed data"


class Packed:
    """A compressed file, whose members are unpacked one by one."""

    def __init__(self, fd: int, size: int, kind: str) -> None:
        self._fd, self._size, self._kind = fd, size, kind
        self.at = self._good = 0
        """How far it is read, and up to where it is unpacked, about."""

    def pieces(self) -> Iterator[bytes | Lost]:
        """Yield what it holds, and what cannot be unpacked."""
        begin = 0
        while begin < self._size:
            first, begin = begin, self._behind_zeros(begin)
            if begin > first:
                yield Lost(first, begin, "", is_zero=True)
                continue
            try:
                begin = yield from self._member(begin)
                continue
            except DAMAGES as error:
                reason = str(error)
            first, begin = begin, self._next(begin + 1)
            damaged = self._good if self._good < begin else first
            if begin == self._size and reason == CUT:
                damaged = begin
            yield Lost(damaged, max(begin, damaged), reason)

    def _behind_zeros(self, at: int) -> int:
        """Return where something else stands; zeros may stand between members and at the end."""
        while (data := os.pread(self._fd, READ_BYTES, at)) and not data.strip(b"\0"):
            at += len(data)
        return at + len(data) - len(data.lstrip(b"\0"))

    def _member(self, begin: int) -> Generator[bytes | Lost, None, int]:
        """Yield what the member that begins here holds; return its end."""
        if self._kind == "zstd":
            return (yield from self._frame(begin))
        decoder, self.at, self._good = DECODERS[self._kind](), begin, begin
        while not decoder.eof:
            data = os.pread(self._fd, READ_BYTES, self.at) if decoder.needs_input else b""
            if decoder.needs_input and not data:
                raise EOFError(CUT)
            self.at += len(data)
            if out := decoder.decompress(data, UNPACKED_BYTES):
                self._good = self.at - len(getattr(decoder, "left", b""))
                yield out
        end = self.at - len(decoder.unused_data)
        if getattr(decoder, "has_wrong_check", False):
            yield Lost(end - TRAILER_BYTES, end, "", is_check=True)
        return end

    def _frame(self, begin: int) -> Generator[bytes, None, int]:
        end, self.at, self._good = self._frame_end(begin), begin, begin
        with pa.CompressedInputStream(pa.PythonFile(_Slice(self, begin, end), "r"), "zstd") as all_:
            while out := all_.read(READ_BYTES):
                self._good = self.at
                yield out
        if end > self._size:
            raise EOFError(CUT)
        return end

    def read(self, at: int, size: int) -> bytes:
        """Return some bytes of the file."""
        data = os.pread(self._fd, size, at)
        self.at = at + len(data)
        return data

    def _frame_end(self, begin: int) -> int:
        """Return where a frame ends, by the headers of its blocks; beyond the file if it is cut."""
        head = os.pread(self._fd, 8, begin)
        if head[1:4] == b"\x2a\x4d\x18":
            return begin + 8 + int.from_bytes(head[4:8], "little")
        if head[:4] != ZSTD or len(head) < 5:
            raise ValueError("no frame of zstd begins here")
        flags = head[4]
        is_single = flags >> 5 & 1
        sizes = (is_single, 2, 4, 8)[flags >> 6] + (0, 1, 2, 4)[flags & 3]
        at, is_last = begin + 6 - is_single + sizes, False
        while not is_last and at < self._size:
            block = int.from_bytes(os.pread(self._fd, 3, at), "little")
            is_last, kind = bool(block & 1), block >> 1 & 3
            if kind == 3:
                raise ValueError("a block of no known kind")
            at += 3 + (1 if kind == 1 else block >> 3)
        return at + 4 * (flags >> 2 & 1) + (0 if is_last else 1)

    def _next(self, begin: int) -> int:
        """Return where the next member begins from which text comes; the file's end if none."""
        magic = MAGICS[self._kind]
        while data := os.pread(self._fd, SCAN_BYTES, begin):
            at = data.find(magic)
            while at >= 0:
                if self._holds_text(begin + at):
                    return begin + at
                at = data.find(magic, at + 1)
            begin += max(len(data) - len(magic) + 1, 1)
        return self._size

    def _holds_text(self, begin: int) -> bool:
        before = self.at, self._good
        try:
            first = next(self._member(begin), b"")
            return isinstance(first, bytes) and not has_damage(first)
        except DAMAGES:
            return False
        finally:
            self.at, self._good = before


class _Slice:
    """A stretch of a compressed file, for Arrow."""

    closed = False

    def __init__(self, packed: Packed, begin: int, end: int) -> None:
        self._packed, self._at, self._end = packed, begin, end

    def read(self, size: int = -1) -> bytes:
        left = self._end - self._at
        data = self._packed.read(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def plain_pieces(fd: int, begin: int) -> Iterator[bytes]:
    """Yield a plain file from a byte on."""
    while data := os.pread(fd, UNPACKED_BYTES, begin):
        yield data
        begin += len(data)

"""Cuts what a descriptor gives into blocks of whole lines or whole records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from tracekit.errors import InputError

BLOCK_BYTES = 4 << 20
LONGEST_LINE_BYTES = 64 << 20

Whole = Callable[[bytearray, int], int]
"""How many of so many first bytes of a buffer are whole lines or records."""


def whole_lines(buffer: bytearray, size: int) -> int:
    """Return how many of the first `size` bytes are whole lines."""
    return buffer.rfind(b"\n", 0, size) + 1


def whole_records(record_bytes: int) -> Whole:
    """Return what counts the bytes of whole records."""
    return lambda _buffer, size: size - size % record_bytes


def blocks_of(fd: int, start: bytes, *, whole: Whole) -> Iterator[memoryview]:
    """Yield whole lines or records, some MiB at a time, and last what remains, whole or not.

    `start` was read from the descriptor already. A block is valid until the next one is asked for:
    all lie in one buffer. Raise InputError for a line that no text has.
    """
    buffer = bytearray(max(2 * BLOCK_BYTES, 2 * len(start)))
    buffer[: len(start)] = start
    size = len(start)
    while got := os.readv(fd, [memoryview(buffer)[size:]]):
        size += got
        if size < BLOCK_BYTES:
            continue
        end = whole(buffer, size)
        if end:
            yield memoryview(buffer)[:end]
            buffer[: size - end] = buffer[end:size]
            size -= end
        elif size == len(buffer):
            if size > LONGEST_LINE_BYTES:
                message = f"a line of more than {LONGEST_LINE_BYTES >> 20} MiB: this is no text"
                raise InputError(message, hint="check the file")
            buffer = buffer + bytearray(size)
    if size:
        yield memoryview(buffer)[:size]

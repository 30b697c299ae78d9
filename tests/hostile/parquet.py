"""Parquet files that no writer makes: footers written byte by byte in Thrift's compact protocol."""

import struct
from pathlib import Path

import pyarrow.parquet as pq

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
INT32_COLUMN = 1


def number(value: int) -> bytes:
    """Return a whole number from 0 up as Thrift writes a signed one."""
    return _length(value << 1)


def _length(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _element(name: bytes, *, children: int | None = None) -> bytes:
    """Return an element of the schema: a group of so many others, or a column of int32."""
    kind = b"" if children is not None else bytes([1 << 4 | I32]) + number(INT32_COLUMN)
    repetition = bytes([(3 if children is not None else 2) << 4 | I32]) + number(0)
    name_field = bytes([1 << 4 | BINARY]) + _length(len(name)) + name
    size = b"" if children is None else bytes([1 << 4 | I32]) + number(children)
    return kind + repetition + name_field + size + b"\0"


def _file(elements: list[bytes]) -> bytes:
    schema = bytes([1 << 4 | LIST, 0xF0 | STRUCT]) + _length(len(elements)) + b"".join(elements)
    footer = bytes([1 << 4 | I32]) + number(1) + schema
    footer += bytes([1 << 4 | I64]) + number(0) + bytes([1 << 4 | LIST, STRUCT]) + b"\0"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def deep(levels: int) -> bytes:
    """Return a file whose only column stands below so many groups."""
    groups = [_element(b"g", children=1) for _ in range(levels)]
    return _file([*groups, _element(b"x")])


def wide(columns: int) -> bytes:
    """Return a file of so many columns and no row."""
    names = (b"c%d" % at for at in range(columns))
    return _file([_element(b"s", children=columns), *(_element(name) for name in names)])


def miscounted(file: Path, rows: int) -> None:
    """Let the footer of a file count another number of rows than its row groups have."""
    data = file.read_bytes()
    # The footer stands before its length and the magic.
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[begin:-8]
    old = bytes([1 << 4 | I64]) + number(pq.read_metadata(file).num_rows) + bytes([1 << 4 | LIST])
    assert footer.count(old) >= 1
    at = footer.index(old)
    footer = footer[: at + 1] + number(rows) + footer[at + len(old) - 1 :]
    file.write_bytes(data[:begin] + footer + struct.pack("<I", len(footer)) + b"PAR1")

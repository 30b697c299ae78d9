"""A Parquet file written row group by row group, a column of one value throughout only once.

Arrow encodes the columns and knows their values; here their bytes are put one behind the other,
and a footer says where each lies. A trace of another tool knows few columns of a request: all
others cost as much time as those that it knows, if each row group encodes them anew.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.arrow import flags, ints, texts

MAGIC = b"PAR1"
LENGTH = struct.Struct("<I")
FEWEST_ROWS = 1 << 16
"""A smaller row group is encoded as it is."""
FLAGS, BYTE, DOUBLE, BINARY, LIST, STRUCT = (1, 2), 3, 7, 8, 9, 12
"""Types of Thrift's compact protocol: true and false, whose value is the type; 4 to 6 are whole
numbers."""
FIXED = {**dict.fromkeys(FLAGS, 0), BYTE: 1, DOUBLE: 8}
"""The bytes of those that have always as many."""
LONG_LIST = 15
Fields = dict[int, tuple[int, Any]]
"""A structure: the type and value of each field by its number; of a list its kind and items."""
# Fields of the footer, of a row group, of a column in it, and of what is known of that.
ROWS, GROUPS = 3, 4
COLUMNS, GROUP_BYTES, GROUP_ROWS, GROUP_OFFSET, GROUP_STORED, ORDINAL = 1, 2, 3, 5, 6, 7
META, PLAIN_BYTES, STORED_BYTES, DATA_PAGE, DICTIONARY_PAGE = 3, 6, 7, 9, 11
Options = Callable[[Any], Mapping[str, Any]]
"""How to store the columns of a schema: the keywords of Arrow's writer."""


class _Scan:
    """Reads Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def fields(self) -> Fields:
        found: Fields = {}
        number = 0
        while head := self._take(1)[0]:
            kind, step = head & 15, head >> 4
            number = number + step if step else self._signed()
            found[number] = (kind, self._value(kind))
        return found

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)

    def _value(self, kind: int) -> Any:
        if kind in FIXED:
            return self._take(FIXED[kind])
        if kind == BINARY:
            return self._take(self._unsigned())
        if kind == LIST:
            return self._list()
        return self.fields() if kind == STRUCT else self._signed()

    def _list(self) -> tuple[int, list[Any]]:
        head = self._take(1)[0]
        item, count = head & 15, head >> 4
        count = self._unsigned() if count == LONG_LIST else count
        return item, [self._value(BYTE if item in FLAGS else item) for _ in range(count)]


def _unsigned(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _signed(value: int) -> bytes:
    return _unsigned(value << 1 ^ value >> 63)


def _written(fields: Fields) -> bytes:
    """Return a structure in Thrift's compact protocol."""
    parts, before = [], 0
    for number, (kind, value) in sorted(fields.items()):
        step = number - before
        parts.append(bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + _signed(number))
        parts.append(_value(kind, value))
        before = number
    return b"".join([*parts, b"\0"])


def _value(kind: int, value: Any) -> bytes:
    if kind in FIXED:
        return bytes(value)
    if kind == BINARY:
        return _unsigned(len(value)) + bytes(value)
    if kind == LIST:
        item, items = value
        count = min(len(items), LONG_LIST)
        head = bytes([count << 4 | item]) + (_unsigned(len(items)) if count == LONG_LIST else b"")
        return head + b"".join(_value(BYTE if item in FLAGS else item, one) for one in items)
    return _written(value) if kind == STRUCT else _signed(value)


@dataclass(frozen=True)
class _Chunk:
    """A column of a row group: its bytes, and what the footer says of it."""

    data: memoryview
    fields: Fields
    begin: int
    """Where the bytes stood in the file that `fields` are of."""

    def at(self, place: int) -> Fields:
        """Return what the footer says of it at another place."""
        meta: Fields = dict(self.fields[META][1])
        for number in (DATA_PAGE, DICTIONARY_PAGE):
            if number in meta:
                kind, offset = meta[number]
                meta[number] = (kind, offset - self.begin + place)
        return {**self.fields, META: (STRUCT, meta)}


def _encoded(table: Any, options: Options) -> Any:
    """Return a file of the table as Arrow makes it."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **options(table.schema)) as writer:
        writer.write_table(table, max(table.num_rows, 1))
    return sink.getvalue()


def _footer(data: Any) -> Fields:
    """Return the footer of a file."""
    ends = len(data) - LENGTH.size - len(MAGIC)
    (size,) = LENGTH.unpack(data[ends : ends + LENGTH.size].to_pybytes())
    return _Scan(data[ends - size : ends].to_pybytes()).fields()


def _chunks(table: Any, options: Options) -> list[_Chunk]:
    """Encode the columns of a row group."""
    data = _encoded(table, options)
    found = []
    for fields in _footer(data)[GROUPS][1][1][0][COLUMNS][1][1]:
        meta = fields[META][1]
        begin = min(meta[one][1] for one in (DATA_PAGE, DICTIONARY_PAGE) if one in meta)
        end = begin + meta[STORED_BYTES][1]
        found.append(_Chunk(memoryview(data)[begin:end], fields, begin))
    return found


@dataclass(frozen=True)
class Written:
    """How far a file is written: its bytes, and its row groups as the footer will have them."""

    size: int
    groups: tuple[bytes, ...]


class TableFile:
    """A Parquet file that is being written; `options` say how to store the columns of a schema.

    What was `written` of it before stays, and nothing behind that.
    """

    def __init__(
        self, file: IO[bytes], schema: Any, *, options: Options, written: Written | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        self._alone: Any = None
        self._groups: list[Fields] = []
        self._constant: dict[str, tuple[tuple[int, Any], _Chunk]] = {}
        self._file = file
        self._is_continued = written is not None
        if written is None:
            self._file.write(MAGIC)
        else:
            self._groups = [_Scan(group).fields() for group in written.groups]
            self._file.truncate(written.size)
            self._file.seek(written.size)

    def write(self, table: Any) -> None:
        """Write a table of the schema, with at least a row, as one row group.

        The first one is kept while it is small: if no other comes, Arrow's file of it is all.
        """
        self._write_alone()
        if not self._groups and not self._is_continued and table.num_rows < FEWEST_ROWS:
            self._alone = table
        else:
            self._write(table)

    def _write_alone(self) -> None:
        alone, self._alone = self._alone, None
        if alone is not None:
            self._write(alone)

    def _write(self, table: Any) -> None:
        rows, constant = table.num_rows, dict[str, Any]()
        if rows >= FEWEST_ROWS:
            found = ((name, _only_value(table[name])) for name in table.schema.names)
            constant = {name: value for name, value in found if value is not None}
        chunks = self._chunks_of(
            table, [name for name in table.schema.names if name not in constant]
        )
        for name, value in constant.items():
            known = self._constant.get(name)
            if known is None or known[0] != (rows, value):
                known = (rows, value), _chunks(table.select([name]), self._options)[0]
            self._constant[name] = known
            chunks[name] = known[1]
        self._append([chunks[name] for name in table.schema.names], rows)

    def _chunks_of(self, table: Any, names: list[str]) -> dict[str, _Chunk]:
        """Encode the columns on two threads; those of a small table on one."""
        shares = [names[::2], names[1::2]] if table.num_rows >= FEWEST_ROWS else [names]
        with ThreadPoolExecutor(len(shares)) as pool:
            selected = [table.select(share) for share in shares if share]
            found = list(pool.map(lambda part: _chunks(part, self._options), selected))
        pairs = zip(chain(*shares), chain(*found), strict=True)
        return dict(pairs)

    def _append(self, chunks: list[_Chunk], rows: int) -> None:
        begin, columns = self._file.tell(), list[Fields]()
        for chunk in chunks:
            columns.append(chunk.at(self._file.tell()))
            self._file.write(chunk.data)
        metas = [column[META][1] for column in columns]
        group: Fields = {
            COLUMNS: (LIST, (STRUCT, columns)),
            GROUP_BYTES: (6, sum(meta[PLAIN_BYTES][1] for meta in metas)),
            GROUP_ROWS: (6, rows),
            GROUP_OFFSET: (6, begin),
            GROUP_STORED: (6, self._file.tell() - begin),
            ORDINAL: (4, len(self._groups)),
        }
        self._groups.append(group)

    def sync(self) -> Written:
        """Put all row groups on the disk; return how far the file is written."""
        self._write_alone()
        self._file.flush()
        os.fdatasync(self._file.fileno())
        return Written(self._file.tell(), tuple(map(_written, self._groups)))

    def finish(self) -> None:
        """Write the footer, without which there is no table."""
        table = pa.Table.from_batches([], self._schema) if self._alone is None else self._alone
        whole = _encoded(table, self._options)
        if not self._groups:
            self._file.seek(0)
            self._file.write(whole)
            return
        rows = sum(group[GROUP_ROWS][1] for group in self._groups)
        groups = (LIST, (STRUCT, self._groups))
        footer = _written({**_footer(whole), ROWS: (6, rows), GROUPS: groups})
        self._file.write(footer + LENGTH.pack(len(footer)) + MAGIC)


NULL = ""


def _only_value(column: Any) -> str | None:
    """Return the value that all rows of a column have, as text; None if they differ."""
    if column.null_count:
        return NULL if column.null_count == len(column) else None
    if column.type not in (pa.bool_(), pa.int32(), pa.int64()) and not _is_text(column):
        return None
    found = {_value_of_all(part) for part in column.chunks if len(part)}
    return found.pop() if len(found) == 1 else None


def _is_text(column: Any) -> bool:
    return bool(pa.types.is_dictionary(column.type))


def _value_of_all(part: Any) -> str | None:
    words = list[str]()
    found: Any
    if _is_text(part):
        words, found = texts(part)
    else:
        found = flags(part) if part.type == pa.bool_() else ints(part)
    if found[0] != found[len(found) // 2] or not (found == found[0]).all():
        return None
    return f"={words[found[0]] if words else found[0]}"

"""Binary traces of libCacheSim: with operations, and with a header that names the fields."""

import struct

import pytest

from tests import parsed as traces
from tests.import_.importer import Importer
from tests.parsed import Row

LAST = (1 << 63) - 1
# libCacheSim's numbers of operations: 1 get, 3 set, 9 delete, 12 read, 13 write, 0 nothing.
ACCESSES = [(5, 80, 4096, 12), (5, 8, 512, 13), (6, 80, 4096, 1), (6, 16, 8192, 3), (9, 1, 5, 9)]
EXPECTED: list[Row] = [
    (0, None, "trace", 80, 4096, "read"),
    (0, None, "trace", 8, 512, "write"),
    (1_000_000_000, None, "trace", 80, 4096, "read"),
    (1_000_000_000, None, "trace", 16, 8192, "write"),
    (4_000_000_000, None, "trace", 1, 5, "discard"),
]


def following(at: int) -> int:
    """Return the number of the next access to the same object, as libCacheSim counts."""
    later = range(at + 1, len(ACCESSES))
    return next((place for place in later if ACCESSES[place][1] == ACCESSES[at][1]), LAST)


def lcs(kinds: str, fields: dict[str, int], records: bytes, *, item_bytes: int) -> bytes:
    """Return a file with the header of libCacheSim's lcs.h, of 1,024 bytes."""
    numbers = ("object", "size", "time", "last", "next", "op", "ttl", "tenant", "content")
    places = bytes(fields.get(name, 0) for name in numbers)
    magic = 0x123456789ABCDEF0
    head = struct.pack("<Q240s9s231x512x", magic, kinds.encode(), places)
    head += struct.pack("<IIQQ", len(kinds) - 1, item_bytes, 1, magic)
    assert len(head) == 1024
    return head + records


def test_oracle_general_with_operations(read: Importer) -> None:
    rows = enumerate(ACCESSES)
    data = b"".join(struct.pack("<IQIbhq", *row, 7, following(at)) for at, row in rows)
    read.gives(data, "oracleGeneralOpNS", EXPECTED)


def test_lcs_names_its_fields(read: Importer) -> None:
    # GIVEN fields in an order of their own, some of which nobody needs
    fields = {"op": 1, "size": 2, "object": 4, "time": 5, "ttl": 3}
    data = b"".join(struct.pack("<bIiQI", op, size, -1, what, s) for s, what, size, op in ACCESSES)
    content = lcs("<bIiQI", fields, data, item_bytes=21)
    read.gives(content, "lcs", EXPECTED)
    # AND a cut record is told, and one without operations does not say them
    assert read(content[:-3], most_bad_ratio=0.5).content["counts"]["bad_lines"] == 1
    del fields["op"]
    made = read(lcs("<bIiQI", fields, data, item_bytes=21))
    assert made.info.unknown == ["operations"]
    assert [row[-1] for row in traces.rows(made)] == [None] * 5


@pytest.mark.parametrize(
    ("kinds", "fields", "item_bytes"),
    [
        ("<IQI", {"time": 1, "object": 2, "size": 3}, 20),
        ("<IQI", {"time": 1, "object": 2}, 16),
        ("<IQs", {"time": 1, "object": 2, "size": 3}, 16),
    ],
)
def test_a_wrong_header_of_lcs(
    read: Importer, kinds: str, fields: dict[str, int], item_bytes: int
) -> None:
    content = lcs(kinds, fields, bytes(160), item_bytes=item_bytes)
    read.rejects(content, "x: the header of this lcs trace is wrong", hint="check the file")
    read.rejects(content[:700], "x: an lcs trace that ends within its header, at byte 700")

"""Traces of Ceph's rbd-replay-prep, written as its sources encode them."""

import random
import struct

import pytest

from tests.import_.importer import Importer
from tests.parsed import requests
from tracekit.readers import rbd_replay

Action = tuple[int, int, list[tuple[int, int]], bytes]
"""Sort, number, dependencies with their ns, and the rest."""


def encoded(actions: list[Action]) -> bytes:
    """Return a file: ActionEntry::encode of src/rbd_replay/ActionTypes.cc, ENCODE_START(1, 1)."""
    data = b"rbd-replay-trace"
    for sort, number, waits, rest in actions:
        base = struct.pack("<BIQI", sort, number, 0x7F0, len(waits))
        body = base + b"".join(struct.pack("<IQ", *wait) for wait in waits) + rest
        data += struct.pack("<BBI", 1, 1, len(body)) + body
    return data


def opened(image: int, name: str) -> bytes:
    return struct.pack("<QI", image, len(name)) + name.encode() + struct.pack("<I", 0) + b"\0"


def made(*, is_late: bool = False) -> tuple[bytes, list[tuple[int, str, str, int, int]]]:
    """Return a file of 300 requests, and time, image, operation, offset and length of each.

    With `is_late` one that begins with the first stands behind all others.
    """
    chance = random.Random(5)  # noqa: S311 - test data
    kinds = {2: "read", 3: "write", 4: "read", 5: "write", 10: "discard", 11: "discard"}
    actions: list[Action] = [
        (0, 0, [], b""), (6, 2, [], opened(0xA0, "vm/disk")), (8, 4, [(3, 7)], opened(0xB0, "b")),
    ]  # fmt: skip
    starts, expected = {0: 0, 2: 0, 4: 7}, []
    for number in range(6, 606, 2):
        now = max(starts.values()) + chance.randrange(1, 10**6)
        waits = chance.sample(sorted(starts)[-6:], 3)
        sort, image = chance.choice(sorted(kinds)), chance.choice([0xA0, 0xB0])
        offset, length = 512 * chance.randrange(1 << 30), 512 * chance.randrange(1, 64)
        rest = struct.pack("<QQQ", image, offset, length)
        # A dependency on a completion has an odd number, and counts from the action's start.
        actions.append((sort, number, [(one | 1, now - starts[one]) for one in waits], rest))
        starts[number] = now
        name = "vm/disk" if image == 0xA0 else "b"
        expected.append((now, name, kinds[sort], offset, length))
    if is_late:
        rest = struct.pack("<QQQ", 0xA0, 512, 1024)
        actions.append((2, 606, [(2, 1)], rest))
        expected.insert(0, (1, "vm/disk", "read", 512, 1024))
    actions.append((1, 608, [(605, 9)], b""))
    return encoded(actions), expected


@pytest.mark.parametrize("block_rows", [rbd_replay.BLOCK_ROWS, 32])
def test_requests_of_images(
    read: Importer, block_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a file of one block of requests or more, in any order
    monkeypatch.setattr(rbd_replay, "BLOCK_ROWS", block_rows)
    data, expected = made(is_late=block_rows == 32)
    folder = read(data)
    base = folder.content["clock"]["base_ns"]
    got = [
        (base + row["queue_ns"], row["device"], row["operation"], row["sector"] * 512,
         row["length_bytes"])
        for row in requests(folder).to_pylist()
    ]  # fmt: skip
    assert got == expected
    assert folder.content["source"]["format"] == "rbd-replay"
    assert folder.content["counts"]["passed_lines"] == 4


def test_an_action_may_wait_for_one_of_the_last_only(
    read: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN fewer starts in memory than there are actions, THEN one that is gone is named
    monkeypatch.setattr(rbd_replay, "MOST_STARTS", 16)
    assert read(made()[0]).content["counts"]["requests"] == 300
    message = r"byte [0-9,]+: it waits for action 2, which lies more than 16 before"
    read.rejects(made(is_late=True)[0], message)


@pytest.mark.parametrize("kept", [16, 40, -5])
def test_damage(read: Importer, kept: int) -> None:
    data, _ = made()
    message = "there is no request" if kept == 16 else r"byte \d[\d,]*: "
    read.rejects(data[:kept], message)

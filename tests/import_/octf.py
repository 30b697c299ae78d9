"""Messages of OCTF traces by the wire rules of protocol buffers, for the tests."""

from __future__ import annotations

from collections.abc import Iterable

IO, DEVICE, FILE_META, DONE, FILE_NAME = 2, 3, 4, 5, 6
READ, WRITE, DISCARD = 1, 2, 3


def varint(value: int) -> bytes:
    """Return the number in groups of 7 bits, lowest first."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def message(fields: dict[int, int | bytes]) -> bytes:
    """Return the fields by number; as proto3 does it, zeroes are left out."""
    made = b""
    for number, value in fields.items():
        if isinstance(value, bytes):
            made += varint(number << 3 | 2) + varint(len(value)) + value
        elif value:
            made += varint(number << 3) + varint(value)
    return made


def event(time: int, sid: int, kind: int, body: dict[int, int | bytes]) -> bytes:
    """Return an Event behind its length."""
    made = message({1: message({1: sid, 2: time}), kind: message(body)})
    return varint(len(made)) + made


def io(
    time: int, sid: int, *, number: int, lba: int = 8, sectors: int = 8, op: int = READ,
    device: int = 1, flags: Iterable[int] = (),
) -> bytes:  # fmt: skip
    """Return an EventIo; `flags` are the numbers of its bools that are set."""
    body: dict[int, int | bytes] = {1: lba, 2: sectors, 4: device, 5: op, 9: number}
    return event(time, sid, IO, body | dict.fromkeys(flags, 1))


def done(
    time: int, sid: int, *, number: int, lba: int = 8, sectors: int = 8, error: bool = False,
    device: int = 1,
) -> bytes:  # fmt: skip
    """Return an EventIoCompletion."""
    body: dict[int, int | bytes] = {1: lba, 2: sectors, 3: int(error), 4: device, 5: number}
    return event(time, sid, DONE, body)


def described(time: int, sid: int, *, device: int, name: str, sectors: int) -> bytes:
    """Return an EventDeviceDescription."""
    return event(time, sid, DEVICE, {1: device, 2: name.encode(), 3: sectors, 4: b"a model"})

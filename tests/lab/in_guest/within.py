"""Records all that a script writes from lvconvert on, and starts from the disks at cuts in it.

Both disks are network block devices of this process, which keeps what is written in its order. At
a cut either all of that is there, or only what a flush was behind.
"""

import fcntl
import itertools
import json
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.in_guest import carry

REQUEST, REPLY = struct.Struct(">IHHQQI"), struct.Struct(">IIQ")
REPLY_MAGIC = 0x67446698
READ, WRITE, DISCONNECT, FLUSH = range(4)
FUA = 1
SET_SOCK, SET_BLOCK_SIZE, DO_IT, SET_BLOCKS, SET_FLAGS = 0xAB00, 0xAB01, 0xAB03, 0xAB07, 0xAB0A
FLAGS = 1 | 4 | 8  # has flags, flush and FUA
BLOCK = 512
BEGIN = Path("/run/begin")
MARKED = """#!/bin/sh
touch {begin}
exec {real} "$@"
"""


@dataclass(frozen=True)
class Written:
    """A write, or a flush, which has no content; FUA is a write and a flush of it."""

    at_ns: int
    disk: str
    first: int = 0
    content: bytes | None = None
    is_fua: bool = False


@dataclass
class Disks:
    """What is on the disks, and all that was written to them."""

    content: dict[str, bytearray]
    written: list[Written] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, disk: str, number: int) -> None:
        """Be a block device of the kernel from now on."""
        mine, kernels = socket.socketpair()
        device = Path(f"/dev/nbd{number}").open("rb")  # noqa: SIM115 - as long as the process lives
        for order, value in (
            (SET_BLOCK_SIZE, BLOCK),
            (SET_BLOCKS, len(self.content[disk]) // BLOCK),
            (SET_FLAGS, FLAGS),
            (SET_SOCK, kernels.fileno()),
        ):
            fcntl.ioctl(device, order, value)
        for work, words in ((self._answer, (disk, mine)), (_wait, (device, kernels))):
            threading.Thread(target=work, args=words, daemon=True).start()

    def _answer(self, disk: str, peer: socket.socket) -> None:
        while True:
            _, flags, kind, handle, first, length = REQUEST.unpack(_received(peer, REQUEST.size))
            content = b""
            if kind == DISCONNECT:
                return
            with self.lock:
                if kind == READ:
                    content = bytes(self.content[disk][first : first + length])
                elif kind == WRITE:
                    data = _received(peer, length)
                    self.content[disk][first : first + length] = data
                    self._add(disk, first, data, is_fua=bool(flags & FUA))
                elif kind == FLUSH:
                    self._add(disk)
            peer.sendall(REPLY.pack(REPLY_MAGIC, 0, handle) + content)

    def _add(
        self, disk: str, first: int = 0, content: bytes | None = None, *, is_fua: bool = False
    ) -> None:
        self.written.append(Written(time.time_ns(), disk, first, content, is_fua))


def _wait(device: object, _kernels: socket.socket) -> None:
    fcntl.ioctl(device, DO_IT)  # type: ignore[call-overload]


def _received(peer: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = peer.recv(length - len(data))
        if not part:
            sys.exit(0)
        data += part
    return bytes(data)


def on_disk(
    before: dict[str, bytes], written: list[Written], *, only_flushed: bool
) -> dict[str, bytes]:
    """Return what is on the disks after these writes; or what of them surely is."""
    found = {disk: bytearray(content) for disk, content in before.items()}
    for disk, content in found.items():
        mine = [one for one in written if one.disk == disk]
        last = max((n for n, one in enumerate(mine) if one.content is None), default=-1)
        for number, one in enumerate(mine):
            if one.content is not None and (number < last or one.is_fua or not only_flushed):
                content[one.first : one.first + len(one.content)] = one.content
    return {disk: bytes(content) for disk, content in found.items()}


def recorded(
    trial: carry.Trial, state: dict[str, bytes], command: str
) -> tuple[list[Written], range]:
    """Run the script to its end; return all that it wrote, and which of that a command did."""
    disks = Disks({name: bytearray(content) for name, content in state.items()})
    for number, name in enumerate(carry.DISKS):
        disks.serve(name, number)
        sectors = len(state[name]) // BLOCK
        Path(f"/run/{name}.recorded").write_text(f"0 {sectors} linear /dev/nbd{number} 0\n")
        carry.become(name, Path(f"/run/{name}.recorded"))
    shim = carry.SHIMS / command
    kept, real = shim.read_text(), carry.real(command)
    shim.write_text(MARKED.format(begin=BEGIN, real=real))
    trial.start()
    if not trial.run("apply"):
        raise RuntimeError("the script cannot be run to its end")
    count = len(disks.written)
    carry.restart()
    shim.write_text(kept)
    for name in carry.DISKS:
        carry.become(name, Path(f"/run/{name}.keeps"))
    begin_ns = BEGIN.stat().st_mtime_ns
    first = sum(one.at_ns < begin_ns for one in disks.written)
    return disks.written, range(first, count + 1)


def places(writes: range, count: int) -> list[int]:
    """Return so many places, from before the first of the command's writes to behind the last."""
    return sorted({writes[round(n * (len(writes) - 1) / (count - 1))] for n in range(count)})


def main() -> None:
    """Cut within lvconvert of a kind of script, at so many places in each of two ways."""
    name, count = sys.argv[1], int(sys.argv[2])
    carry.set_up()
    wrong: list[str] = []
    trial = carry.Trial(carry.KINDS[name], wrong)
    files = carry.prepared(trial)
    state = {disk: Path(f"/dev/mapper/{disk}").read_bytes() for disk in carry.DISKS}
    table = carry.FSTAB.read_text()
    written, writes = recorded(trial, state, "lvconvert")
    carry.say(f"{len(writes) - 1} writes and flushes from lvconvert on")
    tried = {"started": 0, "repaired": 0}
    seen = set()
    for number, only_flushed in itertools.product(places(writes, count), (False, True)):
        found = on_disk(state, written[:number], only_flushed=only_flushed)
        if (key := tuple(map(hash, found.values()))) in seen:
            continue
        seen.add(key)
        where = f"after {number - writes[0]} writes" + " that were flushed" * only_flushed
        for way in ("apply", "undo"):
            carry.fill(found)
            carry.FSTAB.write_text(table)
            has_started = trial.check_back(way, files, f"{where}, {way}")
            tried["started" if has_started else "repaired"] += 1
    json.dump({"wrong": wrong, **tried}, sys.stdout)


if __name__ == "__main__":
    main()

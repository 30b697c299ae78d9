"""Time the import of OCTF traces: decoding and joining by one core, the same by a Python loop, all.

python -m tests.bench.octf FOLDER --requests 2000000
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.import_.octf import done, io
from tracekit._native.octf import OctfReader

CPUS = 4
PYTHON_SHARE = 20
"""The Python loop reads the first messages only, one of so many."""


def write_trace(folder: Path, requests: int) -> list[Path]:
    """Write files of four cpus; every request completes behind the next one's begin."""
    chance = random.Random(1)  # noqa: S311 - no secret
    paths = [folder / f"octf.trace.{cpu}" for cpu in range(CPUS)]
    files = [path.open("wb") for path in paths]
    start = 10**12
    for number in range(1, requests + 1):
        at, lba = start + 1000 * number, chance.randrange(1 << 31)
        files[number % CPUS].write(io(at, 2 * number, number=number, lba=lba, device=8 << 20))
        late = done(at + 1500, 2 * number + 1, number=number, lba=lba, device=8 << 20)
        files[number % CPUS].write(late)
    for file in files:
        file.close()
    return paths


def native_seconds(paths: list[Path]) -> tuple[float, int]:
    """Return the CPU time of reading everything, and how many messages there were."""
    fds = [os.open(path, os.O_RDONLY) for path in paths]
    began = time.process_time()
    with OctfReader(fds, b"") as reader:
        while len(reader.read()["time"]):
            pass
        messages = reader.stats().messages
    taken = time.process_time() - began
    for fd in fds:
        os.close(fd)
    return taken, messages


def python_seconds(path: Path, messages: int) -> float:
    """Return the CPU time of a loop that decodes the fields of so many messages, and no more."""
    data = path.read_bytes()
    began = time.process_time()
    at = 0
    for _ in range(messages):
        size, at = _varint(data, at)
        _fields(data, at, at + size)
        at += size
    return time.process_time() - began


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes, at: int, end: int) -> dict[int, object]:
    found: dict[int, object] = {}
    while at < end:
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7:
            found[tag >> 3] = _fields(data, at, at + value)
            at += value
        else:
            found[tag >> 3] = value
    return found


def import_seconds(folder: Path) -> tuple[float, int]:
    """Return the time of the whole command, and the largest memory of a child so far, bytes."""
    command = [sys.executable, "-m", "tracekit", "import", str(folder), "--force"]
    began = time.monotonic()
    subprocess.run([*command, "-o", str(folder / "out")], check=True, capture_output=True)
    return time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def main() -> None:
    """Print messages a second of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=2_000_000)
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    paths = write_trace(folder, options.requests)
    seconds, messages = min(native_seconds(paths) for _ in range(3))
    print(f"native, one core: {messages / seconds / 1e6:.1f} M messages/s")
    share = messages // CPUS // PYTHON_SHARE
    print(f"Python loop: {share / python_seconds(paths[0], share) / 1e6:.2f} M messages/s")
    seconds, peak_bytes = import_seconds(folder)
    rate = messages / seconds / 1e6
    print(f"tracekit import: {rate:.1f} M messages/s, {peak_bytes / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()

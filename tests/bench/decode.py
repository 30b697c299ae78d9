"""Time `tracekit parse` beside `blkparse` on the same capture, in one run.

The sample capture is repeated with times and sequence numbers that go on, one plain file a CPU.
`blkparse` prints its default text to /dev/null; `tracekit parse` pairs the events and writes
Parquet. Runs alternate and the best of each counts, as other load only ever makes a run slower.

    python tests/bench/decode.py /big/disk/folder --records 10000000
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample-traces" / "oltp"
HEADER_BYTES = 48
PAYLOAD_SIZE_AT = 46
NAME = "repeated"

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def offsets_of(data: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return where the records of a version 7 file begin."""
    offsets, at = [], 0
    while at < len(data):
        offsets.append(at)
        size = data[at + PAYLOAD_SIZE_AT : at + HEADER_BYTES]
        at += HEADER_BYTES + int.from_bytes(size, "little")
    return np.array(offsets)


def add(data: Bytes, offsets: Any, field: tuple[int, str], amount: int) -> None:
    """Add `amount` to the number at (place, type) of every record."""
    place, kind = field
    spots = offsets[:, None] + np.arange(place, place + np.dtype(kind).itemsize)
    numbers = data[spots].view(kind) + np.array(amount, dtype=kind)
    data[spots] = numbers.view(np.uint8)


def repeat_sample(folder: Path, records: int) -> int:
    """Write about `records` records to `folder`, one file a CPU, and return how many."""
    files = {
        path.stem.rpartition(".")[2]: lzma.decompress(path.read_bytes())
        for path in sorted(SAMPLE.glob("*.xz"))
    }
    offsets = {cpu: offsets_of(data) for cpu, data in files.items()}
    once = sum(len(places) for places in offsets.values())
    times = {
        cpu: np.frombuffer(files[cpu], np.uint8)[offsets[cpu][-1] + np.arange(8, 16)]
        for cpu in files
    }
    starts = [int.from_bytes(data[8:16], "little") for data in files.values()]
    ends = [int(last.view("<u8")[0]) for last in times.values()]
    period_ns = max(ends) - min(starts) + 1_000_000
    rounds = max(1, round(records / once))
    folder.mkdir(parents=True, exist_ok=True)
    for cpu, stored in files.items():
        last = int.from_bytes(stored[offsets[cpu][-1] + 4 : offsets[cpu][-1] + 8], "little")
        with (folder / f"{NAME}.blktrace.{cpu}").open("wb") as out:
            for number in range(rounds):
                data = np.frombuffer(stored, np.uint8).copy()
                add(data, offsets[cpu], (8, "<u8"), number * period_ns)
                add(data, offsets[cpu], (4, "<u4"), number * last)
                out.write(data.tobytes())
    shutil.copy(SAMPLE / "layout.json", folder)
    return rounds * once


def seconds(command: list[str], folder: Path) -> float:
    """Run a command in `folder` and return how long it took."""
    started = time.monotonic()
    subprocess.run(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return time.monotonic() - started


def main() -> None:
    """Generate, time and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    if not shutil.which("blkparse"):
        sys.exit("blkparse is not installed (Debian: blktrace)")
    capture = arguments.folder / f"repeated-{arguments.records}"
    records = repeat_sample(capture, arguments.records)
    program = str(Path(sysconfig.get_path("scripts")) / "tracekit")
    commands = {
        "blkparse": ["blkparse", "-i", NAME],
        "tracekit": [program, "parse", ".", "-o", "trace", "--force"],
    }
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(arguments.runs):
        for name, command in commands.items():
            best[name] = min(best[name], seconds(command, capture))
    parsed = json.loads((capture / "trace" / "trace.json").read_text())
    if parsed["counts"]["records"] != records:
        sys.exit(f"{parsed['counts']['records']} of {records} records were parsed")
    for name, took in best.items():
        print(f"{name:<10}{took:8.2f} s{records / took / 1e6:8.2f} M records/s")
    print(f"ratio     {best['blkparse'] / best['tracekit']:8.1f}")


if __name__ == "__main__":
    main()

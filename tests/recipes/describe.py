"""Print a sample trace's files and records as the tables of sample-traces/README.md."""

import collections
import hashlib
import lzma
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

MAGIC = 0x65617407
# magic, (sequence, time, sector, bytes), action, (pid, device, cpu, error), length of the payload
RECORD = struct.Struct("<I24xI14xH")
NOTIFY = 0x400 << 16
ACTIONS = {
    1: "Q queued",
    2: "M merged at the back",
    3: "F merged at the front",
    4: "G request allocated",
    6: "R requeued",
    7: "D issued",
    8: "C completed",
    9: "P plugged",
    10: "U unplugged",
    11: "UT unplugged by timer",
    12: "I inserted",
    13: "X split",
    15: "A remapped",
}


def count_actions(data: bytes) -> collections.Counter[str]:
    """Count the records of one blktrace v7 file by action, one header after the other."""
    counts: collections.Counter[str] = collections.Counter()
    at = 0
    while at < len(data):
        magic, action, payload_bytes = RECORD.unpack_from(data, at)
        if magic != MAGIC:
            raise ValueError(f"no record at byte {at}")
        counts["notify" if action & NOTIFY else ACTIONS[action & 0xFFFF]] += 1
        at += RECORD.size + payload_bytes
    return counts


def describe(folder: Path) -> Iterator[str]:
    """Yield the lines of both tables; the second is of blktrace's records, where there are any."""
    total: collections.Counter[str] = collections.Counter()
    yield "| file | bytes | uncompressed | records | sha256 |"
    yield "|---|---|---|---|---|"
    for path in sorted(folder.iterdir()):
        raw = path.read_bytes()
        data = lzma.decompress(raw) if path.suffix == ".xz" else raw
        counts = count_actions(data) if ".blktrace." in path.name else collections.Counter()
        total += counts
        digest = hashlib.sha256(raw).hexdigest()
        yield f"| {path.name} | {len(raw)} | {len(data)} | {counts.total()} | `{digest}` |"
    if not total:
        return
    yield ""
    yield "| action | records |"
    yield "|---|---|"
    for action, count in sorted(total.items()):
        yield f"| {action} | {count} |"
    yield f"| all | {total.total()} |"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in describe(Path(sys.argv[1])))

"""A large synthetic capture: blktrace v7 files, one a CPU, and their layout.json.

Three partitions are used as in study A: a file system with a skewed hot part and sequential runs,
a cyclic journal and swap. Memory does not grow with the number of requests.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MAGIC = 0x65617400 | 7
WIDE, WORDS = ("time", "sector"), ("bytes", "action", "pid", "device", "cpu")
RECORD = np.dtype(
    [("magic", "<u4"), ("sequence", "<u4")]
    + [(name, "<u8") for name in WIDE]
    + [(name, "<u4") for name in WORDS]
    + [("error", "<u2"), ("pdu_len", "<u2")]
)
QUEUE, GETRQ, ISSUE, COMPLETE = 1, 4, 7, 8
CATEGORY = {QUEUE: 0x10, GETRQ: 0, ISSUE: 0x40, COMPLETE: 0x80}
READ, WRITE, FLUSH, SYNC, META = 1, 2, 4, 8, 0x1000
NOTIFY = 0x400
DEVICE = 8 << 20
CPUS = 2
CHUNK = 250_000
FIRST_NS = 1_000_000_000
MEAN_GAP_NS = 50_000

# start and length in sectors, share of the requests, queueing process
PARTITIONS = {
    "fs": (2048, 1 << 25, 0.60, (1001, "postgres")),
    "journal": (2048 + (1 << 25), 1 << 21, 0.25, (77, "jbd2/sda1-8")),
    "swap": (2048 + (1 << 25) + (1 << 21), 1 << 23, 0.15, (60, "kswapd0")),
}
# A block's low digits come from the request's number, so that two requests in flight at the same
# time never have the same address: which of them a completion belongs to would be undefined.
LANES = 256
LANE_BLOCKS = 4


def zipf_ranks(random: np.random.Generator, count: int, top: int) -> Array:
    """Return `count` ranks below `top` with probability proportional to 1 / (rank + 1)."""
    return (np.power(float(top), random.random(count)) - 1).astype(np.int64)


def chunk_requests(random: np.random.Generator, first: int, count: int) -> dict[str, Array]:
    """Return the columns of requests `first` to `first + count`: where, how long, what, by whom."""
    number = np.arange(first, first + count)
    names = list(PARTITIONS)
    role = random.choice(len(names), count, p=[PARTITIONS[name][2] for name in names])
    start = np.array([PARTITIONS[name][0] for name in names])[role]
    length = np.array([PARTITIONS[name][1] for name in names])[role]
    blocks = length // 8
    lane = number % LANES
    row = np.where(
        role == 0, zipf_ranks(random, count, 1 << 14), random.integers(0, 1 << 20, count)
    )
    row = np.where(role == 1, number // LANES, row) % (blocks // (LANES * LANE_BLOCKS))
    block = (row * LANES + lane) * LANE_BLOCKS
    is_write = random.random(count) < np.array([0.55, 1.0, 0.5])[role]
    sectors = np.where((role == 1) | (random.random(count) < 0.2), 8 * LANE_BLOCKS, 8)
    pid = np.array([PARTITIONS[name][3][0] for name in names])[role]
    kind = np.where(is_write, WRITE, READ)
    kind = np.where(role == 1, kind | SYNC, kind)
    kind = np.where((role == 1) & (number % 8 == 0), kind | META, kind)
    return {"sector": start + block * 8, "bytes": sectors * 512, "kind": kind, "pid": pid}


def chunk_events(requests: dict[str, Array], queue_ns: Array, service_ns: Array) -> Array:
    """Return the Q, G, D and C records of the requests, not yet in order of time."""
    steps = {QUEUE: 0, GETRQ: 400, ISSUE: 2_000, COMPLETE: 2_000 + service_ns}
    parts = []
    for action, offset_ns in steps.items():
        part = np.zeros(len(queue_ns), RECORD)
        part["magic"] = MAGIC
        part["time"] = queue_ns + offset_ns
        part["sector"] = requests["sector"]
        part["bytes"] = requests["bytes"]
        part["action"] = action | ((CATEGORY[action] | requests["kind"]) << 16)
        part["pid"] = requests["pid"] if action != COMPLETE else 0
        part["device"] = DEVICE
        part["cpu"] = requests["sector"] // (8 * LANE_BLOCKS) % CPUS
        parts.append(part)
    return np.concatenate(parts)


class Writer:
    """Appends records to one file a CPU and numbers them."""

    def __init__(self, folder: Path) -> None:
        self.files = [(folder / f"synthetic.blktrace.{cpu}").open("wb") for cpu in range(CPUS)]
        self.sequences = [0] * CPUS

    def names(self) -> None:
        """Write the notify records that name the processes."""
        for cpu, file in enumerate(self.files):
            for pid, name in (entry[3] for entry in PARTITIONS.values()):
                record = np.zeros(1, RECORD)
                self.sequences[cpu] += 1
                record["magic"], record["sequence"] = MAGIC, self.sequences[cpu]
                record["time"], record["action"] = FIRST_NS - 1, NOTIFY << 16
                record["pid"], record["cpu"], record["pdu_len"] = pid, cpu, 16
                file.write(record.tobytes() + name.encode().ljust(16, b"\0"))

    def write(self, events: Array) -> None:
        """Write records that are in order of time."""
        for cpu, file in enumerate(self.files):
            mine = events[events["cpu"] == cpu]
            mine["sequence"] = self.sequences[cpu] + 1 + np.arange(len(mine))
            self.sequences[cpu] += len(mine)
            file.write(mine.tobytes())

    def close(self) -> None:
        """Close the files."""
        for file in self.files:
            file.close()


def write_capture(folder: Path, *, requests: int, seed: int) -> None:
    """Write the capture and its layout into `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    writer = Writer(folder)
    writer.names()
    clock_ns = FIRST_NS
    late = np.zeros(0, RECORD)
    for first in range(0, requests, CHUNK):
        count = min(CHUNK, requests - first)
        queue_ns = clock_ns + np.cumsum(random.exponential(MEAN_GAP_NS, count).astype(np.int64) + 1)
        clock_ns = int(queue_ns[-1])
        service_ns = np.minimum(random.lognormal(11, 0.7, count), 2e6).astype(np.int64)
        columns = chunk_requests(random, first, count)
        events = np.concatenate([late, chunk_events(columns, queue_ns, service_ns)])
        events = events[np.argsort(events["time"], kind="stable")]
        cut = np.searchsorted(events["time"], clock_ns, side="right")
        writer.write(events[:cut])
        late = events[cut:]
    writer.write(late)
    writer.close()
    (folder / "layout.json").write_text(json.dumps(layout(), indent=2) + "\n")


def layout() -> dict[str, Any]:
    """Return the layout of the traced disk, as `tracekit capture` would save it."""
    partitions = [
        {
            "device": "sda",
            "partition": f"8,{index}",
            "name": f"sda{index}",
            "start_sector": start,
            "sectors": sectors,
            "role": role,
            "filesystem": None,
            "mount": None,
            "evidence": "synthetic",
        }
        for index, (role, (start, sectors, _, _)) in enumerate(PARTITIONS.items(), 1)
    ]
    size = max(start + sectors for start, sectors, _, _ in PARTITIONS.values())
    device = {"device": "sda", "major": 8, "minor": 0, "size_sectors": size}
    device |= {"logical_sector_bytes": 512, "rotational": True}
    return {"layout_version": 1, "devices": [device], "partitions": partitions, "processes": {}}

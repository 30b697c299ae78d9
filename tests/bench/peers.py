"""The replayer beside fio, btreplay and blkreplay: one trace, one device, seen by the kernel.

Each gets the same requests in the form that it reads. When each I/O was queued is recorded by perf
(`block:block_bio_queue`) and read as perf prints it, so nothing of ours measures.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.bench.harness import MEMORY, Bench, Failed, Skipped, Used, needs, needs_root, run
from tests.replay import program
from tests.replay.disk import loop, token_of
from tests.replay.program import write_plan
from tracekit.plans import block_plan
from tracekit.plans.block_plan import DISCARD, FLUSH, FUA, PREFLUSH, READ, WRITE

SECOND_NS = 1_000_000_000
MIB = 512
EDGE, PLACES = 1 << 10, (MIB << 20 >> 16) - (2 << 10)
"""Of 64 KiB: each request has one of its own until all are taken, but where signatures would be,
for which a replayer may look before it starts."""
KINDS = ((READ, 0, 0.55), (WRITE, 0, 0.31), (WRITE, FUA, 0.04), (WRITE, FUA | PREFLUSH, 0.03),
         (FLUSH, PREFLUSH, 0.04), (DISCARD, 0, 0.03))  # fmt: skip
ORIGIN = 100
"""Requests whose median lateness is taken for the start of a run."""
EVENT = re.compile(
    r"\s*(\d+)\.(\d{9}): +block:block_bio_queue: \d+,\d+ (\w+) (\d+) \+ (\d+) \[(?!.*udev)"
)
"""udev looks at a device after each writer has closed it; that is nobody's replay."""
BLKTRACE = np.dtype(
    [("magic", "<u4"), ("sequence", "<u4"), ("time", "<u8"), ("sector", "<u8"), ("bytes", "<u4"),
     ("action", "<u4"), ("pid", "<u4"), ("device", "<u4"), ("cpu", "<u4"), ("error", "<u2"),
     ("pdu_len", "<u2")]
)  # fmt: skip
MAGIC, QUEUED = 0x65617407, 1 | 1 << 20
CATEGORY = {"read": 1 << 16, "write": 1 << 17, "flush": 1 << 18, "discard": 1 << 29, "fua": 1 << 31}
LIMITED = ("timeout", "-s", "KILL", "30")
"""Before a peer that does not always end."""
Identity = tuple[str, int]
"""A letter of the operation and the first sector; of a flush the sector is 0."""


def requests(count: int, rate: int) -> Any:
    """Return the records of a plan: a mix of kinds at random times, by a fixed seed."""
    random = np.random.default_rng(5)
    rows = np.zeros(count, block_plan.RECORD)
    rows["intended_ns"] = np.cumsum(random.exponential(SECOND_NS / rate, count)).astype(np.int64)
    rows["intended_ns"] -= rows["intended_ns"][0]
    chosen = random.choice(len(KINDS), count, p=[share for *_, share in KINDS])
    rows["operation"] = np.array([kind for kind, _, _ in KINDS])[chosen]
    rows["flags"] = np.array([flags for _, flags, _ in KINDS])[chosen]
    places = np.concatenate([random.permutation(PLACES) for _ in range(-(-count // PLACES))])
    moves = rows["operation"] != FLUSH
    rows["sector"] = (places[:count] + EDGE) * 128 * moves
    rows["length_sectors"] = random.choice([8, 16, 32, 128], count) * moves
    return rows


def letter(row: Any) -> str:
    return {READ: "R", WRITE: "W", FLUSH: "F", DISCARD: "D"}[int(row["operation"])]


@dataclass
class Measured:
    """What the kernel saw of a run, against the trace, and what the run took."""

    p50_us: float
    p99_us: float
    max_us: float
    duration_us: float
    """From the first to the last, beyond the trace's."""
    order: int
    lost: int
    added: int
    changed: int
    """In length, or of a write that was to be durable and was not."""
    cpu_s: float


def compare(rows: Any, events: Sequence[tuple[int, str, int, int]], used: Used) -> Measured:
    """Compare events (ns, flags, sector, sectors) with the trace, each request with one of them."""
    seen: dict[Identity, list[tuple[int, str, int]]] = defaultdict(list)
    for at_ns, flags, sector, sectors in events:
        # What is read ahead is nobody's request, such as our look for signatures before a run.
        kind = "F" if not sectors and "F" in flags else flags.lstrip("F")[:1]
        kind = "A" if "A" in flags else kind
        seen[kind, 0 if kind == "F" else sector].append((at_ns, flags, sectors))
    due, at, changed = list[int](), list[int](), 0
    lost, left = 0, Counter({key: len(found) for key, found in seen.items()})
    flushes = 0
    for row in rows:
        key = (letter(row), int(row["sector"]))
        # A flush before data is part of its request.
        flushes += row["operation"] == WRITE and bool(row["flags"] & PREFLUSH)
        if not seen[key] and key[0] != "F":
            key = next((("RWD"[n], key[1]) for n in range(3) if seen["RWD"[n], key[1]]), key)
            changed += bool(seen[key])
        if not seen[key]:
            lost += 1
            continue
        at_ns, flags, sectors = seen[key].pop(0)
        left[key] -= 1
        if key[0] == "F":
            continue
        due.append(int(row["intended_ns"]))
        at.append(at_ns)
        is_durable = not row["flags"] & FUA or "F" in flags.lstrip("F")
        changed += sectors != row["length_sectors"] or not is_durable
    if not at:
        raise Failed("the kernel saw no request of the trace")
    late = np.array(at) - np.array(due)
    error = np.abs(late - np.median(late[:ORIGIN]))
    order = int((np.array(at)[1:] < np.maximum.accumulate(at)[:-1]).sum())
    left["F", 0] = max(left["F", 0] - int(flushes), 0)
    added = sum(left.values())
    p50, p99, most = (float(np.percentile(error, at)) / 1e3 for at in (50, 99, 100))
    return Measured(
        p50, p99, most, float(late[-1] - late[0]) / 1e3, order, lost, added, changed, used.cpu_s
    )


@contextmanager
def recorded(device: Path, output: Path) -> Iterator[None]:
    """Record when I/Os to a device are queued while the block runs; Failed where some are lost."""
    number = device.stat().st_rdev
    only = f"dev == {(os.major(number) << 20) | os.minor(number)}"
    order, ordered = os.pipe()
    answer, answered = os.pipe()
    words = ["perf", "record", "-e", "block:block_bio_queue", "--filter", only, "-a", "-m", "4096"]
    words += ["-k", "CLOCK_MONOTONIC", "-D", "-1", "--control", f"fd:{order},{answered}"]
    child = subprocess.Popen(
        [*words, "-o", output], pass_fds=(order, answered), stderr=subprocess.PIPE, text=True
    )
    try:
        for command in (b"enable\n", b"disable\n"):
            os.write(ordered, command)
            os.read(answer, 16)
            if command == b"enable\n":
                yield
        os.write(ordered, b"stop\n")
        talk = child.communicate(timeout=60)[1]
    finally:
        child.kill()
        for one in (order, ordered, answer, answered):
            os.close(one)
    if "lost" in talk.lower():
        raise Failed(f"perf lost events: {talk}")


def events_of(output: Path) -> list[tuple[int, str, int, int]]:
    """Return time in ns, flags, sector and sectors of what perf recorded."""
    words: list[str | Path] = ["perf", "script", "--ns", "-i", output, "-F", "time,event,trace"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = filter(None, map(EVENT.match, text.splitlines()))
    return [(int(m[1]) * SECOND_NS + int(m[2]), m[3], int(m[4]), int(m[5])) for m in found]


@dataclass
class Peers:
    """The trace in the form of each, and the command lines."""

    rows: Any
    folder: Path
    device: Path
    lead_ns: int = 0
    plan: Path = field(init=False)

    def __post_init__(self) -> None:
        self.plan = write_plan(self.folder / "a.plan", self.rows, needed_sectors=MIB << 11)

    def tracekit(self) -> Sequence[str | Path]:
        """Return our own command; it knows every kind."""
        options: dict[str, Any] = {
            "target": self.device,
            "write_to": token_of(self.device),
            "direct": "on",
        }
        return program.command(self.plan, no_calibration=True, **options)

    def tracekit_ahead(self) -> Sequence[str | Path]:
        """Return the same with the lead that `--observe` would measure."""
        return [*self.tracekit(), "--lead-ns", str(self.lead_ns)]

    def fio(self) -> Sequence[str | Path]:
        """Write a log of version 3, in us, which has no FUA; flushes are fdatasync."""
        needs("fio")
        log = self.folder / "fio.log"
        names = {READ: "read", WRITE: "write", FLUSH: "datasync", DISCARD: "trim"}
        with log.open("w") as out:
            out.write(f"fio version 3 iolog\n0 {self.device} add\n0 {self.device} open\n")
            for row in self.rows:
                at_us = int(row["intended_ns"]) // 1000
                place = f"{int(row['sector']) * 512} {int(row['length_sectors']) * 512}"
                out.write(f"{at_us} {self.device} {names[int(row['operation'])]} {place}\n")
        words = ["--name=replay", f"--read_iolog={log}", "--ioengine=io_uring", "--iodepth=256"]
        return ["fio", *words, "--direct=1", "--thread", "--allow_mounted_write=0"]

    def _btrecord(self, *words: str) -> Path:
        """Write a binary capture of queue events, and what btrecord makes of it."""
        needs("btreplay", "blktrace")
        out = np.zeros(len(self.rows), BLKTRACE)
        out["magic"], out["sequence"] = MAGIC, np.arange(len(out)) + 1
        out["time"], out["sector"] = self.rows["intended_ns"], self.rows["sector"]
        out["bytes"] = self.rows["length_sectors"] * 512
        operation = self.rows["operation"]
        kinds = {READ: ("read",), WRITE: ("write",), FLUSH: ("write", "flush"),
                 DISCARD: ("write", "discard")}  # fmt: skip
        for kind, names in kinds.items():
            bits = sum(CATEGORY[name] for name in names)
            out["action"][operation == kind] = QUEUED | bits
        out["action"][self.rows["flags"] & FUA != 0] |= np.uint32(CATEGORY["fua"])
        out["pid"], out["device"] = 1, 7 << 20
        folder = self.folder / "btrecord"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        out.tofile(folder / f"{self.device.name}.blktrace.0")
        run(["btrecord", "-d", folder, "-D", folder, *words, self.device.name])
        return folder

    def btreplay(self) -> Sequence[str | Path]:
        """Return btreplay as it comes: up to 8 requests, or 10 ms, go out together."""
        return [*LIMITED, "btreplay", "-W", "-d", self._btrecord(), self.device.name]

    def btreplay_single(self) -> Sequence[str | Path]:
        """Return it with one request at a time, the most exact that it offers."""
        return [*LIMITED, "btreplay", "-W", "-d", self._btrecord("-M", "1"), self.device.name]

    def blkreplay(self) -> Sequence[str | Path]:
        """Return blkreplay, of $BLKREPLAY or PATH, which knows reads and writes."""
        found = os.environ.get("BLKREPLAY") or shutil.which("blkreplay")
        if not found:
            raise Skipped("blkreplay is not there: build it and set BLKREPLAY to blkreplay.exe")
        load = self.folder / "load"
        with load.open("w") as out:
            for row in self.rows:
                if row["operation"] in (READ, WRITE):
                    seconds, ns = divmod(int(row["intended_ns"]), SECOND_NS)
                    place = f"{int(row['sector'])} ; {int(row['length_sectors'])}"
                    out.write(f"{seconds}.{ns:09d} ; {place} ; {letter(row)}\n")
        words = '"$0" --threads=64 --with-conflicts "$1" < "$2" > /dev/null'
        return ["sh", "-c", words, found, self.device, load]

    def measure(self, command: Sequence[str | Path]) -> Measured:
        output = self.folder / "perf.data"
        with recorded(self.device, output):
            used = run(command, cwd=self.folder)
        return compare(self.rows, events_of(output), used)

    def find_lead(self) -> None:
        """Take the median time from the program's submission to the kernel's queue."""
        output = self.folder / "perf.data"
        with recorded(self.device, output):
            run(self.tracekit(), cwd=self.folder)
        summary = json.loads(self.plan.with_suffix(".json").read_text())
        done = program.Ran(0, summary, "", self.plan.with_suffix(".done"))
        submitted = done.by_id()["submit_ns"] + np.uint64(summary["clock"]["start_ns"])
        at = {(e[1][:1], e[2]): e[0] for e in reversed(events_of(output)) if e[3]}
        keys = [(letter(row), int(row["sector"])) for row in self.rows[:1000]]
        lags = [at[k] - int(ns) for k, ns in zip(keys, submitted, strict=False) if k in at]
        self.lead_ns = max(int(median(lags)), 0)


def show(out: Bench, case: str, peers: Peers, *, rounds: int) -> None:
    """Run all by turns and print the medians; the worst of all rounds for what must be 0."""
    peers.find_lead()
    out.note(f"{case}: the kernel queues {peers.lead_ns / 1e3:.1f} us after the submission")
    ways: dict[str, Callable[[], Sequence[str | Path]]] = {
        "tracekit": peers.tracekit,
        "tracekit, with that lead": peers.tracekit_ahead,
        "fio": peers.fio,
        "btreplay": peers.btreplay,
        "btreplay, one at a time": peers.btreplay_single,
        "blkreplay": peers.blkreplay,
    }
    found: dict[str, list[Measured]] = defaultdict(list)
    names = list(ways)
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            with out.part(f"{case}: {name}"):
                try:
                    found[name].append(peers.measure(ways[name]()))
                except Failed as error:
                    out.note(f"{case}: {name}: round {number + 1} failed: {error}")
    for name in filter(found.get, names):
        runs = [vars(one) for one in found[name]]
        halves = ("p50_us", "p99_us", "max_us", "duration_us", "cpu_s")
        values = {key: median(one[key] for one in runs) for key in halves}
        worst = {
            key: max(one[key] for one in runs) for key in ("order", "lost", "added", "changed")
        }
        out.row(f"{case}: {name}", **values, **worst)


def bench_peers(
    out: Bench, *, count: int = 20_000, rate: int = 2_000, rounds: int = 5,
    place: Path | None = None, cases: tuple[str, ...] = ("memory", "disk"),
) -> None:  # fmt: skip
    """Replay a mix of reads, writes, FUA, preflush, flushes and discards on a loop device.

    Over a file in memory and over one of `place` (FOLDER). Issue errors are of the kernel's queue
    events against the trace, from the median of the first 100 requests; flushes have no place and
    are counted only. CPU is of the processes that a program has waited for. Needs root and perf.
    hfplayer is not among them: it wants five processors, and sets the interrupts of the machine.
    """
    needs_root()
    needs("perf", "linux-perf")
    rows = requests(count, rate)
    for case, folder, words in (
        ("memory", MEMORY, ()),
        ("disk", place or out.scratch, ("--direct-io=on",)),
    ):
        if case not in cases:
            continue
        with tempfile.TemporaryDirectory(dir=folder) as name:
            disk = Path(name) / "disk"
            run(["dd", "if=/dev/urandom", f"of={disk}", "bs=1M", f"count={MIB}"])
            with loop(disk, *words) as device, out.part(case):
                show(out, case, Peers(rows, out.scratch, device), rounds=rounds)

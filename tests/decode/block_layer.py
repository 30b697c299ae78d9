"""A small model of the kernel's block layer that writes the trace of what it does.

It knows what became of each I/O, so that the decoder, which sees the events alone, can be checked
against it. It follows the kernel: bios are split, merged into waiting requests at either end,
requests are merged, inserted, issued, given back, completed in parts; one flush at a time serves
all that wait for one (block/blk-flush.c).
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

SECTORS = 2000
KINDS = ("R", "RA", "W", "WS", "DS")
TIMES = ("queue", "getrq", "insert", "merge", "issue", "transfer", "complete")


@dataclass(eq=False)
class Bio:
    """A queued I/O and the row that it must become."""

    row: dict[str, Any]
    pid: int
    parts: int = 0
    """Not yet complete."""

    def stamp(self, name: str, now_ns: int) -> None:
        if self.row[f"{name}_ns"] is None:
            self.row[f"{name}_ns"] = now_ns


@dataclass(eq=False)
class Part:
    """A run of sectors of one bio."""

    bio: Bio
    begin: int
    end: int


@dataclass(eq=False)
class Request:
    """Adjacent parts that the driver gets together."""

    maker: Part
    parts: list[Part]
    begin: int
    end: int
    rwbs: str
    is_issued: bool = False
    is_torn: bool = False
    """Complete in part, so that nothing is merged any more."""
    is_flushed: bool = False
    """Flushes go before and after it."""

    @property
    def place(self) -> str:
        return f"{self.rwbs} {self.begin}+{self.end - self.begin}"


@dataclass
class Machine:
    """Time, the trace as lines for each CPU, and all I/Os in queue order."""

    random: random.Random
    cpus: int
    now_ns: int = 0
    lines: list[list[str]] = field(default_factory=list)
    bios: list[Bio] = field(default_factory=list)

    def emit(self, text: str, pid: int) -> int:
        """Record an event on some CPU and return its time since the first event."""
        self.lines = self.lines or [[] for _ in range(self.cpus)]
        cpu = self.random.randrange(self.cpus)
        self.lines[cpu].append(f"{5000 + self.now_ns} {text} cpu={cpu} pid={pid}")
        now_ns = self.now_ns
        self.now_ns += self.random.randint(1, 9)
        return now_ns


class Disk:
    """One device; `step` lets something happen to it."""

    def __init__(self, machine: Machine, minor: int) -> None:
        self.machine, self.random = machine, machine.random
        self.device = f"7,{minor}"
        self.requests: list[Request] = []
        self.open_bios = 0
        self.pending: list[Callable[[int], None]] = []
        self.running: list[Callable[[int], None]] = []
        self.is_flushing = False
        self.issued_ns = 0

    def step(self) -> None:
        steps = (self.queue, self.insert, self.issue, self.complete, self.join)
        rare = (self.requeue, self.queue_empty_flush, self.queue_flushed_write)
        self.random.choice((*steps * 4, *(self.flush,) * 4, *rare))()

    def drain(self) -> None:
        """Let everything complete."""
        while self.requests or self.pending or self.is_flushing:
            self.issue()
            self.complete()
            self.flush()

    def emit(self, text: str, pid: int = 0) -> int:
        return self.machine.emit(f"{text} dev={self.device}", pid)

    def pick(self, wanted: Callable[[Request], bool]) -> Request | None:
        found = [request for request in self.requests if wanted(request)]
        return self.random.choice(found) if found else None

    # Queueing

    def new_bio(self, rwbs: str, sector: int, sectors: int) -> Bio:
        pid = self.random.randint(1, 4)
        place = f"{rwbs} {sector}+{sectors}"
        partition = self.random.choice([None, "259,0", "259,1"]) if sectors else None
        if partition:
            self.emit(f"A {place} of={partition}:{sector}", pid)
        self.open_bios += 1
        row = dict.fromkeys([f"{name}_ns" for name in TIMES])
        row |= {"request_id": len(self.machine.bios), "pid": pid, "device": self.device}
        row |= {"sector": sector, "length_bytes": sectors * 512, "partition": partition}
        row |= {"merged_into": None, "requeue_count": 0, "split_count": 0}
        row |= {"depth": self.open_bios, "error": 0, "queue_ns": self.emit(f"Q {place}", pid)}
        bio = Bio(row, pid)
        self.machine.bios.append(bio)
        return bio

    def free_place(self, kind: str, sectors: int) -> int | None:
        """Return a place where nothing of the kind is open, often beside something."""
        ends = [request.end for request in self.requests if request.rwbs == kind]
        begins = [request.begin - sectors for request in self.requests if request.rwbs == kind]
        sector = self.random.choice([*ends, *begins, self.random.randrange(SECTORS)])
        clash = any(
            request.begin < sector + sectors
            and sector < request.end
            and request.rwbs.rstrip("FSMA") == kind.rstrip("FSMA")
            for request in self.requests
        )
        return None if clash or sector <= 0 else sector

    def queue(self) -> None:
        kind, sectors = self.random.choice(KINDS), self.random.randint(1, 16)
        sector = self.free_place(kind, sectors)
        if sector is None:
            return
        bio = self.new_bio(kind, sector, sectors)
        end = sector + sectors
        while sector < end:
            middle = end
            if end - sector > 1 and self.random.random() < 0.2:
                middle = self.random.randrange(sector + 1, end)
                self.emit(f"X {kind} {sector}+{middle - sector} to={middle}", bio.pid)
                bio.row["split_count"] += 1
            bio.parts += 1
            self.place(Part(bio, sector, middle), kind)
            sector = middle

    def place(self, part: Part, kind: str) -> None:
        """Merge the part into a request or make one of it."""
        place = f"{kind} {part.begin}+{part.end - part.begin}"
        behind = self.pick(lambda it: self.is_open_to(it, kind) and it.end == part.begin)
        before = self.pick(lambda it: self.is_open_to(it, kind) and it.begin == part.end)
        if behind and self.random.random() < 0.7:
            self.note_merge(behind, part, self.emit(f"M {place}", part.bio.pid))
            behind.parts.append(part)
            behind.end = part.end
        elif before and self.random.random() < 0.7:
            self.note_merge(before, part, self.emit(f"F {place}", part.bio.pid))
            before.parts.append(part)
            before.begin = part.begin
        else:
            part.bio.stamp("getrq", self.emit(f"G {place}", part.bio.pid))
            self.requests.append(Request(part, [part], part.begin, part.end, kind))

    def is_open_to(self, request: Request, kind: str) -> bool:
        is_free = not (request.is_issued or request.is_torn or request.is_flushed)
        return is_free and request.rwbs == kind

    def note_merge(self, carrier: Request, part: Part, now_ns: int) -> None:
        row = part.bio.row
        part.bio.stamp("merge", now_ns)
        if row["split_count"] == 0 and row["merged_into"] is None:
            row["merged_into"] = carrier.maker.bio.row["request_id"]

    def join(self) -> None:
        """Merge a waiting request into the one before it."""
        for first in self.requests:
            is_next = lambda it, end=first.end, kind=first.rwbs: (  # noqa: E731
                it.begin == end and self.is_open_to(it, kind)
            )
            second = self.pick(is_next)
            if second is not None and self.is_open_to(first, first.rwbs):
                self.note_merge(first, second.maker, self.emit(f"M {second.place}"))
                first.parts += second.parts
                first.end = second.end
                self.requests.remove(second)
                return

    # Requests

    def insert(self) -> None:
        request = self.pick(lambda it: not it.is_issued and not it.is_flushed)
        if request is not None:
            now_ns = self.emit(f"I {request.place}")
            if request.maker in request.parts:
                request.maker.bio.stamp("insert", now_ns)

    def issue(self) -> None:
        request = self.pick(lambda it: not it.is_issued and not it.is_flushed)
        if request is not None:
            self.issue_one(request)

    def issue_one(self, request: Request) -> None:
        now_ns = self.emit(f"D {request.place}")
        request.is_issued = True
        for part in request.parts:
            part.bio.stamp("issue", now_ns)

    def requeue(self) -> None:
        request = self.pick(lambda it: it.is_issued)
        if request is not None:
            self.emit(f"R {request.place}")
            request.is_issued = False
            for part in request.parts:
                part.bio.row["requeue_count"] += 1

    def complete(self) -> None:
        request = self.pick(lambda it: it.is_issued)
        if request is None:
            return
        done = request.end
        if request.end - request.begin > 1 and self.random.random() < 0.3:
            done = self.random.randrange(request.begin + 1, request.end)
        error = self.random.choice([0, 0, 0, -5])
        place = f"{request.rwbs} {request.begin}+{done - request.begin}"
        now_ns = self.emit(f"C {place} error={error}")
        for part in [part for part in request.parts if part.end <= done]:
            request.parts.remove(part)
            self.end_part(part, now_ns, error)
        request.begin, request.is_torn = done, True
        if done == request.end:
            self.requests.remove(request)

    def end_part(self, part: Part, now_ns: int, error: int) -> None:
        bio = part.bio
        bio.parts -= 1
        bio.row["error"] = error or bio.row["error"]
        bio.row["transfer_ns"] = bio.row["complete_ns"] = now_ns
        self.open_bios -= bio.parts == 0

    # Flushes

    def queue_empty_flush(self) -> None:
        bio = self.new_bio("FWS", 0, 0)
        bio.stamp("getrq", self.emit("G FWS 0+0", bio.pid))

        def serve(issued_ns: int) -> None:
            bio.row["issue_ns"] = issued_ns
            bio.row["complete_ns"] = self.emit("C WS 0+0")
            self.open_bios -= 1

        self.pending.append(serve)

    def queue_flushed_write(self) -> None:
        sector = self.free_place("WSM", 8)
        if sector is None:
            return
        bio = self.new_bio("FWFSM", sector, 8)
        bio.stamp("getrq", self.emit(f"G FWFSM {sector}+8", bio.pid))
        part = Part(bio, sector, sector + 8)
        request = Request(part, [part], sector, sector + 8, "WSM")
        request.is_flushed = True
        self.requests.append(request)

        def transfer(_issued_ns: int) -> None:
            bio.row["insert_ns"] = self.emit(f"I {request.place}")
            bio.row["issue_ns"] = self.emit(f"D {request.place}")
            bio.row["transfer_ns"] = self.emit(f"C {request.place}")
            self.pending.append(end)

        def end(_issued_ns: int) -> None:
            bio.row["complete_ns"] = self.emit(f"C WSM {sector}+0")
            self.requests.remove(request)
            self.open_bios -= 1

        self.pending.append(transfer)

    def flush(self) -> None:
        """Issue a device flush for all that wait, or complete the one that runs."""
        if self.is_flushing:
            self.emit("C FN 0+0")
            self.is_flushing = False
            served, self.running = self.running, []
            for serve in served:
                serve(self.issued_ns)
        elif self.pending:
            self.issued_ns = self.emit("D FN 0+0")
            self.is_flushing = True
            self.running, self.pending = self.pending, []


def run(seed: int, *, steps: int, disks: int, cpus: int) -> Machine:
    """Let `disks` devices do `steps` things and then complete what is open."""
    machine = Machine(random.Random(seed), cpus)  # noqa: S311
    devices = [Disk(machine, minor) for minor in range(disks)]
    for _ in range(steps):
        machine.random.choice(devices).step()
    for device in devices:
        device.drain()
    return machine


def lines_of(machine: Machine) -> list[str]:
    """Return the trace of all CPUs in order of time."""
    return sorted(chain.from_iterable(machine.lines), key=lambda line: int(line.split()[0]))

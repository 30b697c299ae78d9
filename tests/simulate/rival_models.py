"""Caches, ZFS log and special vdev, and compressed memory, block by block with plain lists.

Written from the rules in the headers of `replayer/model/rival_*.c`. Where there are several base
devices, one's sectors follow the other's, and so do its blocks.
"""

from dataclasses import dataclass, field
from typing import ClassVar

BASE, NVM = 0, 1


@dataclass(frozen=True)
class Request:
    """A read or a write of sectors, or a flush (no sectors)."""

    sector: int
    sectors: int
    is_write: bool
    now_ns: int
    is_fua: bool = False
    is_preflush: bool = False
    role: int = 0  # 1: journal, 2: swap
    is_meta: bool = False


@dataclass(frozen=True)
class Prices:
    """Latency, sequential latency and sector in ps (reads, writes) of base and NVM; others."""

    latency: tuple[tuple[int, int], tuple[int, int]]
    sequential: tuple[tuple[int, int], tuple[int, int]]
    sector: tuple[tuple[int, int], tuple[int, int]]
    fua: tuple[int, int]
    flush: tuple[tuple[int, int], tuple[int, int]]  # with nothing written since the last, and else


@dataclass
class Setup:
    """As cache_rivals.h has it."""

    kind: str
    mode: str
    size: int  # sectors of a block
    capacity: int
    bucket: int = 1
    high: int = 100
    low: int = 100
    cutoff: int = 0
    stale_ns: int = 0
    small: int = 0
    load: int = 1
    commit_blocks: int = 0


@dataclass
class Rival:
    """What all rivals do: base devices and NVM with a head each, and the counts."""

    setup: Setup
    prices: Prices
    last_block: int  # of the trace; its slots are no more than its blocks
    clean: list[int] = field(default_factory=list)  # the one used last at the end
    dirty: list[int] = field(default_factory=list)
    slot: dict[int, int] = field(default_factory=dict)
    devices: int = 1
    device: int = 0  # of the request at hand
    # device, end, sectors; newest last
    streams: list[tuple[int, int, int]] = field(default_factory=list)
    now_ns: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    has_changed: bool = False
    has_dirtied: bool = False

    def __post_init__(self) -> None:
        names = "response_ps reads read_hits writes write_hits bypassed fills evictions writebacks"
        self.counts = dict.fromkeys([*names.split(), "commits"], 0)
        self.busy, self.behind = [0, 0], [0, 0]
        self.heads, self.written = [-1] * (self.devices + 1), [False] * (self.devices + 1)
        self.delayed = 0  # in ps of the trace, as these of each base device
        self.free_at, self.work_end, self.owed, self.owed_ps = (
            [0] * self.devices for _ in range(4)
        )
        blocks = min(self.setup.capacity, self.last_block)
        self.free = list(range(blocks))[::-1]

    # --- devices

    def device_of(self, block: int) -> int:
        # The blocks of a real trace are not numbered from 0; they are of one device.
        return min(block * self.devices // self.last_block, self.devices - 1)

    def place(self, where: int, device: int) -> int:
        return device if where == BASE else self.devices

    def transfer(self, where: int, device: int, first: int, sectors: int, op: int) -> int:
        at, place = self.prices, self.place(where, device)
        costs = at.sequential if self.heads[place] == first else at.latency
        self.heads[place] = first + sectors
        return costs[where][op] + sectors * at.sector[where][op]

    def background(self, where: int, block: int, op: int) -> None:
        first = block if where == BASE else self.slot[block]
        size, device = self.setup.size, self.device_of(block)
        self.later(where, device, self.transfer(where, device, first * size, size, op))
        self.written[self.place(where, device)] |= bool(op)

    def flush(self, where: int, device: int) -> int:
        place = self.place(where, device)
        had, self.written[place] = self.written[place], False
        return self.prices.flush[where][had]

    def flush_written(self) -> None:
        """Flush each base device that has something to flush, in the background."""
        for device in range(self.devices):
            if self.written[device]:
                self.later(BASE, device, self.flush(BASE, device))

    def later(self, where: int, device: int, took: int) -> None:
        self.behind[where] += took
        self.owed[device] += where == BASE
        self.owed_ps[device] += took * self.setup.load * (where == BASE)

    def work(self, each: int) -> int:
        """Do one of the transfers owed, `each` as long as the others; the last has the rest."""
        at = self.device
        took = each if self.owed[at] > 1 else self.owed_ps[at]
        self.owed[at] -= 1
        self.owed_ps[at] -= took
        self.free_at[at] += took
        return took

    def arrive(self) -> None:
        """Fill the gap before a request; the transfer under way as it comes is ended."""
        at, now = self.device, self.now_ns * 1000
        each = self.owed_ps[at] // max(self.owed[at], 1)
        while self.owed[at] and self.free_at[at] < now:
            self.work(each)
            self.work_end[at] = self.free_at[at]
        self.free_at[at] = max(self.free_at[at], now)

    def leave(self, base_ps: int) -> None:
        """Take the base device for a request, and keep it from owing more than has space."""
        at, now = self.device, self.now_ns * 1000
        if base_ps:
            self.delayed += max(self.work_end[at] - now, 0)
            self.work_end[at] = 0
        self.free_at[at] += base_ps * self.setup.load
        self.settle()
        each = self.owed_ps[at] // max(self.owed[at], 1)
        while self.owed[at] and self.owed[at] > self.setup.capacity - len(self.dirty):
            self.delayed += self.work(each)

    def commit(self) -> int:
        self.has_changed = self.has_dirtied = False
        self.counts["commits"] += 1
        return self.transfer(NVM, 0, -8, 8, 1)

    # --- the cache

    def bring(self, block: int, *, dirty: bool) -> None:
        self.slot[block] = self.free.pop()
        (self.dirty if dirty else self.clean).append(block)
        self.counts["fills"] += 1
        self.has_changed = True
        self.has_dirtied |= dirty

    def has(self, block: int) -> bool:
        return block in self.clean or block in self.dirty

    def use(self, block: int, *, dirty: bool) -> None:
        was_dirty = block in self.dirty
        (self.dirty if was_dirty else self.clean).remove(block)
        (self.dirty if was_dirty or dirty else self.clean).append(block)
        self.has_dirtied |= dirty and not was_dirty

    def drop(self, block: int) -> None:
        (self.dirty if block in self.dirty else self.clean).remove(block)
        self.free.append(self.slot[block])
        self.has_changed = True

    def make_clean(self, block: int) -> None:
        self.background(NVM, block, 0)
        self.background(BASE, block, 1)
        self.dirty.remove(block)
        self.clean.append(block)
        self.counts["writebacks"] += 1
        self.has_changed = True

    def make_room(self) -> bool:
        if not self.free and self.clean:
            self.drop(self.clean[0])
            self.counts["evictions"] += 1
        return bool(self.free)

    def write_out(self, percent: int) -> None:
        while len(self.dirty) > self.setup.capacity * percent // 100:
            block = self.dirty[0]
            device = self.device_of(block)
            while block in self.dirty and self.device_of(block) == device:
                self.make_clean(block)
                self.drop(block)
                block += 1

    # --- requests

    flushed: ClassVar[tuple[int, ...]] = (BASE, NVM)
    commits_when: ClassVar[str] = "forced"

    def take(self, block: int, part: Request, *, going: bool, whole: bool) -> tuple[int, ...]:
        raise NotImplementedError

    def settle(self) -> None:
        """Work in the background."""

    def is_going(self, request: Request) -> bool:
        if not self.setup.cutoff:
            return False
        here = (self.device, request.sector)
        found = [at for at, one in enumerate(self.streams) if one[:2] == here]
        before = self.streams.pop(found[-1])[2] if found else 0
        self.streams = [
            *self.streams,
            (self.device, request.sector + request.sectors, before + request.sectors),
        ][-128:]
        return before + request.sectors >= self.setup.cutoff

    def is_flushed(self) -> None:
        """Know that what was written is durable."""

    def forced(self, *, is_forced: bool) -> int:
        if is_forced:
            self.is_flushed()
        changed = self.has_changed or self.has_dirtied
        when = self.commits_when
        if not (
            (when == "forced" and is_forced and changed) or (when == "dirty" and self.has_dirtied)
        ):
            return 0
        took = self.commit()
        self.busy[NVM] += took
        return took

    def charge(self, where: int, pieces: list[tuple[int, int]], request: Request) -> int:
        """Charge a run of base, or all pieces of NVM."""
        if not pieces:
            return 0
        sectors, place = sum(length for _, length in pieces), self.place(where, self.device)
        took = self.transfer(where, self.device, pieces[0][0], sectors, int(request.is_write))
        self.heads[place] = sum(pieces[-1])
        took += self.prices.fua[where] * request.is_fua
        self.busy[where] += took
        self.written[place] |= request.is_write and not request.is_fua
        return took

    def serve(self, request: Request) -> None:
        size = self.setup.size
        self.device = self.device_of(request.sector // size)
        if not request.sectors:
            self.arrive()
            flushes = {where: self.flush(where, self.device) for where in self.flushed}
            for where, took_ps in flushes.items():
                self.busy[where] += took_ps
            self.counts["response_ps"] += max(flushes.values()) + self.forced(is_forced=True)
            self.leave(flushes.get(BASE, 0))
            return
        self.now_ns = max(self.now_ns, request.now_ns)
        self.arrive()
        going = self.is_going(request)
        parts: list[list[tuple[int, int]]] = [[], []]
        took = [0, 0]
        is_mirrored = False
        at, end = request.sector, request.sector + request.sectors
        while at < end:
            block, until = at // size, min(end, (at // size + 1) * size)
            was_there = self.has(block)
            to = self.take(block, request, going=going, whole=until - at == size)
            is_mirrored |= len(to) == 2
            if BASE in to and parts[BASE] and sum(parts[BASE][-1]) != at:
                took[BASE] += self.charge(BASE, parts[BASE], request)
                parts[BASE] = []
            for device in to:
                first = at if device == BASE else self.slot[block] * size + at % size
                parts[device].append((first, until - at))
            kind = "writes" if request.is_write else "reads"
            self.counts[kind] += 1
            hit = was_there if request.is_write else to == (NVM,)
            self.counts[kind[:-1] + "_hits"] += hit
            at = until
        for device in (BASE, NVM):
            took[device] += self.charge(device, parts[device], request)
        response = max(took) if is_mirrored else sum(took)
        self.counts["response_ps"] += response + self.forced(is_forced=request.is_fua)
        self.leave(took[BASE])


class WriteCache(Rival):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.timer: int | None = None
        self.new = list[int]()

    def is_flushed(self) -> None:
        self.timer, self.new = None, []

    def autocommit(self) -> None:
        self.is_flushed()
        self.behind[NVM] += self.flush(NVM, 0) + (self.commit() if self.has_changed else 0)

    def arrive(self) -> None:
        super().arrive()
        if self.timer is not None and self.timer <= self.now_ns:
            self.autocommit()

    def take(self, block: int, part: Request, *, going: bool, whole: bool) -> tuple[int, ...]:  # noqa: ARG002
        if not part.is_write:
            return (NVM,) if self.has(block) else (BASE,)
        if not self.has(block):
            if self.owed[self.device] + len(self.dirty) >= self.setup.capacity:
                self.counts["bypassed"] += 1
                return (BASE,)
            self.bring(block, dirty=True)
            self.new.append(block)
        self.timer = self.timer or self.now_ns + self.setup.stale_ns
        return (NVM,)

    def settle(self) -> None:
        if len(self.new) >= self.setup.commit_blocks:
            self.autocommit()
        if len(self.dirty) * 100 > self.setup.capacity * self.setup.high:
            self.write_out(self.setup.low)
            self.flush_written()
            self.behind[NVM] += self.commit()


class Log(Rival):
    flushed = (NVM,)
    commits_when = "never"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.since: dict[int, int] = {}

    def take(self, block: int, part: Request, *, going: bool, whole: bool) -> tuple[int, ...]:  # noqa: ARG002
        if not part.is_write:
            return (NVM,) if self.has(block) else (BASE,)
        if not (part.is_fua or part.is_preflush or part.role == 1):
            if self.has(block):
                self.drop(block)
            return (BASE,)
        if not self.has(block):
            if not self.free:
                self.write_out(self.setup.low)
            self.bring(block, dirty=True)
            self.since[block] = self.now_ns
        return (NVM,)

    def settle(self) -> None:
        if self.dirty and self.now_ns - self.since[self.dirty[0]] >= self.setup.stale_ns:
            self.write_out(0)
            self.flush_written()


class OpenCas(Rival):
    commits_when = "dirty"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.used: dict[int, int] = {}
        self.is_short = False

    def take(self, block: int, part: Request, *, going: bool, whole: bool) -> tuple[int, ...]:  # noqa: ARG002
        mode = self.setup.mode
        back = mode in ("back", "only")
        self.used[block] = self.now_ns
        if self.has(block):
            self.use(block, dirty=part.is_write and back)
            return (NVM,) if back or not part.is_write else (BASE, NVM)
        if (part.is_write and mode == "around") or (not part.is_write and mode == "only"):
            return (BASE,)
        if going and not self.free:
            self.counts["bypassed"] += 1
            return (BASE,)
        if not self.make_room():
            self.counts["bypassed"] += 1
            self.is_short = True
            return (BASE,)
        self.bring(block, dirty=part.is_write and back)
        if part.is_write:
            return (NVM,) if back else (BASE, NVM)
        self.background(NVM, block, 1)
        return (BASE,)

    def settle(self) -> None:
        for _ in range(32 if self.is_short else 0):
            if self.dirty:
                self.make_clean(self.dirty[0])
        self.is_short = False
        while self.setup.stale_ns and self.dirty:
            if self.now_ns - self.used[self.dirty[0]] < self.setup.stale_ns:
                break
            self.make_clean(self.dirty[0])


class DmCache(Rival):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.level: dict[int, int] = {}
        self.seen: dict[int, int] = {}
        self.promote = [64, 64]
        self.second, self.minute_end = 0, 0
        self.rate = [0, 0]  # hits, misses
        self.pending: list[int] = []

    def lowest(self, parts: int) -> int:
        """Return the lowest level from 1 with at most so many 64ths of the blocks from it on."""
        levels = list(self.level.values())
        return next(
            at
            for at in range(1, 65)
            if 64 * sum(level >= at for level in levels) <= parts * len(levels)
        )

    def tick(self) -> None:
        table = [1, 1, 1, 2, 4, 6, 7, 8, 7, 6, 4, 4, 3, 3, 2, 2, 1]
        hits, misses = self.rate
        parts = 32 if self.free else table[hits * 16 // (hits + misses) if hits + misses else 0]
        self.promote = [self.lowest(parts), self.lowest(max(0, parts - 2))]
        if self.second >= self.minute_end:
            self.minute_end, self.rate = self.second + 60, [0, 0]

    def count(self, block: int) -> int:
        second = self.now_ns // 10**9 + 1
        if second != self.second:
            self.second = second
            self.tick()
        if block not in self.level:
            self.level[block] = 0
        elif self.seen[block] != second:
            self.level[block] = min(63, self.level[block] + 1)
        self.seen[block] = second
        return self.level[block]

    def copy(self) -> None:
        for block in self.pending:
            if self.has(block):
                self.background(BASE, block, 0)
                self.background(NVM, block, 1)
        self.pending = []

    def take(self, block: int, part: Request, *, going: bool, whole: bool) -> tuple[int, ...]:  # noqa: ARG002
        back = self.setup.mode == "back"
        level = self.count(block)
        if self.has(block):
            self.rate[0] += 1
            self.use(block, dirty=part.is_write and back)
            return (NVM,) if back or not part.is_write else (BASE, NVM)
        self.rate[1] += 1
        if self.pending and not self.free:
            self.copy()
        over = part.is_write and whole and back
        is_high = level >= self.promote[part.is_write]
        if not ((over and self.free) or (is_high and self.make_room())):
            return (BASE,)
        self.bring(block, dirty=over)
        if over:
            return (NVM,)
        self.pending.append(block)
        return (BASE,)

    def settle(self) -> None:
        self.copy()
        while len(self.dirty) * 100 > self.setup.capacity * self.setup.high:
            self.make_clean(self.dirty[0])


class Bcache(Rival):
    def __post_init__(self) -> None:
        super().__post_init__()
        each = self.setup.bucket
        count = self.setup.capacity // each
        self.buckets: list[list[int | None]] = [[] for _ in range(count)]
        self.open, self.full = 0, list[int]()
        self.free_buckets = list(range(1, count))[::-1]
        self.cursor = 0

    def take_out(self, block: int) -> None:
        (self.dirty if block in self.dirty else self.clean).remove(block)
        self.has_changed = True
        number, place = divmod(self.slot[block], self.setup.bucket)
        bucket = self.buckets[number]
        bucket[place] = None
        if number != self.open and not any(one is not None for one in bucket):
            self.full.remove(number)
            self.free_buckets.append(number)

    def empty_oldest(self) -> None:
        owners = [one for one in self.buckets[self.full[0]] if one is not None]
        for block in owners:
            if block in self.dirty:
                self.make_clean(block)
        for block in owners:
            self.counts["evictions"] += 1
            self.take_out(block)

    def append(self, block: int, *, dirty: bool) -> None:
        if self.has(block):
            self.take_out(block)
        else:
            self.counts["fills"] += 1
        bucket = self.buckets[self.open]
        if len(bucket) == self.setup.bucket:
            is_held = any(one is not None for one in bucket)
            (self.full if is_held else self.free_buckets).append(self.open)
            if not self.free_buckets:
                self.empty_oldest()
            self.open = self.free_buckets.pop()
            self.buckets[self.open] = []
        bucket = self.buckets[self.open]
        self.slot[block] = self.open * self.setup.bucket + len(bucket)
        bucket.append(block)
        (self.dirty if dirty else self.clean).append(block)
        self.has_changed = True

    def take(self, block: int, part: Request, *, going: bool, whole: bool) -> tuple[int, ...]:  # noqa: ARG002
        if not part.is_write:
            if self.has(block):
                number = self.slot[block] // self.setup.bucket
                if number != self.open:
                    self.full.remove(number)
                    self.full.append(number)
                return (NVM,)
            if going:
                self.counts["bypassed"] += 1
                return (BASE,)
            self.append(block, dirty=False)
            self.background(NVM, block, 1)
            return (BASE,)
        if going and block not in self.dirty:
            if self.has(block):
                self.take_out(block)
            self.counts["bypassed"] += 1
            return (BASE,)
        back = self.setup.mode == "back"
        self.append(block, dirty=back)
        return (NVM,) if back else (BASE, NVM)

    def settle(self) -> None:
        while len(self.dirty) * 100 > self.setup.capacity * self.setup.high:
            self.cursor = (self.cursor + 1) % self.last_block
            if self.cursor in self.dirty:
                self.make_clean(self.cursor)


class Special(Rival):
    commits_when = "never"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.known: set[int] = set()

    def take(self, block: int, part: Request, *, going: bool, whole: bool) -> tuple[int, ...]:  # noqa: ARG002
        is_old, is_here = block in self.known, self.has(block)
        self.known.add(block)
        if is_old and not part.is_write:
            return (NVM,) if is_here else (BASE,)
        is_small = part.sectors <= self.setup.small
        if part.role in (1, 2) or not (part.is_meta or is_small):
            if is_here:
                self.drop(block)
            return (BASE,)
        below = len(self.dirty) / self.setup.capacity < self.setup.high / 100
        if not is_here and self.free and (part.is_meta or below):
            self.bring(block, dirty=True)
        return (NVM,) if self.has(block) else (BASE,)


class Memory(Rival):
    flushed = (BASE,)
    commits_when = "never"
    is_full = False

    def take(self, block: int, part: Request, *, going: bool, whole: bool) -> tuple[int, ...]:  # noqa: ARG002
        if part.role != 2:
            return (BASE,)
        if self.has(block):
            self.use(block, dirty=False)
        elif part.is_write and self.free:
            self.bring(block, dirty=True)
        elif part.is_write:
            self.is_full = True
            self.counts["bypassed"] += 1
        return (NVM,) if self.has(block) else (BASE,)

    def settle(self) -> None:
        while self.is_full and len(self.dirty) / self.setup.capacity > self.setup.low / 100:
            block = self.dirty[0]
            self.make_clean(block)
            self.drop(block)
        self.is_full = False


MODELS: dict[str, type[Rival]] = {
    "writecache": WriteCache,
    "dm-cache": DmCache,
    "bcache": Bcache,
    "open-cas": OpenCas,
    "log": Log,
    "special": Special,
    "memory": Memory,
}

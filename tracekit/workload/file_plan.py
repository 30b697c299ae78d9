"""A personality as a plan of file operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.arrow import Integers
from tracekit.errors import InputError
from tracekit.plans import Records
from tracekit.plans import file_plan as plan
from tracekit.plans.file_plan import CODES, NO_STEP, NONE, UNTIMED, FileTable, Medium
from tracekit.store import beside
from tracekit.workload.personality import FileSet, Operation, Personality

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Share:
    """The files of one set that one thread uses.

    `numbers` are those of the plan and `sizes` bytes, in the order in which the thread deletes and
    creates: a ring, of which the first `present` are there before the run.
    """

    files: FileSet
    numbers: Integers
    sizes: Integers
    present: int


def draw_sizes(files: FileSet, rng: np.random.Generator) -> Integers:
    """Return the size of each file in bytes, at least 1."""
    if files.shape == 0:
        return np.full(files.count, files.mean_bytes, np.int64)
    drawn = rng.gamma(files.shape, files.mean_bytes / files.shape, files.count)
    return np.maximum(np.rint(drawn), 1).astype(np.int64)


def file_path(files: FileSet, number: int) -> str:
    """Return the path of a file: in no directory are more than `directory_width` entries."""
    width = files.directory_width
    directories = -(-files.count // width)
    leaf = number // width
    parts = [f"f{number:08d}"]
    while directories > 1:
        parts.append(f"d{leaf:06d}")
        directories = -(-directories // width) if width > 1 else 1
        leaf //= width
    return "/".join([files.name, *reversed(parts)])


def lay_out(personality: Personality, seed: int) -> tuple[FileTable, list[list[Share]]]:
    """Return the table of files, and for each thread its share of each set.

    Raises InputError for a set with fewer files than the threads need.
    """
    table = FileTable()
    shares: list[list[Share]] = [[] for _ in range(personality.threads)]
    for place, files in enumerate(personality.file_sets):
        rng = np.random.default_rng([seed, 1, place])
        sizes = draw_sizes(files, rng)
        order = np.arange(files.count) if files.is_shared else rng.permutation(files.count)
        parts = [order] if files.is_shared else np.array_split(order, personality.threads)
        present = [_present(personality, files, len(part)) for part in parts]
        there = np.zeros(files.count, bool)
        for part, count in zip(parts, present, strict=True):
            there[part[:count]] = True
        added = zip((sizes * there).tolist(), there.tolist(), strict=True)
        numbers = np.array(
            [
                table.add(file_path(files, number), size_bytes=size, there=is_there)
                for number, (size, is_there) in enumerate(added)
            ]
        )
        for thread, own in enumerate(shares):
            at = 0 if files.is_shared else thread
            own.append(Share(files, numbers[parts[at]], sizes[parts[at]], present[at]))
    return table, shares


def _present(personality: Personality, files: FileSet, count: int) -> int:
    """Return how many of a part's files are there at the start."""
    created, deleted = personality.churn(files.name)
    least = max(deleted, 0 if created else 1)
    most = count - created
    if files.is_shared:
        return count
    if most < least or count == 0:
        needed = personality.threads * (least + created)
        raise InputError(
            f"{personality.threads} threads need at least {max(needed, 1)} files"
            f" '{files.name}', there are {files.count}",
            hint="use more files or fewer threads",
        )
    return min(max(round(count * files.present_ratio), least), most)


@dataclass
class Lengths:
    """What happens to the lengths of a share's files, in any order, and who asks for them."""

    initial: Integers
    notes: list[tuple[Integers, Integers, Integers, Flags]] = field(default_factory=list)
    """When, which files, the bytes that they grow by, and whether they begin anew."""

    def note(
        self, when: Integers, file: Integers, *, added: Integers | int = 0, is_reset: bool = False
    ) -> int:
        """Note that files grow, or with `is_reset` begin anew; return the number of the note."""
        count = len(when)
        self.notes.append((when, file, np.broadcast_to(added, count), np.full(count, is_reset)))
        return len(self.notes) - 1

    def lengths(self) -> list[Integers]:
        """Return for each note the length of each file right before it."""
        ends = np.cumsum([len(when) for when, *_ in self.notes])
        when, file, added, reset = map(np.concatenate, zip(*self.notes, strict=True))
        order = np.lexsort((when, file))
        before = np.concatenate([[0], np.cumsum(added[order])[:-1]])
        first = np.concatenate([[True], np.diff(file[order]) != 0])
        place = np.arange(len(order))
        start = np.maximum.accumulate(np.where(first, place, 0))
        # What a reset adds comes after it; the reset before this note is what counts.
        begun = np.where(reset[order], place, -1)
        begun = np.concatenate([[-1], np.maximum.accumulate(begun)[:-1]])
        is_new = begun >= start
        length = before - before[np.where(is_new, begun, start)]
        found = np.empty(len(order), np.int64)
        found[order] = length + np.where(is_new, 0, self.initial[file[order]])
        return np.split(found, ends[:-1])


STEP = np.dtype(
    [
        ("operation", "u1"),
        ("step", "u1"),
        ("flags", "<u2"),
        ("file", "<u4"),
        ("handle", "<u4"),
        ("offset", "<u8"),
        ("total", "<i8"),  # bytes of all calls of the step
        ("size", "<i8"),  # bytes of one call
    ]
)
Steps = npt.NDArray[np.void]
CODE = {
    **CODES,
    "read_file": CODES["read"],
    "write_file": CODES["write"],
    "append": CODES["write"],
    "delete": CODES["unlink"],
}
WRITES = ("write_file", "append", "write")


FILL_BYTES = 1 << 20


def most_turns(personality: Personality, shares: list[Share]) -> int:
    """Return after how many turns a set would be empty or full; a large number: never."""
    most = 1 << 40
    for share in shares:
        created, deleted = personality.churn(share.files.name)
        if created > deleted:
            most = min(most, (len(share.numbers) - share.present) // (created - deleted))
        elif deleted > created:
            most = min(most, (share.present - 1) // (deleted - created))
    return most


class Draft:
    """The turns of one thread as columns: one array a place of the flow."""

    def __init__(
        self,
        personality: Personality,
        shares: list[Share],
        *,
        thread: int,
        turns: int,
        rng: np.random.Generator,
    ) -> None:
        """Start with the files as they are before the run; `turns` are at most `most_turns`."""
        self.rng, self.thread, self.turns = rng, thread, turns
        self.shares = {share.files.name: share for share in shares}
        self.flow, self.labels = personality.flow, personality.labels
        self.handles = max((one.handle for one in personality.flow), default=1)
        self.churn = {name: personality.churn(name) for name in self.shares}
        self.seen = {name: [0, 0] for name in self.shares}
        self.sizes = {name: Lengths(_initial(share)) for name, share in self.shares.items()}
        self.open: dict[int, tuple[str, Integers, bool]] = {}
        self.steps = np.zeros((turns, len(self.flow)), STEP)
        self.pending: list[tuple[int, Operation, str, int]] = []
        self.always_open: dict[str, int] = {}

    def draw(self) -> tuple[Steps, int]:
        """Return the steps of all turns and those that undo them, and by how much files grow."""
        for place, operation in enumerate(self.flow):
            self.add(place, operation)
        return self.finish()

    def add(self, place: int, one: Operation) -> None:
        """Add one operation of the flow to all turns."""
        column = self.steps[:, place]
        column["operation"] = CODE[one.action]
        column["step"] = self.labels.index(one.label)
        column["handle"] = self.slot(one.handle)
        if one.files is not None and one.action != "append":
            self.choose(place, one)
        elif one.action == "append":
            self.append(place, one)
        elif one.action in ("read_file", "write_file", "read", "write"):
            self.transfer(place, one)
        else:
            name, file, _ = self.open[one.handle]
            column["file"] = self.shares[name].numbers[file]

    def when(self, place: int) -> Integers:
        """Return the number of an operation in each turn, counted through all turns."""
        return np.arange(self.turns) * len(self.flow) + place

    def slot(self, handle: int) -> int:
        """Return the number of a handle in the plan."""
        return self.thread * (self.handles + len(self.shares)) + handle - 1

    def choose(self, place: int, one: Operation) -> None:
        """Choose the files that are created, opened, looked at or deleted."""
        name, when = one.files or "", self.when(place)
        share, (created, deleted), seen = self.shares[name], self.churn[name], self.seen[name]
        turn = np.arange(self.turns)
        tail = deleted * turn + seen[1]
        head = share.present + created * turn + seen[0]
        if one.action == "create":
            at, seen[0] = head, seen[0] + 1
        elif one.action == "delete":
            at, seen[1] = tail, seen[1] + 1
        else:
            at = tail + np.floor(self.rng.random(self.turns) * (head - tail)).astype(np.int64)
        file = at % len(share.numbers)
        column = self.steps[:, place]
        column["file"] = share.numbers[file]
        flags = (plan.DIRECT if one.is_direct else 0) | (plan.SYNC if one.is_sync else 0)
        if one.action == "create":
            column["flags"] = plan.EXCLUSIVE | flags
            self.sizes[name].note(when, file, is_reset=True)
            self.open[one.handle] = (name, file, True)
        elif one.action == "open":
            column["flags"] = flags | (plan.READ if self.only_reads(place, one) else 0)
            self.open[one.handle] = (name, file, False)
        else:
            column["handle"] = NONE
            if one.action == "delete":
                note = self.sizes[name].note(when, file)
                self.pending.append((place, one, name, note))

    def only_reads(self, place: int, one: Operation) -> bool:
        """Say whether nothing is written to what is opened here."""
        for later in self.flow[place + 1 :]:
            if later.handle == one.handle:
                if later.action in ("create", "open", "close"):
                    return True
                if later.action in WRITES and later.files is None:
                    return False
        return True

    def append(self, place: int, one: Operation) -> None:
        """Write to the end of the open file, or of the shared one that is always open."""
        when, size = self.when(place), np.full(self.turns, one.size_bytes, np.int64)
        if one.is_random:
            size = self.rng.integers(1, one.size_bytes, self.turns, endpoint=True)
        column = self.steps[:, place]
        column["total"] = column["size"] = size
        if one.files is not None:
            share = self.shares[one.files]
            slot = self.slot(self.handles + 1 + len(self.always_open))
            column["handle"] = self.always_open.setdefault(one.files, slot)
            column["file"] = share.numbers[0]
            column["offset"] = plan.AT_POSITION
            self.sizes[one.files].note(when, np.zeros(self.turns, np.int64), added=size)
            return
        name, file, _ = self.open[one.handle]
        column["file"] = self.shares[name].numbers[file]
        self.pending.append((place, one, name, self.sizes[name].note(when, file, added=size)))

    def transfer(self, place: int, one: Operation) -> None:
        """Read or write the whole file, or one place of it."""
        name, file, is_new = self.open[one.handle]
        when = self.when(place)
        column = self.steps[:, place]
        column["file"] = self.shares[name].numbers[file]
        column["size"] = one.size_bytes
        is_first = one.action == "write_file" and is_new
        if is_first:
            column["total"] = self.shares[name].sizes[file]
        added = self.shares[name].sizes[file] if is_first else 0
        note = self.sizes[name].note(when, file, added=added)
        if one.action in ("read", "write"):
            # Made a place of the file later.
            column["offset"] = self.rng.integers(0, 1 << 62, self.turns)
        if not is_first:
            self.pending.append((place, one, name, note))

    def finish(self) -> tuple[Steps, int]:
        """Fill in what depends on lengths; return all steps and the most bytes of growth."""
        lengths = {name: sizes.lengths() for name, sizes in self.sizes.items() if sizes.notes}
        growth = np.zeros(self.turns, np.int64)
        for place, one, name, note in self.pending:
            column, length = self.steps[:, place], lengths[name][note]
            if one.action == "delete":
                growth -= length
            elif one.action == "append":
                column["offset"] = length
            elif one.action in ("read", "write"):
                _place(column, length, one.size_bytes)
            else:
                column["total"] = np.maximum(length, 1)
        for name, sizes in self.sizes.items():
            # A common log is cut by one thread: the others may be a pass ahead of it.
            times = 2 if name in self.always_open else 1
            for _, _, added, _ in sizes.notes:
                growth += times * added
        steps = np.concatenate([self._opening(), self.steps.reshape(-1), *self._restore()])
        return steps, int(np.cumsum(growth).max(initial=0)) + int(growth.max(initial=0))

    def _opening(self) -> Steps:
        """Open what stays open."""
        files = [self.shares[name].numbers[0] for name in self.always_open]
        found = _simple("open", np.array(files, np.int64))
        found["flags"] |= plan.WRITE | plan.APPEND
        found["handle"] = list(self.always_open.values())
        return found

    def _restore(self) -> Iterator[Steps]:
        """Yield what makes the files as they were: presence and length, untimed."""
        for handle in self.always_open.values():
            yield _simple("close", np.array([NONE]), handle=handle)
        for name, share in self.shares.items():
            if not share.files.is_shared:
                yield from self._restore_share(name, share)
            elif self.thread == 0 and name in self.always_open:
                yield _cut(share.numbers[:1], share.sizes[:1])

    def _restore_share(self, name: str, share: Share) -> Iterator[Steps]:
        created, deleted = self.churn[name]
        count = len(share.numbers)
        ring = np.arange(deleted * self.turns, share.present + created * self.turns) % count
        is_there = np.zeros(count, bool)
        is_there[ring] = True
        was_there = np.arange(count) < share.present
        end = np.full(count, self.turns * len(self.flow))
        self.sizes[name].note(end, np.arange(count))
        length = np.where(is_there, self.sizes[name].lengths()[-1], 0)
        sizes_then = _initial(share)
        new = is_there & ~was_there
        longer = was_there & is_there & (length > sizes_then)
        # What is gone has no length.
        filled = np.flatnonzero(was_there & (~is_there | (length < sizes_then)))
        # In groups of open, write and close: the same handle serves one after the other.
        groups = np.zeros((len(filled), 3), STEP)
        groups["step"], groups["flags"] = NO_STEP, UNTIMED
        groups["file"], groups["handle"] = share.numbers[filled][:, None], self.slot(1)
        groups["operation"] = [CODES["create"], CODES["write"], CODES["close"]]
        groups["offset"][:, 1] = length[filled]
        groups["total"][:, 1] = (sizes_then - length)[filled]
        groups["size"][:, 1] = FILL_BYTES
        yield _simple("unlink", share.numbers[new])
        yield _cut(share.numbers[longer], sizes_then[longer])
        yield groups.reshape(-1)


def _simple(operation: str, file: Integers, *, handle: int = NONE) -> Steps:
    """Return untimed steps of no bytes, one a file."""
    found = np.zeros(len(file), STEP)
    found["operation"], found["step"] = CODES[operation], NO_STEP
    found["flags"], found["file"], found["handle"] = UNTIMED, file, handle
    return found


def _cut(file: Integers, size: Integers) -> Steps:
    found = _simple("truncate", file)
    found["total"] = found["size"] = size
    return found


def _initial(share: Share) -> Integers:
    """Return the lengths before the run: of what is not there 0."""
    return np.where(np.arange(len(share.sizes)) < share.present, share.sizes, 0)


def _place(column: Steps, length: Integers, size_bytes: int) -> None:
    """Turn a drawn number into a place of the file, a multiple of the size if it has several."""
    places = np.maximum(length // size_bytes, 1)
    column["offset"] = (column["offset"].astype(np.int64) % places) * size_bytes
    column["total"] = np.minimum(size_bytes, np.maximum(length, 1))


RECORDS = 1_000_000  # of a plan, when the number of turns is not given
LEAST_TURNS = 4
LEAST_GROWTH = 256 << 20  # bytes that files may grow by before they are cut again
MOVES = (CODES["read"], CODES["write"])


@dataclass(frozen=True)
class Made:
    """What a plan holds: turns of each thread, operations by name, bytes of the files at once."""

    turns: int
    operations: dict[str, int]
    files: int
    needed_bytes: int


def expand(steps: Steps) -> Records:
    """Return the calls of the steps: transfers longer than one call become several."""
    moves = np.isin(steps["operation"], MOVES)
    size = np.maximum(steps["size"], 1)
    calls = np.where(moves, np.maximum(-(-steps["total"] // size), 1), 1)
    of = np.repeat(np.arange(len(steps)), calls)
    part = np.arange(len(of)) - np.repeat(np.cumsum(calls) - calls, calls)
    step = steps[of]
    records = plan.new_records(len(of))
    for name in ("operation", "step", "flags", "file", "handle"):
        records[name] = step[name]
    done = part * size[of]
    left = step["total"] - done
    is_read = step["operation"] == CODES["read"]
    length = np.where(is_read, size[of], np.minimum(size[of], left))
    records["length"] = np.where(moves[of], length, step["total"])
    at_position = step["offset"] == plan.AT_POSITION
    records["offset"] = np.where(at_position, step["offset"], step["offset"] + done.astype("u8"))
    is_last = part == calls[of] - 1
    records["flags"] |= np.where(is_last, 0, plan.CONTINUES).astype(np.uint16)
    return records


def write_personality(
    personality: Personality,
    path: Path,
    *,
    seed: int = 0,
    turns: int | None = None,
    medium: Medium | None = None,
) -> Made:
    """Write the plan of a personality: seeded, the same bit for bit each time.

    Without `turns` there are so many that the plan has about a million operations; the program
    repeats it until the time is up. Raises InputError when the files are too few for the threads.
    """
    table, shares = lay_out(personality, seed)
    most = min(most_turns(personality, own) for own in shares)
    chosen = min(most, turns or max(LEAST_TURNS, _turns(personality)))
    needed = sum(row[0] for row in table.rows() if row[3])
    next_id = 0
    with beside(path) as part, part.open("wb") as file:
        writer = plan.FilePlanWriter(file)
        for number, own in enumerate(shares):
            rng = np.random.default_rng([seed, 2, number])
            draft = Draft(personality, own, thread=number, turns=chosen, rng=rng)
            steps, growth_bytes = draft.draw()
            records = expand(steps)
            records["operation_id"] = np.arange(next_id, next_id + len(records))
            next_id += len(records)
            needed += growth_bytes
            writer.thread()
            writer.append(records)
        setting = plan.Setting(personality.labels, True, needed, medium)
        operations = writer.finish(table, setting)
    return Made(chosen, operations, len(table), needed)


def _turns(personality: Personality) -> int:
    """Return how many turns make about RECORDS operations, and files not much longer."""
    calls = 0.0
    last = personality.file_sets[0]
    for one in personality.flow:
        if one.files is not None:
            last = personality.file_set(one.files)
        whole = one.action in ("read_file", "write_file")
        calls += max(1.0, last.mean_bytes / one.size_bytes) if whole else 1.0
    turns = RECORDS / (personality.threads * calls)
    files_bytes = sum(one.count * one.mean_bytes for one in personality.file_sets)
    most_bytes = max(LEAST_GROWTH, files_bytes)
    return int(min(turns, most_bytes / max(1, personality.threads * _grown(personality))))


def _grown(personality: Personality) -> int:
    """Return the most bytes by which one turn lengthens files that are never made anew."""
    grown, opened = 0, ""
    for one in personality.flow:
        opened = one.files or opened
        if one.action == "append" and not any(personality.churn(opened)):
            grown += one.size_bytes
    return grown


def describe(personality: Personality) -> dict[str, Any]:
    """Return what one turn does: steps by label, and the ratio of reading to writing ones."""
    counts = Counter(one.label for one in personality.flow)
    reads = sum(one.action in ("read_file", "read") for one in personality.flow)
    writes = sum(one.action in WRITES for one in personality.flow)
    return {"steps": dict(counts), "reads": reads, "writes": writes}

"""What one thread does: the flow of a personality, turn by turn, with files and sizes drawn.

The files of a thread are a ring in random order. What is created comes in at its head, what is
deleted goes out at its tail, and the rest chooses evenly among what is between them, so that no
thread meets a file of another one's and every turn is known before the run.
"""

from __future__ import annotations

import numpy as np

from tracekit.personality.layout import Numbers, Share
from tracekit.personality.lengths import Lengths
from tracekit.personality.model import Operation, Personality
from tracekit.personality.steps import CODE, STEP, Steps, Turns
from tracekit.plan.file_table import NONE
from tracekit.plan.files import (
    APPEND,
    AT_POSITION,
    CODES,
    DIRECT,
    EXCLUSIVE,
    NO_STEP,
    READ,
    SYNC,
    UNTIMED,
    WRITE,
)

FILL_BYTES = 1 << 20


class Thread:
    """Draws the turns of one thread."""

    def __init__(self, personality: Personality, shares: list[Share], thread: int) -> None:
        """Start with the thread's files as they are before the run."""
        self._personality = personality
        self._shares = {share.files.name: share for share in shares}
        self._thread = thread

    def most_turns(self) -> int:
        """Return after how many turns a set would be empty or full; a large number: never."""
        most = 1 << 40
        for name, share in self._shares.items():
            created, deleted = self._personality.churn(name)
            if created > deleted:
                most = min(most, (len(share.numbers) - share.present) // (created - deleted))
            elif deleted > created:
                most = min(most, (share.present - 1) // (deleted - created))
        return most

    def draw(self, turns: int, rng: np.random.Generator) -> Turns:
        """Return so many turns; no more than `most_turns`."""
        draft = _Draft(self._personality, self._shares, thread=self._thread, turns=turns, rng=rng)
        for place, operation in enumerate(self._personality.flow):
            draft.add(place, operation)
        return draft.finish()


class _Draft:
    """The turns as columns: one array a place of the flow."""

    def __init__(
        self,
        personality: Personality,
        shares: dict[str, Share],
        *,
        thread: int,
        turns: int,
        rng: np.random.Generator,
    ) -> None:
        self.rng = rng
        self.shares, self.thread, self.turns = shares, thread, turns
        self.flow = personality.flow
        self.labels = personality.labels
        self.handles = max((one.handle for one in personality.flow), default=1)
        self.churn = {name: personality.churn(name) for name in shares}
        self.seen = {name: [0, 0] for name in shares}
        self.sizes = {
            name: Lengths(len(share.sizes), _initial(share)) for name, share in shares.items()
        }
        self.open: dict[int, tuple[str, Numbers, bool]] = {}
        self.steps = np.zeros((turns, len(self.flow)), STEP)
        self.pending: list[tuple[int, Operation, str, int]] = []
        self.always_open: dict[str, int] = {}

    def add(self, place: int, one: Operation) -> None:
        """Add one operation of the flow to all turns."""
        column = self.steps[:, place]
        column["operation"] = CODE.get(one.action, CODES.get(one.action, 0))
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

    def when(self, place: int) -> Numbers:
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
        none = np.zeros(self.turns, np.int64)
        if one.action == "create":
            column["flags"] = EXCLUSIVE | _open_flags(one)
            self.sizes[name].note(when, file, added=none, is_reset=True)
            self.open[one.handle] = (name, file, True)
        elif one.action == "open":
            column["flags"] = _open_flags(one) | (READ if self.only_reads(place, one) else 0)
            self.open[one.handle] = (name, file, False)
        else:
            column["handle"] = NONE
            if one.action == "delete":
                self.pending.append(
                    (place, one, name, self.sizes[name].note(when, file, added=none))
                )

    def only_reads(self, place: int, one: Operation) -> bool:
        """Say whether nothing is written to what is opened here."""
        for later in self.flow[place + 1 :]:
            if later.handle == one.handle and later.action in ("create", "open", "close"):
                return True
            writes = later.action in ("write_file", "append", "write") and later.files is None
            if later.handle == one.handle and writes:
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
            self.always_open.setdefault(
                one.files, self.slot(self.handles + 1 + len(self.always_open))
            )
            column["handle"] = self.always_open[one.files]
            column["file"] = share.numbers[0]
            column["offset"] = AT_POSITION
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
        added = np.zeros(self.turns, np.int64)
        if one.action == "write_file" and is_new:
            added = self.shares[name].sizes[file]
            column["total"] = added
        note = self.sizes[name].note(when, file, added=added)
        if one.action in ("read", "write"):
            column["offset"] = self.rng.integers(
                0, 1 << 62, self.turns
            )  # made a place of the file later
        if not (one.action == "write_file" and is_new):
            self.pending.append((place, one, name, note))

    def finish(self) -> Turns:
        """Fill in what depends on lengths; return all steps."""
        lengths = {name: sizes.lengths() for name, sizes in self.sizes.items() if sizes.when}
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
            for added in sizes.added:
                growth += times * added
        steps = np.concatenate([self._opening(), self.steps.reshape(-1)])
        peak = int(np.cumsum(growth).max(initial=0))
        return Turns(steps, self._restore(), peak + int(growth.max(initial=0)))

    def _opening(self) -> Steps:
        """Open what stays open."""
        found = np.zeros(len(self.always_open), STEP)
        for row, (name, handle) in zip(found, self.always_open.items(), strict=True):
            row["operation"], row["step"] = CODES["open"], NO_STEP
            row["flags"] = WRITE | APPEND | UNTIMED
            row["file"], row["handle"] = self.shares[name].numbers[0], handle
        return found

    def _restore(self) -> Steps:
        """Return what makes the files as they were: presence and length, untimed."""
        parts = [np.zeros(0, STEP)]
        for handle in self.always_open.values():
            parts.append(self._simple("close", np.array([NONE]), handle=handle))
        for name, share in self.shares.items():
            if share.files.is_shared:
                grows = self.thread == 0 and name in self.always_open
                if grows:
                    parts.append(self._cut(share.numbers[:1], share.sizes[:1]))
            else:
                parts += self._restore_share(name, share)
        return np.concatenate(parts)

    def _restore_share(self, name: str, share: Share) -> list[Steps]:
        created, deleted = self.churn[name]
        count = len(share.numbers)
        ring = np.arange(deleted * self.turns, share.present + created * self.turns) % count
        is_there = np.zeros(count, bool)
        is_there[ring] = True
        was_there = np.arange(count) < share.present
        sizes = self.sizes[name]
        end = np.full(count, self.turns * len(self.flow))
        sizes.note(end, np.arange(count), added=np.zeros(count, np.int64))
        length = np.where(is_there, sizes.lengths()[-1], 0)
        sizes_then = _initial(share)
        gone, new = was_there & ~is_there, is_there & ~was_there
        longer = was_there & is_there & (length > sizes_then)
        fill = gone | (was_there & is_there & (length < sizes_then))
        filled = np.flatnonzero(fill)
        # In groups of open, write and close: the same handle serves one after the other.
        groups = np.zeros((len(filled), 3), STEP)
        groups["step"], groups["flags"] = NO_STEP, UNTIMED
        groups["file"], groups["handle"] = share.numbers[filled][:, None], self.slot(1)
        groups["operation"] = [CODES["create"], CODES["write"], CODES["close"]]
        groups["offset"][:, 1] = length[filled]
        groups["total"][:, 1] = (sizes_then - length)[filled]
        groups["size"][:, 1] = FILL_BYTES
        return [
            self._simple("unlink", share.numbers[new]),
            self._cut(share.numbers[longer], sizes_then[longer]),
            groups.reshape(-1),
        ]

    def _simple(self, operation: str, file: Numbers, *, handle: int = NONE) -> Steps:
        found = np.zeros(len(file), STEP)
        found["operation"], found["step"] = CODES[operation], NO_STEP
        found["flags"], found["file"], found["handle"] = UNTIMED, file, handle
        return found

    def _cut(self, file: Numbers, size: Numbers) -> Steps:
        found = self._simple("truncate", file)
        found["total"] = found["size"] = size
        return found


def _initial(share: Share) -> Numbers:
    """Return the lengths before the run: of what is not there 0."""
    return np.where(np.arange(len(share.sizes)) < share.present, share.sizes, 0)


def _open_flags(one: Operation) -> int:
    return (DIRECT if one.is_direct else 0) | (SYNC if one.is_sync else 0)


def _place(column: Steps, length: Numbers, size_bytes: int) -> None:
    """Turn a drawn number into a place of the file, a multiple of the size if it has several."""
    places = np.maximum(length // size_bytes, 1)
    column["offset"] = (column["offset"].astype(np.int64) % places) * size_bytes
    column["total"] = np.minimum(size_bytes, np.maximum(length, 1))

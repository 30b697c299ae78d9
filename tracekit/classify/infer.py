"""Infers the role of a region from its requests where the layout does not give it."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.arrow import codes
from tracekit.classify.evidence import (
    JBD2,
    OPERATIONS,
    Evidence,
    Key,
    Survey,
    extent_of,
    gather,
    process_kind,
)
from tracekit.classify.regions import OnRows, batches, decided, found_entry, ignore_rows
from tracekit.metadata import Inference, Region, inferences_of

# A region in which hardly anything else happens; a checkpoint writes the journal's superblock too.
ALMOST_ALL = 0.9
HARDLY_ANY = 0.05
# A log is written in one direction; a transaction that starts elsewhere breaks a run.
MOSTLY = 0.8
ENOUGH_WRITES = 16


@dataclass(frozen=True)
class Decision:
    """A role, why, and how sure that is."""

    role: str
    evidence: str
    confidence: str  # high, medium, low or none


def decide(found: Evidence) -> Decision:
    """Return the role of a region; `unknown` when its requests are not enough."""
    writes, total = found.writes, found.reads + found.writes
    sequential = f"{found.sequential} of {writes} writes are sequential"
    barriers = f"{found.barriers} with FUA or preflush; {found.reads} reads"
    # Written in one direction and never read, with barriers.
    is_log = (
        found.reads <= HARDLY_ANY * writes
        and found.barriers > 0
        and _share(found.sequential, writes) >= MOSTLY
    )
    # Reclaim writes swap, by whole pages, without any of a file system's care.
    is_plain = found.meta == 0 and found.barriers == 0 and found.jbd2_writes == 0
    is_reclaimed = _share(found.swapper_writes, writes) >= HARDLY_ANY
    # Only file systems queue metadata, and have journal threads or barriers.
    journal_writes = found.jbd2_writes + found.journaler_writes
    if is_log and _share(found.jbd2_writes, writes) >= ALMOST_ALL:
        why = f"jbd2 queued {found.jbd2_writes} of {writes} writes, {found.sequential} of them"
        sure = "high" if writes >= ENOUGH_WRITES else "medium"
        return Decision("journal", f"{why} sequential, {barriers}", sure)
    if is_plain and is_reclaimed and found.swapper_writes and found.pages == total:
        why = f"page reclaim queued {found.swapper_writes} of {writes} writes; all {total} requests"
        sure = "high" if found.swapper_writes >= ENOUGH_WRITES else "medium"
        return Decision("swap", f"{why} are whole pages, none metadata, FUA or preflush", sure)
    if is_log and not found.named and writes >= ENOUGH_WRITES:
        return Decision("journal", f"{sequential}, {barriers}; no process names", "medium")
    if found.meta or journal_writes or found.barriers:
        why = f"{found.meta} metadata requests, {journal_writes} writes of journal threads"
        sure = "high" if found.meta and journal_writes else "medium" if found.meta else "low"
        return Decision("fs", f"{why}, {found.barriers} writes with FUA or preflush", sure)
    return Decision("unknown", "its requests do not tell file system from raw use", "none")


def decide_beside_journal(evidence: Evidence) -> Decision:
    """Return the role of an undecided region on a disk with an external journal.

    Such a journal belongs to a file system, and page reclaim never waits for its writes.
    """
    if not evidence.synchronous:
        return decide(evidence)
    return Decision(
        "fs",
        f"{evidence.synchronous} of {evidence.writes} writes are synchronous, beside an external"
        " journal, which belongs to a file system",
        "medium",
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


COLUMNS = ("device", "sector", "length_bytes", "operation", "process")
MIN_COMMITS = 2
# The journal's superblock is written by checkpoints, and the log is read once at mount.
MAX_OTHERS_RATIO = 0.05
# A log is one extent or a few; commits all over the place are something else.
MAX_EXTENTS = 64


@dataclass
class Extent:
    """A piece of a device that may be part of a journal, and who used it."""

    device: str
    first_sector: int
    end_sector: int
    jbd2: int = 0  # reads and writes that jbd2 queued in it
    others: int = 0  # reads and writes of others

    @property
    def is_journal(self) -> bool:
        """Whether jbd2 has it nearly for itself."""
        return self.others <= MAX_OTHERS_RATIO * (self.jbd2 + self.others)


def candidates(device: str, evidence: Evidence) -> list[Extent]:
    """Return where commits were written in one region; none when there are too few or many."""
    runs = evidence.commit_runs
    if runs is None or evidence.jbd2_barriers < MIN_COMMITS or len(runs) > MAX_EXTENTS:
        return []
    return [Extent(device, int(first), int(end)) for first, end in runs]


def check(requests: Path, extents: list[Extent], *, on_rows: OnRows = ignore_rows) -> None:
    """Read the trace once and count in each extent what jbd2 and what others did there."""
    by_device: dict[str, list[Extent]] = {}
    for extent in sorted(extents, key=lambda extent: extent.first_sector):
        by_device.setdefault(extent.device, []).append(extent)
    numbers = {name: code for code, name in enumerate(by_device)}
    for batch in batches(requests, COLUMNS, on_rows=on_rows):
        device = codes(batch.column("device"), lambda name: numbers.get(name or "", -1))
        is_data = codes(batch.column("operation"), lambda name: OPERATIONS.get(name or "", 0)) > 0
        is_jbd2 = codes(batch.column("process"), process_kind) == JBD2
        sector, end = extent_of(batch)
        for name, mine in by_device.items():
            rows = np.flatnonzero(is_data & (device == numbers[name]))
            _count(mine, sector[rows], end[rows], is_jbd2[rows])


def _count(
    extents: list[Extent],
    sector: NDArray[np.int64],
    end: NDArray[np.int64],
    is_jbd2: NDArray[np.bool_],
) -> None:
    ends = np.array([extent.end_sector for extent in extents])
    firsts = np.array([extent.first_sector for extent in extents])
    # Extents are apart and sorted: the first one that ends behind the request's start is the
    # only one that is counted for it.
    place = np.searchsorted(ends, sector, side="right")
    is_within = place < len(extents)
    is_within[is_within] = firsts[place[is_within]] < end[is_within]
    for extent, jbd2, others in zip(
        extents,
        np.bincount(place[is_within & is_jbd2], minlength=len(extents)).tolist(),
        np.bincount(place[is_within & ~is_jbd2], minlength=len(extents)).tolist(),
        strict=True,
    ):
        extent.jbd2 += jbd2
        extent.others += others


@dataclass
class Guess:
    """A layout with roles, and what had to be guessed for it."""

    entries: list[Region]
    inferences: list[Inference] = field(default_factory=list)


def complete_layout(
    requests: Path, entries: list[Region], *, survey: Survey, on_rows: OnRows = ignore_rows
) -> Guess:
    """Give a role to every region that has none and find journals inside file systems.

    Reads the trace once when a region lacks a role or jbd2 runs in it, and once more when jbd2
    commits within a file system.
    """
    result = Guess(list(entries))
    if not _needs_evidence(entries, survey):
        return result
    evidence = gather(requests, entries, devices=list(survey.end_sectors), on_rows=on_rows)
    _decide_all(result, evidence, survey)
    _find_journals(result, requests, evidence, on_rows)
    return result


def _needs_evidence(entries: list[Region], survey: Survey) -> bool:
    mapped = {entry.device for entry in entries}
    known = {(entry.device, entry.partition) for entry in entries}
    return (
        survey.has_jbd2
        or any(entry.role in (None, "unknown") for entry in entries)
        or any(device not in mapped for device in survey.end_sectors)
        or any(pair not in known for pair in survey.partitions)
    )


def _decide_all(result: Guess, evidence: dict[Key, Evidence], survey: Survey) -> None:
    """Decide on the regions without a role; undecided ones once more, knowing the rest."""
    mapped = {entry.device for entry in result.entries}
    mapped |= {key[0] for key in evidence if key[1] is not None and isinstance(key[0], str)}
    open_regions = []
    for key in sorted(evidence, key=str):
        place = _place(result, key, evidence[key], mapped, survey)
        if place is not None and result.entries[place].role in (None, "unknown"):
            open_regions.append((place, evidence[key]))
    for place, found in open_regions:
        _judge(result, place, decide(found))
    journals = {entry.device for entry in result.entries if entry.role == "journal"}
    for place, found in open_regions:
        entry = result.entries[place]
        if entry.role in (None, "unknown") and entry.device in journals:
            _judge(result, place, decide_beside_journal(found))


def _place(
    result: Guess, key: Key, found: Evidence, mapped: set[str], survey: Survey
) -> int | None:
    """Return the index of the region's entry, which is made if the layout has none."""
    place, partition = key
    if isinstance(place, int):
        return place
    if partition is not None:
        first, end = found.first_sector, found.end_sector
        entry = found_entry(place, partition, first_sector=first, end_sector=end)
        result.entries.append(replace(entry, partition=partition))
    elif place not in mapped:
        end = survey.end_sectors[place]
        result.entries.append(found_entry(place, place, first_sector=0, end_sector=end))
    else:
        return None
    return len(result.entries) - 1


def _judge(result: Guess, place: int, decision: Decision) -> None:
    """Give the entry its role, unless the decision is `unknown`."""
    if decision.role == "unknown":
        return
    entry, role, why, confidence = result.entries[place], *astuple(decision)
    evidence = f"inferred: {why}"
    result.entries[place] = decided(entry, role, evidence=evidence, confidence=confidence)
    what = f"role of {entry.name or entry.partition}"
    found = [(what, role, f"{why} (confidence: {confidence})")]
    result.inferences += inferences_of(found, stage="classify")


def _find_journals(
    result: Guess, requests: Path, evidence: dict[Key, Evidence], on_rows: OnRows
) -> None:
    extents: list[Extent] = []
    for index, entry in enumerate(result.entries):
        found = evidence.get((index, None)) or evidence.get((entry.device, entry.partition))
        if entry.role == "fs" and found is not None:
            extents += candidates(entry.device, found)
    if not extents:
        return
    check(requests, extents, on_rows=on_rows)
    for extent in extents:
        if not extent.is_journal:
            continue
        device, first, end = extent.device, extent.first_sector, extent.end_sector
        name = f"journal at {device}:{first}"
        result.entries.append(found_entry(device, name, first_sector=first, end_sector=end))
        decision = Decision(
            "journal",
            f"jbd2's commits lie here, inside a file system: {extent.jbd2} requests of jbd2,"
            f" {extent.others} of others",
            "high" if extent.others == 0 else "medium",
        )
        _judge(result, len(result.entries) - 1, decision)

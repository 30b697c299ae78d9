"""Infers the role of a region from its requests where the layout does not give it."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.arrow import codes, ints
from tracekit.classify.evidence import JBD2, OPERATIONS, Evidence, Key, Survey, gather, process_kind
from tracekit.classify.regions import OnRows, batches, decided, found_entry, ignore_rows
from tracekit.metadata import Inference, Region, inferences_of
from tracekit.units import SECTOR_BYTES

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


def decide(evidence: Evidence) -> Decision:
    """Return the role of a region; `unknown` when its requests are not enough."""
    for rule in (_named_journal, _swap, _anonymous_journal, _file_system):
        decision = rule(evidence)
        if decision is not None:
            return decision
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


def _is_log(evidence: Evidence) -> bool:
    """Written in one direction and never read, with barriers."""
    return (
        evidence.reads <= HARDLY_ANY * evidence.writes
        and evidence.barriers > 0
        and _share(evidence.sequential, evidence.writes) >= MOSTLY
    )


def _named_journal(evidence: Evidence) -> Decision | None:
    """Jbd2 writes it and nobody else does, as one log."""
    is_jbd2 = _share(evidence.jbd2_writes, evidence.writes) >= ALMOST_ALL
    if not (is_jbd2 and _is_log(evidence)):
        return None
    return Decision(
        "journal",
        f"jbd2 queued {evidence.jbd2_writes} of {evidence.writes} writes, {evidence.sequential}"
        f" of them sequential, {evidence.barriers} with FUA or preflush; {evidence.reads} reads",
        "high" if evidence.writes >= ENOUGH_WRITES else "medium",
    )


def _swap(evidence: Evidence) -> Decision | None:
    """Reclaim writes it, by whole pages, without any of a file system's care."""
    total = evidence.reads + evidence.writes
    is_plain = evidence.meta == 0 and evidence.barriers == 0 and evidence.jbd2_writes == 0
    is_reclaimed = _share(evidence.swapper_writes, evidence.writes) >= HARDLY_ANY
    if not (is_plain and is_reclaimed and evidence.swapper_writes and evidence.pages == total):
        return None
    return Decision(
        "swap",
        f"page reclaim queued {evidence.swapper_writes} of {evidence.writes} writes; all"
        f" {total} requests are whole pages, none metadata, FUA or preflush",
        "high" if evidence.swapper_writes >= ENOUGH_WRITES else "medium",
    )


def _anonymous_journal(evidence: Evidence) -> Decision | None:
    """A log by its shape alone, where processes have no names."""
    if evidence.named or evidence.writes < ENOUGH_WRITES or not _is_log(evidence):
        return None
    return Decision(
        "journal",
        f"{evidence.sequential} of {evidence.writes} writes are sequential, {evidence.barriers}"
        f" with FUA or preflush; {evidence.reads} reads; no process names",
        "medium",
    )


def _file_system(evidence: Evidence) -> Decision | None:
    """Metadata, journal threads or barriers, which only file systems queue."""
    journal_writes = evidence.jbd2_writes + evidence.journaler_writes
    if not (evidence.meta or journal_writes or evidence.barriers):
        return None
    return Decision(
        "fs",
        f"{evidence.meta} metadata requests, {journal_writes} writes of journal threads,"
        f" {evidence.barriers} writes with FUA or preflush",
        "high" if evidence.meta and journal_writes else "medium" if evidence.meta else "low",
    )


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
        for name, mine in by_device.items():
            rows = np.flatnonzero(is_data & (device == numbers[name]))
            _count(mine, batch, rows, is_jbd2[rows])


def _count(
    extents: list[Extent], batch: Any, rows: NDArray[np.int64], is_jbd2: NDArray[np.bool_]
) -> None:
    sector = ints(batch.column("sector"))[rows]
    end = sector + (ints(batch.column("length_bytes"))[rows] + SECTOR_BYTES - 1) // SECTOR_BYTES
    ends = np.array([extent.end_sector for extent in extents])
    firsts = np.array([extent.first_sector for extent in extents])
    # Extents are apart and sorted: the first one that ends behind the request's start is the
    # only one that is counted for it.
    place = np.searchsorted(ends, sector, side="right")
    is_within = place < len(extents)
    is_within[is_within] = firsts[place[is_within]] < end[is_within]
    jbd2 = np.bincount(place[is_within & is_jbd2], minlength=len(extents))
    others = np.bincount(place[is_within & ~is_jbd2], minlength=len(extents))
    for index, extent in enumerate(extents):
        extent.jbd2 += int(jbd2[index])
        extent.others += int(others[index])


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

"""The role of a region where the layout gives none, by the evidence in the region's requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from tracekit.arrow import codes
from tracekit.classify import paging, regions
from tracekit.classify.evidence import (
    EVIDENCE_COLUMNS,
    JBD2,
    WRITE,
    Evidence,
    Key,
    Part,
    Survey,
    gather,
    part_of,
)
from tracekit.classify.regions import LayoutMap, OnRows, batches, ignore_rows
from tracekit.metadata import Inference, Region, inferences_of

# A region in which hardly anything else happens; a checkpoint writes the journal's superblock too.
ALMOST_ALL = 0.9
HARDLY_ANY = 0.05
# A log is written in one direction; a transaction that starts elsewhere breaks a run.
MOSTLY = 0.8
ENOUGH_WRITES = 16
SURE_PAGES = 1024
# A log is read when it is mounted; what is read as it goes on is something else.
MAX_READS_OF_LOG = 0.25


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
    log: int = 0  # writes of a log in it
    sequential: int = 0  # of these, those that begin where the one before ended
    jbd2: int = 0  # reads and writes that jbd2 queued in it
    others: int = 0  # other reads and writes
    last_end: int = -1  # of the latest write of a log

    @property
    def is_journal(self) -> bool:
        """Whether a log has it nearly for itself, and goes on through it in one direction.

        A super block that is written again and again stays where it is.
        """
        is_its_own = self.others <= MAX_OTHERS_RATIO * (self.log + self.others)
        return is_its_own and self.sequential * 2 >= self.log - MIN_COMMITS


def candidates(device: str, evidence: Evidence) -> list[Extent]:
    """Return where commits were written in one region; none when there are too few or many."""
    runs = evidence.commit_runs
    if runs is None or evidence.log_barriers < MIN_COMMITS or len(runs) > MAX_EXTENTS:
        return []
    return [Extent(device, int(first), int(end)) for first, end in runs]


def check(requests: Path, extents: list[Extent], *, on_rows: OnRows = ignore_rows) -> None:
    """Read the trace once and count in each extent what a log's writes are and what others."""
    by_device: dict[str, list[Extent]] = {}
    for extent in sorted(extents, key=lambda extent: extent.first_sector):
        by_device.setdefault(extent.device, []).append(extent)
    numbers = {name: code for code, name in enumerate(by_device)}
    for batch in batches(requests, EVIDENCE_COLUMNS, on_rows=on_rows):
        device = codes(batch.column("device"), lambda name: numbers.get(name or "", -1))
        part = part_of(batch)
        for name, mine in by_device.items():
            rows = np.flatnonzero((part.operation > 0) & (device == numbers[name]))
            _count(mine, part.take(rows))


def _count(extents: list[Extent], part: Part) -> None:
    ends = np.array([extent.end_sector for extent in extents])
    firsts = np.array([extent.first_sector for extent in extents])
    # Extents are apart and sorted: the first one that ends behind the request's start is the
    # only one that is counted for it.
    place = np.searchsorted(ends, part.sector, side="right")
    is_within = place < len(extents)
    is_within[is_within] = firsts[place[is_within]] < part.end[is_within]
    for number in np.unique(place[is_within]).tolist():
        extent, mine = extents[number], part.take(np.flatnonzero(is_within & (place == number)))
        is_log = mine.is_log | (mine.process == JBD2)
        log = mine.take(np.flatnonzero(is_log))
        extent.log += len(log.sector)
        extent.jbd2 += int(np.count_nonzero(mine.process == JBD2))
        extent.others += int(np.count_nonzero(~is_log))
        if len(log.sector):
            previous = np.concatenate(([extent.last_end], log.end[:-1]))
            extent.sequential += int(np.count_nonzero(log.sector == previous))
            extent.last_end = int(log.end[-1])


@dataclass
class Guess:
    """A layout with roles, and what had to be guessed for it."""

    entries: list[Region]
    judged: dict[int, Inference] = field(default_factory=dict)
    """Why the entries at these places have the roles that they were given here."""
    contradictions: list[str] = field(default_factory=list)
    """What requests do that the layout's roles cannot."""
    doubts: list[str] = field(default_factory=list)
    """What the layout that was given leaves open."""


def complete_layout(
    requests: Path,
    entries: list[Region],
    *,
    survey: Survey,
    is_given: bool = False,
    on_rows: OnRows = ignore_rows,
) -> Guess:
    """Give a role to every region that has none and find journals inside file systems.

    Reads the trace once when a region lacks a role or is swap, jbd2 runs in it, or the layout is
    not the capture's own (`is_given`), and once more when there are commits within a file system.
    """
    result = Guess(list(entries))
    mapped = {entry.device for entry in entries}
    known = {(entry.device, entry.partition) for entry in entries}
    is_complete = all(entry.role not in (None, "unknown") for entry in entries)
    is_complete &= (
        not is_given and mapped >= survey.end_sectors.keys() and known >= survey.partitions
    )
    if is_complete and not survey.has_jbd2 and all(entry.role != "swap" for entry in entries):
        return result
    evidence = gather(requests, entries, devices=list(survey.end_sectors), on_rows=on_rows)
    result.contradictions = list(_contradictions(entries, evidence))
    _decide_all(result, evidence, survey)
    journals = _find_journals(result, requests, evidence, on_rows)
    _find_swap(result, requests, evidence, survey, on_rows)
    for place, entry in enumerate(entries):
        found = evidence.get((place, None))
        if entry.is_unordered is True and found and not _is_parted(entry, found, journals):
            result.entries[place] = entry
            result.judged.pop(place, None)
    return result


def _is_parted(entry: Region, found: Evidence, journals: list[Extent]) -> bool:
    """Whether the journal was found in a region with blocks of several roles in no known order.

    Else its requests would have the role of the rest.
    """
    end = entry.start_sector + entry.sectors
    inside = [
        one.jbd2
        for one in journals
        if one.device == entry.device and entry.start_sector <= one.first_sector < end
    ]
    return bool(inside) and sum(inside) >= ALMOST_ALL * found.jbd2_writes


def _contradictions(entries: list[Region], evidence: dict[Key, Evidence]) -> Iterator[str]:
    """Yield what swap never has (metadata, barriers, journal threads), and journals read often."""
    by_name: dict[str, list[Evidence]] = {}
    for key, found in evidence.items():
        place = key[0]
        if isinstance(place, int) and entries[place].role == "journal" and _is_no_log(found):
            yield (
                f"{entries[place].name} is a journal and has {found.reads:,} reads and"
                f" {found.writes - found.sequential:,} writes out of sequence, of"
                f" {found.reads + found.writes:,}"
            )
    for key, found in evidence.items():
        place = key[0]
        if isinstance(place, int) and entries[place].role == "swap":
            by_name.setdefault(entries[place].name or str(key), []).append(found)
    for name, some in by_name.items():
        counts = {
            "metadata requests": sum(found.meta for found in some),
            "writes with FUA or preflush": sum(found.barriers for found in some),
            "writes of journal threads": sum(
                found.jbd2_writes + found.journaler_writes for found in some
            ),
        }
        told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        if told:
            total = sum(found.reads + found.writes for found in some)
            yield f"{name} is swap and has {told}, of {total:,}"


def _is_no_log(found: Evidence) -> bool:
    """Say whether a region cannot be a log: it is read again and again."""
    return found.reads >= ENOUGH_WRITES and found.reads > MAX_READS_OF_LOG * found.writes


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
    _decide_by_other_disks(result, open_regions)
    journals = {entry.device for entry in result.entries if entry.role == "journal"}
    for place, found in open_regions:
        entry = result.entries[place]
        if entry.role in (None, "unknown") and entry.device in journals:
            _judge(result, place, decide_beside_journal(found))


def _decide_by_other_disks(result: Guess, open_regions: list[tuple[int, Evidence]]) -> None:
    """Give the role that a device has on one disk to it on others: remap records name it there."""
    known = {
        entry.partition: (place, entry)
        for place, entry in enumerate(result.entries)
        if entry.role == "fs" and entry.partition is not None
    }
    for place, _ in open_regions:
        mine = result.entries[place]
        at, other = known.get(mine.partition or "", (place, mine))
        if mine.role in (None, "unknown") and at != place and other.device != mine.device:
            why = f"the device {mine.partition} is a file system's on {other.device}"
            sure = other.confidence if isinstance(other.confidence, str) else "high"
            _judge(result, place, Decision("fs", why, sure))


def _place(
    result: Guess, key: Key, found: Evidence, mapped: set[str], survey: Survey
) -> int | None:
    """Return the index of the region's entry, which is made if the layout has none."""
    place, partition = key
    if isinstance(place, int):
        return place
    if partition is not None:
        first, end = found.first_sector, found.end_sector
        entry = regions.found_entry(place, partition, first_sector=first, end_sector=end)
        result.entries.append(replace(entry, partition=partition))
    elif place not in mapped:
        end = survey.end_sectors[place]
        result.entries.append(regions.found_entry(place, place, first_sector=0, end_sector=end))
    else:
        return None
    return len(result.entries) - 1


def _judge(result: Guess, place: int, decision: Decision) -> None:
    """Give the entry its role, unless the decision is `unknown`."""
    if decision.role == "unknown":
        return
    entry, role, why, confidence = result.entries[place], *astuple(decision)
    if entry.is_unordered is True and confidence == "high":
        confidence = "medium"  # blocks of other roles lie among them, as in a cache
    evidence = f"inferred: {why}"
    result.entries[place] = regions.decided(entry, role, evidence=evidence, confidence=confidence)
    what = f"role of {entry.title}"
    found = [(what, role, f"{why} (confidence: {confidence})")]
    (result.judged[place],) = inferences_of(found, stage="classify")


def _find_swap(
    result: Guess,
    requests: Path,
    evidence: dict[Key, Evidence],
    survey: Survey,
    on_rows: OnRows,
) -> None:
    """Find swap areas where no layout has them, in one more reading if reclaim wrote there."""
    devices = list(survey.end_sectors)
    layout = LayoutMap(result.entries, devices)
    settled = [entry.role in ("swap", "journal") for entry in result.entries]
    reclaimed = sum(
        found.reclaimed
        for key, found in evidence.items()
        if not (isinstance(key[0], int) and settled[key[0]])
    )
    if reclaimed < paging.ENOUGH_PAGES:
        return
    is_settled = np.array([*settled, False])
    with paging.Paging() as found:
        for batch in batches(requests, EVIDENCE_COLUMNS, on_rows=on_rows):
            part, device = part_of(batch), layout.devices(batch)
            is_open = (part.operation > 0) & ~is_settled[layout.entries(device, part.sector)]
            is_write = part.operation == WRITE
            columns = (device, part.sector, part.end, is_write, part.is_reclaim)
            found.add(paging.Touches(*(column[is_open] for column in columns)))
        # Where nothing says who waits, all writes of programs look like those of reclaim.
        has_flags = any(one.synchronous or one.meta or one.barriers for one in evidence.values())
        for area in found.areas(allows_fresh=has_flags and not survey.has_passing):
            _add_swap(result, area, devices[area.device])


def _add_swap(result: Guess, area: paging.SwapArea, device: str) -> None:
    """Add a swap area, or give its role to the undecided region that it fills."""
    before = "none was read before it was written"
    if area.fresh_pages:
        before = f"{area.fresh_pages:,} were read before they were written, as of swap from before"
    why = (
        f"of {area.read_pages + area.fresh_pages:,} pages read {before}, and all"
        f" {area.written_pages:,} written pages were of reclaim: nobody waited for them"
    )
    is_sure = area.read_pages >= SURE_PAGES and not area.fresh_pages
    decision = Decision("swap", why, "high" if is_sure else "medium")
    first, end = area.first_sector, area.end_sector
    for place, entry in enumerate(result.entries):
        start, stop = entry.start_sector, entry.start_sector + entry.sectors
        is_open = entry.role in (None, "unknown") and entry.device == device
        if is_open and first < stop and start < end:
            # An area is found in steps of its own; the region's edges are those of requests.
            first, end = max(first, start), min(end, stop)
            if (first, end) == (start, stop):
                _judge(result, place, decision)
                return
    name = f"swap at {device}:{first}"
    result.entries.append(regions.found_entry(device, name, first_sector=first, end_sector=end))
    _judge(result, len(result.entries) - 1, decision)


def _find_journals(
    result: Guess, requests: Path, evidence: dict[Key, Evidence], on_rows: OnRows
) -> list[Extent]:
    """Add the journals inside file systems; return where they lie."""
    extents: list[Extent] = []
    for index, entry in enumerate(result.entries):
        found = evidence.get((index, None)) or evidence.get((entry.device, entry.partition))
        if entry.role == "fs" and found is not None:
            extents += candidates(entry.device, found)
    if extents:
        check(requests, extents, on_rows=on_rows)
    found_journals = [extent for extent in extents if extent.is_journal]
    for extent in found_journals:
        device, first, end = extent.device, extent.first_sector, extent.end_sector
        name = f"journal at {device}:{first}"
        result.entries.append(regions.found_entry(device, name, first_sector=first, end_sector=end))
        decision = Decision(
            "journal",
            f"commits lie here, inside a file system: {extent.log} requests of a log,"
            f" {extent.jbd2} of them of jbd2, {extent.sequential} sequential; {extent.others} of"
            " others",
            "high" if extent.others == 0 and extent.jbd2 else "medium",
        )
        _judge(result, len(result.entries) - 1, decision)
    return found_journals

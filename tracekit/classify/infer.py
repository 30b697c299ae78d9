"""Decides the role of a region from the evidence that its requests give."""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.classify.evidence import Evidence

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
    """Return the role of a region; `unknown` when its requests do not tell."""
    for rule in (_named_journal, _swap, _anonymous_journal, _file_system):
        decision = rule(evidence)
        if decision is not None:
            return decision
    return Decision("unknown", "its requests do not tell file system from raw use", "none")


def decide_beside_journal(evidence: Evidence) -> Decision:
    """Return the role of a region that told nothing, on a disk with an external journal.

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

"""Fills in the roles that a layout does not give, from the trace itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.classify.columns import OnRows, ignore_rows
from tracekit.classify.evidence import Evidence, Key, gather
from tracekit.classify.infer import Decision, decide, decide_beside_journal
from tracekit.classify.journal import Extent, candidates, check
from tracekit.classify.layout import decided, found_entry
from tracekit.classify.survey import Survey


@dataclass
class Guess:
    """A layout with roles, and what had to be guessed for it."""

    entries: list[dict[str, Any]]
    inferences: list[dict[str, Any]] = field(default_factory=list)


def complete_layout(
    requests: Path,
    entries: list[dict[str, Any]],
    *,
    survey: Survey,
    on_rows: OnRows = ignore_rows,
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


def _needs_evidence(entries: list[dict[str, Any]], survey: Survey) -> bool:
    mapped = {entry["device"] for entry in entries}
    known = {(entry["device"], entry["partition"]) for entry in entries}
    return (
        survey.has_jbd2
        or any(entry["role"] in (None, "unknown") for entry in entries)
        or any(device not in mapped for device in survey.end_sectors)
        or any(pair not in known for pair in survey.partitions)
    )


def _decide_all(result: Guess, evidence: dict[Key, Evidence], survey: Survey) -> None:
    """Decide on the regions without a role; those that told nothing once more, knowing the rest."""
    mapped = {entry["device"] for entry in result.entries}
    mapped |= {key[0] for key in evidence if key[1] is not None and isinstance(key[0], str)}
    open_regions = []
    for key in sorted(evidence, key=str):
        place = _place(result, key, evidence[key], mapped, survey)
        if place is not None and result.entries[place]["role"] in (None, "unknown"):
            open_regions.append((place, evidence[key]))
    for place, found in open_regions:
        _judge(result, place, decide(found))
    journals = {entry["device"] for entry in result.entries if entry["role"] == "journal"}
    for place, found in open_regions:
        entry = result.entries[place]
        if entry["role"] in (None, "unknown") and entry["device"] in journals:
            _judge(result, place, decide_beside_journal(found))


def _place(
    result: Guess, key: Key, found: Evidence, mapped: set[str], survey: Survey
) -> int | None:
    """Return the index of the region's entry, which is made if the layout has none."""
    place, partition = key
    if isinstance(place, int):
        return place
    if partition is not None:
        entry = found_entry(
            place, partition, first_sector=found.first_sector, end_sector=found.end_sector
        )
        result.entries.append({**entry, "partition": partition})
    elif place not in mapped:
        entry = found_entry(place, place, first_sector=0, end_sector=survey.end_sectors[place])
        result.entries.append(entry)
    else:
        return None
    return len(result.entries) - 1


def _judge(result: Guess, place: int, decision: Decision) -> None:
    """Give the entry its role, unless the decision is that its requests do not tell."""
    if decision.role == "unknown":
        return
    entry = result.entries[place]
    evidence = f"inferred: {decision.evidence}"
    result.entries[place] = decided(
        entry, decision.role, evidence=evidence, confidence=decision.confidence
    )
    result.inferences.append(
        _inference(entry, decision.role, decision.evidence, decision.confidence)
    )


def _inference(entry: dict[str, Any], role: str, evidence: str, confidence: str) -> dict[str, Any]:
    name = entry["name"] or entry["partition"]
    return {
        "what": f"role of {name}",
        "value": role,
        "evidence": f"{evidence} (confidence: {confidence})",
        "stage": "classify",
    }


def _find_journals(
    result: Guess, requests: Path, evidence: dict[Key, Evidence], on_rows: OnRows
) -> None:
    extents: list[Extent] = []
    for entry, found in _file_systems(result.entries, evidence):
        extents += candidates(entry["device"], found)
    if not extents:
        return
    check(requests, extents, on_rows=on_rows)
    for extent in extents:
        if extent.is_journal:
            _add_journal(result, extent)


def _file_systems(
    entries: list[dict[str, Any]], evidence: dict[Key, Evidence]
) -> list[tuple[dict[str, Any], Evidence]]:
    """Return the regions that hold a file system, with their evidence."""
    pairs = []
    for index, entry in enumerate(entries):
        found = evidence.get((index, None)) or evidence.get((entry["device"], entry["partition"]))
        if entry["role"] == "fs" and found is not None:
            pairs.append((entry, found))
    return pairs


def _add_journal(result: Guess, extent: Extent) -> None:
    name = f"journal at {extent.device}:{extent.first_sector}"
    result.entries.append(
        found_entry(
            extent.device,
            name,
            first_sector=extent.first_sector,
            end_sector=extent.end_sector,
        )
    )
    decision = Decision(
        "journal",
        f"jbd2's commits lie here, inside a file system: {extent.jbd2} requests of jbd2,"
        f" {extent.foreign} of others",
        "high" if extent.foreign == 0 else "medium",
    )
    _judge(result, len(result.entries) - 1, decision)

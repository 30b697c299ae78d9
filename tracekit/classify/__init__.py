"""Gives requests their role and blocks their temperature: the stage after `parse`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from msgspec import UnsetType, to_builtins
from numpy.typing import NDArray

from tracekit.classify import hotness, regions
from tracekit.classify.evidence import Survey, survey
from tracekit.classify.hotness import BlockCounts, TemperatureRule, Temperatures, Windows
from tracekit.classify.infer import Guess, complete_layout
from tracekit.classify.regions import OnRows, Override, RoleCounts, apply_overrides
from tracekit.errors import UsageError
from tracekit.layout import check_regions
from tracekit.metadata import Inference, Region, TraceInfo, TraceWarning, warnings_of
from tracekit.model.database_logs import load_rules, with_logs
from tracekit.model.file_extents import given_map
from tracekit.origin import of_roles, without_stamp
from tracekit.stack.file_map import read_map
from tracekit.stack.offline_map import is_mounted
from tracekit.store import TraceFolder, write_table
from tracekit.tables import FILE_MAP, ROLES

__all__ = ["ClassifyOptions", "Override", "TemperatureRule", "classify", "window_from_seconds"]


ROLE_RULE = (
    "the smallest layout region that holds the first sector decides; empty flushes belong to the"
    " file system of their device; the rest of a device with a layout is other"
)


@dataclass(frozen=True)
class ClassifyOptions:
    """How to classify; the defaults are those of the command."""

    layout_file: Path | None = None
    overrides: tuple[Override, ...] = ()
    rule: TemperatureRule = field(default_factory=TemperatureRule)
    window_ns: int | None = None  # of the working set; None chooses
    budget_bytes: int = hotness.DEFAULT_BUDGET_BYTES  # of the tables of blocks
    names_file: Path | None = None
    """A map of files, an image, or a table by hand, in place of the capture's map."""
    log_rules: Path | None = None
    """A user's rules for logs of databases."""


def window_from_seconds(seconds: float | None) -> int | None:
    """Return a window in ns; raise UsageError when it is too short or too long."""
    if seconds is None:
        return None
    if not 1e-9 <= seconds <= 1e9:
        raise UsageError(f"--window {seconds} is no length of time", hint="give seconds, like 0.5")
    return round(seconds * 1e9)


def classify(
    folder: TraceFolder, options: ClassifyOptions, *, on_rows: OnRows = regions.ignore_rows
) -> dict[str, Any]:
    """Write roles, `blocks`, `working_set`, `volumes` and `intervals` into the folder.

    Returns what went into trace.json: the keys `layout`, `classification`, `hotness`, `inferences`
    and `warnings`. Classifying again gives the same, whatever an earlier run had guessed.
    """
    requests = folder.require("requests", made_by="parse")
    found = survey(requests, on_rows=on_rows)
    devices = list(found.end_sectors)
    windows = hotness.choose_windows(found.latest_ns, options.window_ns)
    guess = _layout(folder, options, found, on_rows)
    if not isinstance(folder.info.classification, UnsetType):
        # What is killed between the tables and trace.json is of no earlier result.
        folder.save_info(classification=without_stamp(folder.info.classification))
    roles = regions.assign_roles(requests, guess.entries, devices=devices, on_rows=on_rows)
    # What Arrow holds for reuse is given back before a stage with memory of its own.
    pa.default_memory_pool().release_unused()
    counts = hotness.count_blocks(
        requests, devices, windows=windows, budget_bytes=options.budget_bytes, on_rows=on_rows
    )
    with counts.spill:
        blocks = folder.table("blocks")
        temperatures = hotness.write_blocks(blocks, counts, devices=devices, rule=options.rule)
    _write_sums(folder, counts, windows=windows, devices=devices)
    given = {"layout_from": str(options.layout_file)} if options.layout_file else {}
    warnings = classify_warnings(guess, roles, counts=counts, devices=devices, given=given)
    _name_logs(folder, options)
    changes = {
        "layout": guess.entries,
        **_own_layout(folder, options),
        "classification": {**given, **_counts(roles), **of_roles(folder.path)},
        "hotness": _hotness(options, counts, windows, temperatures),
        "inferences": replace_notes(folder.info.inferences, [*guess.judged.values()]),
        "warnings": replace_notes(folder.info.warnings, [*warnings, *_on_options(folder, options)]),
    }
    folder.save_info(**changes)
    kept: dict[str, Any] = to_builtins(changes)
    return kept


def _write_sums(
    folder: TraceFolder, counts: BlockCounts, *, windows: Windows, devices: list[str]
) -> None:
    hotness.write_working_set(folder.table("working_set"), counts, windows=windows)
    hotness.write_volumes(folder.table("volumes"), counts, devices=devices)
    hotness.write_intervals(folder.table("intervals"), counts, devices=devices)


def _name_logs(folder: TraceFolder, options: ClassifyOptions) -> None:
    """Say in the map of files which are logs of databases, if there is a map."""
    rules = load_rules(options.log_rules)
    if options.names_file is not None:
        table = given_map(options.names_file, folder.info)
    elif folder.has(FILE_MAP) and not is_anonymous(folder.info):
        table = read_map(folder.require(FILE_MAP, made_by="parse"), folder.info.devices)
    else:
        return
    write_table(folder.table(FILE_MAP), with_logs(table, rules))


def is_anonymous(info: TraceInfo) -> bool:
    """Whether the trace's paths are hashes, in which no rule finds a log."""
    return any(one.what == "anonymized" for one in info.inferences)


def _counts(roles: RoleCounts) -> dict[str, Any]:
    return {
        "rule": ROLE_RULE,
        "requests": {role: roles.requests[role] for role in ROLES},
        "evidence": roles.evidence,
        "crossing_requests": roles.crossing,
    }


def _own_layout(folder: TraceFolder, options: ClassifyOptions) -> dict[str, list[Region] | None]:
    """Return what keeps the trace's own layout while another is used, and lets go of it after."""
    if options.layout_file is not None:
        return {"own_layout": regions.original_layout(folder.info)}
    return {} if isinstance(folder.info.own_layout, UnsetType) else {"own_layout": None}


def _layout(folder: TraceFolder, options: ClassifyOptions, found: Survey, on_rows: OnRows) -> Guess:
    """Return the layout with all roles: what was given, then the options, then guesses."""
    doubts: list[str] = []
    if options.layout_file is None:
        entries = regions.original_layout(folder.info)
        check_regions(entries, f"{folder.path}/trace.json, layout")
    else:
        layout = regions.read_layout_file(options.layout_file, folder.info.devices)
        entries, doubts = layout.partitions, layout.doubts
    # Partitions that only remap records name are entries once they have been found.
    remapped = {name for _, name in found.partitions} - {entry.partition for entry in entries}
    later = [override for override in options.overrides if override.name in remapped]
    sooner = [override for override in options.overrides if override not in later]
    entries = apply_overrides(entries, sooner, end_sectors=found.end_sectors)
    requests = folder.table("requests")
    is_given = options.layout_file is not None
    guess = complete_layout(requests, entries, survey=found, is_given=is_given, on_rows=on_rows)
    guess.entries = apply_overrides(guess.entries, later, end_sectors=found.end_sectors)
    guess.doubts = doubts
    for place in [*guess.judged]:
        if any(override.fits(guess.entries[place]) for override in later):
            del guess.judged[place]
    return guess


def _hotness(
    options: ClassifyOptions, counts: BlockCounts, windows: Windows, found: Temperatures
) -> dict[str, Any]:
    def by_name(cells: NDArray[np.int64]) -> dict[str, int]:
        return dict(zip(hotness.TEMPERATURES, cells.tolist(), strict=True))

    by_role = {
        role: {"sectors": sectors, "blocks": by_name(blocks), "touches": by_name(touches)}
        for role, sectors, blocks, touches in zip(
            ROLES, found.sectors.tolist(), found.blocks, found.touches, strict=True
        )
        if blocks.any()
    }
    return {
        "rule": hotness.RULE,
        "hot_traffic_ratio": options.rule.hot_traffic_ratio,
        "hot_factor": options.rule.hot_factor,
        "hot_min_touches": found.hot_min_touches,
        "warm_min_touches": 2,
        "blocks": counts.histogram.blocks,
        "touches": counts.histogram.touches,
        "requests": counts.requests,
        "impossible_requests": counts.impossible,
        "mixed_role_blocks": counts.mixed_blocks,
        "window_ns": windows.window_ns,
        "budget_bytes": options.budget_bytes,
        "table_bytes": counts.memory_bytes,
        "scans": counts.scans,
        "roles": by_role,
    }


def classify_warnings(
    guess: Guess,
    roles: RoleCounts,
    *,
    counts: BlockCounts,
    devices: list[str],
    given: Mapping[str, str],
) -> list[TraceWarning]:
    """Return the warnings of this stage, those that apply."""
    guessed = ", ".join(guess.entries[place].title for place in guess.judged)
    unknown, crossing, impossible = roles.requests["unknown"], roles.crossing, counts.impossible
    absent = ", ".join(sorted({entry.device for entry in guess.entries} - set(devices)))
    devices_absent = f"the layout names devices that the trace has no requests of: {absent}"
    edges = "requests that end in another region than they begin in, where their first sector"
    places = "reads and writes with a place or length that no disk has, which count for no block"
    file = given.get("layout_from")
    against, open_ = "; ".join(guess.contradictions), "; ".join(guess.doubts)
    found = [
        ("given_layout", file, f"roles are by the layout in {file}, not by that of the capture"),
        ("open_layout", open_, f"the layout leaves open: {open_}"),
        ("contradicted_roles", against, f"the requests are against the layout: {against}"),
        ("guessed_roles", guessed, f"guessed from the requests: roles of {guessed}"),
        ("unknown_roles", unknown, f"requests without a role: {unknown:,}"),
        ("absent_devices", absent, devices_absent),
        ("crossing_requests", crossing, f"{edges} decides: {crossing:,}"),
        ("impossible_requests", impossible, f"{places}: {impossible:,}"),
    ]
    return warnings_of(found, stage=regions.FOUND_BY)


def _on_options(folder: TraceFolder, options: ClassifyOptions) -> list[TraceWarning]:
    """Say what the options rest on, and which roles an earlier run was given that this was not."""
    file = options.names_file
    is_old = file is not None and is_mounted(file)
    mounted = f"{file} is mounted: names and places that are not yet written are missing or old"
    now = {override.name for override in options.overrides}
    texts = [
        entry.evidence.removeprefix(regions.BY_OPTION)
        for entry in folder.info.layout
        if entry.evidence and entry.evidence.startswith(regions.BY_OPTION)
    ]
    gone = ", ".join(dict.fromkeys(text for text in texts if text.partition("=")[0] not in now))
    earlier = f"roles given before are given no more, so they do not count: {gone}"
    found = [("mounted_names", is_old, mounted), ("earlier_roles", gone, earlier)]
    return warnings_of(found, stage=regions.FOUND_BY)


Note = TypeVar("Note", Inference, TraceWarning)


def replace_notes(present: list[Note], new: list[Note]) -> list[Note]:
    """Return what other stages noted, then this stage's notes instead of its earlier ones."""
    return [note for note in present if note.stage != regions.FOUND_BY] + new

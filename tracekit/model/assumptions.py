"""What a reader must know to judge a recommendation: the sentences below it."""

from __future__ import annotations

from collections.abc import Container, Iterator

from tracekit.arrow import numbers, read_columns
from tracekit.devices import DevicePair
from tracekit.metadata import VALUE_WARNINGS, TraceInfo
from tracekit.model.answer import LASTING_RATIO, PLACED_BYTES, WORTH_RATIO, JournalUse
from tracekit.model.placement import BASE_ALONE, ChargedTrace, Curves, to_ns
from tracekit.store import TraceFolder
from tracekit.tables import ROLE_NAMES, ROLES, role_codes
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES, format_duration, format_size

LEVELS = {
    "issued": "requests are charged as issued: merged ones together, in issue order",
    "queued": "requests are charged as queued: each on its own, in queue order",
}
COVERED = {
    "hottest": "a role that does not fit is covered hottest block first (most accesses first)",
    "start": "a role that does not fit is covered from its start (lowest touched block first)",
}
ORDER_COUNTS = {
    "undated": "requests without a time, or before the one before, which come with that one",
    "beyond": "requests beyond the disk's capacity, whose seeks count as full strokes",
}
LEFT_OUT = {
    "uncharged": "discards and others without data transfer cost nothing",
    "not_issued": "reads and writes that were never issued are left out",
    "orphan_merges": "merged requests without a known merge target are charged alone",
    "impossible": "reads and writes of a place or length that no disk has are left out",
    "missing_blocks": "touches of blocks that classify did not list stay on base",
}
BACKLOG_RATIO = 0.1
SURE = ("high", "medium", "low")
UNSURE = SURE[1:]
"""Confidences with which the gain is given without what the role is placed for, too."""
JOURNAL = ROLES.index("journal")


NAMED_GUESSES = 3
DOUBTED = (*VALUE_WARNINGS, "given_layout", "open_layout", "contradicted_roles")
"""Warnings that a recommendation rests on."""


def role_doubts(info: TraceInfo) -> Iterator[str]:
    """Yield which roles are guesses, how sure these are, and what speaks against a layout."""
    guessed = [
        f"{one.name or one.device} ({ROLE_NAMES.get(str(one.role), one.role)}, {one.confidence})"
        for one in info.layout
        if one.role in PLACED_BYTES and one.confidence in SURE
    ]
    if guessed:
        more = f" and {len(guessed) - NAMED_GUESSES:,} more" if len(guessed) > NAMED_GUESSES else ""
        yield (
            f"Roles are guessed from the requests, with a confidence:"
            f" {', '.join(guessed[:NAMED_GUESSES])}{more}; a layout, or classify --role, says more."
        )
    yield from warned(info, DOUBTED)


def unsure_roles(info: TraceInfo) -> list[str]:
    """Return the roles of which some place is a guess of no high confidence."""
    found = {str(one.role) for one in info.layout if one.confidence in UNSURE}
    return [role for role in PLACED_BYTES if role in found]


def warned(info: TraceInfo, codes: Container[str]) -> Iterator[str]:
    """Yield the warnings of these codes as sentences."""
    for one in info.warnings:
        if one.code in codes:
            yield f"{one.message[:1].upper()}{one.message[1:]}."


def assumptions(trace: ChargedTrace, curves: Curves, *, coverage: str) -> list[str]:
    """Return how requests were charged, and what of them was not."""
    base, nvm = trace.devices
    joined = [
        device.name
        for device in trace.devices
        if device.sequential_setup_us is not None and not device.has_head
    ]
    rule = (
        f"; what begins where the last one ended, whichever role's, costs {' and '.join(joined)}"
        " less; blocks of a role lie on NVM in the order of their addresses"
    )
    emptied = [one.name for one in trace.devices if one.empty_flush_us is not None]
    empty_rule = (
        f"; with nothing written there since the last flush they cost {' and '.join(emptied)} less"
    )
    return [
        f"the base device is {base.name} ({base.about}), the NVM {nvm.name} ({nvm.about})",
        *_times(curves, trace.devices),
        f"{LEVELS['issued' if trace.is_issued else 'queued']}; of a request that is on both devices"
        " the base device's latency counts for each run of sectors there, NVM's once"
        f"{rule if joined else ''}",
        f"{COVERED[coverage]}; capacity counts whole 4 KiB blocks that the trace touched",
        "flushes and preflushes are charged as queued: the base device's while the role has blocks"
        f" there, NVM's while it has some on it{empty_rule if emptied else ''}",
        f"a split between roles is recommended from where it saves {WORTH_RATIO:.0%} of the base"
        " device's time over the best single role; smaller changes of the answer are not listed,"
        f" nor are answers that hold for less than {LASTING_RATIO - 1:.0%} more capacity",
        "most accessed first, the study's optimum, places those blocks first whatever their role;"
        " it knows the future and is shown for comparison",
        *_left_out(curves),
    ]


def _times(curves: Curves, devices: DevicePair) -> list[str]:
    """Return the sentences on what the time is that placements are compared by."""
    base = devices.base
    notes = [
        "elapsed time is the sum of the service times of all requests, one after the other: no"
        " queueing, no overlap, no think time"
    ]
    if curves.is_open:
        notes = [
            "requests come at their traced times whatever the devices do, and each device serves"
            f" them first come, first served, base {devices.servers[0]} and NVM"
            f" {devices.servers[1]} at once; placements are compared by the mean time from arrival"
            " to completion, a flush or preflush counting as a request"
        ]
    if base.has_head:
        notes.append(
            f"{base.name} seeks by distance (track {base.seek_track_us:g} us, average"
            f" {base.seek_average_us:g} us, full stroke {base.seek_full_us:g} us over"
            f" {base.capacity_gb:g} GB of addresses; curve of Lee and Katz, 1993) from where the"
            " last request that it served ended, whichever role's, and then waits half a turn; what"
            " continues there waits for nothing, what lies within one track does not seek"
        )
    if curves.sampled_requests is not None:
        notes.append(
            f"the placements of the other capacities were simulated on"
            f" {curves.sampled_requests:,} requests, in runs spread evenly over the trace, and what"
            " they change is put right by what the answer changes on all requests"
        )
    elif curves.simulated:
        notes.append(
            "every capacity shown is exact for its placement; roles share the devices, so a split"
            " is chosen by the sum of its roles' savings, and its time is then worked out as it is"
        )
    counts = curves.order_counts
    found = [f"{text}: {counts[key]:,}" for key, text in ORDER_COUNTS.items() if counts.get(key)]
    return [*notes, *_backlog(curves, base.name), *found]


def _backlog(curves: Curves, base: str) -> list[str]:
    """Warn where the base device cannot keep up: the mean then depends on the trace's length."""
    if not curves.is_open:
        return []
    makespan_ps, span_ps = curves.simulated[BASE_ALONE].makespan_ps, curves.order_counts["span_ps"]
    late_ps = 0 if makespan_ps is None else int(makespan_ps[0]) - span_ps
    if late_ps <= BACKLOG_RATIO * span_ps:
        return []
    return [
        f"{base} alone cannot keep up: the last request comes after"
        f" {format_duration(to_ns(span_ps))} and is done {format_duration(to_ns(late_ps))}"
        " later; mean response times then tell of a backlog that grows with the trace"
    ]


def _left_out(curves: Curves) -> list[str]:
    totals = curves.totals
    counted = {text: getattr(totals, name) for name, text in LEFT_OUT.items()}
    unplaced = sum(totals.requests[len(PLACED_BYTES) :])
    counted["requests of no placeable role stay on base, except most accessed first"] = unplaced
    notes = [f"{count:,} {text}" for text, count in counted.items() if count]
    absent = [ROLE_NAMES[role] for role in PLACED_BYTES if role not in curves.placed_roles]
    if absent:
        notes.append(f"no read or write touches: {', '.join(absent)}; it is not placed")
    return notes


def journal_use(folder: TraceFolder, curves: Curves) -> JournalUse:
    """Return how often the journal was written; a block that several requests wrote counts each."""
    touched = int(curves.role_blocks[JOURNAL]) * BLOCK_BYTES
    written = 0
    if touched:
        blocks = folder.require("blocks", made_by="classify")
        for column in read_columns(blocks, ["role", "writes"]):
            writes = numbers(column["writes"])[role_codes(column["role"]) == JOURNAL]
            written += int(writes.sum()) * BLOCK_BYTES
    sectors = sum(part.sectors for part in folder.info.layout if part.role == "journal")
    region = sectors * SECTOR_BYTES
    return JournalUse(
        touched_bytes=touched,
        written_bytes=written,
        region_bytes=region or None,
        touched_cycles=written / touched if touched else 0.0,
        region_cycles=written / region if region else None,
    )


def journal_notes(journal: JournalUse) -> list[str]:
    """Return the sentences on the journal's cycling; empty without a journal."""
    if not journal.touched_bytes:
        return []
    notes = [
        f"the journal is cyclic: {format_size(journal.written_bytes)} were written into the"
        f" {format_size(journal.touched_bytes)} of it that the trace touched,"
        f" {journal.touched_cycles:.1f} times"
        " round; it counts with these, at its traced places: a smaller journal, which would go"
        " round more often, is not modelled"
    ]
    if journal.region_bytes and (journal.region_cycles or 0) < 1:
        notes.append(
            f"a longer run goes on to all {format_size(journal.region_bytes)} of the journal's"
            f" partition, of which this trace wrote {journal.region_cycles:.2f} rounds"
        )
    return notes

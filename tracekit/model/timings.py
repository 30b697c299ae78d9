"""What times are made of: queueing, the disk head, the cyclic journal, parts of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracekit.arrow import Integers, numbers, read_columns
from tracekit.devices import DevicePair, Profile
from tracekit.errors import UsageError
from tracekit.metadata import Record
from tracekit.model.placement import Curves, Timings, to_ns
from tracekit.store import TraceFolder
from tracekit.tables import ROLES, role_codes
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES, format_duration, format_size

SERIAL, OPEN = "serial", "open"
BACKLOG_RATIO = 0.1
JOURNAL = ROLES.index("journal")
PARTS = ("read_setup", "write_setup", "sequential_setup", "read_transfer", "write_transfer")
FLUSHES = ("flush", "fua")
HEAD = ("seek", "rotation")
LEAST_US = 1e-6
MOST_CHANGES = 64


def timing_notes(curves: Curves, devices: DevicePair) -> list[str]:
    """Return the sentences on what the time is that placements are compared by."""
    base = devices.base
    notes = [_what_counts(curves, devices)]
    if base.has_head:
        notes.append(
            f"{base.name} seeks by distance (track {base.seek_track_us:g} us, average"
            f" {base.seek_average_us:g} us, full stroke {base.seek_full_us:g} us over"
            f" {base.capacity_gb:g} GB of addresses; curve of Lee and Katz, 1993) from where the"
            " last request that it served ended, whichever role's, and then waits half a turn; what"
            " continues there waits for nothing, what lies within one track does not seek"
        )
    if curves.simulated:
        notes.append(
            "every capacity shown is exact for its placement; roles share the devices, so a split"
            " is chosen by the sum of its roles' savings, and its time is then worked out as it is"
        )
    return [*notes, *_backlog(curves, base), *_counts(curves)]


def _what_counts(curves: Curves, devices: DevicePair) -> str:
    if not curves.is_open:
        return (
            "elapsed time is the sum of the service times of all requests, one after the other: no"
            " queueing, no overlap, no think time"
        )
    base, nvm = devices.servers
    return (
        "requests come at their traced times whatever the devices do, and each device serves them"
        f" first come, first served, base {base} and NVM {nvm} at once; placements are compared by"
        " the mean time from arrival to completion, a flush or preflush counting as a request"
    )


def _backlog(curves: Curves, base: Profile) -> list[str]:
    """Warn where the base device cannot keep up: the mean then depends on the trace's length."""
    timed = curves.simulated.get(("none", ()))
    span_ps = curves.order_counts.get("span_ps", 0)
    if timed is None or timed.makespan_ps is None:
        return []
    late_ps = int(timed.makespan_ps[0]) - span_ps
    if late_ps <= BACKLOG_RATIO * span_ps:
        return []
    return [
        f"{base.name} alone cannot keep up: the last request comes after"
        f" {format_duration(to_ns(span_ps))} and is done {format_duration(to_ns(late_ps))}"
        " later; mean response times then tell of a backlog that grows with the trace"
    ]


def _counts(curves: Curves) -> list[str]:
    texts = {
        "undated": "requests without a time, or before the one before, come with that one",
        "beyond": "requests lie beyond the disk's capacity: their seeks count as full strokes",
    }
    counts = curves.order_counts
    return [f"{counts[key]:,} {text}" for key, text in texts.items() if counts.get(key)]


class JournalUse(Record):
    """How often the trace went round the journal; `region_*` are None where that is not known."""

    touched_bytes: int
    written_bytes: int
    region_bytes: int | None
    touched_cycles: float
    region_cycles: float | None


def journal_use(folder: TraceFolder, curves: Curves) -> JournalUse:
    """Return how often the journal was written; a block that several requests wrote counts each."""
    touched = int(curves.role_blocks[JOURNAL]) * BLOCK_BYTES
    written = _journal_writes(folder) * BLOCK_BYTES if touched else 0
    region = sum(part.sectors for part in folder.info.layout if part.role == "journal")
    region *= SECTOR_BYTES
    return JournalUse(
        touched_bytes=touched,
        written_bytes=written,
        region_bytes=region or None,
        touched_cycles=written / touched if touched else 0.0,
        region_cycles=written / region if region else None,
    )


def _journal_writes(folder: TraceFolder) -> int:
    blocks = folder.require("blocks", made_by="classify")
    return sum(
        int(numbers(column["writes"])[role_codes(column["role"]) == JOURNAL].sum())
        for column in read_columns(blocks, ["role", "writes"])
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


class TimesAt(Record):
    """Times of a placement at one capacity; None where queueing was not modelled."""

    elapsed_ns: int
    response_avg_ns: int | None
    makespan_ns: int | None


def timings(curves: Curves, coverage: str, *, blocks: Mapping[str, Integers]) -> Timings | None:
    """Return the times of a series of placements at each point, None where nothing was simulated.

    `blocks` are those on NVM by role and point; several roles as in `Curves.splits`.
    """
    if not curves.simulated:
        return None
    roles = tuple(role for role in curves.placed_roles if role in blocks)
    if len(roles) == 1:
        points = np.searchsorted(curves.points, blocks[roles[0]])
        return curves.simulated[coverage, roles].at(points)
    return curves.simulated[(coverage, roles) if roles else ("none", ())]


def times_at(timed: Timings, index: int) -> TimesAt:
    """Return the times at one point."""
    service, response, makespan = (
        None if part is None else int(to_ns(part[index]))
        for part in (timed.service_ps, timed.response_ps, timed.makespan_ps)
    )
    return TimesAt(elapsed_ns=service or 0, response_avg_ns=response, makespan_ns=makespan)


LEAST_FACTOR, LARGEST_FACTOR = 1e-3, 1e3


@dataclass(frozen=True)
class Variant:
    """A part of a device (`base` or `nvm`) that takes `factor` times as long."""

    device: str
    parameter: str
    factor: float

    def of(self, devices: DevicePair) -> DevicePair:
        """Return both devices with that part changed."""
        profile: Profile = getattr(devices, self.device)
        return devices._replace(
            **{self.device: change(profile, self.parameter, factor=self.factor)}
        )


def read_changes(
    texts: Sequence[str], is_known: Callable[[str, str], bool], *, known: str, hint: str
) -> list[tuple[str, str, float]]:
    """Return (what, key, factor) of each [WHAT.]KEY=FACTOR,..., each once, in their order.

    UsageError for what `is_known` does not accept, and for factors not from 0.001 to 1000.
    """
    found = []
    for text in texts:
        name, equals, factors = text.partition("=")
        what, _, key = name.strip().rpartition(".")
        if not equals or name.strip().startswith(".") or not is_known(what, key):
            raise UsageError(f"--vary: there is no parameter '{name}' in '{text}'", hint=known)
        for factor in factors.split(","):
            try:
                value = float(factor)
            except ValueError:
                reason = f"'{factor}' in '{text}' is not a number"
                raise UsageError(f"--vary: {reason}", hint=hint) from None
            if not LEAST_FACTOR <= value <= LARGEST_FACTOR:
                reason = f"{factor} in '{text}' is not from 0.001 to 1000"
                raise UsageError(f"--vary: {reason}", hint=hint)
            found.append((what, key, value))
    return found


def check_count(changes: Sequence[object]) -> None:
    """Raise UsageError for more than 64 changes."""
    if len(changes) > MOST_CHANGES:
        raise UsageError(f"--vary: {len(changes)} changes are more than {MOST_CHANGES}")


def change(profile: Profile, parameter: str, *, factor: float) -> Profile:
    """Return a profile of which one part of a request takes `factor` times as long.

    The parts are those of the model: setup (what a request costs before its transfer), transfer,
    flush, FUA; of a disk with a head, seek and rotation.
    """
    operation, _, part = parameter.partition("_")
    if parameter == "sequential_setup":
        return replace(profile, sequential_setup_us=(profile.sequential_setup_us or 0) * factor)
    if parameter == "seek":
        names = ("seek_track_us", "seek_average_us", "seek_full_us")
        return replace(profile, **{name: getattr(profile, name) * factor for name in names})
    if parameter == "rotation":
        return replace(profile, rpm=(profile.rpm or 0) / factor)
    if parameter in FLUSHES:
        return replace(profile, **{f"{parameter}_us": getattr(profile, f"{parameter}_us") * factor})
    setup_us = getattr(profile, f"{operation}_setup_us")
    latency_us = getattr(profile, f"{operation}_latency_us")
    if part == "setup":
        return replace(profile, **{f"{operation}_latency_us": latency_us + (factor - 1) * setup_us})
    rate = getattr(profile, f"{operation}_mib_s") / factor
    changed_us = setup_us + factor * (latency_us - setup_us)
    return replace(profile, **{f"{operation}_mib_s": rate, f"{operation}_latency_us": changed_us})


def variants(devices: DevicePair, factors: Sequence[float]) -> Iterator[Variant]:
    """Yield every part that a device has, at every factor; except parts that take no time."""
    for device, profile in zip(DevicePair._fields, devices, strict=True):
        for parameter in (*PARTS, *FLUSHES, *HEAD):
            if _takes_us(profile, parameter) > LEAST_US:
                yield from (Variant(device, parameter, factor) for factor in factors)


def _takes_us(profile: Profile, parameter: str) -> float:
    operation, _, part = parameter.partition("_")
    if parameter in HEAD:
        return 1.0 if profile.has_head else 0.0
    if parameter == "sequential_setup":
        return profile.sequential_setup_us or 0.0
    if parameter in FLUSHES:
        return float(getattr(profile, f"{parameter}_us"))
    # The head of a disk takes the place of its setup.
    if part == "setup":
        return 0.0 if profile.has_head else float(getattr(profile, f"{operation}_setup_us"))
    return 1.0

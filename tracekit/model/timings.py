"""How times come about: queueing, the disk head, the cyclic journal, slower parts of a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.arrow import numbers, read_columns
from tracekit.devices import Profile
from tracekit.errors import UsageError
from tracekit.model.placement import Curves, Timings
from tracekit.store import TraceFolder
from tracekit.tables import ROLES, role_codes
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES, format_duration, format_size

SERIAL, OPEN = "serial", "open"
BACKLOG_RATIO = 0.1
JOURNAL = ROLES.index("journal")


def timing_notes(curves: Curves, profiles: tuple[Profile, Profile]) -> list[str]:
    """Return the sentences on what the time is that placements are compared by."""
    base = profiles[0]
    notes = [_what_counts(curves, profiles)]
    if base.has_head:
        notes.append(
            f"{base.name} seeks by distance (track {base.seek_track_us:g} us, average"
            f" {base.seek_average_us:g} us, full stroke {base.seek_full_us:g} us over"
            f" {base.capacity_gb:g} GB of addresses; curve of Lee and Katz, 1993) from where the"
            " last request that it served ended, whichever role's, and then waits half a turn; what"
            " continues there waits for nothing, what lies within one track does not seek"
        )
    if curves.walked:
        notes.append(
            "every capacity shown is exact for its placement; roles share the devices, so a split"
            " is chosen by the sum of its roles' savings, and its time is then worked out as it is"
        )
    return [*notes, *_backlog(curves, base), *_counts(curves)]


def _what_counts(curves: Curves, profiles: tuple[Profile, Profile]) -> str:
    if not curves.is_open:
        return (
            "elapsed time is the sum of the service times of all requests, one after the other: no"
            " queueing, no overlap, no think time"
        )
    base, nvm = (int(profile.parallelism or 1) for profile in profiles)
    return (
        "requests come at their traced times whatever the devices do, and each device serves them"
        f" first come, first served, base {base} and NVM {nvm} at once; placements are compared by"
        " the mean time from arrival to completion, a flush or preflush counting as a request"
    )


def _backlog(curves: Curves, base: Profile) -> list[str]:
    """Say that the base device cannot keep up where it cannot: then a mean says little."""
    timed = curves.walked.get(("none", ()))
    span_ps = curves.order_counts.get("span_ps", 0)
    if timed is None or timed.makespan_ps is None:
        return []
    late_ps = int(timed.makespan_ps[0]) - span_ps
    if late_ps <= BACKLOG_RATIO * span_ps:
        return []
    return [
        f"{base.name} alone cannot keep up: the last request comes after"
        f" {format_duration(round_ns(span_ps))} and is done {format_duration(round_ns(late_ps))}"
        " later; mean response times then tell of a backlog that grows with the trace"
    ]


def _counts(curves: Curves) -> list[str]:
    texts = {
        "undated": "requests without a time, or before the one before, come with that one",
        "beyond": "requests lie beyond the disk's capacity: their seeks count as full strokes",
    }
    counts = curves.order_counts
    return [f"{counts[key]:,} {text}" for key, text in texts.items() if counts.get(key)]


def journal_facts(folder: TraceFolder, curves: Curves) -> dict[str, Any]:
    """Return how often the trace went round the journal; `region_bytes` None where not known.

    A block that several requests wrote counts once for each, as a whole.
    """
    touched = int(curves.role_blocks[JOURNAL]) * BLOCK_BYTES
    written = _journal_writes(folder) * BLOCK_BYTES if touched else 0
    parts = [part for part in folder.info.layout if part.role == "journal"]
    region = sum(part.sectors for part in parts) * SECTOR_BYTES
    return {
        "touched_bytes": touched,
        "written_bytes": written,
        "region_bytes": region or None,
        "touched_cycles": written / touched if touched else 0.0,
        "region_cycles": written / region if region else None,
    }


def journal_notes(facts: Mapping[str, Any]) -> list[str]:
    """Return the sentences on the journal's cycling; none where there is no journal."""
    touched, region = facts["touched_bytes"], facts["region_bytes"]
    if not touched:
        return []
    notes = [
        f"the journal is cyclic: {format_size(facts['written_bytes'])} were written into the"
        f" {format_size(touched)} of it that the trace touched, {facts['touched_cycles']:.1f} times"
        " round; it counts with these, at its traced places: a smaller journal, which would go"
        " round more often, is not modelled"
    ]
    if region and facts["region_cycles"] < 1:
        notes.append(
            f"a longer run goes on to all {format_size(region)} of the journal's partition, of"
            f" which this trace wrote {facts['region_cycles']:.2f} rounds"
        )
    return notes


def timings(
    curves: Curves, coverage: str, *, blocks: Mapping[str, NDArray[np.int64]]
) -> Timings | None:
    """Return the times of a series of placements at each point, None where none was walked.

    `blocks` are those on NVM by role and point; several roles as in `Curves.splits`.
    """
    if not curves.walked:
        return None
    held = tuple(role for role in curves.placed_roles if role in blocks)
    if len(held) == 1:
        return curves.walked[coverage, held].at(np.searchsorted(curves.points, blocks[held[0]]))
    return curves.walked[coverage, held] if held else curves.walked["none", ()]


def times_of(timed: Timings, index: int) -> dict[str, int | None]:
    """Return the times at one point in ns; None for what was not modelled."""
    parts = {
        "elapsed_ns": timed.service_ps,
        "response_avg_ns": timed.response_ps,
        "makespan_ns": timed.makespan_ps,
    }
    return {name: None if ps is None else round_ns(ps[index]) for name, ps in parts.items()}


def round_ns(time_ps: Any) -> int:
    """Round picoseconds to nanoseconds."""
    return (int(time_ps) + 500) // 1000


def _journal_writes(folder: TraceFolder) -> int:
    blocks = folder.require("blocks", made_by="classify")
    return sum(
        int(numbers(column["writes"])[role_codes(column["role"]) == JOURNAL].sum())
        for column in read_columns(blocks, ["role", "writes"])
    )


PARTS = ("read_setup", "write_setup", "sequential_setup", "read_transfer", "write_transfer")
FLUSHES = ("flush", "fua")
HEAD = ("seek", "rotation")
LEAST_US = 1e-6
LEAST_FACTOR, LARGEST_FACTOR = 1e-3, 1e3


@dataclass(frozen=True)
class Variant:
    """A part of the base (0) or the NVM (1) that takes `factor` times as long."""

    which: int
    parameter: str
    factor: float

    @property
    def device(self) -> str:
        """The device in a word."""
        return ("base", "nvm")[self.which]

    def of(self, profiles: tuple[Profile, Profile]) -> tuple[Profile, Profile]:
        """Return base and NVM so changed."""
        changed = [*profiles]
        changed[self.which] = change(profiles[self.which], self.parameter, factor=self.factor)
        return changed[0], changed[1]


def read_factor(text: str, factor: str, *, hint: str) -> float:
    """Return one of the factors in the text of a --vary; raise UsageError when it is none."""
    try:
        value = float(factor)
    except ValueError:
        raise UsageError(f"--vary: '{factor}' in '{text}' is not a number", hint=hint) from None
    if not LEAST_FACTOR <= value <= LARGEST_FACTOR:
        raise UsageError(f"--vary: {factor} in '{text}' is not from 0.001 to 1000", hint=hint)
    return value


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


def variants(profiles: tuple[Profile, Profile], factors: Sequence[float]) -> Iterator[Variant]:
    """Yield every part that a device has, at every factor; what takes no time has none."""
    for which, profile in enumerate(profiles):
        for parameter in (*PARTS, *FLUSHES, *HEAD):
            if _takes_us(profile, parameter) > LEAST_US:
                yield from (Variant(which, parameter, factor) for factor in factors)


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

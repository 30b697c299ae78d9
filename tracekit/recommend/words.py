"""The answer in words: three headline lines, and what was assumed to get there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracekit.profiles import Profile
from tracekit.recommend.answer import KNEE_RATIO, LASTING_RATIO, WORTH_RATIO, Answer, Answers
from tracekit.recommend.models import timing_notes
from tracekit.schema import BLOCK_BYTES, ROLES
from tracekit.simulate.placement import Curves
from tracekit.simulate.sensitivity_words import parameter_name, window_name
from tracekit.sizes import format_duration, format_size

NAMES = {"fs": "file system", "journal": "journal", "swap": "swap"}
LEVELS = {
    "issued": "requests are charged as issued: merged ones together, in issue order",
    "queued": "requests are charged as queued: each on its own, in queue order",
}
FLIPS_SHOWN = 4
UNKNOWN_SHOWN_RATIO = 0.05


def headline(
    curves: Curves, answers: Answers, *, index: int, other: Answer, nvm: Profile
) -> list[str]:
    """Return the three lines: what to place, by what margin, and where the answer changes.

    `other` is the answer at the same capacity with the other coverage.
    """
    answer = answers.by_point[index]
    if not curves.base_total_ps:
        return [
            "The trace has no read, write or flush: there is nothing to place.",
            "No placement is ahead of another.",
            "No capacity changes that.",
        ]
    return [
        _first_line(curves, answer, nvm) + _elsewhere(curves),
        _second_line(answer, other),
        _third_line(answers),
    ]


def assumptions(
    curves: Curves, profiles: tuple[Profile, Profile], *, level: str, coverage: str
) -> list[str]:
    """Return the sentences that a reader must know to judge the answer."""
    base, nvm = profiles
    how = {
        "hottest": "a role that does not fit is covered hottest block first (most accesses first)",
        "start": "a role that does not fit is covered from its start (lowest touched block first)",
    }[coverage]
    continued = [
        device.name
        for device in profiles
        if device.sequential_setup_us is not None and not device.has_head
    ]
    rule = f"; on {' and '.join(continued)} it then costs its transfer" if continued else ""
    return [
        f"the base device is {base.name} ({base.about}), the NVM {nvm.name} ({nvm.about})",
        *timing_notes(curves, profiles),
        f"{LEVELS[level]}; each device that holds blocks of a request costs its latency once",
        f"a request continues the previous one where that ended on the same device and role{rule}",
        f"{how}; capacity counts whole 4 KiB blocks that the trace touched",
        "flushes and preflushes are charged as queued: the base device's while the role is wholly"
        " there, the longer of both while it is on both, NVM's once all its blocks are on NVM",
        f"a split between roles is recommended from where it saves {WORTH_RATIO:.0%} of the base"
        " device's time over the best single role; smaller changes of the answer are not listed,"
        f" nor are answers that hold for less than {LASTING_RATIO - 1:.0%} more capacity",
        "the optimum of the study places the blocks with most accesses first whatever their role;"
        " it knows the future and is shown for comparison",
        *_left_out(curves),
    ]


def _first_line(curves: Curves, answer: Answer, nvm: Profile) -> str:
    given = f"With {format_size(answer.capacity_bytes)} of {nvm.name}"
    if answer.placement == "base":
        return (
            f"{given}, leave everything on the base device: no placement takes less than its"
            f" {format_duration(answer.base_elapsed_ns)}."
        )
    return (
        f"{given}, place {_parts(curves, answer)} there: {_measure(curves)} falls by"
        f" {answer.gain_ratio:.1%}, from {format_duration(answer.base_elapsed_ns)} to"
        f" {format_duration(answer.elapsed_ns)} (the hottest blocks of all roles:"
        f" {format_duration(answer.optimal_elapsed_ns)})."
    )


def range_sentence(found: Mapping[str, Any]) -> str:
    """Return the gain as a range, over changed devices and over the windows of the trace."""
    factors = " or ".join(f"{factor:g}" for factor in found["factors"])
    windows = found["window"]
    if windows["tried"] > 1:
        over = f"the {windows['tried']} windows of the trace, {_ends(windows, window_name)}"
    else:
        over = "the only window of the trace the same"
    return (
        f"With one part of a device taking {factors} times as long, the gain is"
        f" {_ends(found['parameter'], parameter_name)}; in {over}."
    )


def _ends(found: Mapping[str, Any], name: Callable[[Mapping[str, Any]], str]) -> str:
    low, high = found["low"], found["high"]
    return f"{low['gain_ratio']:.1%} ({name(low)}) to {high['gain_ratio']:.1%} ({name(high)})"


def _measure(curves: Curves) -> str:
    return "mean response time" if curves.is_open else "elapsed I/O time"


def _elsewhere(curves: Curves) -> str:
    """Say how much of the time no placement can change because the role is not known."""
    ratio = int(curves.base_ps[ROLES.index("unknown")]) / curves.base_total_ps
    if ratio < UNKNOWN_SHOWN_RATIO:
        return ""
    return (
        f" {ratio:.0%} of the time is of requests without a role: set it with tracekit classify"
        " --role."
    )


def _parts(curves: Curves, answer: Answer) -> str:
    parts = []
    for role, name in NAMES.items():
        given = getattr(answer, f"{role}_bytes")
        whole = int(curves.role_blocks[ROLES.index(role)]) * BLOCK_BYTES
        if given and given == whole:
            parts.append(f"the whole {name} ({format_size(given)})")
        elif given:
            share = "under 1%" if given < whole / 100 else f"{given / whole:.0%}"
            parts.append(f"{format_size(given)} of the {name} ({share} of it)")
    return _join(parts)


def _second_line(answer: Answer, other: Answer) -> str:
    name = _name(answer.runner_up)
    first = (
        f"The runner-up, {name}, takes {format_duration(answer.runner_up_elapsed_ns)}:"
        f" the answer is {answer.margin_ratio:.1%} ahead"
    )
    if answer.placement == "base":
        first = f"No other placement takes less than {format_duration(answer.base_elapsed_ns)}"
    way = "the other way to cover a role that does not fit"
    if other.placement == answer.placement:
        return f"{first}; {way} gives the same answer with {other.gain_ratio:.1%}."
    return f"{first}; {way} would prefer {_name(other.placement)} ({other.gain_ratio:.1%})."


def _third_line(answers: Answers) -> str:
    if answers.best.gain_ratio <= 0:
        return "No capacity of it pays."
    changes = [
        f"from {format_size(flip.capacity_bytes)} on {_name(flip.after)}"
        for flip in answers.flips[:FLIPS_SHOWN]
    ]
    more = len(answers.flips) - FLIPS_SHOWN
    if more > 0:
        changes.append(f"then {more} more {'changes' if more > 1 else 'change'}")
    text = ", ".join(changes) or "No placement saves much"
    return f"{text[0].upper()}{text[1:]}; {_gains(answers)}"


def _gains(answers: Answers) -> str:
    """Say where more NVM stops paying; near the end it says only what the end brings."""
    knee, best = answers.knee.capacity_bytes, answers.best.capacity_bytes
    largest = f"{answers.best.gain_ratio:.1%}"
    if best < LASTING_RATIO * knee:
        return f"the largest gain, {largest}, needs {format_size(best)}."
    return (
        f"{format_size(knee)} already give {KNEE_RATIO:.0%} of the largest gain, which is {largest}"
        f" at {format_size(best)}."
    )


def _name(placement: str) -> str:
    special = {"base": "the base device alone", "combined": "a split between roles"}
    return special.get(placement) or f"the {NAMES[placement]} alone"


def _join(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _left_out(curves: Curves) -> list[str]:
    totals = curves.totals
    absent = [name for role, name in NAMES.items() if role not in curves.placed_roles]
    elsewhere = sum(totals.requests[len(NAMES) :])
    counted = [
        (totals.uncharged, "discards and others without data transfer cost nothing"),
        (totals.not_issued, "reads and writes that were never issued are left out"),
        (totals.orphan_merges, "merged requests without a known carrier are charged on their own"),
        (
            totals.impossible,
            "reads and writes of a place or length that no disk has are left out",
        ),
        (totals.missing_blocks, "touches of blocks that classify did not list stay on base"),
        (elsewhere, "requests of no placeable role stay on base, except in the optimum"),
    ]
    notes = [f"{count:,} {text}" for count, text in counted if count]
    if absent:
        notes.append(f"no read or write touches: {', '.join(absent)}; it is not placed")
    return notes

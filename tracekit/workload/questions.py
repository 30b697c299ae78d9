"""The questions that trace and profile are both asked: can the profile stand for the trace?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tracekit.errors import InputError
from tracekit.metadata import Record
from tracekit.model.answer import placement_name
from tracekit.store import TraceFolder
from tracekit.units import format_share

MISS_LIMIT, GAIN_LIMIT = 0.04, 0.03
"""Most difference of miss ratios on average, and of a gain, with which a profile can stand for its
trace; 0.02 is aimed at for the former."""
CACHES, PLACEMENT = "to size caches", "to choose what goes to NVM"


class PlacementAnswer(Record):
    """What tracekit recommends for a trace, on devices that are the same for trace and profile."""

    placement: str
    capacity_bytes: int
    gain_ratio: float
    """0 to 1, of the base device's time."""
    best_gain_ratio: float
    """Of the best placement of single blocks, whatever their roles."""


class Question(Record):
    """A question of tracekit's own, as trace and profile answer it."""

    about: str
    trace: str
    profile: str
    difference: float
    """Of miss ratios on average, or of the gain."""
    limit: float
    is_same: bool
    """Whether the profile can stand for the trace there."""


Recommend = Callable[[TraceFolder, int], PlacementAnswer]


def misses(rows: Sequence[Mapping[str, Any]]) -> Iterator[Question]:
    """Ask which miss ratios LRU caches have, by rows of the table `fidelity`."""
    for row in rows:
        if (row["role"], row["measure"]) == ("all", "miss_ratio") and row["mean_gap"] is not None:
            means = (row["original_mean"], row["synthetic_mean"])
            shown = [f"a miss ratio of {format_share(mean)} on average" for mean in means]
            gap = row["mean_gap"]
            yield Question(
                about=CACHES,
                trace=shown[0],
                profile=shown[1],
                difference=gap,
                limit=MISS_LIMIT,
                is_same=gap <= MISS_LIMIT,
            )


def placements(
    folder: TraceFolder, made: TraceFolder, *, recommend: Recommend
) -> Iterator[Question]:
    """Ask where NVM should go; without roles, what the best placement of blocks gains."""
    try:
        of_trace = recommend(folder, 0)
        of_profile = recommend(made, of_trace.capacity_bytes)
    except InputError:
        return
    both = (of_trace, of_profile)
    has_roles = any(one.gain_ratio > 0 for one in both)
    gains = [one.gain_ratio if has_roles else one.best_gain_ratio for one in both]
    names = [placement_name(one.placement) if has_roles else "the best blocks" for one in both]
    shown = [
        f"{name}, which saves {format_share(gain)}" for name, gain in zip(names, gains, strict=True)
    ]
    gap = abs(gains[0] - gains[1])
    yield Question(
        about=PLACEMENT,
        trace=shown[0],
        profile=shown[1],
        difference=gap,
        limit=GAIN_LIMIT,
        is_same=gap <= GAIN_LIMIT and (names[0] == names[1] or max(gains) <= GAIN_LIMIT),
    )


def unfit_for(questions: Sequence[Question]) -> list[str]:
    """Return a sentence on each question that the profile answers in another way than the trace."""
    return [
        f"Do not use it {one.about}: the trace's answer is {one.trace}, the profile's"
        f" {one.profile}."
        for one in questions
        if not one.is_same
    ]

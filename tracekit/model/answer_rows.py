"""The recommendation as a short table: what to place, what it brings, what to doubt."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracekit.model.answer import AnswerRow, GainRange, Recommendation, placement_name
from tracekit.model.best_choice import near
from tracekit.model.cache_rivals import beating, quickest
from tracekit.model.responses import Predictions
from tracekit.tables import ROLE_NAMES
from tracekit.units import format_duration, format_size

WIDTH = 100
"""Of the table as text."""


def answer_text(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of the table, as `recommendation.json` has its rows."""
    indent = max((len(row["what"]) for row in rows), default=0) + 2
    lines = list[str]()
    for number, row in enumerate(rows):
        what = "" if number and rows[number - 1]["what"] == row["what"] else row["what"]
        text = textwrap.wrap(row["text"], WIDTH - indent, break_on_hyphens=False)
        lines += [f"{'' if at else what:<{indent}}{line}" for at, line in enumerate(text)]
    return lines


def answer_rows(
    advice: Recommendation, *, lead: str, parts: str, capacities: str, doubts: Sequence[str]
) -> list[AnswerRow]:
    """Return the rows of the answer.

    `parts` are what goes to NVM by role; `lead` stands for them where that is whole units or
    nothing. `capacities` says what others than the answer's bring, `doubts` what it rests on.
    """
    is_by_role = parts and advice.units is None
    rows = [*_gain(advice, parts)] if is_by_role else [("answer", lead)]
    if advice.base.sentence is not None:
        rows.append(("base device", advice.base.sentence.removeprefix("The base device is ")))
    rows += [("caution", doubt) for doubt in doubts]
    if advice.predictions is not None and is_by_role:
        rows += _felt(advice.predictions)
    rows += _others(advice)
    rows += [("other sizes", capacities)] if is_by_role else []
    return [AnswerRow(what, text) for what, text in rows]


def _gain(advice: Recommendation, parts: str) -> Iterator[tuple[str, str]]:
    answer = advice.answer
    size = format_size(answer.capacity_bytes)
    yield "place", f"{parts}, on {size} of {advice.nvm_profile}"
    before, after = (format_duration(one) for one in (answer.base_elapsed_ns, answer.elapsed_ns))
    what = "mean response" if advice.is_open else "elapsed I/O time"
    yield (
        what,
        f"{after} instead of {before}, {answer.gain_ratio:.1%} less{_range(advice.gain_range)}",
    )


def _range(found: GainRange | None) -> str:
    if found is None:
        return ""
    where = "on other devices and in windows"
    if found.guess is not None:
        where = "on other devices, in windows and without guessed roles"
    return f" ({found.low_ratio:.1%} to {found.high_ratio:.1%} {where})"


def _felt(found: Predictions) -> Iterator[tuple[str, str]]:
    base, answer = found.closed.base.requests_per_s.value, found.closed.answer.requests_per_s.value
    yield "throughput", f"{answer:,.0f} requests/s instead of {base:,.0f}, in a closed loop"
    tails = [
        f"{ROLE_NAMES[placed.role]} {format_duration(placed.p99_ns.value)} instead of"
        f" {format_duration(alone.p99_ns.value)}"
        for alone, placed in zip(found.open.base.roles, found.open.answer.roles, strict=True)
    ]
    if tails:
        yield "p99 response", f"{', '.join(tails)}, with arrivals as traced"


def _others(advice: Recommendation) -> Iterator[tuple[str, str]]:
    answer, best = advice.answer, advice.best_placement
    if answer.placement != "base" and advice.units is None:
        took = format_duration(answer.runner_up_elapsed_ns)
        yield "runner-up", f"{placement_name(answer.runner_up)}, {took}"
    if best is not None and best.answer.gain_ratio > 0:
        one = best.answer
        took = f"{format_duration(one.elapsed_ns)}, {one.gain_ratio:.1%} less{near(one.gap_ratio)}"
        yield "block by block", took
    caches = beating(advice.caches, quickest(advice, answer)[1])
    if caches:
        names = [f"{one.title}, {format_duration(one.busy_ns + one.error_ns)}" for _, one in caches]
        yield "faster still", "; without a pool of ZFS ".join(names)

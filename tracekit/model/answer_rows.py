"""The recommendation as a short table: what to place, what it brings, what to doubt."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracekit.model.answer import AnswerRow, GainRange, Recommendation, placement_name
from tracekit.model.best_choice import near
from tracekit.model.cache_rivals import beating, quickest
from tracekit.model.responses import Predictions, Spread
from tracekit.tables import ROLE_NAMES
from tracekit.units import GB, format_duration, format_size

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
    rows += [*_reasons(advice), *_cost(advice)] if is_by_role else []
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


def _reasons(advice: Recommendation) -> Iterator[tuple[str, str]]:
    """Say what each role takes on the base device, and what it would save with all of the NVM."""
    total_ns = max(advice.answer.base_elapsed_ns, 1)
    taken = {role: one.base_elapsed_ns / total_ns for role, one in advice.roles.items()}
    alone = {one.placement: one.gain_ratio for one in advice.role_sets if one.placement in taken}
    shares = [
        f"{placement_name(role)} {taken[role]:.1%} with"
        f" {format_size(advice.roles[role].touched_bytes)}"
        for role in sorted(alone, key=lambda one: -taken[one])
    ]
    if shares:
        yield "why", f"of the time on the base device: {', '.join(shares)}"
    if len(alone) > 1:
        saved = sorted(alone.items(), key=lambda one: -one[1])
        each = [f"{placement_name(role)} {ratio:.1%} less" for role, ratio in saved]
        yield "why", f"all of the NVM for one role: {', '.join(each)}"


def _cost(advice: Recommendation) -> Iterator[tuple[str, str]]:
    """Say what the NVM costs at its profile's price, as much as is placed and a whole device."""
    nvm = advice.profiles[1]
    if nvm.price_usd_per_gb is None:
        yield "cost", f"not known: no source gives a price of {nvm.name}"
        return
    price = nvm.price_usd_per_gb * advice.answer.capacity_bytes / GB
    dated = "" if nvm.price_date is None else f", {nvm.price_date}"
    whole = ""
    if nvm.capacity_gb is not None:
        whole = f"; one of {nvm.capacity_gb:,.0f} GB {nvm.price_usd_per_gb * nvm.capacity_gb:,.0f}"
        whole += " USD"
    yield "cost", f"{price:,.3g} USD at {nvm.price_usd_per_gb:g} USD a GB{dated}{whole}"


def _range(found: GainRange | None) -> str:
    if found is None:
        return ""
    where = "on other devices and in windows"
    if found.guess is not None:
        where = "on other devices, in windows and without guessed roles"
    return f" ({found.low_ratio:.1%} to {found.high_ratio:.1%} {where})"


def _felt(found: Predictions) -> Iterator[tuple[str, str]]:
    base, answer = found.closed.base.requests_per_s, found.closed.answer.requests_per_s
    low, high = f"{answer.low:,.0f}", f"{answer.high:,.0f}"
    yield (
        "throughput",
        f"{answer.value:,.0f} ({low} to {high}) requests/s instead of {base.value:,.0f}, in a"
        " closed loop",
    )
    tails = [
        f"{ROLE_NAMES[placed.role]} {_time_range(placed.p99_ns)} instead of"
        f" {format_duration(alone.p99_ns.value)}"
        for alone, placed in zip(found.open.base.roles, found.open.answer.roles, strict=True)
    ]
    if tails:
        yield "p99 response", f"{', '.join(tails)}, with arrivals as traced"


def _time_range(time: Spread) -> str:
    low, high = format_duration(time.low), format_duration(time.high)
    return f"{format_duration(time.value)} ({low} to {high})"


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

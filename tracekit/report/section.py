"""What a section is made of; `sections/` builds them and `reports/sections/` lays them out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from tracekit.origin import Outdated
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Cells, Draw, Drawing, Key, drawn
from tracekit.report.inputs import Evidence, Inputs


@dataclass(frozen=True)
class Chart:
    """A figure with what it shows, computed from its data, and the evidence behind it."""

    name: str
    title: str
    draw: Draw
    table: pd.DataFrame
    sentences: Sequence[str]
    evidence: Evidence
    legend: Sequence[Key] = ()

    @property
    def drawing(self) -> Drawing:
        """The table drawn in both widths; nothing for an empty table: what is said stands alone."""
        if self.table.empty:
            return Drawing("", "")
        label = f"{self.title}. {' '.join(self.sentences)}"
        return drawn(self.draw, self.table, name=self.name, label=label, legend=self.legend)


EXPLAINING = ("confidence interval", "To the right")
"""In sentences that say how to read a figure, not what it shows."""
ANSWERS = ("answer", "set_answer")
UNFOLDED = (*ANSWERS, "warnings", "capacity", "side_by_side", "set_cautions", "set_leaders")


@dataclass(frozen=True)
class Section:
    """A part of the page; `name` is its anchor and template, `parts` what the template shows."""

    name: str
    title: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    outdated: Sequence[Outdated] = ()

    @property
    def is_answer(self) -> bool:
        """Whether it begins a page, whose other parts are its evidence."""
        return self.name in ANSWERS

    @property
    def is_folded(self) -> bool:
        """Whether it is opened by those who want the evidence."""
        return self.name not in UNFOLDED

    @property
    def finding(self) -> str:
        """What a simulation found, or else what the first figure shows, in a sentence."""
        found = [part.get("headline") for part in self.parts.values() if isinstance(part, Mapping)]
        charts = [*self.parts.get("figures", ()), self.parts.get("figure")]
        lines = [*filter(None, found), *(one.sentences for one in charts if one and one.sentences)]
        first = (one if isinstance(one, str) else one[0] for one in lines)
        return next((text for text in first if not any(map(text.count, EXPLAINING))), "")


@dataclass(frozen=True)
class Missing:
    """A section that cannot be shown yet, and the stage that makes what it needs."""

    title: str
    stage: str


Parts = Mapping[str, Any]
BuildSection = Callable[[Inputs], Section | Missing | None]


def section(
    title: str,
) -> Callable[[Callable[[Inputs], Parts | None]], Callable[[Inputs], Section | None]]:
    """Make a section of a function from inputs to parts, named as it; None without parts."""

    def decorate(build: Callable[[Inputs], Parts | None]) -> Callable[[Inputs], Section | None]:
        @functools.wraps(build)
        def named(inputs: Inputs) -> Section | None:
            parts = build(inputs)
            return None if parts is None else Section(build.__name__, title, parts)

        return named

    return decorate


def made_by(
    stage: str, title: str
) -> Callable[[Callable[[Inputs], Parts | None]], Callable[[Inputs], Section | Missing]]:
    """Make a section as `section` does, of which a stage makes what is missing without parts."""

    def decorate(build: Callable[[Inputs], Parts | None]) -> Callable[[Inputs], Section | Missing]:
        @functools.wraps(build)
        def named(inputs: Inputs) -> Section | Missing:
            return section(title)(build)(inputs) or Missing(title, stage)

        return named

    return decorate


def analyzed(
    title: str, *analyses: str, optional: Sequence[str] = ()
) -> Callable[[Callable[..., Parts]], Callable[[Inputs], Section | Missing]]:
    """Make a section of a function from findings to parts; it is missing until `analyze` has run.

    The function gets the optional ones by their names, None for one that was not made.
    """

    def decorate(build: Callable[..., Parts]) -> Callable[[Inputs], Section | Missing]:
        @made_by("analyze", title)
        @functools.wraps(build)
        def gathered(inputs: Inputs) -> Parts | None:
            found = [inputs.finding(name) for name in analyses]
            if any(evidence is None for evidence in found):
                return None
            more = {name.rpartition("/")[2]: inputs.finding(name) for name in optional}
            return build(*found, **more)

        return gathered

    return decorate


def simulated(
    title: str, name: str, *tables: str
) -> Callable[[Callable[..., Parts | None]], BuildSection]:
    """Make a section of a function from inputs, the summary and tables of a simulation to parts.

    It gets the tables by their names. It is left out if nobody ran the simulation, missing if an
    older version did: without a table or without parts.
    """

    def decorate(build: Callable[..., Parts | None]) -> BuildSection:
        @functools.wraps(build)
        def named(inputs: Inputs) -> Section | Missing | None:
            answer = inputs.answer(f"simulations/{name}.json")
            if answer is None:
                return None
            found = {table: inputs.simulation(table, command=name) for table in tables}
            is_old = any(evidence is None for evidence in found.values())
            parts = None if is_old else build(inputs, answer, **found)
            if parts is None:
                return Missing(title, f"simulate {name}")
            return Section(build.__name__, title, parts)

        return named

    return decorate


def chart(
    draw: Draw,
    evidence: Evidence,
    *,
    title: str,
    sentences: Sequence[str] = (),
    legend: Sequence[Key] | None = None,
    name: str = "",
) -> Chart:
    """Make a chart of the table that the evidence shows.

    Its name defaults to the evidence's, its legend to the roles of the table.
    """
    table = evidence.table if evidence.shown is None else evidence.shown
    name = name or evidence.name.replace("/", "-").replace("_", "-")
    if legend is None:
        legend = role_keys(table) if "role" in table.columns else ()
    if isinstance(draw, Cells):
        legend = (*legend, *draw.keys(table))
    return Chart(name, title, draw, table, sentences, evidence, legend)


def role_keys(table: pd.DataFrame) -> tuple[Key, ...]:
    """Return the legend of a table by role, and by operation where it tells them apart."""
    if "operation" not in table.columns:
        return tuple(Key(role, fmt.role_title(role)) for role in fmt.in_order(table["role"]))
    pairs = set(zip(table["role"], table["operation"], strict=True))
    lines = charts.OPERATION_LINES
    return tuple(
        Key(role, f"{fmt.role_title(role)}, {operation}", lines.get(operation, "solid"))
        for role in fmt.in_order(table["role"])
        for operation in sorted(operation for owner, operation in pairs if owner == role)
    )


def evidence_view(evidence: Evidence) -> Mapping[str, Any]:
    """Return what the template needs to show a table, its origin and its download."""
    link = fmt.csv_link(evidence.table)
    return {
        "evidence": evidence,
        "opening": fmt.shown(evidence.table, meanings=evidence.columns, limit=fmt.OPEN_ROWS),
        "shown": fmt.shown(evidence.table, meanings=evidence.columns),
        "csv": link,
        "file": f"{evidence.name.replace('/', '-')}.csv{'.gz' * link.startswith(fmt.PACKED)}",
    }


SHOWN_DEVICES = 4


def charts_by_device(
    draw: Draw,
    evidence: Evidence,
    *,
    title: str,
    describe: Callable[[pd.DataFrame], list[str]],
    legend: Sequence[Key] | None = None,
    name: str,
) -> Parts:
    """Return a chart for each of the first devices or replays, and how many more there are.

    Each has its name in the `title`.
    """
    table = evidence.table if evidence.shown is None else evidence.shown
    key = "device" if "device" in table.columns else "replay"
    devices = list(dict.fromkeys(table[key]))
    figures = []
    for number, device in enumerate(devices[:SHOWN_DEVICES]):
        mine = table[table[key] == device]
        figures.append(
            chart(
                draw,
                evidence.showing(mine),
                title=title.format(fmt.printable(device)),
                sentences=describe(mine),
                legend=legend,
                name=f"{name}-{number}",
            )
        )
    return {"figures": figures, "hidden_count": max(0, len(devices) - SHOWN_DEVICES)}

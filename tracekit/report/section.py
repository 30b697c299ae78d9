"""What a section is made of; `sections/` builds them and `reports/sections/` lays them out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Draw, drawn
from tracekit.report.inputs import Evidence, Inputs


@dataclass(frozen=True)
class Key:
    """One entry of a legend: a colour of the palette, a line style, and what it stands for."""

    colour: str
    text: str
    line: str = "box"


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
    def markup(self) -> str:
        """The table drawn in both widths; nothing for an empty table: what is said stands alone."""
        if self.table.empty:
            return ""
        label = f"{self.title}. {' '.join(self.sentences)}"
        return drawn(self.draw, self.table, name=self.name, label=label)


@dataclass(frozen=True)
class Section:
    """A part of the page; `name` is its anchor and template, `parts` what the template shows."""

    name: str
    title: str
    parts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """A section that cannot be shown yet, and the stage that makes what it needs."""

    title: str
    stage: str


Parts = Mapping[str, Any]
BuildSection = Callable[[Inputs], Section | Missing | None]


def analyzed(
    title: str, *analyses: str, optional: Sequence[str] = ()
) -> Callable[[Callable[..., Parts]], BuildSection]:
    """Make a section of a function from findings to parts; it is missing until `analyze` has run.

    The function gets the optional ones by their names, None for one that was not made.
    """

    def decorate(build: Callable[..., Parts]) -> BuildSection:
        @functools.wraps(build)
        def section(inputs: Inputs) -> Section | Missing:
            found = [inputs.finding(name) for name in analyses]
            if any(evidence is None for evidence in found):
                return Missing(title, "analyze")
            more = {name.rpartition("/")[2]: inputs.finding(name) for name in optional}
            return Section(build.__name__, title, build(*found, **more))

        return section

    return decorate


def chart(
    draw: Draw,
    evidence: Evidence,
    *,
    title: str,
    sentences: Sequence[str],
    legend: Sequence[Key] = (),
    name: str = "",
) -> Chart:
    """Make a chart of the table that the evidence shows; its name defaults to the evidence's."""
    table = evidence.table if evidence.shown is None else evidence.shown
    name = name or evidence.name.replace("/", "-").replace("_", "-")
    return Chart(name, title, draw, table, sentences, evidence, legend)


def role_keys(table: pd.DataFrame) -> tuple[Key, ...]:
    """Return the legend of a table by role, and by operation where it tells them apart."""
    if "operation" not in table.columns:
        return tuple(Key(role, fmt.role_title(role)) for role in fmt.in_order(table["role"]))
    pairs = set(zip(table["role"], table["operation"], strict=True))
    return tuple(
        Key(
            role,
            f"{fmt.role_title(role)}, {operation}",
            charts.OPERATION_LINES.get(operation, "solid"),
        )
        for role in fmt.in_order(table["role"])
        for operation in sorted(operation for owner, operation in pairs if owner == role)
    )


def evidence_view(evidence: Evidence) -> Mapping[str, Any]:
    """Return what the template needs to show a table, its origin and its download."""
    return {
        "evidence": evidence,
        "opening": fmt.shown(evidence.table, meanings=evidence.columns, limit=fmt.OPEN_ROWS),
        "shown": fmt.shown(evidence.table, meanings=evidence.columns),
        "csv": fmt.csv_link(evidence.table),
        "file": f"{evidence.name.replace('/', '-')}.csv",
    }

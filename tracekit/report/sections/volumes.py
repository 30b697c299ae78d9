"""The page of a trace set: who gets how much of an NVM, and how its volumes are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from matplotlib.figure import Figure

from tracekit import query
from tracekit.escapes import operand, shell_line
from tracekit.fleet.catalogue import TraceSet
from tracekit.fleet.placement import Budget, FleetPlacement, VolumeShare
from tracekit.fleet.set_tables import SetTables
from tracekit.model.service_times import TRACED
from tracekit.origin import outdated
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Scale, Size, Variable
from tracekit.report.inputs import Evidence, of_query, plain
from tracekit.report.section import Chart, Missing, Section, chart

NAMED_VOLUMES = 5
NAMED_CAUTIONS = 20
MORE_OF_TWICE = 20
Built = Section | Missing | None


class SetInputs:
    """What the stages left in a set and its volumes; `beside` is the folder of the page."""

    def __init__(self, traces: TraceSet, beside: Path) -> None:
        self.tables = SetTables(traces)
        self.name = traces.path.resolve().name
        self._beside = beside

    def evidence(self, name: str, **parameters: int) -> Evidence | None:
        """Return the result of a query of `analyzers/set`; None where no volume is analysed."""
        if self.tables.measures is None:
            return None
        return self._of(name, self.tables.run(name, **parameters), **parameters)

    @property
    def measures(self) -> Evidence | None:
        """A row for each volume; None where none is analysed."""
        found = self.tables.measures
        return None if found is None else self._of("set/volume_measures", found)

    @property
    def activity(self) -> Evidence | None:
        """When the volumes read and write, together."""
        found, window_s = self.tables.activity, self.tables.window_s
        return None if found is None else self._of("set/activity_of_set", found, window_s=window_s)

    def _of(self, name: str, found: Any, **parameters: int) -> Evidence:
        source = query.read(name)
        table = plain(found.to_pandas(integer_object_nulls=True))
        return of_query(source, table, parameters=source.values(parameters))

    def link(self, volume: str) -> str:
        """Return where the report of a volume is, as seen from the page; nothing without one."""
        folder = self.tables.folders.get(volume)
        if folder is None or not (report := folder.file("report.html")).is_file():
            return ""
        return quote(os.path.relpath(report, self._beside))


@dataclass(frozen=True)
class Spread:
    """A measure of volumes: its figure, and a sentence with fields of `set/spread`."""

    measure: str
    title: str
    x_title: str
    scale: Scale
    says: str
    write: Callable[[Any], str]


@dataclass(frozen=True)
class Listing:
    """A table of volumes: its heads, rows that begin with a volume, and how many more there are."""

    heads: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    title: str = ""
    more: int = 0
    texts: int = 0
    """How many columns after the first are of text."""


def _factor_axis(axis: Any, *, size: Size, **_: Any) -> None:
    charts.log_axis(axis, fmt.number, size=size)


def _part_axis(axis: Any, **_: Any) -> None:
    axis.axes.set_xlim(0, 1)
    charts.few_ticks(axis, charts.NARROW)
    charts.percent_ticks(axis)


SPREADS = (
    Spread("footprint_bytes", "Footprint", "different blocks read or written",
           charts.log_data_axis, "touch", fmt.data),
    Spread("request_count", "Requests", "requests of a volume",
           charts.log_count_axis, "have", fmt.count),
    Spread("read_top_10_ratio", "Skew of reads", "touches of the most read tenth of the blocks",
           _part_axis, "have on that tenth", fmt.share),
    Spread("write_top_10_ratio", "Skew of writes", "touches of the most written tenth",
           _part_axis, "have on that tenth", fmt.share),
    Spread("burstiness", "Burstiness", "requests of the busiest window by the mean",
           _factor_axis, "have at their peak, by their mean,", fmt.number),
    Spread("write_ratio", "Writes among requests", "share of writes",
           _part_axis, "write", fmt.share),
    Spread("sequential_ratio", "Sequential requests", "share of sequential requests",
           _part_axis, "have", fmt.share),
    Spread("response_p99_ns", "Response times, 99%", "from queued to completed",
           charts.log_time_axis, "have", fmt.duration),
)  # fmt: skip


def sections_of(traces: TraceSet, beside: Path) -> tuple[list[Section], list[Missing]]:
    """Build the page of a set that lies in the folder `beside`; what is missing is named."""
    inputs = SetInputs(traces, beside)
    built = [build(inputs) for build in SET_SECTIONS]
    sections = [one for one in built if isinstance(one, Section)]
    return sections, [one for one in built if isinstance(one, Missing)]


def set_answer(inputs: SetInputs) -> Section:
    """Say who gets how much of the NVM, or what to run."""
    found, tables = inputs.tables.placement, inputs.tables
    requests = sum(one.requests for one in tables.traces.volumes)
    what = f"{fmt.plural(len(tables.traces.volumes), 'volume')}, {fmt.plural(requests, 'request')}"
    rows = [] if found is None else [*_answer_rows(inputs, found)]
    return Section("set_answer", "Answer", {"rows": rows, "what": what, "found": found})


def _answer_rows(inputs: SetInputs, found: FleetPlacement) -> Iterator[Mapping[str, str]]:
    one, two = found.budget, found.doubled
    yield _row(
        "place",
        f"{fmt.data(one.used_bytes)} of {found.nvm_profile} on {one.volumes:,} of"
        f" {fmt.plural(len(found.shares), 'volume')}: {fmt.share(one.saved_ratio)} less I/O time",
    )
    yield _row("saves", f"{fmt.number(one.saved_s_an_hour)} s of {fmt.number(found.base_s_an_hour)}"
               f" s of I/O an hour; {_bound(found, one)}")  # fmt: skip
    roles = inputs.tables.run("set/budget_roles").to_pylist()
    texts = [
        f"{_role(row['role'])} {fmt.data(row['placed_bytes'])} in"
        f" {fmt.plural(row['volume_count'], 'volume')}"
        for row in roles
    ]
    yield _row("roles", "; ".join(texts) or "nothing is placed")
    shares = [share for share in found.shares if share.capacity_bytes]
    by_saved = sorted(shares, key=lambda share: (-share.saved_s_an_hour, share.trace))
    for share in by_saved[:NAMED_VOLUMES]:
        name, link = fmt.printable(share.trace), inputs.link(share.trace)
        yield _row("volumes", _share_text(share), volume=name, link=link)
    rest = by_saved[NAMED_VOLUMES:]
    if rest:
        size = sum(share.capacity_bytes for share in rest)
        saved = sum(share.saved_s_an_hour for share in rest)
        yield _row("volumes", f"{len(rest):,} others: {fmt.data(size)}, {_saved(saved)}")
    yield _row(
        "twice as much",
        f"{fmt.data(two.capacity_bytes)} would save {fmt.share(two.saved_ratio)};"
        f" {_bound(found, two)}",
    )
    if found.by_time:
        yield _row("by time", found.by_time.headline)


def _row(what: str, text: str, *, volume: str = "", link: str = "") -> Mapping[str, str]:
    return {"what": what, "text": text, "volume": volume, "link": link}


def _bound(found: FleetPlacement, budget: Budget) -> str:
    if found.is_exact:
        return "every division was compared"
    return f"no division saves more than {fmt.share(budget.bound_ratio)}"


def _saved(saved_s_an_hour: float) -> str:
    return f"{fmt.number(saved_s_an_hour)} s saved an hour"


def _share_text(share: VolumeShare) -> str:
    roles = ", ".join(f"{_role(role)} {fmt.data(size)}" for role, size in share.role_bytes.items())
    return f": {fmt.data(share.capacity_bytes)} ({roles}), {_saved(share.saved_s_an_hour)}"


def _role(role: str) -> str:
    return "no known role" if role == "unknown" else fmt.role_title(role)


def set_cautions(inputs: SetInputs) -> Section:
    """Name the volumes that are damaged, left out or outdated."""
    tables = inputs.tables
    caution = partial(_caution, within=tables.traces.path)
    cautions = [
        caution("missing or damaged, not in this report", tables.unusable),
        caution("without a share of the NVM", tables.placement.left_out, tables.unusable)
        if tables.placement
        else None,
        caution("not analysed, not in the figures", tables.unanalyzed) if tables.analyzed else None,
        caution("outdated", _old(inputs)),
        caution("not in the recommendation, which is of before", _new(inputs)),
    ]
    texts = [] if tables.is_aligned or len(tables.folders) < 2 else [UNALIGNED]
    bases = tables.placement.bases if tables.placement else {}
    texts += [
        f"What is saved of {fmt.plural(amount, 'volume')} is beside {name}, not the disk that was"
        " traced, as no times of it are known or another one was given: see --base."
        for name, amount in bases.items()
        if name != TRACED
    ]
    parts = {"cautions": [one for one in cautions if one], "texts": texts}
    return Section("set_cautions", "Cautions", parts)


UNALIGNED = (
    "The clocks of these volumes are not known to be one: in what is shown over time each begins at"
    " 0, so peaks that fall together here need not have done so."
)


def _old(inputs: SetInputs) -> dict[str, str]:
    """Return the volumes of which a result that is shown was made from what has changed since."""
    found = {}
    for name, folder in inputs.tables.folders.items():
        old = [
            f"{one.text}; run: {one.command}"
            for place in ("findings/volume_totals.parquet", "recommendation.json")
            for one in outdated(folder.path, folder.content, only=place).values()
        ]
        if old:
            found[name] = "; ".join(old)
    return found


def _new(inputs: SetInputs) -> dict[str, str]:
    """Return the volumes that came after the recommendation."""
    found = inputs.tables.placement
    if found is None:
        return {}
    known = {share.trace for share in found.shares} | {*found.left_out}
    hint = "run tracekit recommend again, on the set"
    return dict.fromkeys((name for name in inputs.tables.folders if name not in known), hint)


def _caution(
    what: str, volumes: Mapping[str, str], known: Iterable[str] = (), *, within: Path
) -> Mapping[str, Any] | None:
    """Return the caution that volumes have in common; places in the set are named from there."""
    named = [
        (name, why.replace(f"{within}/", ""))
        for name, why in sorted(volumes.items())
        if name not in {*known}
    ]
    if not named:
        return None
    count = fmt.plural(len(named), "volume")
    return {
        "title": f"{count} {what}",
        "named": named[:NAMED_CAUTIONS],
        "more": len(named) - NAMED_CAUTIONS,
    }


def set_doubled(inputs: SetInputs) -> Built:
    """Show which volumes get more of twice the NVM."""
    found = inputs.tables.placement
    if found is None:
        return None
    more = [share for share in found.shares if share.doubled_bytes > share.capacity_bytes]
    more.sort(key=lambda share: (share.capacity_bytes - share.doubled_bytes, share.trace))
    one, two = found.budget, found.doubled
    gained = two.saved_s_an_hour - one.saved_s_an_hour
    rows = [
        _cells(inputs, share.trace, fmt.data(share.capacity_bytes), fmt.data(share.doubled_bytes))
        for share in more[:MORE_OF_TWICE]
    ]
    headline = (
        f"{fmt.data(two.capacity_bytes)} instead of {fmt.data(one.capacity_bytes)} save"
        f" {fmt.number(gained)} s more an hour: {fmt.share(two.saved_ratio)} of the I/O time"
        f" instead of {fmt.share(one.saved_ratio)}."
    )
    say = f"{fmt.plural(len(more), 'volume')} would get more, {fmt.data(two.used_bytes)} in all."
    table = Listing(
        ["volume", "NVM", "twice as much"], rows, more=max(0, len(more) - MORE_OF_TWICE)
    )
    parts = {"answer": {"headline": headline}, "say": say, "table": table}
    return Section("set_doubled", "Twice the budget", parts)


def _cells(inputs: SetInputs, volume: str, *cells: str) -> Mapping[str, Any]:
    return {"volume": fmt.printable(volume), "link": inputs.link(volume), "cells": cells}


def set_spread(inputs: SetInputs) -> Built:
    """Show how the volumes are distributed over each measure."""
    counts, spread = inputs.evidence("set/volume_counts"), inputs.evidence("set/spread")
    if counts is None or spread is None:
        return Missing("How volumes differ", "analyze")
    known = {row["measure"]: row for row in spread.table.to_dict("records")}
    figures = [
        _spread_figure(one, counts, known[one.measure]) for one in SPREADS if one.measure in known
    ]
    rows = [
        {"name": one.title, "cells": [one.write(known[one.measure][name]) for name in QUANTILES]}
        for one in SPREADS
        if one.measure in known
    ]
    parts = {"figures": figures, "heads": QUANTILES, "rows": rows, "spread": spread}
    return Section("set_spread", "How volumes differ", parts)


QUANTILES = ("least", "p10", "p25", "median", "p75", "p90", "most")


def _spread_figure(one: Spread, counts: Evidence, row: Mapping[Any, Any]) -> Chart:
    mine = counts.table[counts.table["measure"] == one.measure]
    median, p90 = (one.write(row[name]) for name in ("median", "p90"))
    says = f"Half of {fmt.plural(row['volume_count'], 'volume')} {one.says} at most {median}"
    return chart(
        partial(_draw_counts, spread=one),
        counts.showing(mine),
        title=one.title,
        sentences=[f"{says}, a tenth more than {p90}."],
        name=f"set-{one.measure.replace('_', '-')}",
    )


def _draw_counts(table: pd.DataFrame, size: Size, *, spread: Spread) -> Figure:
    """Draw a bar from `low` to `high` for each number of volumes."""
    figure, axes = charts.canvas(size, x_title=spread.x_title, y_title="Volumes")
    low, high = table["low"].astype(float), table["high"].astype(float)
    axes.bar(
        low,
        table["volume_count"].astype(float),
        width=high - low,
        align="edge",
        color=charts.light("blue"),
        edgecolor=charts.light("surface"),
    )
    spread.scale(axes.xaxis, highest=high.max(), size=size)
    charts.count_ticks(axes.yaxis, size)
    charts.finish(axes)
    return figure


RANKINGS = (
    ("saved_s_an_hour_a_gib", "By what a GiB of NVM saves", "s an hour", fmt.number),
    ("request_count", "By requests", "requests", fmt.count),
    ("response_p99_ns", "By response times, 99%", "at most", fmt.duration),
)


def set_leaders(inputs: SetInputs) -> Built:
    """Show the ten volumes that matter most, by what they gain, by requests and by times."""
    found = inputs.evidence("set/leaders")
    if found is None:
        return Missing("The volumes that matter", "analyze")
    tables = []
    for ranking, title, head, write in RANKINGS:
        mine = found.table[found.table["ranking"] == ranking]
        rows = [_cells(inputs, row.volume, write(row.measured)) for row in fmt.rows(mine)]
        if rows:
            tables.append(Listing(["volume", head], rows, title=title))
    return Section("set_leaders", "The volumes that matter", {"tables": tables, "evidence": found})


GROUP_HEADS = (
    *("typical volume", "what it is like", "volumes", "requests", "a second", "burstiness"),
    *("footprint", "writes", "random"),
)


def set_groups(inputs: SetInputs) -> Built:
    """Show the groups of volumes that behave alike."""
    found = inputs.tables.groups
    if found is None:
        return Missing("Volumes that behave alike", "set groups")
    rows = []
    for one in found.groups:
        write = {name: one.medians.get(name) for name in GROUP_MEASURES}
        texts = (text(write[name]) for name, text in GROUP_MEASURES.items())
        counts = (fmt.count(len(one.volumes)), fmt.count(one.requests))
        traits = ", ".join(one.traits) or "like the mean of all"
        rows.append(_cells(inputs, one.typical, traits, *counts, *texts))
    known = {name for one in found.groups for name in one.volumes}
    parts = {"table": Listing(GROUP_HEADS, rows, texts=1), "apart": found.silhouette,
             "absent": len({*inputs.tables.folders} - known)}  # fmt: skip
    return Section("set_groups", "Volumes that behave alike", parts)


GROUP_MEASURES: Mapping[str, Callable[[Any], str]] = {
    "average_per_s": fmt.number,
    "burstiness": fmt.number,
    "working_set_bytes": fmt.data,
    "write_ratio": fmt.share,
    "random_ratio": fmt.share,
}

READ, WRITTEN = Key("read", "read", "solid"), Key("write", "written", "solid")


def set_activity(inputs: SetInputs) -> Built:
    """Show how much all volumes read and write over time."""
    found = inputs.activity
    if found is None:
        return Missing("Activity over time", "analyze")
    if len(found.table) < 2:
        return None
    busiest = fmt.largest(found.table, "active_volumes")
    figure = chart(
        _draw_activity,
        found.showing(_every_window(found.table, inputs.tables.window_s)),
        title="Bytes read and written a second, all volumes together",
        sentences=[
            f"At most {fmt.plural(busiest.active_volumes, 'volume')} at once, in the window from"
            f" {fmt.duration(busiest.window_ns)}."
        ],
        legend=[READ, WRITTEN],
        name="set-activity",
    )
    return Section("set_activity", "Activity over time", {"figure": figure})


def _every_window(table: pd.DataFrame, window_s: int) -> pd.DataFrame:
    """Return both directions in bytes a second in each window, also where nothing happened."""
    window_ns = window_s * 10**9
    wide = table.set_index(table["window_ns"] // window_ns)[["read_bytes", "write_bytes"]]
    full = wide.reindex(range(int(wide.index.max()) + 1), fill_value=0).astype(float) / window_s
    return pd.concat(
        [
            pd.DataFrame(
                {"window_ns": full.index * window_ns, "way": way, "bytes_per_second": full[column]}
            )
            for way, column in (("read", "read_bytes"), ("write", "write_bytes"))
        ],
        ignore_index=True,
    )


def _draw_activity(table: pd.DataFrame, size: Size) -> Figure:
    return charts.curves(
        table,
        size,
        x=Variable("window_ns", "time", charts.time_axis),
        y=Variable("bytes_per_second", "Bytes a second", charts.from_zero(charts.data_axis)),
        by="way",
        styles={"read": READ, "write": WRITTEN},
        drawstyle="steps-post",
    )


COLUMNS: Sequence[tuple[str, str, Callable[[Any], str]]] = (
    ("saved_s_an_hour_a_gib", "s an hour a GiB", fmt.number),
    ("capacity_bytes", "NVM", fmt.data),
    ("placement", "of what", fmt.printable),
    ("saved_ratio", "less time", fmt.share),
    ("doubled_bytes", "twice as much", fmt.data),
    ("request_count", "requests", fmt.count),
    ("footprint_bytes", "footprint", fmt.data),
    ("write_ratio", "writes", fmt.share),
    ("sequential_ratio", "sequential", fmt.share),
    ("burstiness", "burstiness", fmt.number),
    ("response_p99_ns", "p99", fmt.duration),
)


def set_volumes(inputs: SetInputs) -> Built:
    """List all volumes, by what a GiB of NVM saves."""
    found = inputs.measures
    if found is None:
        return Missing("All volumes", "analyze")
    present = [one for one in COLUMNS if found.table[one[0]].notna().any()]
    rows = [
        _cells(inputs, row["volume"], *(write(row[name]) for name, _, write in present))
        for row in found.table.to_dict("records")
    ]
    table = Listing(["volume", *(title for _, title, _ in present)], rows)
    return Section("set_volumes", "All volumes", {"table": table, "evidence": found})


def set_reproduce(inputs: SetInputs) -> Section:
    """Say which commands make this page."""
    name = operand(inputs.name)
    steps = ("classify", "analyze", "set groups", "recommend", "report")
    commands = [shell_line(["tracekit", *step.split(), name]) for step in steps]
    return Section("set_reproduce", "How to make this page", {"commands": commands})


def set_recommendation(inputs: SetInputs) -> Built:
    """Name the command where nothing is recommended."""
    is_there = inputs.tables.placement is not None
    return None if is_there else Missing("Where an NVM belongs", "recommend")


SET_SECTIONS: tuple[Callable[[SetInputs], Built], ...] = (
    *(set_answer, set_recommendation, set_cautions, set_doubled, set_leaders, set_groups),
    *(set_spread, set_activity, set_volumes, set_reproduce),
)

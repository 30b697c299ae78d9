"""Caches: miss ratio curves, policies, volumes, PCM above flash, and changed devices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from tracekit.model.cache import LRU_LEVELS, level_words
from tracekit.model.cache_plane import LEAST_GAIN_RATIO
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Size
from tracekit.report.formatting import rows
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Key, Missing, Section, chart

# One a volume, from the one with the most references.
VOLUME_STYLES = (
    ("blue", "solid"),
    ("orange", "dashed"),
    ("green", "dashdot"),
    ("purple", "solid"),
    ("slate", "dotted"),
)


def draw_curves(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `miss_ratio` over `capacity_bytes` by role, all roles dotted, and the error band."""
    styles = {
        str(role): ("black", "dotted") if role == "all" else (str(role), "solid")
        for role in sorted(set(table["role"]))
    }
    return _curves(table, size, by="role", styles=styles)


def draw_volumes(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `miss_ratio` over `capacity_bytes` by volume, in the order of the table."""
    styles = dict(zip(dict.fromkeys(table["volume"]), VOLUME_STYLES, strict=False))
    return _curves(table, size, by="volume", styles=styles)


def _curves(
    table: pd.DataFrame, size: Size, *, by: str, styles: dict[str, tuple[str, str]]
) -> Figure:
    figure, axes = charts.canvas(size, x_title="cache size", y_title="References that miss")
    for name, (colour_name, line) in styles.items():
        curve = table[(table[by] == name) & (table["capacity_bytes"] > 0)]
        colour = charts.light(colour_name)
        sizes = curve["capacity_bytes"].astype(float)
        axes.plot(
            sizes,
            curve["miss_ratio"],
            color=colour,
            linestyle=line,
            drawstyle="steps-post",
        )
        axes.fill_between(
            sizes,
            curve["miss_ratio_low"].astype(float),
            curve["miss_ratio_high"].astype(float),
            color=colour,
            alpha=0.15,
            linewidth=0,
        )
    charts.log_data_axis(axes.xaxis, size=size)
    charts.share_axis(axes.yaxis)
    charts.finish(axes)
    return figure


# Colour of the palette, line, and name in the legend.
POLICY_STYLES = {
    "lru": ("blue", "solid", "LRU"),
    "fifo": ("slate", "dashed", "FIFO"),
    "clock": ("orange", "dashed", "CLOCK"),
    "s3-fifo": ("green", "solid", "S3-FIFO"),
    "arc": ("purple", "dashdot", "ARC"),
    "optimum": ("black", "dotted", "Belady's optimum"),
}


def draw_policies(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `miss_ratio` over `capacity_bytes`; each point was simulated, lines lead the eye."""
    figure, axes = charts.canvas(size, x_title="cache size", y_title="References that miss")
    for policy, (colour, line, _) in POLICY_STYLES.items():
        curve = table[(table["policy"] == policy) & (table["capacity_bytes"] > 0)]
        if not curve.empty:
            axes.plot(
                curve["capacity_bytes"].astype(float),
                curve["miss_ratio"],
                color=charts.light(colour),
                linestyle=line,
                marker="o",
                markersize=3,
            )
    charts.log_data_axis(axes.xaxis, size=size)
    charts.share_axis(axes.yaxis)
    charts.finish(axes)
    return figure


VOLUME_TITLES = {
    "shared": "One LRU cache for all volumes",
    "own": "An LRU cache for each volume alone",
}


def volumes(evidence: Evidence, answer: Mapping[str, Any]) -> list[Chart]:
    """Return a figure for each kind of cache, none for a trace of one volume."""
    table = evidence.table
    mine = named(table[table["operation"] == "all"], int(answer["volumes"]["others"]))
    shown = list(dict.fromkeys(mine["volume"]))[: len(VOLUME_STYLES)]
    if not shown:
        return []
    hidden = mine["volume"].nunique() - len(shown)
    mine = mine[mine["volume"].isin(shown)]
    return [
        _figure(evidence, mine[mine["cache"] == kind], kind, hidden=hidden)
        for kind in VOLUME_TITLES
    ]


def named(table: pd.DataFrame, others: int) -> pd.DataFrame:
    """Return the rows by volume with `volume`, what each is called on the page."""
    mine = table[table["scope"] != "all"]
    unnamed = "1 other volume" if others == 1 else f"{others} other volumes"
    names = [unnamed if row.scope == "others" else fmt.printable(row.device) for row in rows(mine)]
    return mine.assign(volume=names)


def _figure(evidence: Evidence, table: pd.DataFrame, kind: str, *, hidden: int) -> Chart:
    legend = [
        Key(colour, volume, line)
        for volume, (colour, line) in zip(
            dict.fromkeys(table["volume"]), VOLUME_STYLES, strict=False
        )
    ]
    sentences = describe_volumes(table)
    if hidden:
        sentences.append(f"{fmt.count(hidden)} more curves are in the table.")
    return chart(
        draw_volumes,
        evidence.showing(table),
        title=VOLUME_TITLES[kind],
        sentences=sentences,
        legend=legend,
        name=f"cache-volumes-{kind}",
    )


def describe_volumes(table: pd.DataFrame) -> list[str]:
    """Describe for each volume what half of its hits take, and what no cache can help."""
    sentences = []
    for volume, curve in table.groupby("volume", sort=False):
        least = float(curve["miss_ratio"].min())
        half = 1 - (1 - least) / 2
        row = next(row for row in rows(curve) if row.miss_ratio <= half + 1e-12)
        sentences.append(
            f"{volume}, {fmt.count(row.references)} references:"
            f" {fmt.data(row.capacity_bytes)} give half of all possible hits;"
            f" {fmt.share(least)} miss in a cache of any size."
        )
    return sentences


HOUR_NS, MINUTE_NS = 3600e9, 60e9
PLANE_TIME_UNITS = (("h", HOUR_NS), ("min", MINUTE_NS), ("s", 1e9), ("ms", 1e6), ("µs", 1e3))
LEAST_IN_UNIT = 3.0


def time_unit(table: pd.DataFrame) -> tuple[str, float]:
    """Return the largest unit, with its ns, of which the longest I/O time has some."""
    longest = float(table["io_time_ns"].max())
    fitting = (unit for unit in PLANE_TIME_UNITS if longest >= LEAST_IN_UNIT * unit[1])
    return next(fitting, PLANE_TIME_UNITS[-1])


def draw_plane(table: pd.DataFrame, size: Size, *, column: str, unit_ns: float) -> Figure:
    """Draw `column` by `pcm_bytes` and `flash_bytes`, darker where it is longer."""
    figure, axes = charts.canvas(
        size,
        x_title="flash cache",
        y_title="PCM cache above it",
        height_px=300 if size.is_narrow else 380,
    )
    cells = table.pivot_table(index="pcm_bytes", columns="flash_bytes", values=column)
    hue = to_rgb(charts.light("intensity"))
    ramp = LinearSegmentedColormap.from_list("heat", [(*hue, 0.06), (*hue, 0.75)])
    written = cells.map(lambda value: _three_digits(value / unit_ns))
    sns.heatmap(
        cells,
        cmap=ramp,
        cbar=False,
        rasterized=True,
        annot=False if size.is_narrow else written,
        fmt="",
        annot_kws={"color": charts.light("ink"), "fontsize": 10},
        ax=axes,
    )
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel("flash cache")
    every = 2 if size.is_narrow else 1
    for axis, sizes in ((axes.xaxis, cells.columns), (axes.yaxis, cells.index)):
        chosen = range(0, len(sizes), every)
        axis.set_ticks([at + 0.5 for at in chosen], [fmt.data(sizes[at]) for at in chosen])
    axes.tick_params(axis="x", rotation=45)
    axes.tick_params(axis="y", rotation=0)
    charts.finish(axes)
    return figure


def _three_digits(value: float) -> str:
    whole = len(str(int(value)))
    return f"{value:.{max(0, 3 - whole)}f}"


def planes(evidence: Evidence, answer: Mapping[str, Any], *, has_reads: bool) -> list[Chart]:
    """Return the surface of each measure; without reads that of the I/O time."""
    table = evidence.table[evidence.table["even_flash_bytes"].isna()]
    how = _arranged(answer)
    drawn = [
        chart(
            partial(draw_plane, column="io_time_ns", unit_ns=time_unit(table)[1]),
            evidence.showing(table),
            title=f"I/O time of all devices in {time_unit(table)[0]}, {how}",
            sentences=describe_time_plane(table),
            name="cache-plane-time",
        )
    ]
    if has_reads:
        latency = chart(
            partial(draw_plane, column="read_latency_avg_ns", unit_ns=1e3),
            evidence.showing(table),
            title=f"Mean read latency in µs, {how}",
            sentences=describe_plane(table),
            name="cache-plane",
        )
        drawn.insert(0, latency)
    return drawn


def _arranged(answer: Mapping[str, Any]) -> str:
    first, second = answer.get("level_policies", LRU_LEVELS)
    return level_words(answer["levels"], (first, second), writes=answer["level_writes"])


def describe_plane(table: pd.DataFrame) -> list[str]:
    """Describe what no cache and the largest ones give."""
    latency = table.set_index(["pcm_bytes", "flash_bytes"])["read_latency_avg_ns"].astype(float)
    largest = max(int(table["pcm_bytes"].max()), 0)
    parts = [
        f"{fmt.duration(latency.loc[place])} {text}"
        for place, text in (
            ((0, 0), "without a cache"),
            ((0, largest), f"with {fmt.data(largest)} of flash"),
            ((largest, 0), "with as much PCM"),
        )
        if place in latency.index
    ]
    return [f"A page is read in {fmt.listing(parts)}."]


def describe_time_plane(table: pd.DataFrame) -> list[str]:
    """Describe how long the devices are busy without a cache, and with the pair that is best."""
    best = min(rows(table), key=lambda row: (row.io_time_ns, row.pcm_bytes, row.flash_bytes))
    none = table[(table["pcm_bytes"] == 0) & (table["flash_bytes"] == 0)]["io_time_ns"]
    without = f"{fmt.duration(float(none.iloc[0]))} without a cache; " if len(none) else ""
    return [
        f"All reads and writes of PCM, flash and what is behind take {without}the least is"
        f" {fmt.duration(best.io_time_ns)}, with {fmt.data(best.pcm_bytes)} of PCM and"
        f" {fmt.data(best.flash_bytes)} of flash."
    ]


# One a budget, from the smallest that is drawn.
EVEN_STYLES = (("green", "dotted"), ("orange", "dashed"), ("blue", "solid"))


def draw_even(table: pd.DataFrame, size: Size, *, column: str, y_title: str) -> Figure:
    """Draw `column` over the PCM's share of the cost, a curve a budget."""
    figure, axes = charts.canvas(size, x_title="share of the cost that is PCM", y_title=y_title)
    for at, (_, line) in enumerate(table.groupby("even_flash_bytes", sort=True)):
        colour, style = EVEN_STYLES[at % len(EVEN_STYLES)]
        axes.plot(
            1 - line["flash_bytes"].astype(float) / line["even_flash_bytes"].astype(float),
            line[column].astype(float),
            color=charts.light(colour),
            linestyle=style,
            marker="o",
            markersize=3,
        )
    charts.write_ticks(axes.xaxis, lambda ratio: f"{ratio * 100:.0f} %")
    axes.set_ylim(0, 1.05 * float(table[column].max()))
    charts.time_axis(axes.yaxis, float(table[column].max()))
    charts.finish(axes)
    return figure


CHANGE_MEASURES = {
    "read_latency_avg": ("mean read latency", "purple"),
    "io_time": ("aggregate I/O time", "orange"),
}
CHANGE_KEYS = {
    "read_latency_us": "read latency",
    "write_latency_us": "write latency",
    "price_per_gb": "price",
}
LEVELS = {"pcm": "PCM", "flash": "flash", "base": "device behind"}


def changed(evidence: Evidence) -> list[Chart]:
    """Return a figure for each measure, where PCM can gain anything in it."""
    table = evidence.table
    return [
        _cache_changes_figure(evidence, table[table["measure"] == measure], measure)
        for measure in CHANGE_MEASURES
        if (table["gain_ratio"][table["measure"] == measure] >= LEAST_GAIN_RATIO).any()
    ]


def _cache_changes_figure(evidence: Evidence, table: pd.DataFrame, measure: str) -> Chart:
    name, colour = CHANGE_MEASURES[measure]
    mine = at_best_budget(table)
    return chart(
        partial(charts.gain_bars, x_title="saved by the best split against all flash"),
        evidence.showing(mine.assign(kind=change_kinds(mine), colour=colour)),
        title=f"What PCM saves of the {name} when a device is another",
        sentences=describe_changes(mine, name),
        name=f"cache-sensitivity-{measure.replace('_', '-')}",
    )


def at_best_budget(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the budget at which PCM can gain most, under any change."""
    best = max(rows(table), key=lambda row: row.gain_ratio)
    mine: pd.DataFrame = table[table["even_flash_bytes"] == best.even_flash_bytes]
    return mine


def change_kinds(table: pd.DataFrame) -> list[str]:
    """Return the name of each change."""
    return [
        "as the profiles say"
        if fmt.is_missing(row.parameter)
        else _name(row.parameter, float(row.factor))
        for row in rows(table)
    ]


def _name(parameter: str, factor: float) -> str:
    level, _, key = parameter.partition(".")
    return f"{LEVELS[level]} {CHANGE_KEYS[key]} × {factor:g}"  # noqa: RUF001


def describe_changes(table: pd.DataFrame, name: str) -> list[str]:
    """Describe how far the gain goes in both directions, and the splits that give it."""
    named = sorted(
        zip(table["gain_ratio"], change_kinds(table), rows(table), strict=True), key=_gain
    )
    budget = fmt.data(int(table["even_flash_bytes"].iloc[0]))
    sentences = [
        f"{kind[:1].upper()}{kind[1:]}: {fmt.share(float(gain))} of the {name} saved, with"
        f" {fmt.data(int(row.pcm_bytes))} of PCM and {fmt.data(int(row.flash_bytes))} of flash."
        for gain, kind, row in (named[0], named[-1])
    ]
    return [f"All for the cost of {budget} of flash; the least and the most:", *sentences]


def _gain(item: tuple[float, str, object]) -> tuple[float, str]:
    return float(item[0]), item[1]


TITLE = "Caches"
BUDGETS = len(EVEN_STYLES)


def cache(inputs: Inputs) -> Section | Missing | None:
    """Build the section; None if it was not run, Missing if an older version ran it."""
    answer = inputs.simulation_answer("cache")
    names = ("cache_curve", "cache_policies", "cache_plane", "cache_sensitivity")
    if answer is None:
        return None
    found = inputs.simulations("cache", *names)
    if found is None:
        return Missing(TITLE, "simulate cache")
    curve, policies, plane, sensitivity = found
    has_reads = bool(answer["reads"])
    return Section(
        "cache",
        TITLE,
        {
            "answer": answer,
            "curves": [_curve(curve, kind) for kind in ("shared", "own") if _has(curve, kind)],
            "volumes": volumes(curve, answer),
            "policies": _policies(policies) if len(policies.table) else None,
            "planes": planes(plane, answer, has_reads=has_reads),
            "even": _even(plane, answer, has_reads=has_reads),
            "changed": changed(sensitivity),
        },
    )


def _has(curve: Evidence, kind: str) -> bool:
    table = curve.table
    return bool(((table["cache"] == kind) & (table["scope"] == "all")).any())


def _curve(evidence: Evidence, kind: str) -> Chart:
    table = evidence.table
    mine = table[(table["cache"] == kind) & (table["operation"] == "all")]
    mine = mine[mine["scope"] == "all"]
    names = [*fmt.in_order(mine["role"]), *(["all"] if (mine["role"] == "all").any() else [])]
    titles = {"shared": "One LRU cache for all roles", "own": "An LRU cache for each role alone"}
    return chart(
        draw_curves,
        evidence.showing(mine),
        title=titles[kind],
        sentences=describe_curve(mine),
        legend=[
            Key("black", "all roles", "dotted")
            if name == "all"
            else Key(name, fmt.role_title(name))
            for name in names
        ],
        name=f"cache-curve-{kind}",
    )


def describe_curve(table: pd.DataFrame) -> list[str]:
    """Describe for each role where its curve falls most, and what no cache can help."""
    sentences = []
    for role in (*fmt.in_order(table["role"]), "all"):
        curve = table[table["role"] == role].sort_values("capacity_bytes")
        if curve.empty:
            continue
        name = "All roles together" if role == "all" else fmt.role_title(role).capitalize()
        ratio = curve["miss_ratio"].astype(float)
        half = 1 - (1 - ratio.min()) / 2
        size = curve.loc[ratio <= half + 1e-12, "capacity_bytes"].min()
        sentences.append(
            f"{name}: {fmt.data(size)} give half of all possible hits;"
            f" {fmt.share(float(ratio.min()))} miss in a cache of any size."
        )
    return sentences


def _policies(evidence: Evidence) -> Chart:
    present = set(evidence.table["policy"])
    return chart(
        draw_policies,
        evidence,
        title="Policies against the optimum",
        sentences=describe_policies(evidence.table),
        legend=[
            Key(colour, text, line)
            for name, (colour, line, text) in POLICY_STYLES.items()
            if name in present
        ],
    )


def describe_policies(table: pd.DataFrame) -> list[str]:
    """Describe where the optimum leaves LRU most room, and which policy takes most of it."""
    cells = table.pivot_table(index="capacity_bytes", columns="policy", values="miss_ratio")
    if "lru" not in cells or "optimum" not in cells:
        return []
    size = cells.index[int((cells["lru"] - cells["optimum"]).argmax())]
    at = {str(policy): float(cells[policy][size]) for policy in cells.columns}
    if at["lru"] <= at["optimum"]:
        return ["LRU is as good as the optimum at every size that was compared."]
    best = min((policy for policy in at if policy != "optimum"), key=lambda policy: at[policy])
    return [
        f"At {fmt.data(size)} LRU misses {fmt.share(at['lru'])} where the optimum, which knows the"
        f" future, misses {fmt.share(at['optimum'])}.",
        f"Of the policies that can be built, {POLICY_STYLES[best][2]} is the best there:"
        f" {fmt.share(at[best])}.",
    ]


def _even(evidence: Evidence, answer: Mapping[str, Any], *, has_reads: bool) -> list[Chart]:
    """Return the lines of equal cost in both measures; without reads there is one."""
    table = evidence.table[evidence.table["even_flash_bytes"].notna()]
    budgets = sorted(set(table["even_flash_bytes"]))[-BUDGETS:]
    mine = table[table["even_flash_bytes"].isin(budgets)]
    flash = answer["profiles"][1]["name"]
    if mine.empty:
        return []
    legend = [
        Key(colour, f"cost of {fmt.data(budget)} {flash}", line)
        for budget, (colour, line) in zip(budgets, EVEN_STYLES, strict=False)
    ]
    figures = [
        chart(
            partial(draw_even, column="io_time_ns", y_title="Aggregate I/O time"),
            evidence.showing(mine),
            title="I/O time of caches of equal cost",
            sentences=describe_even_time(mine),
            legend=legend,
            name="cache-even-time",
        )
    ]
    if has_reads:
        latency = chart(
            partial(draw_even, column="read_latency_avg_ns", y_title="Mean read latency"),
            evidence.showing(mine),
            title="Read latency of caches of equal cost",
            sentences=describe_even(mine),
            legend=legend,
            name="cache-even",
        )
        figures.insert(0, latency)
    return figures


def describe_even_time(table: pd.DataFrame) -> list[str]:
    """Describe for each budget which pair keeps the devices busy for the shortest time."""
    sentences = []
    for budget, line in table.groupby("even_flash_bytes", sort=True):
        best = min(rows(line), key=lambda row: (row.io_time_ns, row.pcm_bytes))
        sentences.append(
            f"For the cost of {fmt.data(budget)} of flash, {fmt.data(best.pcm_bytes)} of PCM and"
            f" {fmt.data(best.flash_bytes)} of flash take least I/O time:"
            f" {fmt.duration(best.io_time_ns)}."
        )
    return [
        *sentences,
        "It adds all writes to the three devices: what brings pages in, changes them or goes down.",
    ]


def describe_even(table: pd.DataFrame) -> list[str]:
    """Describe for each budget which pair reads fastest."""
    sentences = []
    for budget, line in table.groupby("even_flash_bytes", sort=True):
        best = min(rows(line), key=lambda row: (row.read_latency_avg_ns, row.pcm_bytes))
        sentences.append(
            f"For the cost of {fmt.data(budget)} of flash, {fmt.data(best.pcm_bytes)} of PCM and"
            f" {fmt.data(best.flash_bytes)} of flash read fastest:"
            f" {fmt.duration(best.read_latency_avg_ns)}."
        )
    return sentences

"""Caches: miss ratio curves, policies, volumes, PCM above flash, and changed devices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from tracekit.model.cache import LRU_LEVELS, level_words
from tracekit.model.cache_plane import LEAST_GAIN_RATIO
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Size, Styles, Variable
from tracekit.report.formatting import rows, sentence, sentences
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Parts, chart, role_keys, simulated

# One a volume, from the one with the most references.
VOLUME_LINES = (
    ("blue", "solid"),
    ("orange", "dashed"),
    ("green", "dashdot"),
    ("purple", "solid"),
    ("slate", "dotted"),
)
SIZE = Variable("capacity_bytes", "cache size", charts.log_data_axis)
MISSES = Variable("miss_ratio", "References that miss", charts.share_axis)


def draw_curves(table: pd.DataFrame, size: Size, *, by: str, styles: Styles) -> Figure:
    """Draw `miss_ratio` over `capacity_bytes` with its error band, a curve a style."""
    figure = charts.curves(
        table, size, by=by, styles=styles, x=SIZE, y=MISSES, drawstyle="steps-post"
    )
    for name, style in styles.items():
        curve = table[(table[by] == name) & (table["capacity_bytes"] > 0)].astype(
            dict.fromkeys(("capacity_bytes", "miss_ratio_low", "miss_ratio_high"), float)
        )
        figure.axes[0].fill_between(
            curve["capacity_bytes"],
            curve["miss_ratio_low"],
            curve["miss_ratio_high"],
            color=charts.light(style.colour),
            alpha=0.15,
            linewidth=0,
        )
    return figure


POLICY_STYLES = {
    "lru": Key("blue", "LRU", "solid"),
    "fifo": Key("slate", "FIFO", "dashed"),
    "clock": Key("orange", "CLOCK", "dashed"),
    "s3-fifo": Key("green", "S3-FIFO", "solid"),
    "arc": Key("purple", "ARC", "dashdot"),
    "2q": Key("blue", "2Q", "dotted"),
    "lirs": Key("orange", "LIRS", "solid"),
    "sieve": Key("green", "SIEVE", "dashed"),
    "w-tinylfu": Key("purple", "W-TinyLFU", "solid"),
    "optimum": Key("black", "Belady's optimum", "dotted"),
}
# Each point was simulated, lines lead the eye.
draw_policies = partial(
    charts.curves, by="policy", styles=POLICY_STYLES, x=SIZE, y=MISSES, markersize=3
)
VOLUME_TITLES = {
    "shared": "One LRU cache for all volumes",
    "own": "An LRU cache for each volume alone",
}


def volumes(evidence: Evidence, answer: Mapping[str, Any]) -> list[Chart]:
    """Return a figure for each kind of cache, none for a trace of one volume."""
    table = evidence.table
    mine = named(table[table["operation"] == "all"], int(answer["volumes"]["others"]))
    shown = list(dict.fromkeys(mine["volume"]))[: len(VOLUME_LINES)]
    hidden = mine["volume"].nunique() - len(shown)
    mine = mine[mine["volume"].isin(shown)]
    drawn = []
    for kind, title in VOLUME_TITLES.items() if shown else ():
        curves = mine[mine["cache"] == kind]
        names = dict.fromkeys(curves["volume"])
        styles = {
            name: Key(colour, name, line)
            for name, (colour, line) in zip(names, VOLUME_LINES, strict=False)
        }
        more = [f"{fmt.count(hidden)} more curves are in the table."] if hidden else []
        drawn.append(
            chart(
                partial(draw_curves, by="volume", styles=styles),
                evidence.showing(curves),
                title=title,
                sentences=[*describe_volumes(curves), *more],
                legend=tuple(styles.values()),
                name=f"cache-volumes-{kind}",
            )
        )
    return drawn


def named(table: pd.DataFrame, others: int) -> pd.DataFrame:
    """Return the rows by volume with `volume`, what each is called on the page."""
    mine = table[table["scope"] != "all"]
    unnamed = "1 other volume" if others == 1 else f"{others} other volumes"
    names = [unnamed if row.scope == "others" else fmt.printable(row.device) for row in rows(mine)]
    return mine.assign(volume=names)


HALF_OF_HITS = (
    "{size:data} give half of all possible hits; {least:share} miss in a cache of any size."
)


def describe_volumes(table: pd.DataFrame) -> list[str]:
    """Describe for each volume what half of its hits take, and what no cache can help."""
    return [
        sentence(
            f"{{volume}}, {{references:count}} references: {HALF_OF_HITS}",
            curve.iloc[0],
            **_half_of_hits(curve),
        )
        for _, curve in table.groupby("volume", sort=False)
    ]


def _half_of_hits(curve: pd.DataFrame) -> dict[str, Any]:
    """Return the size of a cache with half of the hits, and the share that misses in any."""
    ratio = curve["miss_ratio"].astype(float)
    half = 1 - (1 - ratio.min()) / 2
    return {
        "size": curve.loc[ratio <= half + 1e-12, "capacity_bytes"].min(),
        "least": float(ratio.min()),
    }


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
    cells = table.pivot_table(index="pcm_bytes", columns="flash_bytes", values=column)
    written = cells.map(lambda value: _three_digits(value / unit_ns))
    figure, axes = charts.heat_map(
        cells,
        size,
        x_title="flash cache",
        y_title="PCM cache above it",
        colours=(("intensity", 0.06), ("intensity", 0.75)),
        annot=False if size.is_narrow else written,
        fmt="",
        annot_kws={"color": charts.light("ink"), "fontsize": 10},
    )
    every = 2 if size.is_narrow else 1
    for axis, sizes in ((axes.xaxis, cells.columns), (axes.yaxis, cells.index)):
        chosen = range(0, len(sizes), every)
        axis.set_ticks([at + 0.5 for at in chosen], [fmt.data(sizes[at]) for at in chosen])
    axes.tick_params(axis="x", rotation=45)
    return figure


def _three_digits(value: float) -> str:
    whole = len(str(int(value)))
    return f"{value:.{max(0, 3 - whole)}f}"


def planes(evidence: Evidence, answer: Mapping[str, Any]) -> list[Chart]:
    """Return the surface of each measure; without reads that of the I/O time."""
    table = evidence.table[evidence.table["even_flash_bytes"].isna()]
    unit, unit_ns = time_unit(table)
    io_title = f"I/O time of all devices in {unit}"
    measures = (
        ("read_latency_avg_ns", 1e3, "Mean read latency in µs", "cache-plane", describe_plane),
        ("io_time_ns", unit_ns, io_title, "cache-plane-time", describe_time_plane),
    )
    return [
        chart(
            partial(draw_plane, column=column, unit_ns=factor),
            evidence.showing(table),
            title=f"{title}, {_arranged(answer)}",
            sentences=describe(table),
            name=name,
        )
        for column, factor, title, name, describe in measures
        if answer["reads"] or column == "io_time_ns"
    ]


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
EVEN_LINES = (("green", "dotted"), ("orange", "dashed"), ("blue", "solid"))
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
        zip(table["gain_ratio"], change_kinds(table), rows(table), strict=True),
        key=lambda item: (float(item[0]), item[1]),
    )
    budget = fmt.data(int(table["even_flash_bytes"].iloc[0]))
    sentences = [
        f"{kind[:1].upper()}{kind[1:]}: {fmt.share(float(gain))} of the {name} saved, with"
        f" {fmt.data(int(row.pcm_bytes))} of PCM and {fmt.data(int(row.flash_bytes))} of flash."
        for gain, kind, row in (named[0], named[-1])
    ]
    return [f"All for the cost of {budget} of flash; the least and the most:", *sentences]


@simulated("Caches", "cache", "cache_curve", "cache_policies", "cache_plane", "cache_sensitivity")
def cache(
    _: Inputs,
    answer: Mapping[str, Any],
    *,
    cache_curve: Evidence,
    cache_policies: Evidence,
    cache_plane: Evidence,
    cache_sensitivity: Evidence,
) -> Parts:
    """Show what caches would do."""
    has_sizes = bool((cache_policies.table["capacity_bytes"] > 0).any())
    return {
        "answer": answer,
        "curves": [drawn for kind in CURVE_TITLES if (drawn := _curve(cache_curve, kind))],
        "volumes": volumes(cache_curve, answer),
        "policies": _policies(cache_policies) if has_sizes else None,
        "planes": planes(cache_plane, answer),
        "even": _even(cache_plane, answer),
        "changed": changed(cache_sensitivity),
    }


CURVE_TITLES = {
    "shared": "One LRU cache for all roles",
    "own": "An LRU cache for each role alone",
}


def _curve(evidence: Evidence, kind: str) -> Chart | None:
    """Return the curves by role of a kind of cache, all roles dotted; None without rows."""
    table = evidence.table
    mine = table[(table["cache"] == kind) & (table["scope"] == "all")]
    if mine.empty:
        return None
    mine = mine[mine["operation"] == "all"]
    roles = fmt.in_order(mine["role"])
    styles = {role: Key(role, fmt.role_title(role), "solid") for role in sorted(roles)}
    together = Key("black", "all roles", "dotted")
    more = [together] if (mine["role"] == "all").any() else []
    if more:
        styles = {"all": together, **styles}
    return chart(
        partial(draw_curves, by="role", styles=styles),
        evidence.showing(mine),
        title=CURVE_TITLES[kind],
        sentences=describe_curve(mine),
        legend=[*role_keys(mine[["role"]]), *more],
        name=f"cache-curve-{kind}",
    )


def describe_curve(table: pd.DataFrame) -> list[str]:
    """Describe for each role where its curve falls most, and what no cache can help."""
    curves = [
        (role, table[table["role"] == role]) for role in (*fmt.in_order(table["role"]), "all")
    ]
    return [
        sentence(f"{{role:Role}}: {HALF_OF_HITS}", role=role, **_half_of_hits(curve))
        for role, curve in curves
        if not curve.empty
    ]


def _policies(evidence: Evidence) -> Chart:
    return chart(
        draw_policies,
        evidence,
        title="Policies against the optimum",
        sentences=describe_policies(evidence.table),
        legend=charts.keys_of(POLICY_STYLES, evidence.table["policy"]),
    )


def describe_policies(table: pd.DataFrame) -> list[str]:
    """Describe where LRU is farthest from the optimum, and which policy is nearest to it there."""
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
        f"Of the policies that can be built, {POLICY_STYLES[best].text} is the best there:"
        f" {fmt.share(at[best])}.",
    ]


def _even(evidence: Evidence, answer: Mapping[str, Any]) -> list[Chart]:
    """Return the lines of equal cost in both measures; without reads there is one."""
    table = evidence.table[evidence.table["even_flash_bytes"].notna()]
    budgets = sorted(set(table["even_flash_bytes"]))[-len(EVEN_LINES) :]
    mine = table[table["even_flash_bytes"].isin(budgets)]
    if mine.empty:
        return []
    mine = mine.assign(
        pcm_ratio=1 - mine["flash_bytes"].astype(float) / mine["even_flash_bytes"].astype(float)
    )
    flash = answer["profiles"][1]["name"]
    styles = {
        budget: Key(colour, f"cost of {fmt.data(budget)} {flash}", line)
        for budget, (colour, line) in zip(budgets, EVEN_LINES, strict=False)
    }
    measures = (
        ("read_latency_avg_ns", "Mean read latency", "Read latency", "cache-even", describe_even),
        ("io_time_ns", "Aggregate I/O time", "I/O time", "cache-even-time", describe_even_time),
    )
    return [
        chart(
            partial(
                charts.curves,
                by="even_flash_bytes",
                styles=styles,
                x=Variable("pcm_ratio", "share of the cost that is PCM", _whole_percent),
                y=Variable(column, y_title, _time_with_margin),
                markersize=3,
            ),
            evidence.showing(mine),
            title=f"{title} of caches of equal cost",
            sentences=describe(mine),
            legend=tuple(styles.values()),
            name=name,
        )
        for column, y_title, title, name, describe in measures
        if answer["reads"] or column == "io_time_ns"
    ]


def _whole_percent(axis: Axis, **_: Any) -> None:
    charts.write_ticks(axis, lambda ratio: f"{ratio * 100:.0f}%", kind="share")


def _time_with_margin(axis: Axis, *, highest: float, **_: Any) -> None:
    axis.axes.set_ylim(0, 1.05 * float(highest))
    charts.time_axis(axis, highest=float(highest))


def describe_even_time(table: pd.DataFrame) -> list[str]:
    """Describe for each budget which pair keeps the devices busy for the shortest time."""
    return [
        *_best_of_budgets(table, "io_time_ns", "take least I/O time"),
        "It adds all writes to the three devices: what brings pages in, changes them or goes down.",
    ]


def describe_even(table: pd.DataFrame) -> list[str]:
    """Describe for each budget which pair reads fastest."""
    return _best_of_budgets(table, "read_latency_avg_ns", "read fastest")


def _best_of_budgets(table: pd.DataFrame, column: str, what: str) -> list[str]:
    text = (
        "For the cost of {even_flash_bytes:data} of flash, {pcm_bytes:data} of PCM and"
        f" {{flash_bytes:data}} of flash {what}: {{{column}:duration}}."
    )
    ordered = table.sort_values(["even_flash_bytes", column, "pcm_bytes"])
    return sentences(text, ordered.drop_duplicates("even_flash_bytes"))


RIVAL_KEYS = {
    "placement": Key("purple", "the quickest placement"),
    "base": Key("slate", "base device alone"),
    "better": Key("green", "takes less than the placement"),
    "busy": Key("orange", "takes less without its background work"),
    "slower": Key("silver", "takes more"),
}


@simulated("Caches instead of a placement", "rivals", "rivals")
def rivals(inputs: Inputs, answer: Mapping[str, Any], *, rivals: Evidence) -> Parts:  # noqa: ARG001
    """Show what caches of the same capacity take."""
    times = rival_bars(rivals.table, answer)
    shown = chart(
        partial(
            charts.role_bars, value="elapsed_ns", x_title="elapsed I/O time", write=fmt.duration
        ),
        rivals.showing(times),
        title=f"Elapsed time with {fmt.data(answer['capacity_bytes'])}",
        legend=[key for key in RIVAL_KEYS.values() if key.colour in set(times["colour"])],
    )
    return {"answer": answer, "figure": shown}


def rival_bars(table: pd.DataFrame, answer: Mapping[str, Any]) -> pd.DataFrame:
    """Return a bar for base and placement, and one for each cache, in the colour of its verdict."""
    static_ns = answer["placement_elapsed_ns"]
    bars = [
        ("base device alone", "base", answer["base_elapsed_ns"]),
        ("the quickest placement", "placement", static_ns),
    ]
    for row in rows(table):
        busy_ns = row.elapsed_ns + row.delayed_ns
        is_busy = row.elapsed_ns < static_ns <= busy_ns
        verdict = "better" if busy_ns < static_ns else "busy" if is_busy else "slower"
        mode = "" if row.mode == "alone" else f", {row.mode}"
        bars.append((f"{fmt.printable(row.rival)}{mode}", verdict, busy_ns))
    kinds, verdicts, elapsed_ns = zip(*bars, strict=True)
    colours = [RIVAL_KEYS[verdict].colour for verdict in verdicts]
    return pd.DataFrame({"kind": kinds, "colour": colours, "elapsed_ns": elapsed_ns})

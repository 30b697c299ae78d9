"""The answer in detail: gain by capacity, sensitivity, endurance, verification on a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tracekit.errors import InputError
from tracekit.model.answer import read_recommendation
from tracekit.model.carry_out import script
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Size, Variable
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Missing, Parts, Section, chart, section
from tracekit.report.sections.front import placement_title, shares
from tracekit.store import TraceFolder
from tracekit.tables import OLD_PLACEMENTS

# In the order of drawing: what is compared with lies below, the most accessed first on top.
PLACEMENT_STYLES = {
    "base": Key("base", "base device alone", "dashed"),
    "fs": Key("fs", "NVM as file system", "solid"),
    "journal": Key("journal", "NVM as journal", "solid"),
    "swap": Key("swap", "NVM as swap", "solid"),
    "combined": Key("combined", "NVM shared by roles", "dashdot"),
    "most-accessed-first": Key("optimal", "most accessed first", "dotted"),
}


def draw_capacity(
    table: pd.DataFrame, size: Size, *, answer_bytes: int, measure: str = "Elapsed time"
) -> Figure:
    """Draw the curves of one pair of devices and one coverage, and mark the answer's capacity."""
    title = measure if measure.startswith("Mean") else f"{measure} of all requests"
    figure = charts.curves(
        table.sort_values("capacity_bytes", kind="stable"),
        size,
        by="placement",
        styles=PLACEMENT_STYLES,
        x=Variable("capacity_bytes", "NVM capacity", charts.capacity_axis),
        y=Variable("elapsed_ns", title, charts.time_axis),
    )
    axes = figure.axes[0]
    axes.axvline(answer_bytes, color=charts.light("quiet"), linewidth=1, zorder=1)
    axes.annotate(
        f"the answer, {fmt.data(answer_bytes)}",
        (answer_bytes, 1),
        xycoords=("data", "axes fraction"),
        xytext=(5, -4),
        textcoords="offset points",
        verticalalignment="top",
        color=charts.light("quiet"),
    )
    # Space above the base device for the mark of the answer.
    axes.set_ylim(0, 1.14 * max(float(table["elapsed_ns"].max()), 1.0))
    return figure


CAPACITY_TITLE = "Elapsed time against NVM capacity"
OPEN_TITLE = "Response time against NVM capacity"
OPEN = "open"
PROFILE_KEYS = (
    ("read_latency_us", "\N{MICRO SIGN}s, 4 KiB read"),
    ("write_latency_us", "\N{MICRO SIGN}s, 4 KiB write"),
    ("read_mib_s", "MiB/s read"),
    ("write_mib_s", "MiB/s written"),
    ("sequential_setup_us", "\N{MICRO SIGN}s before what continues"),
    ("flush_us", "\N{MICRO SIGN}s a flush"),
    ("empty_flush_us", "\N{MICRO SIGN}s a flush of nothing"),
    ("fua_us", "\N{MICRO SIGN}s more with FUA"),
    ("parallelism", "requests at once"),
    ("rpm", "turns a minute"),
    ("seek_track_us", "\N{MICRO SIGN}s from track to track"),
    ("seek_average_us", "\N{MICRO SIGN}s an average seek"),
    ("seek_full_us", "\N{MICRO SIGN}s a full stroke"),
    ("write_settle_us", "\N{MICRO SIGN}s more to seek for a write"),
    ("capacity_gb", "GB under the stroke"),
    ("price_per_gb", "relative price of a gigabyte"),
)
COVERAGES = {"hottest": "hottest blocks first", "start": "from the start of the role"}


def capacity(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `recommend` has not run."""
    evidence = inputs.table("simulations/placement", command="recommend")
    advice = inputs.recommendation
    if evidence is None or advice is None:
        return Missing(CAPACITY_TITLE, "recommend")
    table = evidence.table.assign(
        placement=evidence.table["placement"].astype(str).replace(OLD_PLACEMENTS)
    )
    is_pair = table["base_profile"] == advice["base_profile"]
    is_pair &= table["nvm_profile"] == advice["nvm_profile"]
    is_open = advice.get("queueing") == OPEN
    compared = "response_avg_ns" if is_open else "elapsed_ns"
    mine = replace(evidence, table=table[is_pair].assign(elapsed_ns=table[compared]))
    present = set(mine.table["coverage"])
    panels = [
        {"name": name, "title": COVERAGES[name], "figure": _panel(mine, name, advice=advice)}
        for name in sorted(COVERAGES, key=lambda name: name != advice["coverage"])
        if name in present
    ]
    return Section(
        "capacity",
        OPEN_TITLE if is_open else CAPACITY_TITLE,
        {
            "advice": advice,
            "milestones": milestones(advice),
            "role_sets": advice.get("role_sets", ()),
            "ranges": ranges(advice["flips"]),
            "single_role_ranges": ranges(advice["single_role_flips"]),
            "title_of": placement_title,
            "shares_of": shares,
            "is_open": is_open,
            "times": advice.get("times"),
            "profile_keys": profile_keys(advice["profiles"]),
            "felt_rows": [*felt_rows(advice.get("predictions") or {})],
            "panels": panels,
            "script": _script(inputs.folder),
        },
    )


LOOPS = {"open": "as traced", "closed": "closed loop"}
RESPONSES = ("p50_ns", "p99_ns", "p999_ns")


def felt_rows(predictions: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield what users would feel: a row a role, loop and placement; first as it was traced."""
    for one in predictions.get("traced", ()):
        times = [_range(one[name], fmt.duration) for name in RESPONSES]
        elapsed = fmt.duration(predictions["traced_elapsed_ns"])
        yield ["the trace itself", "", elapsed, "", "", fmt.role_title(one["role"]), *times]
    for name, title in LOOPS.items():
        for side, placement in (("base", "base device alone"), ("answer", "as recommended")):
            felt: Mapping[str, Any] = predictions.get(name, {}).get(side, {})
            for one in felt.get("roles", ()):
                yield [
                    title,
                    placement,
                    _range(felt["elapsed_ns"], fmt.duration),
                    _range(felt["requests_per_s"], fmt.number),
                    _range(felt["mib_per_s"], fmt.number),
                    fmt.role_title(one["role"]),
                    *(_range(one[time], fmt.duration) for time in RESPONSES),
                ]


def _range(found: Mapping[str, float], write: Callable[[float], str]) -> str:
    """Write a number, and in brackets between which it lies."""
    text, low, high = (write(found[name]) for name in ("value", "low", "high"))
    return text if low == high else f"{text} ({low} to {high})"


def _script(folder: TraceFolder) -> str | None:
    """Return how to carry it out, None for an answer that is not complete."""
    try:
        return script(folder, read_recommendation(folder))
    except InputError:
        return None


def milestones(advice: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the answers worth reading: the headline's, and those with most and all of the gain."""
    chosen = (
        (advice["answer"], "the headline"),
        (advice["knee"], "90% of the largest gain"),
        (advice["best"], "the largest gain"),
    )
    ordered = sorted(chosen, key=lambda pair: int(pair[0]["capacity_bytes"]))
    return [{**answer, "why": why} for answer, why in ordered]


def ranges(flips: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return which placement is the answer from which capacity to which; the last has no end."""
    if not flips:
        return []
    starts = [0, *(flip["capacity_bytes"] for flip in flips)]
    placements = [flips[0]["from"], *(flip["to"] for flip in flips)]
    return [
        {"start": start, "end": end, "placement": placement_title(placement)}
        for start, end, placement in zip(starts, [*starts[1:], None], placements, strict=True)
    ]


def profile_keys(profiles: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return key and unit of what any of the profiles has."""
    return [
        (key, unit)
        for key, unit in PROFILE_KEYS
        if any(profile.get(key) is not None for profile in profiles)
    ]


def _panel(evidence: Evidence, coverage: str, *, advice: Mapping[str, Any]) -> Chart:
    """Draw one coverage; base and the most accessed first are the same in each."""
    measure = "Mean response time" if advice.get("queueing") == OPEN else "Elapsed time"
    table = evidence.table
    shared = table["placement"].isin(["base", "most-accessed-first"])
    curves = table[shared | (table["coverage"] == coverage)]
    return chart(
        partial(draw_capacity, answer_bytes=advice["answer"]["capacity_bytes"], measure=measure),
        evidence.showing(curves),
        title=f"{measure}, {COVERAGES[coverage]}",
        sentences=describe_capacity(curves, measure=measure),
        legend=charts.keys_of(PLACEMENT_STYLES, curves["placement"]),
        name=f"capacity-{coverage}",
    )


def describe_capacity(curves: pd.DataFrame, *, measure: str = "Elapsed time") -> list[str]:
    """Describe how far the NVM can help at all, and how much of that each single role reaches."""
    base_ns = curves.loc[curves["placement"] == "base", "elapsed_ns"].max()
    lowest = curves.groupby("placement")["elapsed_ns"].min()
    if fmt.is_missing(base_ns) or not base_ns:
        return ["The requests of this trace cost the model no time."]
    took = "a request takes on average" if measure.startswith("Mean") else "the requests take"
    sentences = [f"Without NVM {took} {fmt.duration(base_ns)} on the base device."]
    parts = [
        f"{style.text} {fmt.duration(lowest[name])} ({fmt.share(1 - lowest[name] / base_ns)} less)"
        for name, style in PLACEMENT_STYLES.items()
        if name in lowest.index and lowest[name] < base_ns
    ]
    if parts:
        sentences.append(f"The lowest point of each curve: {fmt.listing(parts)}.")
    if still := [
        fmt.role_title(name)
        for name in ("fs", "journal", "swap")
        if name in lowest.index and lowest[name] >= base_ns
    ]:
        sentences.append(f"NVM as {fmt.listing(still)} saves nothing at any capacity.")
    return sentences


SENSITIVITY_KEYS = {
    True: Key("purple", "the recommended placement is best"),
    False: Key("grey", "another one is better"),
}


def draw_sensitivity(table: pd.DataFrame, size: Size) -> Figure:
    """Draw the `gain_ratio` of each row at its `place`, one line a `label`.

    Rows of one place are joined; `holds` chooses the colour; the rows of the kind `recommended` are
    the line that all are compared with.
    """
    drawn = table[table["kind"] != "recommended"]
    labels = drawn.drop_duplicates("place").sort_values("place")
    last = int(labels["place"].max())
    figure, axes = charts.canvas(
        size, x_title="time saved, of the base device's", y_title="", height_px=90 + 22 * last
    )
    gain = float(table.loc[table["kind"] == "recommended", "gain_ratio"].iloc[0])
    axes.axvline(gain, color=charts.light("quiet"), linewidth=1)
    for place in labels["place"]:
        gains = drawn.loc[drawn["place"] == place, "gain_ratio"]
        ends = [float(gains.min()), float(gains.max())]
        axes.plot(ends, [place, place], color=charts.light("quiet"), linewidth=1.5)
    for row in drawn.to_dict("records"):
        colour = charts.light(SENSITIVITY_KEYS[bool(row["holds"])].colour)
        axes.plot([row["gain_ratio"]], [row["place"]], color=colour, marker="o", markersize=6)
    axes.set_yticks(list(labels["place"]), list(labels["label"]))
    axes.set_ylim(last + 0.7, -0.7)
    charts.few_ticks(axes.xaxis, size)
    charts.percent_ticks(axes.xaxis)
    axes.yaxis.grid(visible=False)
    charts.finish(axes)
    return figure


MOST_ROWS = 10
DEVICE_NAMES = {"base": "base", "nvm": "NVM"}


@section("Does the recommendation hold?")
def sensitivity(inputs: Inputs) -> Parts | None:
    """Show the gain under changes; nothing when it was not simulated."""
    result = inputs.answer("simulations/sensitivity.json")
    evidence = inputs.simulation("sensitivity", command="sensitivity")
    if result is None or evidence is None:
        return None
    shown = chart(
        draw_sensitivity,
        evidence.showing(places(evidence.table)),
        title="The gain under each change, in each window and at each capacity",
        sentences=[_cut(result)],
        legend=tuple(SENSITIVITY_KEYS.values()),
    )
    return {"result": result, "figure": shown}


def places(table: pd.DataFrame) -> pd.DataFrame:
    """Give the rows worth drawing their line: changes of one part share one, kinds stand apart."""
    kept_gain = table["kept_gain_ratio"].astype("float64").fillna(table["gain_ratio"])
    kept = table.assign(gain_ratio=kept_gain)
    kept = kept[(kept["requests"] > 0) | (kept["kind"] == "recommended")]
    parts = [kept[kept["kind"] == "recommended"].assign(place=-1, label="")]
    place = 0
    for kind, chosen in (
        ("parameter", lambda rows: rows),
        ("window", _ends),
        ("capacity", _spread),
    ):
        rows = chosen(kept[kept["kind"] == kind])
        labels = [_label(row) for row in rows.to_dict("records")]
        numbers = {label: place + n for n, label in enumerate(dict.fromkeys(labels))}
        parts.append(rows.assign(label=labels, place=[numbers[label] for label in labels]))
        place += len(numbers) + 1
    return pd.concat(parts, ignore_index=True)


def _label(row: Mapping[Any, Any]) -> str:
    if row["kind"] == "parameter":
        return f"{DEVICE_NAMES[str(row['device'])]}: {str(row['parameter']).replace('_', ' ')}"
    if row["kind"] == "capacity":
        return f"with {fmt.data(row['capacity_bytes'])}"
    window = f"window {int(row['window'])}"
    if pd.isna(row["start_ns"]):
        return window
    began = "from the start" if row["window"] == 1 else f"from {fmt.duration(row['start_ns'])}"
    return f"{window}, {began}"


def _cut(result: Mapping[str, Any]) -> str:
    """Describe what a window is."""
    if result.get("window_requests"):
        return f"A window is {fmt.count(result['window_requests'])} requests of the trace."
    return f"A window lasts {fmt.duration(result['window_ns'])}."


def _ends(rows: pd.DataFrame) -> pd.DataFrame:
    """Return all windows, or those of the least and the largest gains of many, in order of time."""
    if len(rows) <= MOST_ROWS:
        return rows
    order = rows.sort_values("gain_ratio", kind="stable")
    return order.iloc[[*range(MOST_ROWS // 2), *range(-(MOST_ROWS // 2), 0)]].sort_index()


def _spread(rows: pd.DataFrame) -> pd.DataFrame:
    """Return some capacities of many, the smallest and the largest among them."""
    rows = rows[rows["capacity_bytes"] > 0]
    chosen = np.unique(np.rint(np.linspace(0, len(rows) - 1, min(MOST_ROWS, len(rows)))))
    return rows.iloc[chosen.astype(int)]


MEASURES = {
    "write_invalidation_factor": Key("quiet", "mean: the write invalidation factor"),
    "writes_p99": Key("blue", "99% of the pages have at most this"),
    "writes_max": Key("purple", "the page written most"),
}


def draw_endurance(table: pd.DataFrame, size: Size) -> Figure:
    """Draw the measures of each `label` on one line, on a logarithmic scale of writes a page."""
    figure, axes = charts.rows_canvas(
        list(table["label"]),
        size,
        x_title="writes of a written page",
        margin_px=74,
        ends=(0.7, 0.7),
    )
    for place, row in enumerate(table.to_dict("records")):
        ends = [float(row[name]) for name in MEASURES]
        axes.plot([min(ends), max(ends)], [place, place], color=charts.light("quiet"))
        for key, writes in zip(MEASURES.values(), ends, strict=True):
            axes.plot([writes], [place], color=charts.light(key.colour), marker="o", markersize=6)
    axes.set_xlim(0.8, max(float(table["writes_max"].max()), 1.0) * 1.3)
    charts.log_axis(axes.xaxis, fmt.count, size=size)
    charts.finish(axes)
    return figure


MIXED = {"combined": "roles split", "most-accessed-first": "most accessed first"}


@section("Writes, wear and price")
def endurance(inputs: Inputs) -> Parts | None:
    """Show how often pages are written; nothing when it was not simulated."""
    result = inputs.answer("simulations/endurance.json")
    evidence = inputs.simulation("endurance", command="endurance")
    if result is None or evidence is None:
        return None
    shown = chart(
        draw_endurance,
        evidence.showing(written(evidence.table)),
        title="Writes of a page, by role and on the NVM of each placement",
        legend=tuple(MEASURES.values()),
    )
    return {"result": result, "figure": shown}


def written(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a written page and what they are called."""
    chosen = table[table["written_pages"] > 0]
    names = chosen["name"].map(lambda name: MIXED.get(name) or fmt.role_title(name))
    return chosen.assign(label=names.where(chosen["kind"] == "role", "on NVM: " + names))


OFFERS = {
    "front": Key("purple", "no other one beats it in gain, price and lifetime"),
    "beaten": Key("slate", "another one beats it, or it is over the budget"),
    "refused": Key("orange", "do not buy"),
}
SHOWN_OFFER = ("offer", "capacity_bytes", "price_usd", "gain_ratio", "lifetime_years", "verdict")


def draw_offers(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `gain_ratio` of each `offer` over its `price_usd`, in the colour of its `kind`."""
    figure, axes = charts.canvas(size, x_title="price in USD", y_title="Gain with it")
    for kind, key in OFFERS.items():
        rows = table[table["kind"] == kind]
        if kind == "front":
            front = rows.sort_values("price_usd")
            axes.plot(front["price_usd"], front["gain_ratio"], color=charts.light("quiet"))
        prices, gains = (rows[name].astype(float).tolist() for name in ("price_usd", "gain_ratio"))
        axes.plot(prices, gains, color=charts.light(key.colour), marker="o", linestyle="")
    charts.log_axis(axes.xaxis, fmt.count, size=size)
    charts.percent_ticks(axes.yaxis)
    charts.finish(axes)
    return figure


@section("What to buy")
def purchase(inputs: Inputs) -> Parts | None:
    """Show the offers by price and gain, and in a table; nothing when it was not simulated."""
    result = inputs.answer("simulations/purchase.json", "headline", "offers")
    if result is None:
        return None
    offers = offers_of(result["offers"])
    evidence = Evidence(
        "purchase", "simulations/purchase.json of tracekit simulate purchase", offers
    )
    shown = chart(
        draw_offers,
        evidence,
        title="Gain and price of each offer",
        legend=charts.keys_of(OFFERS, offers["kind"]) if len(offers) else (),
    )
    return {"result": result, "figure": shown}


def offers_of(offers: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a row an offer, the largest gain first; the gain is that among mixed requests."""
    rows = [
        {
            **one,
            "offer": f"{one['devices']} x {one['device']}",
            "gain_ratio": min(one["gain_ratio"], one["mixed_gain_ratio"] or math.inf),
            "kind": "front" if one["is_on_front"] else "refused" if one["reason"] else "beaten",
            "verdict": one["reason"] or one["verdict"],
        }
        for one in offers
    ]
    table = pd.DataFrame(rows, columns=[*SHOWN_OFFER, "kind"])
    return table.sort_values("gain_ratio", ascending=False, kind="stable", ignore_index=True)


VERIFIED_DEVICES = {
    "base": ("base alone", "slate"),
    "placement": ("as placed", "purple"),
    "runner-up": ("runner-up", "teal"),
}


@section("Does the prediction hold?")
def verification(inputs: Inputs) -> Parts | None:
    """Show what a verification replayed; nothing when nobody has verified the placement."""
    found = inputs.result("verification", command="verify-placement")
    if found is None:
        return None
    result, evidence = found
    what = "Mean response" if result.get("queueing", "serial") == "open" else "Elapsed"
    shown = chart(
        partial(charts.role_bars, value="elapsed_ns", x_title="elapsed time", write=fmt.duration),
        evidence.showing(bars(evidence.table)),
        title=f"{what} time, predicted and replayed",
    )
    return {"headline": result["headline"], "figure": shown}


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """Return a bar for the prediction and one for the median replay of each kind."""
    found = table.groupby("devices").median(numeric_only=True)
    cells = [
        {
            "kind": f"{title}, {how}",
            "colour": colour,
            "elapsed_ns": found.loc[name, column],
        }
        for name, (title, colour) in VERIFIED_DEVICES.items()
        if name in found.index
        for how, column in (("predicted", "predicted_ns"), ("replayed", "measured_ns"))
    ]
    return pd.DataFrame(cells)

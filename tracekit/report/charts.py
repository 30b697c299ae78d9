"""Draw: a canvas, curves and bars by role, scales with units, and the figure as inline SVG.

A figure is a function from a table and a size to a matplotlib figure; it opens no file. matplotlib
writes colours, fonts and a global style sheet into the SVG. Inline in a page, these would leak out,
ignore dark mode and need a lax content security policy. So every colour becomes a class from the
palette, every style a presentation attribute, and every id gets the figure's name.
"""

from __future__ import annotations

import functools
import io
import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from tracekit.paths import data_folder
from tracekit.report import formatting as fmt
from tracekit.report.explore import as_json, curves_of
from tracekit.units import LONG_NS


@functools.cache
def _palette() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((data_folder("reports") / "palette.json").read_text())
    return content


def colours(scheme: str) -> dict[str, str]:
    """Return name to `#rrggbb` for the scheme `light` or `dark`."""
    return {name: entry[scheme] for name, entry in _palette()["colours"].items()}


def series() -> tuple[str, ...]:
    """Return the colours of curves that have no meaning of their own, in their order."""
    return tuple(_palette()["series"])


def colour_name(meaning: str) -> str:
    """Return the colour of the palette that stands for a meaning; a colour stands for itself."""
    return str(_palette()["meanings"].get(meaning, meaning))


def light(meaning: str) -> str:
    """Return the light colour of a meaning or of a colour's name; figures draw with it."""
    return str(_palette()["colours"][colour_name(meaning)]["light"])


@functools.cache
def names() -> dict[str, str]:
    """Return light colour to name: how a colour of a drawn figure is recognised."""
    return {value: name for name, value in colours("light").items()}


def style() -> str:
    """Return the CSS: a variable for each colour and classes that fill and stroke with it."""
    day, night = (_variables(colours(scheme)) for scheme in ("light", "dark"))
    rules = [
        f":root{{color-scheme:light dark;{day}}}",
        f"@media screen and (prefers-color-scheme:dark){{:root{{{night}}}}}",
    ]
    rules += [
        f".fill-{name}{{fill:var(--{name})}}.stroke-{name}{{stroke:var(--{name})}}"
        for name in colours("light")
    ]
    return "\n".join(rules)


def _variables(scheme: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in scheme.items())


_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_DROPPED_STYLES = ("font-family", "font", "font-weight", "font-style")
_REFERENCE = re.compile(r"#(?=[A-Za-z])")
_LONG_DECIMAL = re.compile(r"-?\d+\.\d{2,}")


@dataclass(frozen=True)
class Size:
    """The space of one variant of a figure, in CSS pixels; the page shows the one that fits."""

    name: str
    width_px: int
    height_px: int

    @property
    def is_narrow(self) -> bool:
        """Return whether this is the variant for a phone."""
        return self.name == "narrow"


WIDE = Size("wide", 760, 330)
NARROW = Size("narrow", 343, 290)

Draw = Callable[["pd.DataFrame", Size], "Figure"]


@runtime_checkable
class Cells(Protocol):
    """Draws a heat map that a browser can draw anew."""

    def content(self, table: pd.DataFrame, /) -> Mapping[str, Any]:
        """Return its cells and axes."""

    def keys(self, table: pd.DataFrame, /) -> Sequence[Key]:
        """Return the scale of its colours."""


@dataclass(frozen=True)
class Drawing:
    """A figure as inline SVG, in both sizes, and the JSON from which a browser draws it anew.

    That of heat maps, and of figures of curves alone.
    """

    svg: str
    content: str


def drawn(
    draw: Draw, table: pd.DataFrame, *, name: str, label: str, legend: Sequence[Key] = ()
) -> Drawing:
    """Draw the table for a desktop and for a phone.

    `name` must be unique in the page; `label` is what a screen reader says.
    """
    with mpl.rc_context(cast(Any, _settings())):
        figures = [(draw(table, size), size) for size in (WIDE, NARROW)]
        for figure, _ in figures:
            _describe_bars(figure, legend)
        svg = "".join(
            _inline(_saved(figure), f"{name}-{size.name}", size=size, label=label)
            for figure, size in figures
        )
    if isinstance(draw, Cells):
        return Drawing(svg, as_json(draw.content(table)))
    entries = [(colour_name(key.colour), key.line, key.text) for key in legend]
    return Drawing(svg, curves_of(figures[0][0], entries, colour_name=_colour_name))


BAR = "bar "
"""How the id of a bar begins that says what it shows."""


def _describe_bars(figure: Figure, legend: Sequence[Key]) -> None:
    """Give each horizontal bar what it shows: its row, what its colour means and its number."""
    axes = figure.axes[0]
    if axes.collections:  # cells, whose strip of roles has no numbers
        return
    write = WRITERS[axes.xaxis.get_gid() or "number"]
    rows = {round(float(at)): text.get_text() for at, text in _labels(axes.yaxis)}
    meanings = {light(key.colour): key.text for key in legend}
    for bar in (bar for one in axes.containers for bar in cast("Sequence[Rectangle]", one)):
        row = rows.get(round(bar.get_y() + bar.get_height() / 2), "").replace("\n", " ")
        meaning = meanings.get(to_hex(bar.get_facecolor()), "")
        names = dict.fromkeys(name for name in (row, meaning) if name)
        if bar.get_width() and bar.get_gid() is None:
            bar.set_gid(f"{BAR}{', '.join(names)}: {write(bar.get_width())}")


def _labels(axis: Axis) -> Iterator[tuple[float, Any]]:
    return zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=False)


def _settings() -> dict[str, Any]:
    ink, quiet, grid = (light(name) for name in ("ink", "quiet", "grid"))
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "tracekit",
        "text.parse_math": False,
        "text.color": ink,
        "font.size": 12.0,
        "figure.facecolor": "none",
        "figure.dpi": 72.0,
        "axes.facecolor": "none",
        "axes.edgecolor": grid,
        "axes.labelcolor": quiet,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "axes.labelsize": 12.0,
        "grid.color": grid,
        "grid.linewidth": 1.0,
        "xtick.color": grid,
        "ytick.color": grid,
        "xtick.labelcolor": quiet,
        "ytick.labelcolor": quiet,
        "xtick.labelsize": 12.0,
        "ytick.labelsize": 12.0,
        "ytick.major.size": 0.0,
        "ytick.minor.size": 0.0,
        "xtick.minor.size": 0.0,
        "lines.linewidth": 2.0,
        "lines.solid_capstyle": "round",
    }


def _saved(figure: Figure) -> str:
    """Return the figure as SVG; without `savefig`, which draws everything twice."""
    file = io.BytesIO()
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(file, metadata={"Date": None})
    return file.getvalue().decode()


def _inline(source: str, prefix: str, *, size: Size, label: str) -> str:
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    root = ET.fromstring(source)  # noqa: S314 - matplotlib wrote it a moment ago
    for unwanted in (f"{_SVG}metadata", f"{_SVG}defs"):
        for child in root.findall(unwanted):
            if unwanted.endswith("metadata") or child.find(f"{_SVG}style") is not None:
                root.remove(child)
    for element in root.iter():
        _restyle(element)
        _rename(element, prefix)
        _shorten(element)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.attrib |= {"class": size.name, "role": "img", "aria-label": label}
    root.attrib |= {"stroke-linejoin": "round"}
    return ET.tostring(root, encoding="unicode")


def _restyle(element: ET.Element) -> None:
    """Turn the style attribute into classes for colours and attributes for everything else."""
    classes = []
    for declaration in filter(None, element.attrib.pop("style", "").split(";")):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key in ("fill", "stroke") and value != "none":
            classes.append(f"{key}-{_colour_name(value)}")
        elif key not in _DROPPED_STYLES:
            element.set(key, value.removesuffix("px"))
    if classes:
        element.set("class", " ".join(classes))


def _colour_name(colour: str) -> str:
    name = names().get(colour.lower())
    if name is None:
        raise ValueError(f"a figure uses {colour}, which is not in reports/palette.json")
    return name


def _rename(element: ET.Element, prefix: str) -> None:
    if element.tag == f"{_SVG}g":
        name = element.attrib.pop("id", "")
        if name.startswith(BAR):
            element.set("class", "bar")
            ET.SubElement(element, f"{_SVG}title").text = name.removeprefix(BAR)
    if "id" in element.attrib:
        element.set("id", f"{prefix}-{element.attrib['id']}")
    if "clip-path" in element.attrib:
        element.set("clip-path", _REFERENCE.sub(f"#{prefix}-", element.attrib["clip-path"]))
    if _HREF in element.attrib:
        target = element.attrib.pop(_HREF)
        is_reference = target.startswith("#")
        element.set("href", f"#{prefix}-{target[1:]}" if is_reference else target)


def _shorten(element: ET.Element) -> None:
    """Keep a hundredth of a pixel; the rest of the digits would be half of the page."""
    for key in ("d", "x", "y", "transform", "width", "height"):
        if key in element.attrib:
            text = " ".join(element.attrib[key].split())
            element.set(key, _LONG_DECIMAL.sub(lambda digits: f"{float(digits[0]):.2f}", text))
    if element.text is not None and not element.text.strip():
        element.text = None
    element.tail = None


# Each unit is used from its third value on.
TIME_UNITS = (
    ("h", 3600e9, 7200e9),
    ("min", 60e9, LONG_NS),
    ("s", 1e9, 2e9),
    ("ms", 1e6, 2e6),
    ("µs", 1e3, 2e3),
    ("ns", 1.0, 0.0),
)
DATA_UNITS = (
    ("TiB", 2.0**40, 2.0**41),
    ("GiB", 2.0**30, 2.0**31),
    ("MiB", 2.0**20, 2.0**21),
    ("KiB", 2.0**10, 2.0**11),
    ("B", 1.0, 0.0),
)
# Of the name of a bar on a phone, before it goes on in a second line.
NAME_CHARACTERS = 22
Units = tuple[tuple[str, float, float], ...]

# A role has its colour everywhere; operations of one role differ by their line.
OPERATION_LINES = {"read": "dashed", "write": "solid", "flush": "dotted", "discard": "dashdot"}


@dataclass(frozen=True)
class Key:
    """One entry of a legend: a colour of the palette, what it stands for, and a line style."""

    colour: str
    text: str
    line: str = "box"
    opacity: float | None = None
    """Of a step of the scale of a heat map."""


Styles = Mapping[Any, Key]
"""How the curve of each value of a column is drawn, in the order of drawing."""


def keys_of(styles: Styles, present: Iterable[Any]) -> list[Key]:
    """Return the legend of the curves that are present."""
    found = set(present)
    return [style for value, style in styles.items() if value in found]


class Scale(Protocol):
    """Sets the ticks of an axis on which a figure of some size shows values up to the highest."""

    def __call__(self, axis: Axis, /, *, highest: float, size: Size) -> None:
        """Set them."""


@dataclass(frozen=True)
class Variable:
    """What an axis shows: a column of the table, with its title and its scale."""

    column: str
    title: str
    scale: Scale


def canvas(size: Size, *, x_title: str, y_title: str, height_px: int = 0) -> tuple[Figure, Axes]:
    """Return an empty figure and its axes; the y title lies flat above the axis, to be readable."""
    figure = Figure(figsize=(size.width_px / 72, (height_px or size.height_px) / 72))
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)
    axes = figure.subplots()
    axes.set_xlabel(x_title)
    # Where the y title and the empty vertical one stand is known: looked for, it is a sixth of the
    # time of drawing.
    axes.set_title(y_title, loc="left", fontsize=12, color=light("quiet"), pad=10, y=1.0)
    axes.yaxis.set_label_coords(0, 0)
    return figure, axes


def rows_canvas(
    labels: Sequence[str],
    size: Size,
    *,
    x_title: str,
    row_px: int = 26,
    margin_px: int = 70,
    ends: tuple[float, float] = (0.5, 0.5),
) -> tuple[Figure, Axes]:
    """Return an empty figure with a labelled line a row, from 0 downwards."""
    height_px = margin_px + row_px * len(labels)
    figure, axes = canvas(size, x_title=x_title, y_title="", height_px=height_px)
    axes.set_yticks(range(len(labels)), list(labels))
    axes.set_ylim(len(labels) - 1 + ends[1], -ends[0])
    axes.yaxis.grid(visible=False)
    return figure, axes


def finish(axes: Axes) -> None:
    """Undo what seaborn adds on its own: the vertical y title and a legend inside the plot."""
    axes.set_ylabel("")
    legend = axes.get_legend()
    if legend is not None:
        legend.remove()


def curves(
    table: pd.DataFrame,
    size: Size,
    *,
    x: Variable,
    y: Variable,
    by: str = "",
    styles: Styles | None = None,
    **look: Any,
) -> Figure:
    """Draw `y` over `x`, a curve for each value of `by` that has a style, or for each role.

    Where a value is missing the curve has a gap, which seaborn's own lines would bridge. What is 0
    has no place on a logarithmic scale of bytes. `look` goes to each curve, such as `markersize`.
    """
    figure, axes = canvas(size, x_title=x.title, y_title=y.title)
    groups = _by_role(table)
    if styles is not None:
        groups = ((style, table[table[by] == value]) for value, style in styles.items())
    for style, rows in groups:
        curve = rows[rows[x.column] > 0] if x.scale is log_data_axis else rows
        if not curve.empty:
            xs, ys = (curve[name].astype(float).tolist() for name in (x.column, y.column))
            draw_curve(axes, style, x=xs, y=ys, **look)
    x.scale(axes.xaxis, highest=table[x.column].max(), size=size)
    y.scale(axes.yaxis, highest=table[y.column].max(), size=size)
    finish(axes)
    return figure


def draw_curve(axes: Axes, style: Key, *, x: Any, y: Any, **look: Any) -> None:
    """Draw one curve; where `look` has a size of markers its points are dots."""
    if "markersize" in look:
        look.setdefault("marker", "o")
    axes.plot(x, y, color=light(style.colour), linestyle=style.line, **look)


def _by_role(table: pd.DataFrame) -> Iterator[tuple[Key, pd.DataFrame]]:
    """Yield the rows of each role (or `colour`), and of each operation if the table has it."""
    colour = "colour" if "colour" in table.columns else "role"
    keys = [colour, "operation"] if "operation" in table.columns else [colour]
    for group, rows in table.groupby(keys, sort=True):
        line = OPERATION_LINES.get(str(group[1]), "solid") if len(keys) > 1 else "solid"
        yield Key(str(group[0]), "", line), rows


def cumulative_times(x_title: str, y_title: str) -> Draw:
    """Return the drawing of `smaller_ratio` over `high_ns` on a logarithmic scale of time.

    A bucket that ends at 0 ns is drawn at 1 ns.
    """
    x = Variable("high_ns", x_title, log_time_axis)

    def draw(table: pd.DataFrame, size: Size) -> Figure:
        times = table.assign(high_ns=table["high_ns"].clip(lower=1))
        return cumulative(times, size, x=x, y_title=y_title)

    return draw


def cumulative(table: pd.DataFrame, size: Size, *, x: Variable, y_title: str) -> Figure:
    """Draw steps of `smaller_ratio` over `x` by role (and operation).

    They rise from 0 at the first value, so that a single value shows too.
    """
    by = [name for name in ("role", "colour", "operation") if name in table.columns]
    table = with_origins(table, by, smaller_ratio=0.0)
    y = Variable("smaller_ratio", y_title, share_axis)
    return curves(table, size, x=x, y=y, drawstyle="steps-post")


def with_origins(table: pd.DataFrame, by: str | list[str], **values: float) -> pd.DataFrame:
    """Return the table with a row more before each curve: its first one with other values."""
    return pd.concat([table.drop_duplicates(by).assign(**values), table], ignore_index=True)


def over_time(column: str, title: str, *, scale: Scale) -> Draw:
    """Return the drawing of a column over `window_ns`, a curve a role."""
    x = Variable("window_ns", "time since the start", time_axis)
    return functools.partial(curves, x=x, y=Variable(column, title, from_zero(scale)))


def role_bars(
    table: pd.DataFrame,
    size: Size,
    *,
    value: str,
    x_title: str,
    write: Callable[[Any], str] = fmt.count,
) -> Figure:
    """Draw a bar for each row, named by its `kind`, in its `colour` or that of its role."""
    figure, axes = canvas(size, x_title=x_title, y_title="", height_px=70 + 30 * len(table))
    places = range(len(table))
    colours = [light(one) for one in table["colour" if "colour" in table else "role"]]
    bars = axes.barh(places, table[value].astype(float), height=0.66, color=colours)
    axes.bar_label(bars, fmt=write, padding=4, color=light("quiet"))
    axes.set_ylim(len(table) - 0.5, -0.5)
    axes.set_yticks(places, list(table["kind"]))
    axes.margins(x=0.25 if size.is_narrow else 0.12)
    axes.yaxis.grid(visible=False)
    few_ticks(axes.xaxis, size)
    write_ticks(axes.xaxis, write)
    finish(axes)
    return figure


def gain_bars(table: pd.DataFrame, size: Size, *, x_title: str) -> Figure:
    """Draw `gain_ratio` of each `kind`, to the left of zero where it is a loss."""
    from textwrap import fill

    if size.is_narrow:
        # A no-break space keeps the sign and its factor in one line.
        kinds = [kind.replace("× ", "×\u00a0") for kind in table["kind"]]  # noqa: RUF001
        table = table.assign(kind=[fill(kind, NAME_CHARACTERS) for kind in kinds])
    figure = role_bars(table, size, value="gain_ratio", x_title=x_title, write=fmt.share)
    axes = figure.axes[0]
    low, high = min(0.0, table["gain_ratio"].min()), max(0.0, table["gain_ratio"].max())
    # Space for the number beside the longest bar of either side.
    space = (high - low or 1.0) * (0.8 if size.is_narrow else 0.16)
    axes.set_xlim(low - (space if low < 0 else 0), high + (space if high > 0 or low == 0 else 0))
    axes.axvline(0, color=light("quiet"), linewidth=1)
    return figure


def stacked_bars(table: pd.DataFrame, size: Size, *, value: str, x_title: str) -> Figure:
    """Draw each `kind` as bars end to end of its rows' values, losses to the left of zero.

    Rows come in the order of kinds, those of a kind in that of the legend, each in its `colour`.
    """
    kinds = list(dict.fromkeys(table["kind"]))
    figure, axes = rows_canvas(kinds, size, x_title=x_title, row_px=30)
    ends = {(kind, is_gain): 0.0 for kind in kinds for is_gain in (False, True)}
    for row in table.to_dict("records"):
        kind, width = row["kind"], float(row[value])
        left = ends[kind, width >= 0]
        axes.barh(kinds.index(kind), width, left=left, height=0.66, color=light(row["colour"]))
        ends[kind, width >= 0] += width
    few_ticks(axes.xaxis, size)
    percent_ticks(axes.xaxis)
    finish(axes)
    return figure


def heat_map(
    cells: pd.DataFrame,
    size: Size,
    *,
    x_title: str,
    y_title: str,
    height_px: int = 0,
    colours: Sequence[tuple[str, float]] = (("intensity", 0.06), ("intensity", 1.0)),
    **options: Any,
) -> tuple[Figure, Axes]:
    """Draw a cell for each value, the first row at the bottom; `options` are seaborn's.

    The colours, each with its opacity, go from the lowest to the highest value; transparent ones
    stand on a light or a dark page.
    """
    height_px = height_px or (300 if size.is_narrow else 380)
    figure, axes = canvas(size, x_title=x_title, y_title=y_title, height_px=height_px)
    ramp = [(*to_rgb(light(name)), opacity) for name, opacity in colours]
    options["cmap"] = LinearSegmentedColormap.from_list("heat", ramp)
    sns.heatmap(cells, cbar=False, rasterized=True, ax=axes, **options)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel(x_title)
    axes.tick_params(axis="both", rotation=0)
    finish(axes)
    return figure, axes


def write_cells(axes: Axes, cells: Iterable[tuple[int, int, str]], *, size: Size) -> None:
    """Write a text into cells of a heat map, each given by its column and row."""
    for column, row, text in cells:
        axes.text(
            column + 0.5,
            row + 0.5,
            text,
            ha="center",
            va="center",
            color=light("ink"),
            fontsize=10 if size.is_narrow else 12,
        )


def unit_for(highest: float, units: Units) -> tuple[str, float]:
    """Return the name and factor of the unit in which an axis up to `highest` reads best."""
    return next((name, factor) for name, factor, least in units if highest >= least)


KINDS = {
    fmt.duration: "time",
    fmt.data: "data",
    fmt.count: "count",
    fmt.share: "share",
    fmt.number: "number",
}
WRITERS = {kind: write for write, kind in KINDS.items()}


def write_ticks(axis: Axis, write: Callable[[Any], str], *, kind: str = "") -> None:
    """Write each tick of an axis with one of the formatters of the report.

    `kind` is what its values are where that is another: time, data, share, count or number.
    """
    axis.set_gid(kind or KINDS.get(write, "number"))
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


def percent_ticks(axis: Axis) -> None:
    """Write each tick of an axis of ratios in percent."""
    write_ticks(axis, lambda ratio: f"{ratio * 100:g}%", kind="share")


def percent_axis(axis: Axis, **_: Any) -> None:
    """Write an axis of ratios in percent."""
    percent_ticks(axis)


def few_ticks(axis: Axis, size: Size) -> None:
    """Leave space between the numbers on a phone."""
    axis.set_major_locator(MaxNLocator(nbins=3 if size.is_narrow else 6))


def count_ticks(axis: Axis, size: Size) -> None:
    """Write counts with thousands separators, at whole numbers only."""
    axis.set_major_locator(MaxNLocator(nbins=3 if size.is_narrow else 5, integer=True))
    write_ticks(axis, fmt.count)


def share_axis(axis: Axis, *, low: float = 0, **_: Any) -> None:
    """Write shares of 0 to 1 in percent, over the whole range."""
    axis.axes.set_ylim(low, 1.02)
    axis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    write_ticks(axis, lambda ratio: f"{ratio * 100:.0f}%", kind="share")


# Points at 0 are seen as a whole.
share_axis_of_points = functools.partial(share_axis, low=-0.02)


def time_axis(axis: Axis, *, highest: float, steps: int = 5, **_: Any) -> None:
    """Put ticks at round numbers of the unit that suits the range, and write the unit at each."""
    _unit_axis(axis, *unit_for(highest, TIME_UNITS), steps=steps, kind="time")


def data_axis(axis: Axis, *, highest: float, steps: int = 5, **_: Any) -> None:
    """Put ticks at round numbers of the binary unit that suits the range."""
    _unit_axis(axis, *unit_for(highest, DATA_UNITS), steps=steps, kind="data")


def capacity_axis(axis: Axis, *, highest: float, size: Size) -> None:
    """Put many ticks at round numbers of the binary unit, close to both ends."""
    axis.axes.margins(x=0.02)
    data_axis(axis, highest=highest, steps=4 if size.is_narrow else 8)


def from_zero(scale: Scale) -> Scale:
    """Return the scale of an axis of ordinates that begins at 0."""

    def whole(axis: Axis, /, *, highest: float, size: Size) -> None:
        scale(axis, highest=highest, size=size)
        axis.axes.set_ylim(bottom=0)

    return whole


def _unit_axis(axis: Axis, name: str, factor: float, *, steps: int, kind: str) -> None:
    class _Locator(MaxNLocator):
        """Round in the unit, not in nanoseconds or bytes."""

        def tick_values(self, vmin: float, vmax: float) -> Any:
            ticks: Any = super().tick_values(vmin / factor, vmax / factor)
            return ticks * factor

    axis.set_major_locator(_Locator(nbins=steps, steps=[1, 2, 2.5, 5, 10]))
    write_ticks(axis, lambda value: f"{value / factor:g} {name}" if value else "0", kind=kind)


def log_axis(axis: Axis, write: Callable[[Any], str], *, size: Size) -> None:
    """Make an axis logarithmic, with as many decades (or parts of one) as there is space for."""
    scale = axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale
    scale("log")
    low, high = axis.get_view_interval()
    most = 5 if size.is_narrow else 9
    subs = (1.0, 2.0, 5.0) if 3 * math.log10(high / low) < most else (1.0,)
    axis.set_major_locator(LogLocator(base=10, subs=subs, numticks=most))
    axis.set_minor_locator(NullLocator())
    write_ticks(axis, write)


def log_time_axis(axis: Axis, *, size: Size, **_: Any) -> None:
    """Make an axis of times logarithmic."""
    log_axis(axis, fmt.duration, size=size)


def log_count_axis(axis: Axis, *, size: Size, **_: Any) -> None:
    """Make an axis of counts logarithmic."""
    log_axis(axis, fmt.count, size=size)


def log_data_axis(axis: Axis, *, size: Size, **_: Any) -> None:
    """Make the x axis of bytes logarithmic, with as many powers of two as there is space for."""
    axis.axes.set_xscale("log", base=2)
    low, high = axis.get_view_interval()
    most = 4 if size.is_narrow else 9
    octaves = max(1, -int(-math.log2(high / low) // most))
    axis.set_major_locator(LogLocator(base=2.0**octaves, numticks=most + 2))
    axis.set_minor_locator(NullLocator())
    write_ticks(axis, fmt.data)

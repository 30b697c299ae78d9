"""The values of a figure's curves, from which a browser draws it anew to zoom and to read values.

The page holds the figure as SVG, for paper and where no script runs; `reports/page.js` draws the
same curves with uPlot when a reader asks for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.colors import to_hex
from matplotlib.text import Annotation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MOST_POINTS = 20_000
"""A figure with more points, all curves together, is only shown as it is drawn."""
LINES = {"-": "solid", "--": "dashed", ":": "dotted", "-.": "dashdot", "None": "none"}


Entry = tuple[str, str, str]
"""Of a legend: the name of a colour in the palette, a line style, a text."""


def curves_of(figure: Figure, legend: Sequence[Entry], *, colour_name: Callable[[str], str]) -> str:
    """Return a figure's curves and axes as JSON; nothing where it is no figure of curves alone.

    Values are in base units: ns, bytes, ratios. `colour_name` returns the palette's name of a
    colour.
    """
    axes, *others = figure.axes
    lines = [
        line
        for line in axes.lines
        if line.get_transform() == axes.transData and len(_floats(line.get_xdata())) > 1
    ]
    points = sum(len(_floats(line.get_xdata())) for line in lines)
    if others or axes.patches or axes.images or not 0 < points <= MOST_POINTS:
        return ""
    looks = [(colour_name(to_hex(line.get_color())), _style(line)) for line in lines]
    content = {
        "x": _axis(axes.xaxis, axes.get_xlabel(), axes.get_xlim()),
        "y": _axis(axes.yaxis, axes.get_title(loc="left"), axes.get_ylim()),
        "curves": [
            {"name": _name(look, looks, legend), "colour": look[0], "line": look[1]} | _values(line)
            for line, look in zip(lines, looks, strict=True)
        ],
    }
    if marks := [*_marks(axes)]:
        content["marks"] = marks
    return as_json(content)


def _marks(axes: Axes) -> Iterator[dict[str, Any]]:
    """Yield the upright lines with what is written beside them, such as the answer's capacity."""
    texts = {
        float(text.xy[0]): text.get_text() for text in axes.texts if isinstance(text, Annotation)
    }
    for line in axes.lines:
        low, *high = _floats(line.get_xdata())
        if line.get_transform() != axes.transData and high == [low]:
            yield {"x": _numbers([low])[0], "text": texts.get(low, "")}


def as_json(content: Mapping[str, Any]) -> str:
    """Return what a browser reads, as short as it goes."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def _axis(axis: Axis, title: str, ends: tuple[float, float]) -> dict[str, Any]:
    base = getattr(axis.get_transform(), "base", 0) if axis.get_scale() == "log" else 0
    kind = axis.get_gid() or "number"
    return {"title": title, "kind": kind, "log": base, "ends": _numbers(ends)}


def _style(line: Line2D) -> str:
    return LINES.get(str(line.get_linestyle()), "solid")


def _values(line: Line2D) -> dict[str, Any]:
    return {
        "steps": line.get_drawstyle() == "steps-post",
        "x": _numbers(_floats(line.get_xdata())),
        "y": _numbers(_floats(line.get_ydata())),
    }


def _name(look: tuple[str, str], looks: Sequence[tuple[str, str]], legend: Sequence[Entry]) -> str:
    """Return what the legend says of a colour and a line: in one entry, or in one for each."""
    whole = [text for *entry, text in legend if tuple(entry) == look]
    colours = [text for colour, _, text in legend if colour == look[0]]
    drawn = {colour for colour, _ in looks}
    lines = [text for colour, line, text in legend if line == look[1] and colour not in drawn]
    return (whole or [", ".join(colours[:1] + lines[:1])])[0]


def _floats(values: Any) -> list[float]:
    return [float(value) for value in values]


def _numbers(values: Iterable[float]) -> list[int | float | None]:
    """Return numbers of six digits: less than a pixel of a curve that fills the screen."""
    return [
        None
        if not math.isfinite(value)
        else (int(value) if value == int(value) and abs(value) < 1e6 else float(f"{value:.6g}"))
        for value in values
    ]

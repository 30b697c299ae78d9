"""The report's figures as axes of matplotlib, drawn by seaborn, for a notebook or a script."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, cast

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tracekit.errors import UsageError
from tracekit.report import charts
from tracekit.report.inputs import Inputs
from tracekit.report.page import SECTIONS
from tracekit.report.section import Chart, Key, Section
from tracekit.store import TraceFolder


def find_figures(folder: TraceFolder, section: str = "") -> dict[str, Chart]:
    """Return the figures of a section of the report, or of all, by name, but empty ones."""
    inputs = Inputs(folder)
    wanted = [build for build in SECTIONS if section in ("", build.__name__)]
    built = [build(inputs) for build in wanted if inputs.has_trace or build.__name__ == section]
    return {
        figure.name: figure
        for part in built
        if isinstance(part, Section)
        for figure in _figures(part.parts)
        if not figure.table.empty
    }


def _figures(part: Any) -> Iterator[Chart]:
    if isinstance(part, Chart):
        yield part
    elif isinstance(part, Mapping):
        for value in part.values():
            yield from _figures(value)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from _figures(value)


def draw(figures: Mapping[str, Chart], name: str | None, *, where: str) -> Axes:
    """Draw the figure of that name, or the first; UsageError when there is none."""
    if not figures:
        raise UsageError(f"{where}: there is nothing to draw yet", hint="run the stage before")
    if name is not None and name not in figures:
        raise UsageError(f"{where} has no figure '{name}'", hint=f"there are: {', '.join(figures)}")
    figure = figures[name or next(iter(figures))]
    drawn = figure.draw(figure.table, charts.WIDE)
    axes = drawn.axes[0]
    drawn.suptitle(figure.title, x=0.01, horizontalalignment="left")
    if figure.legend:
        handles = [_handle(key) for key in figure.legend]
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    # These axes belong to no window of pyplot, so they show themselves.
    axes._repr_png_ = lambda: _png(axes)  # type: ignore[attr-defined]
    return axes


def _handle(key: Key) -> Line2D:
    colour = charts.light(key.colour)
    if key.line == "box":
        return Line2D([], [], color=colour, marker="s", linestyle="none", label=key.text)
    line = Line2D([], [], color=colour, label=key.text)
    line.set_linestyle(cast("Any", key.line))
    return line


def _png(axes: Axes) -> bytes:
    content = io.BytesIO()
    figure = axes.get_figure(root=True)
    if figure is not None:
        figure.savefig(content, format="png", dpi=120)
    return content.getvalue()

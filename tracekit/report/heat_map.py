"""Heat maps over time: cells of a window and a range of values, drawn and as a browser reads them.

Their tables have a row a cell, or several that are added up: `window_number`, `window_length_ns`,
`row` (counted from the bottom), its ends `low` and `high` in ns or bytes, and numbers; `files`
where they are known: those of the row with most requests, name and number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Size, Units

DECADES = 3
FAINTEST = 0.12
"""Opacity of the cells with the least; that of the most is 1."""
SHADES = 4
OCTAVE_BITS = 2
X_TITLE = "time since the start"
UNITS = {"time": charts.TIME_UNITS, "data": charts.DATA_UNITS}


@dataclass(frozen=True)
class HeatMap:
    """Draws the cells of a table; the rows are ranges of time, on a log scale, or of data."""

    y_title: str
    kind: str
    values: Mapping[str, str]
    """Numbers of a cell, column to kind: data or count; the last is its colour."""
    beside: Callable[[Axes, pd.DataFrame], None] | None = None
    """Draws what stands at the right of the cells."""

    @property
    def coloured(self) -> str:
        """The column that is the colour of a cell."""
        return [*self.values][-1]

    def __call__(self, table: pd.DataFrame, size: Size) -> Figure:
        """Draw the cells, each as wide and as high as the others."""
        cells = table.pivot_table(
            index="row", columns="window_number", values=self.coloured, aggfunc="sum"
        )
        cells = cells.where(cells > 0).reindex(
            index=range(int(table["row"].min()), int(table["row"].max()) + 1),
            columns=range(int(table["window_number"].max()) + 1),
        )
        low, high = self.scale(table)
        figure, axes = charts.heat_map(
            cells,
            size,
            x_title=X_TITLE,
            y_title=self.y_title,
            colours=(("intensity", FAINTEST), ("intensity", 1.0)),
            norm=LogNorm(vmin=low, vmax=high, clip=True),
        )
        self._number_axes(axes, table, steps=3 if size.is_narrow else 6)
        if self.beside is not None:
            self.beside(axes, table)
        return figure

    def _number_axes(self, axes: Axes, table: pd.DataFrame, *, steps: int) -> None:
        """Write round times and places; the cells themselves are only numbered."""
        window_ns = float(table["window_length_ns"].iloc[0])
        end_ns = (table["window_number"].max() + 1) * window_ns
        times = _round(0.0, end_ns, units=UNITS["time"], steps=steps)
        axes.set_xticks([value / window_ns for value, _ in times], [text for _, text in times])
        low, high = self._ends(table)
        places = _round(low, high, units=UNITS[self.kind], steps=5)
        if self.kind == "time":
            subs = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
            ticks = LogLocator(subs=subs, numticks=9).tick_values(low, high)
            places = [(value, fmt.duration(value)) for value in ticks if low <= value <= high]
        rows = table.drop_duplicates("row").sort_values("row")
        edges = [*rows["low"].clip(lower=low), high]
        numbers = [*(rows["row"] - rows["row"].min()), rows["row"].max() + 1 - rows["row"].min()]
        # Between edges of rows on a log scale, too: they are the edges of log-linear buckets.
        to = np.log if self.kind == "time" else np.asarray
        at = np.interp(to([value for value, _ in places]), to(edges), numbers)
        axes.set_yticks([*map(float, at)], [text for _, text in places])

    def scale(self, table: pd.DataFrame) -> tuple[float, float]:
        """Return what the faintest and the strongest colour are of, at most DECADES apart."""
        cells = self._cells(table)[self.coloured]
        high = max(float(cells.max()), 2.0)
        smallest = float(cells[cells > 0].min()) if high > 2 else 1.0
        return max(min(smallest, high / 2), high / 10**DECADES), high

    def keys(self, table: pd.DataFrame) -> list[Key]:
        """Return the scale of colours as entries of a legend, at equal ratios."""
        if table.empty:
            return []
        low, high = self.scale(table)
        is_count = self.values[self.coloured] == "count"
        write = partial(fmt.plural, noun="request") if is_count else fmt.data
        shades = [step / (SHADES - 1) for step in range(SHADES)]
        texts = {write(low * (high / low) ** shade): shade for shade in shades}
        rest = " or less" if low > self._cells(table)[self.coloured].min() else ""
        return [
            Key(
                "intensity",
                f"{text}{'' if shade else rest}",
                opacity=FAINTEST + (1 - FAINTEST) * shade,
            )
            for text, shade in texts.items()
        ]

    def content(self, table: pd.DataFrame) -> dict[str, Any]:
        """Return the cells for a browser: a row has its ends, the windows and their numbers."""
        low, high = self._ends(table)
        window_ns = int(table["window_length_ns"].iloc[0])
        end_ns = (int(table["window_number"].max()) + 1) * window_ns
        is_log = self.kind == "time"
        y = {"title": self.y_title, "kind": self.kind, "log": 10 if is_log else 0}
        rows = table.drop_duplicates("row").set_index("row").sort_index()
        ends = rows[["low", "high"]].T
        files = {"files": _named(rows["files"])} if "files" in rows else {}
        return {
            **files,
            "x": {"title": X_TITLE, "kind": "time", "log": 0, "ends": [0, end_ns]},
            "y": {**y, "ends": [low, high]},
            "step": window_ns,
            "values": [*self.values.values()],
            "scale": [*self.scale(table), FAINTEST],
            "rows": [
                [*map(int, ends[row]), *(found[name].astype(int).tolist() for name in found)]
                for row, found in self._cells(table).reset_index("window_number").groupby("row")
            ],
        }

    def _ends(self, table: pd.DataFrame) -> tuple[int, int]:
        """Return the lowest and the highest end of rows; a log scale has no 0."""
        low, high = int(table["low"].min()), int(table["high"].max())
        return (max(low, 1), max(high, 2)) if self.kind == "time" else (low, high)

    def _cells(self, table: pd.DataFrame) -> pd.DataFrame:
        return table.groupby(["row", "window_number"])[[*self.values]].sum()


def _round(low: float, high: float, *, units: Units, steps: int) -> Sequence[tuple[float, str]]:
    """Return round values from `low` to `high` in the unit that suits them, and their texts."""
    name, factor = charts.unit_for(high, units)
    ticks = MaxNLocator(nbins=steps, steps=[1, 2, 2.5, 5, 10]).tick_values(
        low / factor, high / factor
    )
    within = [tick for tick in ticks if low / factor <= tick <= high / factor]
    return [(tick * factor, f"{tick:g} {name}" if tick else "0") for tick in within]


def _named(files: Iterable[Sequence[tuple[str, int]]]) -> dict[str, Any]:
    """Return the names, each once, and of each row the places of its names and their numbers."""
    names: dict[str, int] = {}
    rows = [[[names.setdefault(name, len(names)), n] for name, n in found] for found in files]
    return {"names": [*names], "rows": rows}


def requests_by_time(y_title: str) -> HeatMap:
    """Return the heat map of how many requests take how long."""
    return HeatMap(y_title=y_title, kind="time", values={"request_count": "count"})


def cells_of_times(table: pd.DataFrame, parameters: Mapping[str, int] | None) -> pd.DataFrame:
    """Return log-linear buckets of times, with 2^`octave_bits` an octave, as cells."""
    bits = (parameters or {}).get("octave_bits", OCTAVE_BITS)
    return table.assign(
        row=[_bucket(int(low), bits) for low in table["low_ns"]],
        low=table["low_ns"],
        high=table["high_ns"],
    )


def describe_cells(table: pd.DataFrame) -> list[str]:
    """Describe where most of the requests are, and the slowest of them."""
    if table.empty:
        return ["No request has both a time when it began and one when it was completed."]
    text = "Most in one cell: {request_count:count}, {low_ns:duration} to {high_ns:duration} long,"
    text += " {window_ns:duration} after the start."
    starts = table.assign(window_ns=table["window_number"] * table["window_length_ns"])
    return [fmt.sentence(text, fmt.largest(starts, "request_count"))]


def _bucket(value: int, bits: int) -> int:
    """Return the number of the bucket of a value, as `analyzers/lib/log_bucket.sql`."""
    shift = max(0, value.bit_length() - 1 - bits)
    return (shift << bits) + (value >> shift)

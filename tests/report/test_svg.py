"""A drawn figure becomes SVG that follows the page and carries nothing else along."""

import re
import xml.etree.ElementTree as ET

import pandas as pd
import pytest
from matplotlib.figure import Figure

from tests.report.folder import HOSTILE
from tracekit.report import charts
from tracekit.report import charts as palette
from tracekit.report import formatting as fmt
from tracekit.report.charts import Size, drawn

TABLE = pd.DataFrame({"role": ["fs", "journal"], "kind": ["write", "read"], "value": [3, 5]})


def bars(table: pd.DataFrame, size: Size) -> Figure:
    return charts.role_bars(table, size, value="value", x_title="requests")


def parsed(markup: str) -> ET.Element:
    return ET.fromstring(f"<div>{markup}</div>")  # noqa: S314 - our own figure


def test_a_figure_comes_in_two_widths() -> None:
    root = parsed(drawn(bars, TABLE, name="bars", label="Two bars"))
    variants = root.findall("{http://www.w3.org/2000/svg}svg")
    assert [svg.get("class") for svg in variants] == ["wide", "narrow"]
    assert [svg.get("viewBox") for svg in variants] == ["0 0 760 130", "0 0 343 130"]
    assert {svg.get("aria-label") for svg in variants} == {"Two bars"}


def test_colours_are_classes_and_nothing_is_styled_inline() -> None:
    markup = drawn(bars, TABLE, name="bars", label="Two bars")
    assert "fill-blue" in markup
    assert "fill-orange" in markup
    assert not re.search(r"#[0-9a-f]{6}|style=|<style|font-family|<metadata|xlink", markup)


def test_a_colour_outside_the_palette_is_refused() -> None:
    def pink(table: pd.DataFrame, size: Size) -> Figure:
        figure = bars(table, size)
        figure.axes[0].axhline(0, color="#ff00ff")
        return figure

    with pytest.raises(ValueError, match=r"#ff00ff, which is not in reports/palette\.json"):
        drawn(pink, TABLE, name="pink", label="")


def test_ids_are_unique_and_every_reference_has_its_target() -> None:
    markup = drawn(bars, TABLE, name="one", label="") + drawn(bars, TABLE, name="two", label="")
    ids = re.findall(r'\bid="([^"]+)"', markup)
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', markup)
    assert used
    assert len(ids) == len(set(ids))
    assert set(used) <= set(ids)


@pytest.mark.parametrize("name", HOSTILE)
def test_text_of_the_trace_stays_text(name: str) -> None:
    # GIVEN a label that somebody hostile chose, made printable as the sections do
    shown = fmt.printable(name)
    # WHEN it is drawn
    root = parsed(drawn(bars, TABLE.assign(kind=[shown, "b"]), name="bars", label=shown))
    # THEN it is one text of the figure, no element, and no formula
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count(shown) == 2
    tags = {element.tag.partition("}")[2] for element in root.iter()} - {""}
    assert tags <= {"svg", "g", "path", "text", "use", "defs", "clipPath", "rect"}


def test_the_same_table_gives_the_same_bytes() -> None:
    assert drawn(bars, TABLE, name="bars", label="") == drawn(bars, TABLE, name="bars", label="")


def test_drawing_leaves_the_settings_of_matplotlib_alone() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    drawn(bars, TABLE, name="bars", label="")
    assert dict(mpl.rcParams) == before


def test_rasterized_cells_stay_a_picture_of_their_own() -> None:
    def picture(table: pd.DataFrame, size: Size) -> Figure:
        figure = bars(table, size)
        figure.axes[0].axhspan(0, 1, color=palette.light("intensity")).set_rasterized(True)
        return figure

    markup = drawn(picture, TABLE, name="picture", label="")
    assert markup.count('href="data:image/png;base64,') == 2

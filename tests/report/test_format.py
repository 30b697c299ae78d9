"""Numbers, palettes, figures and tables of the page."""

import base64
import gzip
import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import combinations, product
from typing import Any
from urllib.parse import unquote

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tests.report.folder import HOSTILE, frame
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Size


def plain(text: str) -> str:
    """Return the text with ordinary spaces, so that the expectations below can be read."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("jbd2/sda2-8", "jbd2/sda2-8"),
        ("a process that has a long name", "a process that …"),
        ("/docker/7b1f/of/postgres", "…7b1f/of/postgres"),
    ],
)
def test_a_long_name_keeps_what_tells_most(name: str, text: str) -> None:
    assert fmt.shortened(name, len(text)) == text


@pytest.mark.parametrize(
    ("shown", "value", "text"),
    [
        (fmt.count, 0, "0"),
        (fmt.count, 999, "999"),
        (fmt.count, 4092015.0, "4,092,015"),
        (fmt.count, -12, "-12"),
        (fmt.count, None, "–"),  # noqa: RUF001
        (fmt.data, 0, "0 B"),
        (fmt.data, 512, "512 B"),
        (fmt.data, 4096, "4 KiB"),
        (fmt.data, 1023 * 1024, "1,023 KiB"),
        (fmt.data, 3 << 19, "1.5 MiB"),
        (fmt.data, 10113024, "9.64 MiB"),
        (fmt.data, 5 << 40, "5 TiB"),
        (fmt.data, math.nan, "–"),  # noqa: RUF001
        (fmt.duration, 0, "0 ns"),
        (fmt.duration, 999, "999 ns"),
        (fmt.duration, 20341, "20.3 µs"),
        (fmt.duration, 129601, "130 µs"),
        (fmt.duration, 999_999, "1 ms"),
        (fmt.duration, 61_800_000_000, "61.8 s"),
        (fmt.duration, 335_412_257_991, "335 s"),
        (fmt.duration, 1_500_000_000_000, "25 min 0 s"),
        (fmt.duration, 5_065_835_762_389, "1 h 24 min"),
        (fmt.duration, 8_000_000_000_000, "2 h 13 min"),
        (fmt.duration, pd.NA, "–"),  # noqa: RUF001
        # a share shows neither a little as nothing nor nearly all as all
        (fmt.share, 0, "0.0%"),
        (fmt.share, 0.613, "61.3%"),
        (fmt.share, 1, "100.0%"),
        (fmt.share, 0.00001, "< 0.1%"),
        (fmt.share, -0.00001, "> −0.1%"),  # noqa: RUF001
        (fmt.share, 0.99999, "> 99.9%"),
        (fmt.share, -0.025, "−2.5%"),  # noqa: RUF001
    ],
)
def test_numbers_are_readable(shown: Callable[[Any], str], value: object, text: str) -> None:
    assert plain(shown(value)) == text


def test_words() -> None:
    found = [fmt.listing(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])]
    assert found == ["", "a", "a and b", "a, b and c"]
    assert plain(fmt.plural(1, "request")) == "1 request"
    assert plain(fmt.plural(1200, "request")) == "1,200 requests"
    assert [fmt.verb_plural(verb) for verb in ("flush", "read")] == ["flushes", "reads"]
    # what would hide or reorder text is shown
    assert fmt.printable("a\x00b\x1b[2J\u202ec\ud800") == "a\\x00b\\x1b[2J\\u202ec\\ud800"
    # number and unit stay on one line
    for text in (fmt.data(4096), fmt.duration(5000), fmt.share(0.5), fmt.plural(2, "request")):
        assert " " not in text


@given(st.text())
def test_printable_text_is_valid_in_xml(text: str) -> None:
    shown = fmt.printable(text)
    assert all(character.isprintable() or character.isspace() for character in shown)
    assert not any(ord(character) < 32 for character in shown)


@given(st.integers(0, 10**19))
def test_a_time_is_never_written_wrong_by_a_percent(time_ns: int) -> None:
    text = plain(fmt.duration(time_ns)).replace(",", "")
    units = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}
    words = text.split()
    read = sum(
        float(amount) * units[unit] for amount, unit in zip(words[::2], words[1::2], strict=True)
    )
    assert read == pytest.approx(time_ns, rel=0.01, abs=0.5)


SCHEMES = ("light", "dark")
# Linear RGB as seen without the red or the green cones (Vienot, Brettel and Mollon 1999).
SEEN = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.112, 0.888, 0.0], [0.112, 0.888, 0.0], [0.004, -0.004, 1.0]]),
    "deuteranopia": np.array([[0.292, 0.708, 0.0], [0.292, 0.708, 0.0], [-0.022, 0.022, 1.0]]),
}


def linear(colour: str) -> NDArray[np.float64]:
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2, 1 to 21."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    high, low = sorted((float(linear(colour) @ weights) for colour in (one, other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def lab(colour: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return CIE L*a*b* of a linear sRGB colour."""
    matrix = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    ratio = (matrix @ np.clip(colour, 0, 1)) / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("names", "backgrounds", "least"),
    [
        (("ink", "quiet", "accent"), ("surface", "raised"), 4.5),
        (("ink", "caution", "quiet"), ("cautionbg",), 4.5),
        (("fs", "journal", "swap", "other"), ("surface",), 3),
        (("combined", "optimal", "base", "intensity"), ("surface",), 3),
    ],
    ids=["text", "warnings", "roles", "marks"],
)
def test_text_and_marks_stand_out(
    scheme: str, names: tuple[str, ...], backgrounds: tuple[str, ...], least: float
) -> None:
    colours = charts.colours(scheme)
    for name, background in product(names, backgrounds):
        shown = colours[name if least > 3 else charts.colour_name(name)]
        assert contrast(shown, colours[background]) >= least, (name, background)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("eye", SEEN)
def test_roles_can_be_told_apart(scheme: str, eye: str) -> None:
    colours = charts.colours(scheme)
    seen = {
        role: lab(SEEN[eye] @ linear(colours[charts.colour_name(role)]))
        for role in ("fs", "journal", "swap")
    }
    for one, other in combinations(seen, 2):
        # 10 is about four just noticeable differences.
        assert np.linalg.norm(seen[one] - seen[other]) > 10, (one, other)


def test_style_has_both_schemes_and_a_class_for_each_colour() -> None:
    light = list(charts.colours("light").values())
    assert len(light) == len(set(light))
    style = charts.style()
    assert "--blue:#0072b2;" in style
    assert "@media screen and (prefers-color-scheme:dark)" in style
    assert ".fill-orange{fill:var(--orange)}.stroke-orange{stroke:var(--orange)}" in style


BARS = pd.DataFrame({"role": ["fs", "journal"], "kind": ["write", "read"], "value": [3, 5]})


def bars(table: pd.DataFrame, size: Size) -> Figure:
    return charts.role_bars(table, size, value="value", x_title="requests")


def drawn(draw: charts.Draw, table: pd.DataFrame, *, name: str, label: str) -> str:
    return charts.drawn(draw, table, name=name, label=label).svg


def parsed(markup: str) -> ET.Element:
    return ET.fromstring(f"<div>{markup}</div>")  # noqa: S314 - our own figure


def test_a_figure_comes_in_two_widths_with_colours_as_classes() -> None:
    markup = drawn(bars, BARS, name="bars", label="Two bars")
    root = parsed(markup)
    variants = root.findall("{http://www.w3.org/2000/svg}svg")
    assert [svg.get("class") for svg in variants] == ["wide", "narrow"]
    assert [svg.get("viewBox") for svg in variants] == ["0 0 760 130", "0 0 343 130"]
    assert {svg.get("aria-label") for svg in variants} == {"Two bars"}
    assert "fill-blue" in markup
    assert "fill-orange" in markup
    assert not re.search(r"#[0-9a-f]{6}|style=|<style|font-family|<metadata|xlink", markup)


def test_a_colour_outside_the_palette_is_rejected() -> None:
    def pink(table: pd.DataFrame, size: Size) -> Figure:
        figure = bars(table, size)
        figure.axes[0].axhline(0, color="#ff00ff")
        return figure

    with pytest.raises(ValueError, match=r"#ff00ff, which is not in reports/palette\.json"):
        drawn(pink, BARS, name="pink", label="")


def test_ids_are_unique_and_every_reference_has_its_target() -> None:
    markup = drawn(bars, BARS, name="one", label="") + drawn(bars, BARS, name="two", label="")
    ids = re.findall(r'\bid="([^"]+)"', markup)
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', markup)
    assert used
    assert len(ids) == len(set(ids))
    assert set(used) <= set(ids)


@pytest.mark.parametrize("name", HOSTILE)
def test_text_of_the_trace_stays_text(name: str) -> None:
    # GIVEN a label that somebody hostile chose, made printable as the sections do
    shown = fmt.printable(name)
    root = parsed(drawn(bars, BARS.assign(kind=[shown, "b"]), name="bars", label=shown))
    # THEN it is one text of the figure, no element, and no formula
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count(shown) == 2
    tags = {element.tag.partition("}")[2] for element in root.iter()} - {""}
    assert tags <= {"svg", "g", "path", "text", "title", "use", "defs", "clipPath", "rect"}


def test_drawing_again_gives_the_same_bytes_and_changes_no_setting() -> None:
    before = dict(mpl.rcParams)
    assert drawn(bars, BARS, name="bars", label="") == drawn(bars, BARS, name="bars", label="")
    assert dict(mpl.rcParams) == before


def test_curves_keep_their_values_their_scales_and_their_names() -> None:
    # GIVEN two steps by role and operation on a scale of times, one beyond six digits, one missing
    table = frame(
        role=["fs"] * 3 + ["journal"] * 2,
        operation=["read"] * 3 + ["write"] * 2,
        high_ns=[1000, 2_345_678_901, 4e9, 5, 50],
        smaller_ratio=[0.25, None, 1.0, 0.5, 1.0],
    )
    draw = charts.cumulative_times("latency", "Requests")
    legend = [charts.Key("fs", "file system, read", "dashed"), charts.Key("journal", "journal")]
    content = json.loads(charts.drawn(draw, table, name="x", label="", legend=legend).content)
    # THEN a browser has what is drawn: each from 0 at its first value, gaps as gaps
    assert {axis: (content[axis]["title"], content[axis]["kind"]) for axis in "xy"} == {
        "x": ("latency", "time"),
        "y": ("Requests", "share"),
    }
    assert (content["x"]["log"], content["y"]["log"]) == (10, 0)
    assert [(one["name"], one["colour"], one["line"]) for one in content["curves"]] == [
        ("file system, read", "blue", "dashed"),
        ("journal", "orange", "solid"),
    ]
    assert [one["steps"] for one in content["curves"]] == [True, True]
    assert [one["x"] for one in content["curves"]] == [[1000, 1000, 2.34568e9, 4e9], [5, 5, 50]]
    assert [one["y"] for one in content["curves"]] == [[0, 0.25, None, 1], [0, 0.5, 1]]


def test_a_figure_of_bars_has_no_curves() -> None:
    assert charts.drawn(bars, BARS, name="bars", label="").content == ""


def test_rasterized_cells_stay_a_picture_of_their_own() -> None:
    def picture(table: pd.DataFrame, size: Size) -> Figure:
        figure = bars(table, size)
        figure.axes[0].axhspan(0, 1, color=charts.light("intensity")).set_rasterized(True)
        return figure

    markup = drawn(picture, BARS, name="picture", label="")
    assert markup.count('href="data:image/png;base64,') == 2


TABLE = frame(
    role=["fs", None],
    request_count=[37087, 2],
    length_bytes=[4096, 512],
    latency_p99_ns=[129601.4, None],
    traffic_ratio=[0.613, 0.387],
    run_avg_requests=[3638.0, 1.5],
    depth_max=pd.array([5, None], dtype="Int64"),
)


def test_cells_take_their_unit_from_the_name_of_the_column() -> None:
    shown = fmt.shown(TABLE)
    assert [[plain(cell) for cell in row] for row in shown.rows] == [
        ["fs", "37,087", "4 KiB", "130 µs", "61.3%", "3,638", "5"],
        ["–", "2", "512 B", "–", "38.7%", "1.5", "–"],  # noqa: RUF001
    ]


def test_titles_lose_their_unit_and_keep_name_and_meaning_for_the_tool_tip() -> None:
    shown = fmt.shown(TABLE, meanings={"length_bytes": "bytes of one request"})
    assert ", ".join(column.title for column in shown.columns) == (
        "role, request count, length bytes, latency p99, traffic share, run avg requests, depth max"
    )
    assert [column.is_number for column in shown.columns] == [False] + [True] * 6
    assert shown.columns[2].name == "length_bytes"
    assert shown.columns[2].meaning == "bytes of one request"


def test_a_long_table_is_cut_and_an_empty_one_has_its_columns() -> None:
    shown = fmt.shown(pd.DataFrame({"block_count": range(5000)}), limit=10)
    assert (len(shown.rows), shown.row_count) == (10, 5000)


def test_rows_that_are_the_same_at_all_capacities_are_two() -> None:
    # GIVEN a curve that never changes, and one that does in the middle
    times = [9.0, 9.0, 9.0, 9.0, 8.0, 8.0, 8.0, 7.0]
    table = pd.DataFrame(
        {
            "placement": ["base"] * 4 + ["fs"] * 4,
            "capacity_bytes": [0, 4096, 8192, 12288] * 2,
            "elapsed_ns": times,
            "fs_bytes": [None] * 8,
        }
    )
    found = fmt.shown(table)
    # THEN of what is the same the ends are shown, and the rest is counted
    assert [" ".join(row[:2]).replace("\N{NO-BREAK SPACE}", " ") for row in found.rows] == [
        *("base 0 B", "base 12 KiB", "fs 0 B", "fs 8 KiB", "fs 12 KiB")
    ]
    assert (found.row_count, found.repeat_count) == (8, 3)
    # AND other tables are as they are
    assert fmt.shown(table.drop(columns="capacity_bytes")).repeat_count == 0
    shown = fmt.shown(TABLE.head(0))
    assert (len(shown.columns), list(shown.rows)) == (7, [])


def test_the_csv_holds_the_values_as_they_are() -> None:
    link = fmt.csv_link(pd.DataFrame({"process": ["</script>,x"], "request_count": [4092015]}))
    kind, _, content = link.partition(",")
    assert kind == "data:text/csv;charset=utf-8"
    assert unquote(content) == 'process,request_count\n"</script>,x",4092015\n'
    # and a long one is packed, one that is too large is not embedded
    link = fmt.csv_link(pd.DataFrame({"a": range(2000)}))
    assert gzip.decompress(base64.b64decode(link.removeprefix(fmt.PACKED))).count(b"\n") == 2001
    assert fmt.csv_link(pd.DataFrame({"a": [1] * (fmt.CSV_LIMIT_BYTES // 2)})) == ""


def test_largest_passes_over_missing_values() -> None:
    table = pd.DataFrame({"name": ["a", "b", "c"], "depth_max": [2, None, 7]})
    assert fmt.largest(table, "depth_max")["name"] == "c"


def test_points_of_too_few_requests_are_counted() -> None:
    # By nearest rank the 99th of 100 is the second largest, of 99 the largest
    table = pd.DataFrame({"request_count": [99, 100, 5]})
    said = "2 of 3 points are of fewer than 100 requests: there it is the time of the slowest."
    assert fmt.too_few(table) == [said]
    assert fmt.too_few(table[table["request_count"] > 99]) == []

"""The colours can be told apart and read, on light and dark, by colour-blind eyes too."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from tracekit.report import charts

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
@pytest.mark.parametrize("text", ["ink", "quiet", "accent"])
def test_text_reads_well_on_every_background(scheme: str, text: str) -> None:
    colours = charts.colours(scheme)
    for background in ("surface", "raised"):
        assert contrast(colours[text], colours[background]) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_warnings_read_well(scheme: str) -> None:
    colours = charts.colours(scheme)
    for text in ("ink", "caution", "quiet"):
        assert contrast(colours[text], colours["cautionbg"]) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "mark", ["fs", "journal", "swap", "other", "combined", "optimal", "base", "intensity"]
)
def test_marks_stand_out_from_the_page(scheme: str, mark: str) -> None:
    colours = charts.colours(scheme)
    assert contrast(colours[charts.colour_name(mark)], colours["surface"]) >= 3


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


def test_a_drawn_colour_names_one_entry() -> None:
    light = list(charts.colours("light").values())
    assert len(light) == len(set(light))


def test_style_has_both_schemes_and_a_class_for_each_colour() -> None:
    style = charts.style()
    assert "--blue:#0072b2;" in style
    assert "@media screen and (prefers-color-scheme:dark)" in style
    assert ".fill-orange{fill:var(--orange)}.stroke-orange{stroke:var(--orange)}" in style

"""From a drawn figure to SVG that stands inside the page, follows its colours and its fonts.

matplotlib writes colours, fonts and a global style sheet into the SVG. Inline in a page, these
would leak out, ignore dark mode and need a lax content security policy. So every colour becomes a
class from the palette, every style a presentation attribute, and every id gets the figure's name.
"""

from __future__ import annotations

import functools
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import matplotlib as mpl
import pandas as pd
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from tracekit.paths import data_folder


@functools.cache
def colours(scheme: str) -> dict[str, str]:
    """Return name to `#rrggbb` for the scheme `light` or `dark`."""
    entries = json.loads((data_folder("reports") / "palette.json").read_text())
    return {name: entry[scheme] for name, entry in entries.items()}


def light(name: str) -> str:
    """Return the light colour of a name; figures draw with it."""
    return colours("light")[name]


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
    """The room of one variant of a figure, in CSS pixels; the page shows the one that fits."""

    name: str
    width_px: int
    height_px: int

    @property
    def is_narrow(self) -> bool:
        """Say whether this is the variant for a phone."""
        return self.name == "narrow"


WIDE = Size("wide", 760, 330)
NARROW = Size("narrow", 343, 290)

Draw = Callable[["pd.DataFrame", Size], "Figure"]


def drawn(draw: Draw, table: pd.DataFrame, *, name: str, label: str) -> str:
    """Draw the table for a desktop and for a phone and return both as inline SVG.

    `name` must be unique in the page; `label` is what a screen reader says.
    """
    with mpl.rc_context(cast(Any, _settings())):
        return "".join(
            _inline(_saved(draw(table, size)), f"{name}-{size.name}", size=size, label=label)
            for size in (WIDE, NARROW)
        )


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
        element.attrib.pop("id", None)
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

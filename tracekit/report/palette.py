"""The colours: read from `reports/palette.json`, one fixed colour a role, in light and dark.

Figures are drawn in the light colours; `svg.py` then turns each into a class of the same name, and
the style sheet made here gives the class its colour in light, in dark and on paper.
"""

from __future__ import annotations

import functools
import json

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

"""How a point of a sweep and what it reached are named in sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracekit.sizes import format_size

Row = Mapping[str, Any]
NAMED = ("threads", "files", "io_size", "append_size")
"""Settings that the name of a point has anyway; those of appends change with those of calls."""


def varied_settings(texts: Iterable[str]) -> list[str]:
    """Return the keys that differ between the settings, as JSON, of one personality's points."""
    settings = [json.loads(text) for text in dict.fromkeys(texts)]
    keys = dict.fromkeys(key for one in settings for key in one)
    return [key for key in keys if len({one.get(key) for one in settings}) > 1]


def setting_word(key: str, value: Any) -> str:
    """Write one setting: a size with its unit, a number with separators, an option as it is."""
    if isinstance(value, str):
        return f"{key} {value}"
    return f"{key} {format_size(value) if key.endswith('_size') else f'{value:,}'}"


def setting_name(row: Row, varied: Sequence[str] = ()) -> str:
    """Name a setting by what is varied most, and by those of the `varied` ones that it has."""
    parts = [f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}"]
    if row["files"] is not None:
        parts.append(f"{row['files']:,} files")
    if row["io_bytes"] is not None:
        parts.append(f"{format_size(row['io_bytes'])} a call")
    settings = json.loads(row["settings"]) if varied else {}
    more = [key for key in varied if key in settings and key not in NAMED]
    return ", ".join([*parts, *(setting_word(key, settings[key]) for key in more)])


def rate(row: Row) -> str:
    """Say the rate of a point with its spread."""
    text = f"{row['steps_per_second']:,.0f} steps/s"
    if row["deviation_per_second"] is not None:
        text += f" (+-{row['deviation_per_second']:,.0f} over {row['run_count']} runs)"
    return text + f", {format_size(row['bytes_per_second'])}/s"


def percent(ratio: float) -> str:
    """Write a share with a decimal; nearly all is not all, and nearly nothing not nothing."""
    if 0.9995 <= ratio < 1:
        return "> 99.9 %"
    if 0 < ratio < 0.0005:
        return "< 0.1 %"
    return f"{ratio * 100:.1f} %"


def times(ratio: float) -> str:
    """Write a ratio with three digits."""
    return f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"

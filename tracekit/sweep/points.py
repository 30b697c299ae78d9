"""How a point of a sweep and what it reached are named in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.sizes import format_size

Row = Mapping[str, Any]


def setting_name(row: Row) -> str:
    """Name a setting by what is varied most."""
    parts = [f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}"]
    if row["files"] is not None:
        parts.append(f"{row['files']:,} files")
    if row["io_bytes"] is not None:
        parts.append(f"{format_size(row['io_bytes'])} a call")
    return ", ".join(parts)


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

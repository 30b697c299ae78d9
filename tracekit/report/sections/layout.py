"""Which part of the device has which role, and how that is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section

TITLE = "Layout and roles"


def layout(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `classify` has not run."""
    info = inputs.info
    if not info.get("layout"):
        return Missing(TITLE, "classify")
    return Section(
        "layout",
        TITLE,
        {
            "partitions": info["layout"],
            "devices": info.get("devices", []),
            "rules": [
                *_rules("roles", info.get("classification")),
                *_rules("hotness", info.get("hotness")),
            ],
        },
    )


def _rules(subject: str, content: Any) -> list[tuple[str, str]]:
    """Flatten the record of a rule to lines of `subject, key: value`."""
    if not isinstance(content, Mapping):
        return [] if content is None else [(subject, str(content))]
    lines = []
    for key, value in content.items():
        name = f"{subject}: {str(key).replace('_', ' ')}"
        if isinstance(value, Mapping):
            lines += _rules(name, value)
        elif isinstance(value, list):
            lines.append((name, ", ".join(str(part) for part in value) or "none"))
        else:
            lines.append((name, f"{value:,}" if isinstance(value, int) else str(value)))
    return lines

"""Where the data came from: files with their hashes, devices, clock, versions."""

from __future__ import annotations

from importlib import metadata

from tracekit.report import formatting as fmt
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section
from tracekit.version import __version__

TITLE = "Provenance"
LIBRARIES = ("duckdb", "pyarrow", "pandas", "seaborn", "matplotlib")


def provenance(inputs: Inputs) -> Section | Missing:
    """Build the section; trace.json always has what it needs."""
    info = inputs.info
    source, clock, counts = (info.get(key, {}) for key in ("source", "clock", "counts"))
    facts = {
        "format": source.get("format"),
        "kernel of the capture": source.get("kernel"),
        "length of the trace": fmt.duration(clock.get("duration_ns")),
        "records read": fmt.count(counts.get("records")),
        "requests": fmt.count(counts.get("requests")),
        "traced by tracekit": info.get("tool", {}).get("tracekit"),
        "reported by tracekit": __version__,
        "libraries": ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES),
    }
    return Section(
        "provenance",
        TITLE,
        {
            "facts": {
                key: value for key, value in facts.items() if value not in (None, fmt.MISSING)
            },
            "files": source.get("files", []),
            "actions": counts.get("actions", {}),
        },
    )

"""docs/tables.md: every table of a trace folder, made from the schema and the queries' headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from tracekit import query, schema
from tracekit.analyze import ANALYSES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tables.md"
STAGE_TABLES: dict[str, tuple[str, str, pa.Schema]] = {
    "requests": ("parse", "one row a request, in queue order", schema.REQUESTS),
    "blocks": ("classify", "one row a device, 4 KiB block and role", schema.BLOCKS),
    "working_set": ("classify", "one row a window and role", schema.WORKING_SET),
    "placement": ("recommend", "one row a placement and capacity", schema.PLACEMENT),
    "cache_curve": (
        "simulate cache",
        "one row a cache, role, operation and size",
        schema.CACHE_CURVE,
    ),
    "cache_policies": ("simulate cache", "one row a policy and size", schema.CACHE_POLICIES),
    "buffer": ("simulate buffer", "one row a mapping, size and number", schema.BUFFER),
    "cache_plane": ("simulate cache", "one row a pair of sizes", schema.CACHE_PLANE),
    "cache_sensitivity": (
        "simulate cache",
        "one row a measure, changed parameter and budget",
        schema.CACHE_SENSITIVITY,
    ),
    "tiers": ("simulate tiers", "one row a mix of tiers", schema.TIERS),
    "tiers_key": ("simulate tiers", "one row a method and key configuration", schema.TIERS_KEY),
    "tiers_extents": ("simulate tiers", "one row a touched extent", schema.TIERS_EXTENTS),
    "tiers_skew": (
        "simulate tiers",
        "one row a role, operation and number of extents",
        schema.TIERS_SKEW,
    ),
    "tiers_windows": (
        "simulate tiers --dynamic",
        "one row a configuration and window with traffic",
        schema.TIERS_WINDOWS,
    ),
    "tiers_sensitivity": (
        "simulate tiers",
        "one row a tier, parameter and factor",
        schema.TIERS_SENSITIVITY,
    ),
    "completions": (
        "replay",
        "one row a replay (`replay`, its name) and request",
        schema.COMPLETIONS,
    ),
}
HEAD = """\
# Tables

Made by `make docs` from the schema and the queries' headers. `tracekit sql TRACE` shows each table
that a trace folder holds as a view of this name; the Parquet files are in the folder itself.

`_ns` is nanoseconds, for a moment counted from the start of the trace; `_bytes` is bytes; sectors
have 512 bytes and blocks 4 KiB, both counted from the start of the device; `_ratio` is from 0 to 1;
`is_` is true or false. A null time means that the event was not seen.
"""


def kind(field: pa.Field) -> str:
    """Name a column's type as SQL does, without its encoding."""
    if pa.types.is_dictionary(field.type):
        return "text"
    if pa.types.is_list(field.type):
        return f"{kind(field.type.value_field)}[]"
    return {"string": "text", "bool": "boolean", "double": "double"}.get(
        str(field.type), str(field.type)
    )


def rows(cells: Iterable[tuple[str, ...]]) -> str:
    """Lay out the rows of a Markdown table."""
    return "".join("| " + " | ".join(_plain(cell) for cell in row) + " |\n" for row in cells)


def _plain(cell: str) -> str:
    return cell.replace("|", "\\|")


def stage_table(name: str) -> str:
    """Describe a table that a stage writes, from its schema."""
    stage, grain, columns = STAGE_TABLES[name]
    cells = [
        (
            f"`{field.name}`",
            kind(field) + (", null" if field.nullable else ""),
            field.metadata[b"meaning"].decode(),
        )
        for field in columns
    ]
    return (
        f"\n## {name}\n\nWritten by `{stage}`: {grain}.\n\n"
        f"| column | type | meaning |\n|---|---|---|\n{rows(cells)}"
    )


def finding(name: str) -> str:
    """Describe the table that one query makes, from its header."""
    made = query.read(name)
    cells = [(f"`{column}`", meaning) for column, meaning in made.columns.items()]
    source = f"[{name}.sql](../analyzers/{name}.sql)"
    return (
        f"\n### {made.table}\n\n{made.question} {source}: {made.grain}.\n\n"
        f"| column | meaning |\n|---|---|\n{rows(_gathered(cells))}"
    )


def _gathered(cells: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Put neighbouring columns of one meaning into one row."""
    found: dict[str, list[str]] = {}
    for column, meaning in cells:
        found.setdefault(meaning, []).append(column)
    return [(", ".join(columns), meaning) for meaning, columns in found.items()]


def views() -> Mapping[str, query.Query]:
    """Return the views that stand on other tables, by name."""
    names = sorted(path.stem for path in (ROOT / "analyzers" / "catalog").glob("*.sql"))
    found = {name: query.read(f"catalog/{name}") for name in names}
    return {name: q for name, q in found.items() if re.search(r"^create view ", q.text, re.M)}


def page() -> str:
    """Return the whole page."""
    parts = [HEAD, *(stage_table(name) for name in STAGE_TABLES), "\n## Views\n"]
    parts += [finding(made.name) for made in views().values() if made.columns]
    parts += ["\n## Findings\n\nWritten by `analyze`, one table a query.\n"]
    parts += [finding(name) for name in ANALYSES]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())

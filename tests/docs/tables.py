"""docs/tables.md: every table of a trace folder, made from the schema and the queries' headers."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from tracekit import query
from tracekit.analyze import ANALYSES
from tracekit.tables import FILES_REPLAYED, OPERATIONS_SWEPT, REPLAY_OBSERVED, REPLAYED, TABLES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tables.md"
STAGE_TABLES = {
    table.name: table
    for table in (*TABLES, REPLAYED, REPLAY_OBSERVED, FILES_REPLAYED, OPERATIONS_SWEPT)
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
    table = STAGE_TABLES[name]
    cells = [
        (
            f"`{field.name}`",
            kind(field) + (", null" if field.nullable else ""),
            field.metadata[b"meaning"].decode(),
        )
        for field in table.columns
    ]
    return (
        f"\n## {name}\n\nWritten by `{table.made_by}`: {table.grain}.\n\n"
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
    names = sorted(path.stem for path in (ROOT / "analyzers" / "lib").glob("*.sql"))
    found = {name: query.read(f"lib/{name}") for name in names}
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

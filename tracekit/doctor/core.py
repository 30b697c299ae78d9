"""What no stage can do without: the native parts, the libraries, the queries and templates."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tracekit.doctor.check import Check, Finding, Group, run
from tracekit.paths import data_folder

LIBRARIES = ("duckdb", "jinja2", "numpy", "pandas", "pyarrow", "rich", "seaborn", "typer")


def python() -> Finding:
    """Say which Python runs this."""
    return Finding("ok", f"{platform.python_version()}, {sys.executable}")


def library() -> Finding:
    """Load the shared library."""
    from tracekit import native

    native.library()
    return Finding("ok", f"loads: {native.library_path()}")


def program() -> Finding:
    """Start the replay program."""
    from tracekit import native

    path = native.program_path()
    ran = run(str(path), "--version")
    if ran.status != 0:
        return Finding("broken", f"{path}: {ran.last_complaint}", "build it again: make setup")
    return Finding("ok", f"{ran.output.strip()}, {path}")


def _library_probe(name: str) -> Callable[[], Finding]:
    def probe() -> Finding:
        try:
            importlib.import_module(name)
        except ImportError as error:
            return Finding("broken", f"cannot be imported: {error}", "install again: make setup")
        return Finding("ok", importlib.metadata.version(name))

    return probe


def data_files() -> Finding:
    """Count the queries and the templates."""
    queries = len(list(data_folder("analyzers").rglob("*.sql")))
    templates = len(list(data_folder("reports").rglob("*.j2")))
    detail = f"{queries} queries, {templates} templates, {data_folder('analyzers').parent}"
    if not queries or not templates:
        return Finding("broken", detail, "install again: make setup")
    return Finding("ok", detail)


def tables() -> Finding:
    """Write a Parquet table and read it back with SQL's reader of the same file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tracekit.store import write_table

    with tempfile.TemporaryDirectory(prefix="tracekit-doctor-") as folder:
        path = Path(folder) / "probe.parquet"
        write_table(path, pa.table({"sector": [8, 16]}))
        rows = pq.read_table(path)["sector"].to_pylist()
    if rows != [8, 16]:
        return Finding("broken", f"a Parquet table came back as {rows}")
    return Finding("ok", "a Parquet table was written and read back")


CORE = Group(
    "Core",
    (
        Check("python", "everything", python, is_required=True),
        Check("native library", "decoding traces, simulating", library, is_required=True),
        Check("native program", "replaying", program, is_required=True),
        *(
            Check(name, "tables, figures, text", _library_probe(name), is_required=True)
            for name in LIBRARIES
        ),
        Check("queries and templates", "analyze, report", data_files, is_required=True),
        Check("parquet", "the trace folder", tables, is_required=True),
    ),
)

"""What no stage can do without: the native parts, the libraries, the queries and templates."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tracekit.doctor.check import Check, Finding, Group
from tracekit.paths import data_folder

# A blktrace v7 record: one write of 4 KiB is queued on device 7,0.
ONE_QUEUED_WRITE = struct.pack(
    "=IIQQIIIIIHH", 0x65617407, 1, 1, 8, 4096, 2 << 16 | 1, 7, 7 << 20, 0, 0, 0
)
REBUILD = "build it again: make setup"
LIBRARIES = ("duckdb", "jinja2", "numpy", "pandas", "pyarrow", "rich", "seaborn", "typer")


def python() -> Finding:
    """Say which Python runs this."""
    return Finding("ok", f"{platform.python_version()}, {sys.executable}")


def library() -> Finding:
    """Decode a trace of one record with the shared library."""
    from tracekit import native
    from tracekit.native.decode import Decoder

    path = native.library_path()
    with tempfile.TemporaryFile() as trace:
        trace.write(ONE_QUEUED_WRITE)
        trace.seek(0)
        try:
            with Decoder([trace.fileno()]) as decoder:
                rows = sum(batch.num_rows for batch in decoder.batches())
        except AttributeError as error:
            return Finding("broken", f"{path} is of another version: {error}", REBUILD)
    if rows != 1:
        return Finding("broken", f"{path} decodes one request as {rows}", REBUILD)
    return Finding("ok", f"decodes: {path}")


def program() -> Finding:
    """Start the replay program."""
    from tracekit.native.replay import checked_program

    return Finding("ok", f"starts: {checked_program()}")


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

"""Every table that a stage writes into a trace folder, once: what reads a folder looks here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from tracekit.schema import BLOCKS, COMPLETIONS, PLACEMENT, REQUESTS, WORKING_SET
from tracekit.schema.buffer import BUFFER
from tracekit.schema.cache import CACHE_CURVE, CACHE_PLANE, CACHE_POLICIES, CACHE_SENSITIVITY
from tracekit.schema.comparison import COMPARISON
from tracekit.schema.counters import COUNTER_STATISTICS, COUNTERS
from tracekit.schema.device import DEVICE_FIT, DEVICE_LATENCY, DEVICE_STEPS
from tracekit.schema.endurance import ENDURANCE
from tracekit.schema.fidelity import FIDELITY, FIDELITY_CURVE
from tracekit.schema.file_operations import FILE_COMPLETIONS, FILE_OPERATIONS, FILES
from tracekit.schema.file_runs import FILE_RUNS, SWEEP_OPERATIONS
from tracekit.schema.sensitivity import SENSITIVITY
from tracekit.schema.tiers import (
    TIERS,
    TIERS_EXTENTS,
    TIERS_KEY,
    TIERS_SENSITIVITY,
    TIERS_SKEW,
    TIERS_WINDOWS,
)
from tracekit.schema.verification import VERIFICATION


@dataclass(frozen=True)
class Table:
    """A table: its name as a view, the command that makes it, what a row is, and its columns.

    `folder` is where its file lies in the trace folder, empty for the folder itself.
    """

    name: str
    made_by: str
    grain: str
    columns: pa.Schema
    folder: str = ""

    @property
    def place(self) -> str:
        """Its file within the trace folder, without `.parquet`."""
        return f"{self.folder}/{self.name}" if self.folder else self.name


def _simulated(made_by: str, *tables: tuple[str, str, pa.Schema]) -> Iterable[Table]:
    return _measured(made_by, "simulations", *tables)


def _measured(made_by: str, folder: str, *tables: tuple[str, str, pa.Schema]) -> Iterable[Table]:
    return (Table(name, made_by, grain, columns, folder) for name, grain, columns in tables)


TABLES = (
    Table("requests", "parse", "one row per request as queued", REQUESTS),
    Table("blocks", "classify", "one row per device, 4 KiB block and role", BLOCKS),
    Table("working_set", "classify", "one row per window and role", WORKING_SET),
    Table(
        "file_operations",
        "capture --files",
        "one row per file system call, in order of start",
        FILE_OPERATIONS,
    ),
    Table("files", "capture --files", "one row per path that an operation names", FILES),
    *_simulated(
        "recommend",
        ("placement", "one row per placement and capacity", PLACEMENT),
    ),
    Table(
        "verification",
        "verify-placement",
        "one row per repeat and kind of replay",
        VERIFICATION,
    ),
    Table("fidelity", "fit", "one row per role and measure", FIDELITY),
    Table("fidelity_curve", "fit", "one row per source and size", FIDELITY_CURVE),
    Table("comparison", "compare", "one row per name, measure, role and operation", COMPARISON),
    *_simulated(
        "simulate cache",
        ("cache_curve", "one row per cache, device, role, operation and size", CACHE_CURVE),
        ("cache_policies", "one row per policy and size", CACHE_POLICIES),
        ("cache_plane", "one row per pair of sizes", CACHE_PLANE),
        (
            "cache_sensitivity",
            "one row per measure, changed parameter and budget",
            CACHE_SENSITIVITY,
        ),
    ),
    *_simulated(
        "simulate buffer",
        (
            "buffer",
            "one row per memory, mapping, row size, number of buffers, role and operation",
            BUFFER,
        ),
    ),
    *_simulated(
        "simulate sensitivity",
        ("sensitivity", "one row per change, window or capacity", SENSITIVITY),
    ),
    *_simulated(
        "simulate endurance",
        ("endurance", "one row per role and per placement", ENDURANCE),
    ),
    *_simulated(
        "simulate tiers",
        ("tiers", "one row per mix of tiers", TIERS),
        ("tiers_key", "one row per method and key configuration", TIERS_KEY),
        ("tiers_extents", "one row per touched extent", TIERS_EXTENTS),
        ("tiers_skew", "one row per role, operation and number of extents", TIERS_SKEW),
        (
            "tiers_windows",
            "with `--dynamic`, one row per configuration and window with traffic",
            TIERS_WINDOWS,
        ),
        ("tiers_sensitivity", "one row per tier, parameter, factor and method", TIERS_SENSITIVITY),
    ),
    *_measured(
        "characterize-device",
        "device",
        ("device_steps", "one row per step and operation, and one per step", DEVICE_STEPS),
        ("device_latency", "one row per step and bucket of latencies", DEVICE_LATENCY),
        ("device_fit", "one row per parameter of the device", DEVICE_FIT),
    ),
    *_measured(
        "counters",
        "counters",
        ("counters", "one row per workload, run and event", COUNTERS),
        ("counter_statistics", "one row per workload and event", COUNTER_STATISTICS),
    ),
    *_measured(
        "sweep",
        "files",
        ("file_runs", "one row per run and step, and one per run", FILE_RUNS),
    ),
)
"""All but tables of which each replay or run has its own, and the findings, described in SQL."""

REPLAYED = Table("completions", "replay", "one row per replay and request", COMPLETIONS)
FILES_REPLAYED = Table(
    "file_completions", "replay --files", "one row per replay and file operation", FILE_COMPLETIONS
)
OPERATIONS_SWEPT = Table(
    "sweep_operations",
    "sweep --operations",
    "one row per run and operation",
    SWEEP_OPERATIONS,
)
MADE_BY = {table.name: table.made_by for table in TABLES}

"""Runs any registered command of `tracekit simulate`, and checks that its answer is finite."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.command_line import invoke
from tests.simulate.memory_models import some_accesses, with_accesses
from tests.traces import json_of, rows_of
from tracekit.commands import GROUPS
from tracekit.errors import TracekitError
from tracekit.store import TraceFolder

NAMES = list(GROUPS["simulate"])
# What a command reads beside `requests`, made by these commands before it.
NEEDS = {
    "cache": ("classify",),
    "sensitivity": ("classify", "recommend"),
    "endurance": ("classify", "recommend"),
    "purchase": ("classify", "recommend"),
    "rivals": ("classify", "recommend"),
}
SMALL = {"tiers": ["--extent", "64KiB", "--step", "25"]}


DEVICE = """[hdd-15k]
read_latency_us = 5
write_latency_us = 5
read_mib_s = 9
write_mib_s = 9
flush_us = 1
fua_us = 1
"""


def ask(name: str, folder: TraceFolder, *words: str) -> Any:
    return invoke("simulate", name, folder.path, *SMALL.get(name, []), *words)


def prepare(name: str, folder: TraceFolder) -> TracekitError | None:
    """Run what comes before a command; return its error if it refuses the trace."""
    if name == "buffer":  # which takes accesses in place of requests: as many
        asked = [row for row in rows_of(folder.table("requests")) if row["length_bytes"]]
        with_accesses(folder, some_accesses(len(asked)))
    for stage in NEEDS.get(name, ("classify",)):
        error = invoke(stage, folder.path).exception
        if isinstance(error, TracekitError):
            return error
    return None


def numbers(value: Any) -> Iterator[float]:
    """Yield every number of nested lists, structs and rows."""
    if isinstance(value, dict):
        for one in value.values():
            yield from numbers(one)
    elif isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, int | float):
        yield float(value)


def result_file(folder: TraceFolder, name: str) -> Path:
    """Return where a command's result is."""
    return folder.path / "simulations" / f"{name}.json"


def assert_finite(folder: TraceFolder, name: str) -> None:
    """Check that all that a command wrote is there and is finite."""
    written = json_of(result_file(folder, name))
    assert all(math.isfinite(number) for number in numbers(written))
    assert written["headline"]
    tables = sorted((folder.path / "simulations").glob("*.parquet"))
    assert tables
    for table in tables:
        rows = rows_of(table)
        assert all(math.isfinite(number) for number in numbers(rows)), table

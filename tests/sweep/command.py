"""`tracekit sweep` from the command line, in the test's own process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.command_line import invoke
from tracekit.errors import TracekitError
from tracekit.tables import FILE_RUNS

QUICK = ("--duration", "100ms", "--repeat", "2", "--cache", "keep", "--no-report")
SMALL = ("--files", "100", "--threads", "2", "--vary", "mean_size=4KiB")


@dataclass(frozen=True)
class Ended:
    stdout: str
    stderr: str


def tracekit(*arguments: str | Path, code: int = 0) -> Ended:
    ended = invoke(*map(str, arguments))
    error = ended.exception
    told = f"{error} {error.hint}" if isinstance(error, TracekitError) else ended.stderr
    found = error.exit_code if isinstance(error, TracekitError) else ended.exit_code
    assert found == code, f"{told} {ended.output}"
    return Ended(ended.stdout, told)


def rows(folder: Path) -> list[dict[str, Any]]:
    table = pq.read_table(folder / "files/file_runs.parquet")
    assert table.schema.names == FILE_RUNS.names
    return list(table.to_pylist())

"""Plans of file operations written by hand, and the program run on them."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit._native import program_path
from tracekit.plans.file_plan import CODES, FilePlanWriter, FileTable, Setting, new_records

RESULT = np.dtype(
    [
        ("operation_id", "<u8"),
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("result", "<i8"),
        ("thread", "<u4"),
        ("cycle", "<u4"),
        ("operation", "u1"),
        ("step", "u1"),
        ("is_timed", "u1"),
        ("is_expected", "u1"),
        ("is_whole", "<u4"),
    ]
)
Operation = dict[str, Any]
Rows = npt.NDArray[np.void]


@dataclass(frozen=True)
class Ran:
    """What one use of the program left."""

    code: int
    summary: dict[str, Any]
    messages: str
    results: Path

    def rows(self) -> Rows:
        """Return the records of the results file."""
        data = self.results.read_bytes()
        assert data[:8] == b"TKFDON\r\n"
        rows = np.frombuffer(data[64:], RESULT)
        assert int.from_bytes(data[24:32], "little") == len(rows)
        return rows

    def of(self, name: str, *, key: str = "operations") -> dict[str, Any]:
        """Return the statistics of one operation, or with `key` "steps" of one step."""
        (found,) = [entry for entry in self.summary[key] if entry["name"] == name]
        return dict(found)


def do(operation: str, file: str | None = None, **fields: Any) -> Operation:
    """Return one operation; `file` and `other` are paths, other fields those of the record."""
    return {"operation": operation, "file": file, **fields}


def write_plan(
    path: Path,
    threads: Sequence[Sequence[Operation]],
    *,
    files: FileTable | None = None,
    setting: Setting | None = None,
) -> Path:
    """Write a plan; a path that is not in `files` is a file that is not there."""
    table = files or FileTable()
    for operation in (one for thread in threads for one in thread):
        if operation["operation"] == "mkdir" and table.number(operation["file"]) is None:
            table.add(operation["file"], kind="directory", there=False)
    with path.open("wb") as out:
        writer = FilePlanWriter(out)
        next_id = 0
        for thread in threads:
            records = new_records(len(thread))
            for row, given in enumerate(thread):
                records["operation_id"][row] = next_id
                next_id += 1
                for name, value in given.items():
                    records[name][row] = _number(table, name, value)
            writer.thread()
            writer.append(records)
        writer.finish(table, setting or Setting())
    return path


def _number(table: FileTable, name: str, value: Any) -> int:
    if name == "operation":
        return CODES[value]
    if name not in ("file", "other"):
        return int(value)
    if value is None:
        return 0xFFFFFFFF
    known = table.number(value)
    return table.add(value, there=False) if known is None else known


def command(plan: Path, directory: Path, *arguments: str) -> list[str]:
    """Return the command line, with results and summary beside the plan."""
    return [
        str(program_path()),
        str(plan),
        str(directory),
        "--results",
        str(plan.with_suffix(".done")),
        "--summary",
        str(plan.with_suffix(".json")),
        *arguments,
    ]


def run(plan: Path, directory: Path, *arguments: str, **options: Any) -> Ran:
    """Run the program on a plan."""
    results, summary = plan.with_suffix(".done"), plan.with_suffix(".json")
    for old in (results, summary):
        old.unlink(missing_ok=True)
    ended = subprocess.run(
        command(plan, directory, *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,
    )
    told = json.loads(summary.read_text()) if summary.exists() else {}
    return Ran(ended.returncode, told, ended.stderr, results)

"""Plans of file operations written by hand, and the program run on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.replay import program
from tests.replay.program import Word
from tracekit.plans.file_plan import CODES, NONE, FilePlanWriter, FileTable, Setting, new_records

OWN = "tracekit-files"
KEPT = f"{OWN}/run"
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
class Ran(program.Ran):
    """What one use of the program left."""

    def rows(self) -> Rows:
        """Return the records of the results file."""
        data = self.completions.read_bytes()
        assert data[:8] == b"TKFDON\r\n"
        rows = np.frombuffer(data[64:], RESULT)
        assert int.from_bytes(data[24:32], "little") == len(rows)
        return rows

    def of(self, name: str, *, key: str = "operations") -> dict[str, Any]:
        """Return the statistics of one operation, or with `key` "steps" of one step."""
        (found,) = [entry for entry in self.summary[key] if entry["name"] == name]
        return dict(found)


Replay = Callable[..., Ran]


def do(operation: str, file: str | None = None, **fields: Any) -> Operation:
    """Return one operation; `file` and `other` are paths, other fields those of the record."""
    return {"operation": operation, "file": file, **fields}


def table(*paths: str, size_bytes: int = 100) -> FileTable:
    """Return a table of files that are there."""
    files = FileTable()
    for path in paths:
        files.add(path, size_bytes=size_bytes)
    return files


def write_plan(
    path: Path,
    threads: Sequence[Sequence[Operation]],
    *,
    files: FileTable | None = None,
    setting: Setting | None = None,
) -> Path:
    """Write a plan; a path that is not in `files` is a file that is not there."""
    files = files or FileTable()
    for operation in (one for thread in threads for one in thread):
        if operation["operation"] == "mkdir" and files.number(operation["file"]) is None:
            files.add(operation["file"], kind="directory", there=False)
    with path.open("wb") as out:
        writer = FilePlanWriter(out)
        next_id = 0
        for thread in threads:
            records = new_records(len(thread))
            for row, given in enumerate(thread):
                records["operation_id"][row] = next_id
                next_id += 1
                for name, value in given.items():
                    records[name][row] = _number(files, name, value)
            writer.thread()
            writer.append(records)
        writer.finish(files, setting or Setting())
    return path


def _number(files: FileTable, name: str, value: Any) -> int:
    if name == "operation":
        return CODES[value]
    if name not in ("file", "other"):
        return int(value)
    if value is None:
        return NONE
    known = files.number(value)
    return files.add(value, there=False) if known is None else known


def command(plan: Path, directory: Path, *words: Word, **options: Any) -> list[str]:
    """Return the command line, with results and summary beside the plan."""
    return program.command(plan, directory, *words, results="--results", **options)


def run(
    plan: Path,
    directory: Path,
    *words: Word,
    preexec_fn: Callable[[], None] | None = None,
    **options: Any,
) -> Ran:
    """Run the program on a plan."""
    line = command(plan, directory, *words, **options)
    return Ran(**vars(program.play(plan, line, preexec_fn=preexec_fn)))

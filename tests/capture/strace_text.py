"""What strace prints, written by hand, and the rows that it becomes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tracekit._native.calls import Start
from tracekit.capture.files import Decoded, decode

BASE_S = 1_800_000_000
IN_W = Start("/w")
FORK = "clone(child_stack=NULL, flags=0x1200011, child_tidptr=0x7f) = 101 <0.000000001>"
THREAD = "clone3({flags=0x3d0f00, child_tid=0x7f} => {parent_tid=[101]}, 88) = 101 <0.000000001>"


def opened(name: str, flags: int, fd: int = 3) -> str:
    return f'openat(-100</w>, "{name}", {flags:#x}, 0644) = {fd}</w/{name}> <0.000000100>'


def wrote(count: int, name: str = "a", fd: int = 3) -> str:
    return f'write({fd}</w/{name}>, ""..., {count}) = {count} <0.000000200>'


def lines(*calls: str | tuple[int, str]) -> str:
    """Return lines a microsecond apart, of thread 100 unless a call names its own."""
    pairs = [call if isinstance(call, tuple) else (100, call) for call in calls]
    return "".join(
        f"{tid} {BASE_S}.{place * 1000:09} {call}\n" for place, (tid, call) in enumerate(pairs)
    )


def decode_text(
    folder: Path, text: str | bytes, *, start: Start = IN_W
) -> tuple[list[dict[str, Any]], Decoded]:
    """Return the rows with paths in the place of file numbers, and what was found."""
    file = folder / "strace.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = decode(file, folder, start=start)
    return rows_of(folder), found


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a trace folder with `path` and `other` in the place of numbers."""
    files = pq.read_table(folder / "files.parquet").to_pylist()
    paths = {file["file_id"]: file["path"] for file in files}
    rows: list[dict[str, Any]] = pq.read_table(folder / "file_operations.parquet").to_pylist()
    for row in rows:
        row["path"] = paths.get(row["file_id"])
        row["other"] = paths.get(row["other_file_id"])
    return rows


def sizes_of(folder: Path) -> dict[str, tuple[str, int | None, str]]:
    """Return kind, size and evidence of each path."""
    files = pq.read_table(folder / "files.parquet").to_pylist()
    return {file["path"]: (file["kind"], file["size_bytes"], file["evidence"]) for file in files}


def some(rows: Sequence[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Return some columns of the rows."""
    return [tuple(row[name] for name in names) for row in rows]

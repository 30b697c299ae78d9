"""From what the user named to a list of trace files: files, folders, a pipe."""

from __future__ import annotations

import re
import stat
from collections.abc import Sequence
from pathlib import Path

from tracekit.errors import InputError

STANDARD_INPUT = Path("-")
LAYOUT_NAME = "layout.json"
TRACE_NAME = re.compile(r"(?P<stem>.+)\.blktrace\.(?P<cpu>\d+)(\.(gz|xz|zst|bz2))?")

TEXT_NAME = re.compile(r"(?P<stem>.+)\.perf\.txt(\.(gz|xz|zst|bz2))?")
"""What `tracekit capture` keeps with the sources perf and bpftrace."""

OCTF_NAME = re.compile(r"octf\.trace\.(?P<cpu>\d+)(\.(gz|xz|zst|bz2))?")
"""Files of a trace of the Open CAS telemetry framework."""


def find_files(inputs: Sequence[Path]) -> list[Path]:
    """Return the trace files that the inputs name: a file is itself, a folder its *.blktrace.*.

    A folder of a capture with perf or bpftrace has one *.perf.txt in their place, one of an OCTF
    trace its octf.trace.*. Raise InputError for what does not exist, a folder without a trace, or
    a file given twice.
    """
    found: list[Path] = []
    for path in inputs:
        if path != STANDARD_INPUT and not path.exists():
            raise InputError(f"{path}: there is no such file or folder", hint="check the path")
        found += _folder_files(path) if path.is_dir() else [path]
    _refuse_same(found)
    return found


def _folder_files(folder: Path) -> list[Path]:
    matches = [(TRACE_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    named = [(match["stem"], int(match["cpu"]), path) for match, path in matches if match]
    texts = sorted(path for path in folder.iterdir() if TEXT_NAME.fullmatch(path.name))
    if not named and len(texts) == 1:
        return texts
    if not named and (cpus := _octf_files(folder)):
        return cpus
    if not named:
        raise InputError(
            f"{folder}: there is no trace in this folder, that is, no file NAME.blktrace.CPU",
            hint="name the trace files themselves, or make a trace with: tracekit capture",
        )
    return [path for _, _, path in sorted(named)]


def _octf_files(folder: Path) -> list[Path]:
    matches = [(OCTF_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return [
        path for _, path in sorted((int(match["cpu"]), path) for match, path in matches if match)
    ]


def _refuse_same(files: Sequence[Path]) -> None:
    seen: dict[tuple[int, int], Path] = {}
    for path in files:
        if path == STANDARD_INPUT:
            key = (0, 0)
        else:
            info = path.stat()
            key = (info.st_dev, info.st_ino)
            if stat.S_ISDIR(info.st_mode):
                raise InputError(f"{path}: this is a folder, not a trace file", hint="name a file")
        if key in seen:
            raise InputError(
                f"{path}: this file was given twice, also as {seen[key]}",
                hint="name each file of the trace once",
            )
        seen[key] = path


def find_layout(inputs: Sequence[Path]) -> Path | None:
    """Return the layout.json that lies in an input folder or beside an input file, if any."""
    for path in inputs:
        if path != STANDARD_INPUT:
            beside = (path if path.is_dir() else path.parent) / LAYOUT_NAME
            if beside.is_file():
                return beside
    return None


def default_output(inputs: Sequence[Path]) -> Path:
    """Return a folder name in the working folder, made from the first input's name."""
    first = inputs[0]
    if first == STANDARD_INPUT:
        return Path("trace")
    match = TRACE_NAME.fullmatch(first.name)
    stem = match["stem"] if match else first.resolve().name.split(".")[0]
    return Path(f"{stem or 'capture'}-trace")

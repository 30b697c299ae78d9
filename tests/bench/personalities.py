"""Calls of personalities by three programs: `python -m tests.bench.personalities [NAME...]`.

The plan of each personality for one thread becomes a list of calls, which tracekit-file-replay, fio
(its iolog with the opening and closing of files) and a loop in C (`calls.c`) make by turns, on a
tmpfs and on an ext4 whose disk is memory (root). fio's iolog cannot create, stat or delete files:
these calls are left out for all three, a file that would be created is there and is opened, and the
appending ones are told where the file ends. fio runs without what it would add by itself: advice to
the kernel and changed buffers.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.bench.memory_disk import FILE_SYSTEMS
from tests.sweep.machine import Machine
from tracekit._native import FILE_PROGRAM, program_path
from tracekit.plans.file_plan import (
    AT_POSITION,
    CODES,
    NONE,
    OPERATIONS,
    FilePlanWriter,
    FileTable,
    Setting,
    new_records,
)
from tracekit.workload.file_plan import write_personality
from tracekit.workload.personality import open_personality

SERVERS = ("varmail", "fileserver", "webserver", "webproxy")
SETTINGS = {"threads": "1", "files": "1000"}
CALLS = 200_000
ROUNDS = 7
KEPT = ("open", "close", "read", "write", "fsync")
ACTIONS = {CODES["open"]: "open", CODES["close"]: "close"}
MOVES = {CODES["read"]: "read", CODES["write"]: "write", CODES["fsync"]: "sync"}
CALL = np.dtype([("offset", "<u8"), ("length", "<u8"), ("operation", "<u4"), ("file", "<u4")])
FIO: tuple[str, ...] = ("--name=calls", "--ioengine=psync", "--invalidate=0", "--fadvise_hint=0")
FIO += ("--scramble_buffers=0", "--allow_file_create=0", "--output-format=json")
Records = npt.NDArray[np.void]


@dataclass(frozen=True)
class Listed:
    """The calls of one personality, the size of each file before, and what was left out."""

    calls: Records
    files: list[tuple[str, int]]
    left_out: Counter[str]

    @property
    def transfers(self) -> int:
        """Return how many calls fio counts: all but opening and closing."""
        return int(np.isin(self.calls["operation"], list(MOVES)).sum())


def listed(name: str, scratch: Path) -> Listed:
    """Return what one thread of a personality calls, without what an iolog cannot say."""
    plan = scratch / "whole"
    write_personality(open_personality(name, SETTINGS), plan, turns=20_000)
    machine = Machine(plan)
    records, files = machine.records[:CALLS].copy(), machine.files
    names = plan.read_bytes()[-int(machine.header["name_bytes"]) :]
    made = records["operation"] == CODES["create"]
    records["operation"][made] = CODES["open"]
    is_kept = np.isin(records["operation"], [CODES[name] for name in KEPT])
    left = Counter(OPERATIONS[code] for code in records["operation"][~is_kept])
    left["create"] = int(made.sum())
    there = np.where(files["is_present"] == 1, files["size_bytes"], 0)
    sizes = {
        number: int(there[number]) for number in range(len(files)) if files["kind"][number] == 0
    }
    paths = {number: _path(files, names, number) for number in sizes}
    placed = _placed(records[is_kept], dict(sizes))
    return Listed(placed, [(paths[number], size) for number, size in sizes.items()], left)


def _path(files: Records, names: bytes, number: int) -> str:
    parts = []
    while number != NONE:
        row = files[number]
        start = int(row["name_offset"])
        parts.append(names[start : start + int(row["name_bytes"])].decode())
        number = int(row["parent"])
    return "/".join(reversed(parts))


def _placed(records: Records, ends: dict[int, int]) -> Records:
    """Return the calls of files by their place in the list: writes at a place, reads within it."""
    places = {number: place for place, number in enumerate(ends)}
    calls = np.zeros(len(records), CALL)
    calls["operation"] = records["operation"]
    calls["file"] = [places[number] for number in records["file"].tolist()]
    names = ("operation", "file", "offset", "length")
    columns = (records[name].tolist() for name in names)
    for call, operation, file, offset, length in zip(calls, *columns, strict=True):
        if operation == CODES["write"]:
            call["offset"] = ends[file] if offset == AT_POSITION else offset
            call["length"] = length
            ends[file] = max(ends[file], int(call["offset"]) + length)
        elif operation == CODES["read"]:
            call["offset"], call["length"] = offset, max(0, min(length, ends[file] - offset))
    reads_nothing = (calls["operation"] == CODES["read"]) & (calls["length"] == 0)
    kept: Records = calls[~reads_nothing]
    return kept


def in_plan(calls: Listed, path: Path) -> None:
    """Write the calls as a file plan."""
    table = FileTable()
    numbers = np.array([table.add(file, size_bytes=size) for file, size in calls.files])
    records = new_records(len(calls.calls))
    for name in ("operation", "offset", "length"):
        records[name] = calls.calls[name]
    records["file"] = numbers[calls.calls["file"]]
    records["handle"] = calls.calls["file"]
    with path.open("wb") as file:
        writer = FilePlanWriter(file)
        writer.thread()
        writer.append(records)
        writer.finish(table, Setting())


def in_list(calls: Listed, path: Path) -> None:
    """Write the calls as `calls.c` reads them."""
    names = np.array([file.encode() for file, _ in calls.files], "S256")
    head = np.array([len(calls.calls), len(names)], "<u8")
    path.write_bytes(head.tobytes() + calls.calls.tobytes() + names.tobytes())


def in_iolog(calls: Listed, path: Path, folder: Path) -> None:
    """Write the calls as fio's iolog; only absolute paths work in it."""
    paths = [f"{folder / file}" for file, _ in calls.files]
    lines = ["fio version 2 iolog", *(f"{file} add" for file in paths)]
    rows = zip(*(calls.calls[name].tolist() for name in CALL.names or ()), strict=True)
    for offset, length, operation, file in rows:
        if operation in ACTIONS:
            lines.append(f"{paths[file]} {ACTIONS[operation]}")
        else:
            lines.append(f"{paths[file]} {MOVES[operation]} {offset} {length}")
    path.write_text("\n".join([*lines, ""]))


def make_files(calls: Listed, folder: Path) -> None:
    """Make the files as they are before the calls, and have them written back."""
    for file, size in calls.files:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(1024) * (size // 1024 + 1))
        os.truncate(path, size)
    os.sync()


class Contest:
    """One personality on one file system: each program's ns of a call, in the order of rounds."""

    def __init__(self, calls: Listed, scratch: Path, folder: Path) -> None:
        """Write the calls in the three forms."""
        self.calls, self.scratch, self.folder = calls, scratch, folder
        in_plan(calls, scratch / "plan")
        in_list(calls, scratch / "list")
        in_iolog(calls, scratch / "iolog", folder / "run")
        self.ns: dict[str, list[float]] = {name: [] for name in PROGRAMS}

    def turn(self, number: int) -> None:
        """Let each program make the calls once; each round begins with another one."""
        programs = list(PROGRAMS.items())
        for name, run in programs[number % 3 :] + programs[: number % 3]:
            if name != OWN:  # which makes its files itself
                make_files(self.calls, self.folder / "run")
            self.ns[name].append(run(self) / len(self.calls.calls))
            shutil.rmtree(self.folder / "run", ignore_errors=True)

    def loop(self) -> float:
        """Return the ns of the loop in C."""
        return float(said([str(self.scratch / "calls"), "list", str(self.folder / "run")], self))

    def replayer(self) -> float:
        """Return the ns of tracekit-file-replay, which makes and removes files of its own."""
        program = str(program_path(FILE_PROGRAM))
        told = json.loads(said([program, "plan", str(self.folder), "--cache", "sync"], self))
        assert told["counts"]["failed"] == 0
        assert told["counts"]["operations"] == len(self.calls.calls)
        return float(told["timing"]["elapsed_ns"])

    def fio(self) -> float:
        """Return the ns of fio; it counts whole milliseconds."""
        (job,) = json.loads(said(["fio", *FIO, "--read_iolog=iolog"], self))["jobs"]
        done = sum(job[kind]["total_ios"] for kind in ("read", "write", "sync"))
        assert (job["error"], done) == (0, self.calls.transfers)
        return float(job["job_runtime"]) * 1e6


OWN = "tracekit-file-replay"
PROGRAMS: dict[str, Callable[[Contest], float]] = {
    "loop in C": Contest.loop,
    OWN: Contest.replayer,
    "fio": Contest.fio,
}


def said(command: list[str], contest: Contest) -> str:
    """Run a program where the calls are; return what it printed."""
    ran = subprocess.run(command, check=True, capture_output=True, cwd=contest.scratch)
    return ran.stdout.decode()


def tell(contest: Contest, name: str, system: str) -> None:
    """Print one row: the fastest round of each program and its median, and the ratios."""
    best = {program: min(ns) for program, ns in contest.ns.items()}
    print(f"| {name}, {system} |", end="")
    for program, ns in contest.ns.items():
        print(f" {1e6 / best[program]:,.1f} ({1e6 / statistics.median(ns):,.1f}) |", end="")
    alone, own, fio = (best[program] for program in PROGRAMS)
    print(f" {fio / own:.2f} | {own - alone:+.0f} ns | {fio - alone:+.0f} ns |", flush=True)


def main(names: Sequence[str]) -> None:
    """Print a row a personality and file system, and what was left out."""
    print(
        "| thousands a second | loop in C | tracekit-file-replay | fio | tracekit / fio |", end=""
    )
    print(" added by tracekit | by fio |\n|---|---|---|---|---|---|---|")
    left = []
    for system, place in FILE_SYSTEMS.items():
        for name in names:
            with place() as folder, tempfile.TemporaryDirectory() as scratch:
                here = Path(scratch)
                source = Path(__file__).with_name("calls.c")
                subprocess.run(["cc", "-O2", "-o", here / "calls", source], check=True)
                calls = listed(name, here)
                contest = Contest(calls, here, folder)
                for number in range(ROUNDS):
                    contest.turn(number)
                tell(contest, name, system)
            counts = ", ".join(f"{count:,} {kind}" for kind, count in (+calls.left_out).items())
            left.append(f"{name}: {len(calls.calls):,} calls, left out {counts or 'none'}")
    print("\n".join(["", *dict.fromkeys(left)]))


if __name__ == "__main__":
    main(sys.argv[1:] or SERVERS)

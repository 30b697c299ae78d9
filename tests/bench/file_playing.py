"""What the file player adds to calls: a mail server's loop, and personalities beside fio."""

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

from tests.bench.harness import MEMORY, Bench, ext4, fio, needs, run
from tests.replay_files.program import do, write_plan
from tests.sweep.test_personalities import Machine
from tracekit._native import program_path
from tracekit.plans import file_plan
from tracekit.plans.file_plan import CODES
from tracekit.workload.file_plan import write_personality
from tracekit.workload.personality import open_personality

BYTES = 16384
ON_DISK = 10  # so many times fewer loops there


def mail_loop(path: Path) -> Path:
    """Write the plan of the peer's loop, once."""
    files = file_plan.FileTable()
    files.add("d/old", size_bytes=BYTES)
    loop = [
        do("create", "d/mail", handle=0, flags=file_plan.EXCLUSIVE),
        do("write", "d/mail", handle=0, length=BYTES),
        do("fsync", "d/mail", handle=0),
        do("close", "d/mail", handle=0),
        do("open", "d/old", handle=0, flags=file_plan.READ),
        do("read", "d/old", handle=0, length=BYTES),
        do("close", "d/old", handle=0),
        do("stat", "d/old"),
        do("stat", "d/mail"),
        do("unlink", "d/mail"),
    ]
    return write_plan(path, [loop], files=files, setting=file_plan.Setting(is_repeatable=True))


def replayed(plan: Path, loops: int, *arguments: str | Path) -> float:
    """Return the ns of an operation of the program."""
    program = program_path()
    ran = run([program, plan, plan.parent, "--repeat", str(loops), *arguments])
    summary = json.loads(ran.output)
    return float(summary["timing"]["elapsed_ns"] / summary["counts"]["operations"])


def measure(out: Bench, case: str, folder: Path, loops: int, rounds: int) -> None:
    """Compare with the calls alone."""
    peer = out.compiled("mail.c")
    with tempfile.TemporaryDirectory(dir=folder) as place:
        plan = mail_loop(Path(place) / "plan")
        ways = {
            "calls alone": lambda: float(run([peer, place, str(loops)]).output),
            "replayed": lambda: replayed(plan, loops),
            "with results": lambda: replayed(plan, loops, "--results", plan.with_name("done")),
        }
        out.compare(case, ways, rounds=rounds, unit="ns")


def bench_files(
    out: Bench, *, loops: int = 20_000, rounds: int = 7, place: Path | None = None
) -> None:
    """Beside it, in the same run and by turns, a loop in C of the same ten calls.

    In memory and on an ext4 whose disk is memory (root), or in a folder that is named.
    """
    if place:
        measure(out, str(place), place, loops, rounds)
        return
    measure(out, "tmpfs", MEMORY, loops, rounds)
    with (
        out.part("ext4"),
        tempfile.TemporaryDirectory(dir=MEMORY) as memory,
        ext4(Path(memory)) as disk,
    ):
        measure(out, "ext4", disk, loops // ON_DISK, rounds)


SERVERS = ("varmail", "fileserver", "webserver", "webproxy")
SETTINGS = {"threads": "1", "files": "1000"}
KEPT = ("open", "close", "read", "write", "fsync")
ACTIONS = {CODES["open"]: "open", CODES["close"]: "close"}
MOVES = {
    CODES["read"]: "read",
    CODES["write"]: "write",
    CODES["fsync"]: "sync",
}
CALL = np.dtype([("offset", "<u8"), ("length", "<u8"), ("operation", "<u4"), ("file", "<u4")])
FIO: tuple[str, ...] = ("--name=calls", "--ioengine=psync", "--invalidate=0", "--fadvise_hint=0")
FIO += ("--scramble_buffers=0", "--allow_file_create=0", "--read_iolog=iolog")
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


def listed(name: str, scratch: Path, calls: int) -> Listed:
    """Return what one thread of a personality calls, without what an iolog cannot say."""
    plan = scratch / "whole"
    write_personality(open_personality(name, SETTINGS), plan, turns=20_000)
    machine = Machine(plan)
    records, files = machine.records[:calls].copy(), machine.files
    names = plan.read_bytes()[-int(machine.header["name_bytes"]) :]
    made = records["operation"] == CODES["create"]
    records["operation"][made] = CODES["open"]
    is_kept = np.isin(records["operation"], [CODES[name] for name in KEPT])
    left = Counter(file_plan.OPERATIONS[code] for code in records["operation"][~is_kept])
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
    while number != file_plan.NONE:
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
            call["offset"] = ends[file] if offset == file_plan.AT_POSITION else offset
            call["length"] = length
            ends[file] = max(ends[file], int(call["offset"]) + length)
        elif operation == CODES["read"]:
            call["offset"], call["length"] = offset, max(0, min(length, ends[file] - offset))
    reads_nothing = (calls["operation"] == CODES["read"]) & (calls["length"] == 0)
    kept: Records = calls[~reads_nothing]
    return kept


def in_plan(calls: Listed, path: Path) -> None:
    """Write the calls as a file plan."""
    table = file_plan.FileTable()
    numbers = np.array([table.add(file, size_bytes=size) for file, size in calls.files])
    records = file_plan.new_records(len(calls.calls))
    for name in ("operation", "offset", "length"):
        records[name] = calls.calls[name]
    records["file"] = numbers[calls.calls["file"]]
    records["handle"] = calls.calls["file"]
    with path.open("wb") as file:
        writer = file_plan.FilePlanWriter(file)
        writer.thread()
        writer.append(records)
        writer.finish(table, file_plan.Setting())


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


class Programs:
    """What makes the calls of one personality on one file system: each returns calls a ms."""

    def __init__(self, calls: Listed, folder: Path, loop: Path) -> None:
        """Write the calls in the three forms."""
        self.calls, self.loop, self.files = calls, loop, folder / "run"
        self.scratch = loop.parent
        in_plan(calls, self.scratch / "plan")
        in_list(calls, self.scratch / "list")
        in_iolog(calls, self.scratch / "iolog", self.files)

    def on_files(self, program: Callable[[], float]) -> float:
        """Make the files before and remove them after."""
        make_files(self.calls, self.files)
        try:
            return len(self.calls.calls) / program() * 1e6
        finally:
            shutil.rmtree(self.files)

    def in_c(self) -> float:
        """Return the ns of the loop in C."""
        return float(run([self.loop, self.scratch / "list", self.files]).output)

    def fio(self) -> float:
        """Return the ns of fio; it counts whole milliseconds."""
        job, _ = fio(*FIO, cwd=self.scratch)
        done = sum(job[kind]["total_ios"] for kind in ("read", "write", "sync"))
        assert (job["error"], done) == (0, self.calls.transfers)
        return float(job["job_runtime"]) * 1e6

    def replayer(self) -> float:
        """Run tracekit-replay, which makes and removes files of its own."""
        program, plan = program_path(), self.scratch / "plan"
        summary = json.loads(run([program, plan, self.files.parent, "--cache", "sync"]).output)
        counts = summary["counts"]
        assert (counts["failed"], counts["operations"]) == (0, len(self.calls.calls))
        return float(counts["operations"] / summary["timing"]["elapsed_ns"] * 1e6)


def compare(out: Bench, case: str, programs: Programs, rounds: int) -> None:
    """Let each make the calls once a round; print what tracekit and fio add to the loop."""
    ways = {
        "loop in C": lambda: programs.on_files(programs.in_c),
        "fio": lambda: programs.on_files(programs.fio),
        "tracekit-replay": programs.replayer,
    }
    found = out.compare(case, ways, rounds=rounds, unit="calls/ms")
    loop, by_fio, own = (1e6 / max(rates) for rates in found.values())
    added = {"added_ns": own - loop, "by_fio_ns": by_fio - loop}
    pairs = zip(found["tracekit-replay"], found["fio"], strict=True)
    out.row(f"{case}: tracekit to fio", ratio=median(a / b for a, b in pairs), **added)


def bench_personalities(
    out: Bench, *, names: tuple[str, ...] = SERVERS, calls: int = 200_000, rounds: int = 7
) -> None:
    """The plan of a personality for one thread becomes a list of calls that three programs make.

    tracekit-replay, fio (its iolog with the opening and closing of files) and a loop in C
    (`calls.c`), on a tmpfs and on an ext4 whose disk is memory (root). fio's iolog cannot create,
    stat or delete files: these calls are left out for all three, a file that would be created is
    there and is opened, and the appending ones are given where the file ends. fio runs without what
    it would add by itself: advice to the kernel and changed buffers.
    """
    needs("fio")
    loop = out.compiled("calls.c")
    for system in ("tmpfs", "ext4"):
        for name in names:
            with out.part(system), tempfile.TemporaryDirectory(dir=MEMORY) as memory:
                here = Path(memory)
                listing = listed(name, out.scratch, calls)
                with ext4(here) if system == "ext4" else nullcontext(here) as folder:
                    compare(out, f"{name}, {system}", Programs(listing, folder, loop), rounds)
                counts = ", ".join(f"{n:,} {kind}" for kind, n in (+listing.left_out).items())
                out.note(f"{name}: {len(listing.calls):,} calls, left out {counts or 'none'}")

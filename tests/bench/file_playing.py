"""What the file player adds to calls: a mail server's loop."""

import json
import tempfile
from pathlib import Path

from tests.bench.harness import MEMORY, Bench, ext4, run
from tests.replay_files.program import do, write_plan
from tracekit._native import program_path
from tracekit.plans import file_plan

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

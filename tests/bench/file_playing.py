"""What the file player adds to calls: a mail server's loop."""

import json
import tempfile
from pathlib import Path

from tests.bench.harness import MEMORY, Bench, ext4, run
from tests.replay_files.program import do, write_plan
from tests.replay_files.test_slow_memory import rate
from tracekit._native import program_path
from tracekit.plans import file_plan
from tracekit.sweep.slow_memories import KINDS

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


STREAM = 1 << 20
# Yang et al., FAST 2020: GB/s of figure 4 (threads; their file names the two kinds of stores of the
# six modules the wrong way round) and of figure 5 (bytes of an access at random places).
PUBLISHED = {
    ("optane-pmem-100", "threads"): {
        1: (2.88, 4.13), 2: (5.75, 8.19), 4: (11.63, 12.50), 8: (21.13, 12.00), 16: (34.88, 10.00),
        24: (37.56, 7.50),
    },
    ("optane-pmem-100-single", "threads"): {
        1: (2.92, 2.22), 2: (5.66, 2.21), 4: (6.52, 2.20), 8: (6.46, 1.53), 16: (4.73, 0.94),
    },
    ("optane-pmem-100", "bytes"): {
        64: (9.67, 3.17), 128: (18.75, 5.83), 256: (33.65, 12.19), 512: (34.23, 11.88),
        1024: (32.29, 11.35), 4096: (25.98, 9.44),
    },
    ("optane-pmem-100-single", "bytes"): {
        64: (1.675, 0.555), 128: (3.344, 1.098), 256: (6.505, 2.207), 512: (6.530, 2.209),
        1024: (6.519, 2.223), 4096: (6.559, 2.231),
    },
}  # fmt: skip


def bench_slow_memory(out: Bench, *, most: int = 64) -> None:
    """Model of slower memory beside published points, in GB/s: read and written.

    By simulated clocks. Accesses at random places are those of `most` clients, as a thread has many
    under way.
    """
    for (kind, axis), points in PUBLISHED.items():
        for value, published in points.items():
            clients, size = (value, STREAM) if axis == "threads" else (most, value)
            reads, writes = (
                rate(KINDS[kind], clients, size=size, write=write) for write in (False, True)
            )
            figures = {"read": published[0], "model": reads, "written": published[1]}
            out.row(f"{kind}, {value} {axis}", **figures, of_model=writes)

"""What the file replayer adds to an operation: `python -m tests.bench.files [FOLDER]`.

Beside it, in the same run and by turns, a loop in C of the same ten calls on the same file system:
in memory and on an ext4 whose disk is memory (root), or in a folder that is named.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.memory_disk import FILE_SYSTEMS
from tests.replay_files.program import do, write_plan
from tracekit._native import FILE_PROGRAM, program_path
from tracekit.plans.file_plan import EXCLUSIVE, READ, FileTable, Setting

LOOPS = {"tmpfs": 20_000, "ext4": 2_000}
ROUNDS = 7
BYTES = 16384


def mail_loop(path: Path) -> Path:
    """Write the plan of the peer's loop, once."""
    files = FileTable()
    files.add("d/old", size_bytes=BYTES)
    loop = [
        do("create", "d/mail", handle=0, flags=EXCLUSIVE),
        do("write", "d/mail", handle=0, length=BYTES),
        do("fsync", "d/mail", handle=0),
        do("close", "d/mail", handle=0),
        do("open", "d/old", handle=0, flags=READ),
        do("read", "d/old", handle=0, length=BYTES),
        do("close", "d/old", handle=0),
        do("stat", "d/old"),
        do("stat", "d/mail"),
        do("unlink", "d/mail"),
    ]
    return write_plan(path, [loop], files=files, setting=Setting(is_repeatable=True))


def replayed(plan: Path, folder: Path, loops: int, *arguments: str) -> float:
    """Return the ns of an operation of the program."""
    ran = subprocess.run(
        [program_path(FILE_PROGRAM), plan, folder, "--repeat", str(loops), *arguments],
        check=True,
        capture_output=True,
    )
    told = json.loads(ran.stdout)
    return float(told["timing"]["elapsed_ns"] / told["counts"]["operations"])


def measure(folder: Path, loops: int) -> None:
    """Print medians of the rounds."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        here = Path(place)
        peer = here / "mail"
        source = Path(__file__).with_name("mail.c")
        subprocess.run(["cc", "-O2", "-o", peer, source], check=True)
        plan = mail_loop(here / "plan")
        ways: dict[str, list[float]] = {"calls alone": [], "replayed": [], "with results": []}
        for _ in range(ROUNDS):
            alone = subprocess.run([peer, here, str(loops)], check=True, capture_output=True)
            ways["calls alone"].append(float(alone.stdout))
            ways["replayed"].append(replayed(plan, here, loops))
            done = str(here / "done")
            ways["with results"].append(replayed(plan, here, loops, "--results", done))
    base = statistics.median(ways["calls alone"])
    for name, values in ways.items():
        value = statistics.median(values)
        print(
            f"{name}: {value:.0f} ns an operation ({min(values):.0f} to {max(values):.0f})", end=""
        )
        print(f", {value - base:+.0f} ns, {value / base:.2f}x")


def main(folders: Sequence[str]) -> None:
    """Measure on both file systems, or in the folders that are named."""
    for folder in folders:
        print(f"{folder}:")
        measure(Path(folder), LOOPS["tmpfs"])
    for name, system in () if folders else FILE_SYSTEMS.items():
        with system() as place:
            print(f"{name}:")
            measure(place, LOOPS[name])


if __name__ == "__main__":
    main(sys.argv[1:])

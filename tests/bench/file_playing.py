"""The file player: what it adds to calls, and personalities by filebench itself beside it."""

import json
import re
import shutil
import tempfile
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.bench.harness import MEMORY, Bench, Skipped, ext4, needs, run
from tests.replay_files.program import do, write_plan
from tests.replay_files.test_slow_memory import rate
from tracekit._native import program_path
from tracekit.plans import file_plan
from tracekit.sweep.slow_memories import KINDS
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


NAMES = ("varmail", "fileserver", "webserver", "webproxy", "oltp")
OWN = {"oltp": {"nfiles": 10, "nshadows": 20}}  # settings: its files have 10 MiB each
ROW = re.compile(r"^(\S+)\s+(\d+)ops\s+(\d+)ops/s\s+([\d.]+)mb/s", re.MULTILINE)


@dataclass
class Found:
    """What runs of one program did, by operation."""

    operations: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    rates: list[float] = field(default_factory=list)

    def share(self, name: str) -> float:
        """Return the share of an operation among all."""
        return self.operations[name] / self.operations.total()

    def size(self, name: str) -> float:
        """Return its bytes a call."""
        return self.moved[name] / self.operations[name]


@dataclass(frozen=True)
class Case:
    """A personality with its settings, and where it runs."""

    text: str
    seconds: int
    folder: Path

    def by_filebench(self, found: Found) -> None:
        """Add a run of filebench, which takes its addresses for those of all its processes.

        What makes no calls, such as waiting for a semaphore, has a row there and none here.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            file = self.folder / "own.f"
            file.write_text(re.sub(r"^(set \$dir)=.*$", rf"\1={place}", self.text, flags=re.M))
            output = run(["setarch", "--addr-no-randomize", "filebench", "-f", file]).output
        steps = open_personality(str(file), {}).labels
        rows = [row for row in ROW.findall(output) if row[0] in steps]
        if not rows:
            raise Skipped(f"filebench measured nothing: {output.splitlines()[-3:]}")
        for name, count, a_second, mib in rows:
            found.operations[name] += int(count)
            found.moved[name] += round(float(mib) * int(count) / max(int(a_second), 1) * (1 << 20))
        found.rates.append(sum(float(rate) for _, _, rate, _ in rows))

    def by_tracekit(self, found: Found) -> None:
        """Add a run of the replayer."""
        file, plan = self.folder / "own.f", self.folder / "plan"
        file.write_text(self.text)
        write_personality(open_personality(str(file), {}), plan)
        words = ["--repeat", "0", "--duration-ns", str(self.seconds * 10**9), "--cache", "sync"]
        summary = json.loads(run([program_path(), plan, self.folder, *words]).output)
        if summary["outcome"] != "finished":
            raise Skipped(f"tracekit: {summary['outcome']}")
        for step in summary["steps"]:
            found.operations[step["name"]] += step["done"]
            found.moved[step["name"]] += step["bytes"]
        found.rates.append(summary["timing"]["steps_per_second"])


def with_settings(text: str, settings: dict[str, int], seconds: int) -> str:
    """Return a file with other values of variables that it sets, run for so long."""
    for name, value in settings.items():
        text = re.sub(rf"^set \${name}=.*$", f"set ${name}={value}", text, flags=re.M)
    return re.sub(r"^run\b.*$", "", text, flags=re.M) + f"\nrun {seconds}\n"


def compare(out: Bench, name: str, case: Case, rounds: int) -> None:
    """Let both run it by turns; print how their mixes, bytes and rates differ."""
    theirs, ours = Found(), Found()
    for number in range(rounds):
        turns = (case.by_filebench, theirs), (case.by_tracekit, ours)
        for way, found in turns[:: 1 if number % 2 == 0 else -1]:
            way(found)
    both = [one for one in ours.operations if one in theirs.operations]
    moving = [one for one in both if theirs.moved[one]]
    pairs = zip(ours.rates, theirs.rates, strict=True)
    out.row(
        name,
        operations=len(both),
        filebench_s=median(theirs.rates),
        tracekit_s=median(ours.rates),
        ratio=median(a / b for a, b in pairs),
        mix=max(abs(ours.share(one) / theirs.share(one) - 1) for one in both),
        bytes=max(abs(ours.size(one) / theirs.size(one) - 1) for one in moving),
    )
    for one in moving:
        out.note(f"{name} {one}: {theirs.size(one):,.0f} and {ours.size(one):,.0f} bytes")


def bench_filebench(
    out: Bench,
    *,
    names: tuple[str, ...] = NAMES,
    seconds: int = 15,
    rounds: int = 3,
    threads: int = 4,
    files: int = 2_000,
    workloads: Path | None = None,
    place: Path | None = None,
) -> None:
    """Run files that filebench installs by filebench and by tracekit: same directory, same seconds.

    In memory and on an ext4 whose disk is memory (root), or in a folder that is named. `mix` and
    `bytes` are the worst difference of any operation: of its share, and of its bytes a call.
    """
    needs("filebench", "build it from its repository")
    program = Path(shutil.which("filebench") or "")
    folder = workloads or program.parent.parent / "share/filebench/workloads"
    settings = {"nthreads": threads, "nfiles": files}
    for system in (str(place),) if place else ("tmpfs", "ext4"):
        with out.part(system), tempfile.TemporaryDirectory(dir=place or MEMORY) as here:
            made = ext4(Path(here)) if system == "ext4" else nullcontext(Path(here))
            with made as where:
                for name in names:
                    text = (folder / f"{name}.f").read_text()
                    own = settings | OWN.get(name, {})
                    case = Case(with_settings(text, own, seconds), seconds, where)
                    compare(out, f"{name}, {system}", case, rounds)

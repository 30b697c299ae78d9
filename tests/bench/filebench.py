"""Published personalities by filebench itself and by tracekit: their mix, bytes and rates."""

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
from tracekit._native import program_path
from tracekit.workload.file_plan import write_personality
from tracekit.workload.personality import open_personality

NAMES = ("varmail", "fileserver", "webserver", "webproxy")
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
        """Add a run of filebench, which takes its addresses for those of all its processes."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            file = self.folder / "own.f"
            file.write_text(re.sub(r"^(set \$dir)=.*$", rf"\1={place}", self.text, flags=re.M))
            output = run(["setarch", "--addr-no-randomize", "filebench", "-f", file]).output
        rows = ROW.findall(output)
        if not rows:
            raise Skipped(f"filebench measured nothing: {output.splitlines()[-3:]}")
        for name, count, rate, mib in rows:
            found.operations[name] += int(count)
            found.moved[name] += round(float(mib) * int(count) / max(int(rate), 1) * (1 << 20))
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
                    case = Case(with_settings(text, settings, seconds), seconds, where)
                    compare(out, f"{name}, {system}", case, rounds)

"""What the benchmarks share.

Inputs made once, calls and processes measured, paired rounds, peers that may be missing, one table,
and the same figures as JSON.
"""

import importlib.util
import json
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from tests.replay.disk import image, loop, mounted

T = TypeVar("T")
Value = str | int | float
TRACEKIT = str(Path(sysconfig.get_path("scripts")) / "tracekit")
MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of its own below it
EAGER = "lazy_itable_init=0,lazy_journal_init=0"  # nothing is left to write behind the bench
CASE_COLUMNS, VALUE_COLUMNS = 40, 9
# A small process starts the command: the peak of a large one would count as that of its child.
STARTER = """
import json, os, sys, time
began = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(child, 0)
figures = time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
os.write(int(sys.argv[1]), json.dumps(figures).encode())
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


class Skipped(Exception):  # noqa: N818 - no error: what is not measured here, and why
    """What is missing on this machine."""


class Failed(Exception):  # noqa: N818 - the message is what the command wrote to stderr
    """A command that ended with an error."""


SKIPS = (Skipped, pytest.skip.Exception)


@dataclass(frozen=True)
class Used:
    """What a call or a process took."""

    wall_s: float
    cpu_s: float
    """Of all threads; of a process with its children."""
    peak_mib: float
    output: str = ""


def run(command: Sequence[str | Path], *, cwd: Path | None = None, to: Path | None = None) -> Used:
    """Measure a process; its output goes to the file `to` where there is one."""
    receiver, sender = os.pipe()
    # Modules are compiled once and kept, as Python does by default.
    environment = {key: os.environ[key] for key in os.environ if key != "PYTHONDONTWRITEBYTECODE"}
    starter = [sys.executable, "-S", "-E", "-c", STARTER, str(sender), *map(str, command)]
    with (to or Path(os.devnull)).open("wb") as file:
        done = subprocess.run(
            starter,
            stdout=file if to else subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            pass_fds=[sender],
            check=False,
        )
    os.close(sender)
    with os.fdopen(receiver) as told:
        figures = told.read()
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: {done.stderr.decode(errors='replace')}")
    wall_s, cpu_s, peak = json.loads(figures)
    return Used(wall_s, cpu_s, peak, (done.stdout or b"").decode())


def tracekit(*arguments: str | Path) -> Used:
    """Measure a command of the product."""
    return run([TRACEKIT, *arguments])


def fio(*arguments: str | Path, cwd: Path | None = None) -> tuple[dict[str, Any], Used]:
    """Run fio; return its job (the sum of the jobs is the caller's) and what it took."""
    needs("fio")
    used = run(["fio", "--output-format=json", *arguments], cwd=cwd)
    job: dict[str, Any] = json.loads(used.output[used.output.index("{") :])["jobs"][0]
    return job, used


def peak_mib() -> float:
    """Return the peak memory of this process, without that of the process that started it."""
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index("VmHWM:") + 1]) / 1024


def timed(function: Callable[..., T], *arguments: object) -> tuple[T, Used]:
    """Measure a call in this process."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    value = function(*arguments)
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    return value, Used(wall_s, cpu_s, peak_mib())


def isolated(function: Callable[..., T], *arguments: object) -> tuple[T, Used]:
    """Measure a call in a fresh process; imports count as memory, not as time."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found: tuple[T, Used] = pool.submit(timed, function, *arguments).result()
        return found


def needs(program: str, package: str | None = None) -> None:
    """Skip where a program is not installed."""
    if shutil.which(program) is None:
        raise Skipped(f"{program} is not installed (Debian: {package or program})")


def needs_module(name: str) -> Any:
    """Return a Python module, or skip where it is not installed."""
    if importlib.util.find_spec(name) is None:
        raise Skipped(f"{name} is not installed (pip install {name})")
    return importlib.import_module(name)


def needs_root() -> None:
    if os.geteuid() != 0:
        raise Skipped("needs root")


def one_core() -> None:
    """Bind this process to one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@contextmanager
def files_open(paths: Iterable[Path]) -> Iterator[list[int]]:
    fds = [os.open(path, os.O_RDONLY) for path in paths]
    try:
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


@contextmanager
def ext4(place: Path, mib: int = 3072) -> Iterator[Path]:
    """Yield a new ext4 on a loop device whose image is in `place`."""
    needs_root()
    with loop(image(place / "image", mib=mib)) as device:
        run(["mkfs.ext4", "-q", "-E", EAGER, device])
        with mounted(device, place / "ext4") as mount:
            yield mount


def shown(value: Value) -> str:
    """Return a number with four digits or more."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:#.4g}"


class Bench:
    """One benchmark: where its files lie, and its table."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.rows: list[dict[str, Value]] = []
        self.notes: list[str] = []
        self._columns: tuple[str, ...] = ()
        self.scratch = folder / name
        self.scratch.mkdir(parents=True, exist_ok=True)

    def input(self, name: str, make: Callable[[Path], object]) -> Path:
        """Return the input of that name, which is made only once for all benches."""
        path = self.folder / "inputs" / name
        if not path.exists():
            new = path.with_name(f"{name}.new")
            path.parent.mkdir(exist_ok=True)
            shutil.rmtree(new, ignore_errors=True)
            make(new)
            new.rename(path)
        return path

    def compiled(self, source: str, *flags: str) -> Path:
        """Return the program of a file of C beside this one."""
        needs("cc", "gcc")
        program, file = self.scratch / Path(source).stem, Path(__file__).with_name(source)
        run(["cc", "-O2", *flags, "-o", program, file])
        return program

    def row(self, case: str, **values: Value) -> None:
        """Print a row, with a head where its columns are others than those above."""
        self.rows.append({"case": case, **values})
        widths = [max(len(name), VALUE_COLUMNS) for name in values]
        if tuple(values) != self._columns:
            self._columns = tuple(values)
            names = (f"{name:>{width}}" for name, width in zip(values, widths, strict=True))
            print(" ".join([" " * CASE_COLUMNS, *names]))
        texts = (f"{shown(v):>{width}}" for v, width in zip(values.values(), widths, strict=True))
        print(" ".join([f"{case:<{CASE_COLUMNS}}", *texts]), flush=True)

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(text, flush=True)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure a part, or say why it cannot be measured here."""
        try:
            yield
        except SKIPS as reason:
            self.note(f"{name}: not measured: {reason}")

    def compare(
        self, case: str, ways: Mapping[str, Callable[[], float]], *, rounds: int, unit: str
    ) -> dict[str, list[float]]:
        """Measure by turns, each round beginning with another; ratios are of the same round.

        A row has the median, the least and the most, and the median and middle half of the ratios
        to the first way.
        """
        names = list(ways)
        found: dict[str, list[float]] = {name: [] for name in names}
        for number in range(rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                found[name].append(ways[name]())
        self.show(case, found, unit=unit)
        return found

    def show(self, case: str, found: Mapping[str, list[float]], *, unit: str) -> None:
        base = next(iter(found.values()))
        for name, values in found.items():
            ratios = [value / first for value, first in zip(values, base, strict=True)]
            low, half, high = map(float, np.quantile(ratios, (0.25, 0.5, 0.75)))
            spread = {"least": min(values), "most": max(values)}
            row = {unit: statistics.median(values), **spread, "ratio": half}
            self.row(f"{case}: {name}", **row, ratio_q1=low, ratio_q3=high)

    def save(self, options: Mapping[str, object]) -> None:
        """Write rows and notes beside what they depend on."""
        told = {
            "bench": self.name,
            "options": {name: str(value) for name, value in options.items()},
            "machine": {"kernel": platform.release(), "cores": len(os.sched_getaffinity(0))},
            "load": os.getloadavg(),
            "rows": self.rows,
            "notes": self.notes,
        }
        (self.folder / f"{self.name}.json").write_text(
            json.dumps(told, indent=1, default=float) + "\n"
        )

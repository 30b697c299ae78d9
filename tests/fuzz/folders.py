"""Fuzz the commands with trace folders that somebody changed before they sent them.

python -m tests.fuzz.folders --seconds 600    # new seeds; findings go to build/fuzz/folders
python -m tests.fuzz.folders --seed 4711      # one case again, with all that it printed

Each case copies a small folder that has everything, changes it (`hostile.py`), and runs a command
on it in a process of its own. The command may end well or with an error of ours. It must not end
with a traceback or by a signal, hang, take all memory, print escapes of a terminal, change anything
outside the folder, or show what a file outside holds.
"""

import argparse
import faulthandler
import importlib
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import NoReturn

from tests.fuzz import hostile
from tests.fuzz.known_folders import CASES
from tests.fuzz.whole_folder import DEVICE, unpack
from tracekit.cli import main as tracekit

RESULTS = Path("build/fuzz/folders")
CPU_S = 60
IDLE_S = 15
"""A command waits for nothing so long; what it starts here is done sooner."""
MEMORY_BYTES = 6 << 30
FILE_BYTES = 1 << 30
EXIT_CODES = range(5)
TRACEBACK = 70
OURS = re.compile(r'File "[^"]*/(tracekit/[^"]+)", line \d+, in (\S+)')
NATIVE = re.compile(r'File "[^"]*/([^/"]+/[^/"]+\.py)", line \d+ in (\S+)')
# Python itself, numpy and the rest before the first case: each case begins with a copy of them.
MODULES = (
    "duckdb", "pyarrow.parquet", "pyarrow.compute", "scipy.optimize", "tracekit.api",
    "tracekit.report.page", "tracekit.pipeline", "tracekit.replay.run",
)  # fmt: skip
NULL = ("--engine", "null", "--pace", "fast")
COMMANDS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (3, ("sql", "trace", "select * from requests limit 3")),
    (2, ("sql", "trace", "select count(*) from completions", "--json")),
    (1, ("sql", "trace", "--describe")),
    (3, ("report", "trace")),
    (3, ("analyze", "trace")),
    (2, ("classify", "trace")),
    (2, ("recommend", "trace")),
    (1, ("simulate", "tiers", "trace")),
    (1, ("simulate", "cache", "trace")),
    (1, ("simulate", "buffer", "trace")),
    (1, ("simulate", "sensitivity", "trace")),
    (1, ("simulate", "endurance", "trace")),
    (1, ("compare", "trace", "base", "again")),
    (4, ("replay", "trace", *NULL)),
    (2, ("replay", "trace", *NULL, "--resume", "rest", "--name", "more")),
    (1, ("replay", "trace", *NULL, "--placement", "answer")),
    (1, ("replay", "trace", "--files", "files", "--pace", "fast")),
    (
        1,
        (
            "sweep",
            "webserver",
            "--target",
            "files",
            "-o",
            "trace",
            "--files",
            "10,20",
            "--duration",
            "50ms",
            "--repeat",
            "2",
        ),
    ),
    (2, ("characterize-device", "-o", "trace", *DEVICE)),
    (2, ("characterize-device", "-o", "trace", "--force", *DEVICE)),
    (1, ("fit", "trace", "-o", "out/profile.toml")),
    (1, ("export", "trace", "--format", "blkparse", "-o", "out/text")),
    (1, ("export", "trace", "--format", "fio", "-o", "out/log")),
    (1, ("verify-placement", "trace", "--repeat", "1", "--duration", "10ms")),
    (1, ("generate", "trace/profile.toml", "-o", "out/made", "--requests", "50")),
    (1, ("counters", "-o", "trace", "--from", "outside/perf.json=5", "--workload", "third")),
)
"""Each with how often it is drawn; run in the folder that holds the trace."""
WRITTEN = ("trace", "out", "state", "cache", "config")
"""What a command may change; everything else beside the trace is as it was."""


@dataclass
class Outcome:
    """How a command on a changed folder ended; `problems` are the findings, by kind."""

    changes: list[str]
    words: tuple[str, ...]
    said: str = ""
    code: int | None = None
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def end(self) -> str:
        """How it ended, to be counted."""
        if self.problems:
            return "with findings"
        return "ended well" if self.code == 0 else "with an error of ours"


def run_case(seed: int, whole: Path, place: Path) -> Outcome:
    """Change a copy of the folder `whole` in `place` as the seed says and run a command on it."""
    rng = Random(seed)  # noqa: S311 - no secret
    weights, commands = zip(*COMMANDS, strict=True)
    words: tuple[str, ...] = rng.choices(commands, weights)[0]

    def change() -> None:
        if words[0] == "report":
            hostile.keep_few(rng, Path("trace").absolute())
        for line in hostile.change(rng, Path("trace").absolute()):
            sys.stdout.write(f"{line.encode('unicode-escape').decode()}\n")

    return check(words, whole, place, change=change)


def check(
    words: tuple[str, ...], whole: Path, place: Path, *, change: Callable[[], None]
) -> Outcome:
    """Run a command in a new copy of the folder after `change`; return what was wrong."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(whole, place, symlinks=True)
    status, said = in_process(place, change)
    outcome = Outcome(said.splitlines(), words)
    if status:
        raise RuntimeError(f"the folder could not be changed: {said}")
    before = dict(seen(place))
    status, said = in_process(place, lambda: run_command(words))
    outcome.said = said
    outcome.code = os.waitstatus_to_exitcode(status) if status != -1 else None
    outcome.problems |= problems_of(status, said)
    after = dict(seen(place))
    changed = sorted(name for name in before | after if before.get(name) != after.get(name))
    if changed:
        outcome.problems["outside"] = f"changed: {', '.join(changed[:5])}"
    shown = [name for name in ("said", "trace", "out") if hostile.holds_mark(place / name)]
    if shown or hostile.MARK in said:
        outcome.problems["shown"] = f"what a file outside holds is in {shown or 'the output'}"
    return outcome


def run_command(words: Sequence[str]) -> None:
    """Run `tracekit WORDS`; leave the process as the command does."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    sys.argv = ["tracekit", *words]
    tracekit()


def in_process(place: Path, action: Callable[[], None]) -> tuple[int, str]:
    """Run the action in a child, in `place`; return its status as the kernel has it, its output.

    The status is -1 where the child waited without end.
    """
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            _become(place, output.fileno())
            _leave(action)
        is_done = _ends(child)
        if not is_done:
            os.kill(child, signal.SIGUSR1)
            time.sleep(0.2)
        # The group is the child's own, with whatever it started.
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        said = output.read(1 << 20).decode(errors="replace")
    return (status if is_done else -1), said


def _ends(child: int) -> bool:
    """Wait for a child; return whether it ends, and does not sleep for IDLE_S."""
    ready = select.poll()
    pid = os.pidfd_open(child)
    ready.register(pid, select.POLLIN)
    idle_s, before = 0, ""
    while not ready.poll(1000) and idle_s < IDLE_S:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        # State, and the times that it and its ended children had; a busy machine lets it wait.
        state, times = fields[0], " ".join(fields[11:15])
        idle_s = 0 if state == "R" or times != before else idle_s + 1
        before = times
    os.close(pid)
    return idle_s < IDLE_S


def _become(place: Path, output: int) -> None:
    """Make the child a process as a command's: its output, its folders, its limits."""
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    os.chdir(place)
    for name, own in (("STATE", "state"), ("CACHE", "cache"), ("CONFIG", "config")):
        os.environ[f"XDG_{name}_HOME"] = str(place / own)
    os.environ |= {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp")}
    tempfile.tempdir = None
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(2)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=False)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    signal.signal(signal.SIGXCPU, lambda *_: os.kill(os.getpid(), signal.SIGUSR1))


def _leave(action: Callable[[], None]) -> NoReturn:
    """Do the action and end the child without what Python does at its end."""
    code = 0
    try:
        action()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        code = TRACEBACK
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def problems_of(status: int, said: str) -> dict[str, str]:
    """Return what is wrong with the end of a command, by kind."""
    found = {}
    if status == -1:
        found["hang"] = _place(NATIVE, said)
    elif os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status)).name
        found["crash"] = f"{number} in {_place(NATIVE, said)}"
    elif os.WEXITSTATUS(status) not in EXIT_CODES or "Traceback (most" in said:
        last = (said.strip().splitlines() or [""])[-1]
        found["traceback"] = f"{_place(OURS, said, last=True)}: {last.partition(':')[0]}"
    if "there is not enough memory" in said:
        found["memory"] = "all memory was taken"
    if any(character in said for character in "\x1b\x07\u202e"):
        found["escape"] = "control characters of the folder reach the terminal"
    return found


def _place(frame: re.Pattern[str], said: str, *, last: bool = False) -> str:
    found = frame.findall(said)
    return " ".join(found[-1 if last else 0]) if found else "nowhere"


def seen(place: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield everything beside the trace with what the kernel says of it; a write changes ctime."""
    for top, folders, files in os.walk(place):
        if Path(top) == place:
            folders[:] = [name for name in folders if name not in WRITTEN]
        for name in (*folders, *files):
            path = Path(top, name)
            info = path.lstat()
            # Temporary files come and go in a folder; what stays in it is seen itself.
            times = () if name in folders else (info.st_mtime_ns, info.st_ctime_ns, info.st_size)
            yield str(path.relative_to(place)), (info.st_mode, info.st_ino, *times)


def report(name: str, outcome: Outcome) -> str:
    """Return a case as text; keep it in a file when there is something wrong."""
    text = "\n".join(
        [
            f"{name}: tracekit {' '.join(outcome.words)}",
            *(f"  {line}" for line in outcome.changes),
            *(f"{kind}: {what}" for kind, what in outcome.problems.items()),
            "",
            outcome.said,
        ]
    )
    if outcome.problems:
        RESULTS.mkdir(parents=True, exist_ok=True)
        kinds = "-".join(sorted(outcome.problems))
        (RESULTS / f"{name}-{kinds}.txt").write_text(text, errors="replace")
    return text


def prepare(place: Path) -> Path:
    """Make the folder of which each case gets a copy; import what the commands need."""
    whole = place / "whole"
    unpack(whole)
    # A process that has threads cannot be copied: whatever starts some does so in the copies.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in MODULES:
        importlib.import_module(name)
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=int(time.time()) * 1000)
    parser.add_argument("--cases", type=int, default=sys.maxsize)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracekit-fuzz-") as name:
        place = Path(name)
        whole = prepare(place)
        if asked.seed is not None:
            outcome = run_case(asked.seed, whole, place / "case")
            sys.stdout.write(report(str(asked.seed), outcome))
            sys.exit(bool(outcome.problems))
        cases = chain(CASES, map(str, range(asked.first, asked.first + asked.cases)))
        found = tried(cases, whole, place / "case", end_s=time.monotonic() + asked.seconds)
    sys.exit(found)


def tried(names: Iterator[str], whole: Path, place: Path, *, end_s: float) -> bool:
    """Try the cases until the time is over; print what was found, and return whether."""
    found: dict[tuple[str, str], list[str]] = {}
    ended: Counter[str] = Counter()
    for name in names:
        if time.monotonic() > end_s:
            break
        if name in CASES:
            words, change = CASES[name]
            outcome = check(words, whole, place, change=partial(change, Path("trace")))
        else:
            outcome = run_case(int(name), whole, place)
        report(name, outcome)
        ended[outcome.end] += 1
        for problem in outcome.problems.items():
            found.setdefault(problem, []).append(name)
    for (kind, what), cases in sorted(found.items()):
        sys.stdout.write(f"{kind}: {what}: {len(cases)} times, first in {cases[0]}\n")
    ends = ", ".join(f"{count} {end}" for end, count in sorted(ended.items()))
    sys.stdout.write(f"folders: {ended.total()} cases: {ends}\n")
    return bool(found)


if __name__ == "__main__":
    main()

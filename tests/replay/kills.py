"""Signals and kills of a replay at any time of its life: `python -m tests.replay.kills [--runs N]`.

After each of them the next command goes on with what is left, and all tables together have each
request of the plan once. What is signalled is the command, its program, or the group of both.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from tests.replay.processes import await_true, is_gone, replay_command
from tests.replay.trace import trace
from tests.replay_files import captured
from tracekit.store import TraceFolder

Array = npt.NDArray[Any]
COUNT = 4000
OPERATIONS = 5 * COUNT + 1
"""Of files: an open and many reads."""
GAP_NS = 250_000
NAME = "a"
LIFE_IS_GOOD_S = 20.0
WORDS: dict[str, tuple[str, ...]] = {
    "null": ("--engine", "null"),
    "several": ("--engine", "null", "--submitters", "2"),
    "closed": ("--engine", "emulated", "--device", "ssd-nvme", "--pace", "closed"),
    "emulated": ("--engine", "emulated", "--device", "ssd-sata", "--pace", "fast"),
    "file": ("--target", "{place}/target"),
    "threads": ("--target", "{place}/target", "--engine", "threads"),
    "files": ("--files", "{place}"),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
VICTIMS = ("command", "program", "group")
ENDED = "nothing is left to do"
WHERE = re.compile(r"(?:kept|what was done is) in \S+")
PART = re.compile(r"interrupted after ([\d,]+) of ([\d,]+) requests: they are kept")
FRESH = ("holds no replay", "how far it came is lost")


@dataclass(frozen=True)
class Shot:
    """When, with which signals, and what was hit; `kind` is a key of WORDS."""

    kind: str
    share: float
    numbers: tuple[signal.Signals, ...]
    victim: str

    def __str__(self) -> str:
        """Name it in a line."""
        numbers = "+".join(number.name for number in self.numbers)
        return f"{self.kind}, {numbers} of the {self.victim} at {self.share:.1%}"


@dataclass
class Campaign:
    """What was tried, what it left, and what was wrong."""

    tried: int = 0
    left: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def make_trace(place: Path, kind: str) -> TraceFolder:
    """Write a trace of reads and writes, or of file operations, without a meaning."""
    if kind != "files":
        rows = [
            {
                "queue_ns": n * GAP_NS,
                "complete_ns": n * GAP_NS + 150_000,
                "sector": 2048 + 8 * (n * 7919 % 10_000),
                "operation": ("read", "write")[n % 2],
                "role": "fs",
            }
            for n in range(COUNT)
        ]
        return trace(place, rows)
    files: list[captured.Row] = [{"path": "/d/f", "size_bytes": 1 << 20}]
    opened = {"operation": "open", "file_id": 0, "handle": 1, "flags": "read|write"}
    reads = [
        {"operation": "read", "file_id": 0, "handle": 1, "offset": 0, "length_bytes": 4096}
        for _ in range(OPERATIONS - 1)
    ]
    operations = [opened, *reads]
    for number, operation in enumerate(operations):
        operation["start_ns"] = number * GAP_NS // 5
    return captured.trace(place, files, operations)


def program_of(command: int) -> int | None:
    """Return the program that a command has started."""
    try:
        children = Path(f"/proc/{command}/task/{command}/children").read_text().split()
        names = {int(one): Path(f"/proc/{one}/comm").read_text().strip() for one in children}
    except OSError:
        return None
    return next((one for one, name in names.items() if name.startswith("tracekit-replay")), None)


def shoot(command: subprocess.Popen[str], shot: Shot) -> None:
    """Send the signals, each to its victim if that is there."""
    for number in shot.numbers:
        victim = program_of(command.pid) if shot.victim == "program" else command.pid
        try:
            if shot.victim == "group":
                os.killpg(command.pid, number)
            elif victim is not None:
                os.kill(victim, number)
        except ProcessLookupError:
            return
        time.sleep(0.03)


def command_of(folder: TraceFolder, kind: str, place: Path, *words: str) -> list[str]:
    """Return the words of a replay of a kind."""
    own = [word.format(place=place) for word in WORDS[kind]]
    return replay_command(folder, *own, *words)


def run_hit(folder: TraceFolder, shot: Shot, place: Path, life_s: float) -> tuple[int, str]:
    """Run a command that gets signals at a share of its life; return its code and message."""
    line = command_of(folder, shot.kind, place, "--name", NAME)
    began_s = time.monotonic()
    with subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as command:
        while time.monotonic() < began_s + shot.share * life_s and command.poll() is None:
            time.sleep(0.002)
        program = program_of(command.pid)
        shoot(command, shot)
        errors = command.communicate(timeout=60)[1]
    if program is not None and "files" not in shot.kind:
        return command.returncode, errors
    if program is not None:
        await_true(lambda: is_gone(program))
    return command.returncode, errors


def tables(folder: TraceFolder) -> Iterator[tuple[str, Array, Array]]:
    """Yield the ids and statuses of every table of completions, with the name of its replay."""
    for file in sorted(folder.path.glob("replays/*/*.parquet")):
        table = pq.read_table(file)
        if file.name == "file_completions.parquet":
            yield file.parent.name, table["operation_id"].to_numpy(), np.array([])
        elif file.name in ("completions.parquet", "unfinished.parquet"):
            statuses = np.array(table["status"].to_pylist())
            yield file.parent.name, table["request_id"].to_numpy(), statuses


def next_command(folder: TraceFolder, kind: str, place: Path) -> tuple[str, str]:
    """Go on as a user would: resume, and replay anew where there is nothing; say which it was."""
    attempts = [("--resume", NAME, "--name", "rest"), ("--name", NAME)]
    for words in attempts[kind == "files" :]:
        done = subprocess.run(
            command_of(folder, kind, place, *words),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        said = " ".join(done.stderr.split())
        if done.returncode == 0:
            is_anew = words == attempts[1]
            return ("anew" if is_anew else "resumed"), said
        if ENDED in said or "exists already" in said:
            return "whole", said
        if not any(word in said for word in FRESH):
            return "refused", said
    return "refused", said


def judge(folder: TraceFolder, kind: str, message: str) -> str:
    """Return what is wrong with the union of all tables, empty if nothing is."""
    found = list(tables(folder))
    if kind == "files":
        return judge_files(found)
    kept = [ids[statuses != "unknown"] for _, ids, statuses in found]
    ids = np.concatenate([np.zeros(0, np.int64), *kept])
    counts = Counter(ids.tolist())
    missing = [n for n in range(COUNT) if not counts[n]]
    twice = [n for n, count in counts.items() if count > 1]
    names = [name for name, *_ in found]
    wrong = f"{len(missing)} missing {missing[:3]}, " if missing else ""
    wrong += f"{len(twice)} twice {twice[:3]}, " if twice else ""
    return f"{wrong}in {names}; it said: {message}" if wrong else ""


def judge_files(found: list[tuple[str, Array, Array]]) -> str:
    """File operations cannot be resumed: the name is of a whole replay, and none has one twice."""
    sizes = {name: (len(ids), len(set(ids.tolist()))) for name, ids, _ in found}
    if any(rows != different for rows, different in sizes.values()):
        return f"an operation twice: {sizes}"
    if sizes.get(NAME) != (OPERATIONS, OPERATIONS):
        return f"what has the name is not whole: {sizes}"
    return ""


def wholes(folder: TraceFolder) -> int:
    """Return how many replays have all file operations."""
    return sum(len(ids) == OPERATIONS for _, ids, _ in tables(folder))


def left_after(folder: TraceFolder, code: int) -> str:
    """Return in a word what a command that was hit has left."""
    replays = folder.path / "replays"
    names = {path.name for path in replays.iterdir()} if replays.is_dir() else set()
    if NAME in names:
        return "named" if code in (0, 3) else "named, stopped"
    if f"{NAME}.unfinished" in names:
        return "unfinished"
    return "hidden" if any(name.startswith(".") for name in names) else "nothing"


def lie(folder: TraceFolder, kind: str, code: int, message: str) -> str:
    """Return what a command claimed of its results that is not what lies there."""
    is_files, found = kind == "files", tables(folder)
    rows = {name: len(ids) if is_files else int((by != "unknown").sum()) for name, ids, by in found}
    claimed, wrong = rows.get(NAME), f"{rows} there; it said {message}"
    if said := PART.search(message):
        numbers = [int(number.replace(",", "")) for number in said.groups()]
        return "" if numbers == [claimed, COUNT] else wrong
    is_whole = code == 0 or "its results are whole" in message
    return wrong if is_whole and claimed != (OPERATIONS if is_files else COUNT) else ""


def try_one(base: Path, shot: Shot, place: Path, life_s: float, campaign: Campaign) -> None:
    """Hit one command, go on, and judge."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    folder = TraceFolder(shutil.copytree(base / shot.kind, place / "trace"))
    code, message = run_hit(folder, shot, place, life_s)
    message = " ".join(message.split())
    state, lied = left_after(folder, code), lie(folder, shot.kind, code, message)
    how, said = next_command(folder, shot.kind, place)
    campaign.tried += 1
    campaign.left[f"{state} -> {how}"] += 1
    wrong = lied or judge(folder, shot.kind, f"{message} | {said}")
    if how == "refused":
        wrong = f"the next command fails: {said}; {wrong}"
    if not wrong and "all of it is kept" in message and how not in ("whole", "resumed"):
        # File operations are run again all the same, and what was whole is kept beside them.
        is_kept = shot.kind == "files" and wholes(folder) == 2
        wrong = "" if is_kept else f"it said all is there, and the next ran {how}: {message}"
    if not wrong and state == "unfinished" and code > 0 and not WHERE.search(message):
        wrong = f"it did not say where the part is: {message}"
    if "\nTraceback" in message or "Traceback (most" in said:
        wrong = f"a traceback: {message} | {said}"
    if wrong:
        campaign.wrong.append(f"{shot}: {wrong}")


@dataclass
class Lives:
    """How long the replay of each kind takes, measured every so often: load changes it."""

    base: Path
    place: Path
    found: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of each kind when it was measured, and what was found."""

    def of(self, kind: str) -> float:
        """Return how long a replay takes now; the trace is made where it is not there yet."""
        measured_s, life_s = self.found.get(kind, (-math.inf, 0.0))
        if time.monotonic() - measured_s < LIFE_IS_GOOD_S:
            return life_s
        # The very first one reads everything from the disk, so it is none to measure.
        for _ in range(1 if self.found else 2):
            life_s = self._measured_s(kind)
        self.found[kind] = time.monotonic(), life_s
        return life_s

    def _measured_s(self, kind: str) -> float:
        path = self.base / kind
        folder = TraceFolder(path) if path.exists() else make_trace(path, kind)
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        began_s = time.monotonic()
        words = command_of(folder, kind, self.place, "--name", NAME)
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        life_s = time.monotonic() - began_s
        shutil.rmtree(folder.path / "replays")
        return life_s


def shots(runs: int, kinds: list[str], seed: int) -> list[Shot]:
    """Return so many, over the whole life of the command and a little more."""
    chance = random.Random(seed)  # noqa: S311 - the same ones each time
    found = []
    for number in range(runs):
        first, second = chance.choice(SIGNALS), chance.choice(SIGNALS)
        numbers = (first, second) if chance.random() < 0.3 and first != SIGNALS[-1] else (first,)
        share = (number + chance.random()) / runs * 1.05
        found.append(Shot(kinds[number % len(kinds)], share, numbers, chance.choice(VICTIMS)))
    return found


def run(
    runs: int, kinds: list[str], seed: int, base: Path, *, minutes: float = math.inf
) -> Campaign:
    """Try so many shots, and begin no other after so many minutes; return what was wrong."""
    place, end_s = base / "place", time.monotonic() + 60 * minutes
    lives = Lives(base, place)
    campaign = Campaign()
    # Mixed, so that the first of them are of the whole life, too.
    mixed = shots(runs, kinds, seed)
    random.Random(seed).shuffle(mixed)  # noqa: S311 - the same order each time
    for shot in mixed:
        if time.monotonic() > end_s:
            break
        try_one(base, shot, place, lives.of(shot.kind), campaign)
    return campaign


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(WORDS))
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kills-") as base:
        words = (options.runs, options.kinds, options.seed)
        campaign = run(*words, Path(base), minutes=options.minutes)
    for state, count in sorted(campaign.left.items()):
        sys.stdout.write(f"{state}: {count}\n")
    for one in campaign.wrong:
        sys.stdout.write(f"WRONG {one}\n")
    sys.stdout.write(f"{campaign.tried} tried, {len(campaign.wrong)} wrong\n")
    return bool(campaign.wrong)


if __name__ == "__main__":
    sys.exit(main())

"""All crashes: `python -m tests.crash [CASE or SCENE...] [--stride N] [--rounds 200]`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.crash.cases import CASES, Bases
from tests.crash.crashing import Crashes, Tried
from tests.crash.ext4 import LOG_ONLY, NOTHING, file_system
from tests.crash.together import SCENES, Together, rounds
from tests.crash.watched import Commands

SHOWN = 20


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def told(name: str, what: str, tried: Tried, since_s: float) -> int:
    say(f"{name}: {tried.count:,} {what}, {len(tried.wrong)} wrong, {since_s:.0f} s")
    for one in tried.wrong[:SHOWN]:
        say(f"  {one}")
    return len(tried.wrong)


def crash(crashes: Crashes, stride: int) -> int:
    """Cut the power and kill at all calls of a case; return how often something was wrong."""
    name, start_s = crashes.case.name, time.monotonic()
    wrong = told(name, "power cuts", crashes.cut_power(), time.monotonic() - start_s)
    killed, start_s = Tried(), time.monotonic()
    for number in range(1, len(crashes.calls) + 1, stride):
        killed.count += 1
        killed.wrong += crashes.kill(number)
    return wrong + told(name, "kills", killed, time.monotonic() - start_s)


def lose_power(crashes: Crashes, count: int) -> int:
    """Cut the power of a real file system at some calls and at the end; return what was wrong."""
    tried, start_s = Tried(), time.monotonic()
    for number in (*crashes.points(count), len(crashes.calls) + 1):
        for kept in (NOTHING, LOG_ONLY):
            tried.count += 1
            tried.wrong += crashes.lose_power(number, kept)
    return told(crashes.case.name, "power cuts of an ext4", tried, time.monotonic() - start_s)


def run(commands: Commands, bases: Bases, options: argparse.Namespace) -> int:
    """Run what was asked for; return how often something was wrong."""
    cases = [case for case in CASES if not options.names or case.name in options.names]
    wrong = sum(crash(Crashes(commands, bases, case), options.stride) for case in cases)
    if cases and options.cuts:
        try:
            with file_system(bases.folder) as disk:
                for case in cases:
                    wrong += lose_power(Crashes(commands, bases, case, disk), options.cuts)
        except pytest.skip.Exception as reason:
            say(f"no power cuts of an ext4: {reason}")
    for scene in SCENES:
        if not options.names or scene in options.names:
            start_s = time.monotonic()
            tried = rounds(Together(commands, bases), scene, (2, 8) * (options.rounds // 2))
            wrong += told(scene, "rounds", tried, time.monotonic() - start_s)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--stride", type=int, default=1, help="kill at each so many-th call only")
    parser.add_argument("--cuts", type=int, default=6, help="calls to cut an ext4's power at")
    parser.add_argument("--rounds", type=int, default=200, help="of commands at once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crash-") as place:
        own, work = Path(place, "own"), Path(place, "work")
        own.mkdir()
        work.mkdir()
        with Commands(own) as commands:
            wrong = run(commands, Bases(work, commands), options)
    say(f"{wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())

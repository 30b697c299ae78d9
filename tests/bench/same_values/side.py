"""Runs the steps with the programs of one version and keeps what they make."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.same_values.renamed import RENAMED_OPTIONS
from tests.house.tree import ROOT

PRINTED = "printed"
PLANS = "plans"
WITHOUT_JSON = ("--help", "--describe")
MOST_S = 120
# A program of tracekit's, which keeps the plans that it is given: files that begin with TK.
KEEPER = """#!/bin/bash
for word in "$@"; do
  if [ -f "$word" ] && [ "$(head -c 2 "$word" | tr -d '\\0')" = TK ]; then
    cp "$word" "$KEPT_PLANS-$(ls "$KEPT_PLANS"-* 2>/dev/null | wc -l).bin"
  fi
done
exec {program} "$@"
"""
# In the place of strace(1): a text that was made before, instead of what the command does.
STRACE = """#!/bin/bash
while [ "$1" != -- ]; do
  [ "$1" = -o ] && output=$2
  shift
done
sed "s|BELOW|{below}|g" {text} > "$output"
"""


@dataclass(frozen=True)
class Side:
    """One version: its programs, and the folder of what they make."""

    programs: Path
    folder: Path
    inputs: Path
    is_new: bool

    @property
    def tools(self) -> Path:
        """Return the folder of what stands in the place of programs."""
        return self.folder.with_name(f"{self.folder.name}.tools")

    def prepare(self) -> None:
        """Make the folders and the programs that keep plans."""
        for folder in (self.folder, self.tools):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        for name in (PRINTED, PLANS, "work"):
            (self.folder / name).mkdir()
        _write_script(
            self.tools / "strace",
            STRACE.format(below=self.inputs / "below", text=self.inputs / "strace.txt"),
        )
        for library in self.programs.parent.glob("lib/python*/site-packages/tracekit/*.so*"):
            (self.tools / library.name).symlink_to(library)
        for program in self.programs.glob("tracekit-*"):
            _write_script(self.tools / program.name, KEEPER.format(program=program))

    def run(self, number: int, step: str) -> str | None:
        """Run a step, keep its JSON and exit status; return its messages if it did wrong."""
        mark = step[0] if step[:2] in ("! ", "? ") else ""
        words = self.words(step.removeprefix(f"{mark} "))
        kept = f"{words[0]}-{number:03}"
        environment = {
            **os.environ,
            "PATH": f"{self.tools}:{self.programs}:{os.environ['PATH']}",
            "TRACEKIT_NATIVE_DIR": str(self.tools),
            "KEPT_PLANS": str(self.folder / PLANS / kept),
        }
        ran = subprocess.run(
            [str(self.programs / "tracekit"), *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MOST_S,
            check=False,
        )
        ending = "json" if ran.stdout.startswith(("{", "[")) else "txt"
        (self.folder / PRINTED / f"{kept}.{ending}").write_text(ran.stdout)
        if mark == "?":
            return None
        (self.folder / PRINTED / f"{kept}.status").write_text(f"{ran.returncode}\n")
        if (ran.returncode != 0) == (mark == "!"):
            return None
        return f"exit status {ran.returncode}\n{ran.stderr}"

    def words(self, step: str) -> list[str]:
        """Return the words of a step as this version knows them."""
        folders = {
            "samples": ROOT / "sample-traces",
            "recorded": ROOT / "tests/import_/recorded",
            "counted": ROOT / "tests/counters/recorded",
            "what_ifs": ROOT / "docs/what-ifs",
            "inputs": self.inputs,
        }
        words = shlex.split(step)
        for name, folder in folders.items():
            words = [word.replace(f"{{{name}}}", str(folder)) for word in words]
        if self.is_new:
            words = renamed_words(words, command=words[0])
        end = words.index("--") if "--" in words else len(words)
        return words if set(words) & set(WITHOUT_JSON) else [*words[:end], "--json", *words[end:]]


def renamed_words(words: list[str], *, command: str | None = None) -> list[str]:
    """Return the words with the new version's in the place of old ones: of a command, or any."""
    for one in RENAMED_OPTIONS:
        count = len(one.old)
        places = [n for n in range(len(words)) if tuple(words[n : n + count]) == one.old]
        if command in (None, one.command):
            for place in reversed(places):
                words = [*words[:place], *one.new, *words[place + count :]]
    return words


def _write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def run_steps(side: Side, steps: Sequence[str]) -> list[str]:
    """Run all steps; return what went wrong."""
    side.prepare()
    began_s = time.monotonic()
    wrong = []
    for number, step in enumerate(steps):
        message = side.run(number, step)
        if message is not None:
            wrong.append(f"{side.folder.name}, step {number}: {step}: {message}")
    took_s = time.monotonic() - began_s
    print(f"{side.folder.name}: {len(steps)} steps in {took_s:.0f} s", flush=True)
    return wrong

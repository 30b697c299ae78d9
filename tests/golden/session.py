"""Recorded terminal sessions: commands behind `$ `, each with what it prints."""

import os
import re
import shlex
import subprocess
import sysconfig
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from tests.command_line import typed
from tests.house.tree import ROOT

RECORDED = Path(__file__).with_name("session.txt")
# What `make demo` runs when set-up is done; a test compares it with the Makefile.
DEMO = "tracekit run sample-traces/oltp -o out/demo --force"
MEASURED = re.compile(r"(?<![\w.])-?\d[\d,.]*( (ns|us|ms|s)\b)?")
DURATION = re.compile(r"(\d+\.\d|#) s$")
OF_THE_MACHINE = ("engine ", "default: ", "warning: ")


@dataclass(frozen=True)
class Step:
    """One command of a session and what it prints."""

    command: str
    output: str


def steps(text: str) -> list[Step]:
    """Return the commands in their order."""
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        found.append(Step(command, output.strip("\n")))
    return found


def run(command: str) -> tuple[int, str]:
    """Type a command; return status and what it prints.

    tracekit alone is run in this process, where its modules are loaded; `make demo`, and what needs
    a shell, is not.
    """
    words = shlex.split(command)
    if words[0] == "tracekit" and "|" not in words:
        return typed(*words[1:])
    done = subprocess.run(
        ["bash", "-c", DEMO if command == "make demo" else command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def comparable(step: Step) -> list[str]:
    """Return the lines without what differs from run to run.

    That is the progress of `make demo`, how long something took, and in a replay all numbers and
    what the machine can do.
    """
    lines = [" ".join(line.split()) for line in step.output.splitlines()]
    if step.command == "make demo":
        lines = lines[lines.index(next(line for line in lines if line.startswith("report: "))) :]
    if step.command.startswith("tracekit replay"):
        lines = [MEASURED.sub("#", line) for line in lines if not line.startswith(OF_THE_MACHINE)]
    return [DURATION.sub("#", line) for line in lines if line]


def played(folder: Path) -> list[Step]:
    """Type the recorded session in a folder that looks like a checkout.

    Keep what is the same each time.
    """
    found = []
    (folder / "sample-traces").symlink_to(ROOT / "sample-traces")
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    settings = {"PATH": path, "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
    for step in steps(RECORDED.read_text()):
        with chdir(folder), patch.dict(os.environ, settings):
            status, printed = run(step.command)
        if step.command == "make demo":
            printed = printed[printed.index("report: ") :]
        if step.command.startswith("tracekit replay"):
            printed = re.sub(r"(?<=\S) +", " ", MEASURED.sub("#", printed)).replace(
                "GiB/s", "MiB/s"
            )
        lines = [DURATION.sub("# s", line.rstrip()) for line in printed.splitlines()]
        lines = [line for line in lines if not line.startswith(OF_THE_MACHINE)]
        ending = [f"(exit code {status})"] if status else []
        found.append(Step(step.command, "\n".join([*lines, *ending]).strip("\n")))
    return found

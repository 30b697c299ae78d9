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
README = ROOT / "README.md"
ROW = re.compile(r"^\| ([\w/ ]+) \| (.+) \|$", re.MULTILINE)
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
# What `make demo` runs when set-up is done; a test compares it with the Makefile.
DEMO = "tracekit run sample-traces/oltp -o out/demo --force"
MEASURED = re.compile(r"(?<![\w.])(?<!\(exit code )-?\d[\d,.]*( (ns|us|ms|s)\b)?")
DURATION = re.compile(r"(\d+\.\d|#) s$")
OF_THE_MACHINE = ("engine ", "default: ", "warning: ")
RUNS = ("make demo", "tracekit run ")  # what is said before the path of the report is progress


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

    That is progress, how long something took, in a replay all numbers and what the machine can do,
    and of a comparison all but what it compares.
    """
    lines = step.output.splitlines()
    if step.command.startswith("tracekit compare") and "|" not in step.command:
        lines = [
            line.partition("  ")[0] for line in lines if MEASURED.search(line) and "  " in line
        ]
    lines = [" ".join(line.split()) for line in lines]
    if step.command.startswith(RUNS):
        lines = lines[lines.index(next(line for line in lines if line.startswith("report: "))) :]
    if step.command.startswith("tracekit replay"):
        lines = [MEASURED.sub("#", line) for line in lines if not line.startswith(OF_THE_MACHINE)]
    return [DURATION.sub("#", line) for line in lines if line]


def play(folder: Path, text: str) -> list[Step]:
    """Type a session in a folder that looks like a checkout; return what is printed now."""
    found = []
    (folder / "sample-traces").symlink_to(ROOT / "sample-traces")
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    settings = {"PATH": path, "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
    for step in steps(text):
        with chdir(folder), patch.dict(os.environ, settings):
            status, printed = run(step.command)
        lines = [line.rstrip() for line in printed.splitlines()]
        ending = [f"(exit code {status})"] if status else []
        found.append(Step(step.command, "\n".join([*lines, *ending]).strip("\n")))
    return found


def same_each_time(step: Step) -> Step:
    """Return a step as the session records it: without progress and what was measured."""
    printed = step.output
    if step.command == "make demo":
        printed = printed[printed.index("report: ") :]
    if step.command.startswith("tracekit replay"):
        printed = re.sub(r"(?<=\S) +", " ", MEASURED.sub("#", printed)).replace("GiB/s", "MiB/s")
    lines = [DURATION.sub("# s", line.rstrip()) for line in printed.splitlines()]
    lines = [line for line in lines if not line.startswith(OF_THE_MACHINE)]
    return Step(step.command, "\n".join(lines).strip("\n"))


def answer(demo: Step) -> dict[str, str]:
    """Return what the answer of the demo says behind each of its names, each on one line."""
    found = re.findall(r"^(\S.{16}) (\S.*(?:\n {18}.*)*)", demo.output, re.MULTILINE)
    return {name.strip(): " ".join(text.split()) for name, text in found}


def with_answer(page: str, demo: Step) -> str:
    """Return the README whose table of the answer is that of the demo."""
    now = answer(demo)
    return ROW.sub(lambda row: f"| {row[1]} | {now.get(row[1], row[2])} |", page)


def with_output(page: str, found: list[Step]) -> str:
    """Return a page whose console blocks have the commands of a session with this output."""
    shown = iter(found)

    def block(old: re.Match[str]) -> str:
        new = (next(shown) for _ in steps(old[0]))
        return "\n".join(f"$ {one.command}\n{one.output}".rstrip() + "\n" for one in new)

    return BLOCK.sub(block, page)

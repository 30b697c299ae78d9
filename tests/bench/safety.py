"""Whether the tests see each safety check of the replayer fail: `python -m tests.bench.safety`.

    python -m tests.bench.safety [guard openers ...] [--only claim,check_loop] [--minutes N]

Each function of the files that decide whether a target may be used says in turn that nothing is in
the way: its body becomes `return 0`, of one that answers yes or no both answers, of one that
returns nothing no body. Each refusal becomes a `return 0` as well. Only the program is built, in
out/safety/build, and the tests of that file run up to the first that fails. What survives is a
check that no test needs. Needs root. The files that are changed are copies in out/safety.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench.mutation import PYTEST
from tests.replay import kills  # noqa: F401 - what tests of replays import
from tracekit._native import LIBRARY, PROGRAM, library_path

COPY = Path("out/safety/source")
"""Of what is built: a check must never be missing from the program that is installed."""
SOURCES = Path("replayer/play")
BUILD = Path("out/safety/build")
LONGEST_S = 150
TESTS = {
    "guard": "stand_ins guard users confirmation campaign",
    "graph": "stand_ins guard campaign",
    "openers": "users stand_ins campaign confirmation",
    "mounts": "stand_ins guard campaign",
    "held_files": "stand_ins campaign",
    "rings": "users stand_ins",
    "overlay": "overlays campaign",
    "exports": "stand_ins",
    "loop_device": "stand_ins guard users campaign",
    "signature": "confirmation signatures stand_ins",
    "blkid": "signatures",
    "dax_device": "stand_ins",
    "identity": "confirmation users guard stand_ins",
    "target_safety": "confirmation guard users signatures",
    "sysfs": "stand_ins guard users",
    "processes": "stand_ins users",
}
"""Files of tests/replay for each source. Tables of dm are tried in a guest: tests/lab."""
EQUAL = {
    "guard: is_apart false": "tables of dm are tried in a guest",
    "guard: is_apart true": "the kernel claims a partition and its disk together",
    "guard: claim #1": "more devices below than the program can hold",
    "guard: with_graph #1": "without memory",
    "guard: check_processes #1": "without memory or descriptors",
    "guard: guard_release": "the end of the program releases all",
    "blkid: wait_for #1": "a child that is there is waited for",
    "blkid: blkid_find #1": "without descriptors",
    "loop_device: loop_device_is true": "others have no file that names what is behind them",
    "openers: may_be_node true": "it only saves looks",
    "openers: has_files true": "it only saves looks",
    "held_files: count_sent": "the number is known all the same",
    "held_files: is_unknown false": "without memory or descriptors",
    "overlay: take_mount #1": "the file system itself is asked then",
    "graph: walk_generic #1": "NVMe is tried in a guest",
    "openers: serves_node false": "nbd is tried in a guest",
    "dax_device: dax_device_signatures": "a stand-in of a DAX device has no content",
    "signature: signature_find_mapped": "a stand-in of a DAX device has no content",
    "signature: by_offset": "the order saves reads",
    "target_safety: target_safety_begin #1": "what is open can be looked at",
    "signature: copy": "a stand-in of a DAX device has no content",
}
"""Mutants that no test here can kill, and why."""
FUNCTION = re.compile(
    r"^(?:static )?(?P<type>[a-z][\w ]*?[ *]+)(?P<name>\w+)\([^;{}]*\) "
    r"\{(?:\n.*?^\}|[^\n]*\}$)",
    re.MULTILINE | re.DOTALL,
)
REFUSAL = re.compile(r"\b(?:busy|verdict|reject|target_reject|target_fail)(?=\()")
ERROR = re.compile(r"(?<=return )-E(?!NOMEM|NAMETOOLONG)[A-Z0-9]+(?=;)")


@dataclass(frozen=True)
class Mutant:
    """A check that says that nothing is in the way."""

    name: str
    text: str
    """Of the whole file."""


def make_mutants(source: str, text: str) -> Iterator[Mutant]:
    """Yield the mutants of a file, those of each function together."""
    for function in FUNCTION.finditer(text):
        name, kind = function["name"], function["type"].strip()
        bodies = {"bool": ("return false;", "return true;"), "void": ("",)}
        head = function[0].partition(") {")[0] + ") {"
        for body in bodies.get(kind, ("return 0;",)):
            mutated = text[: function.start()] + f"{head} {body} }}" + text[function.end() :]
            answer = f" {body[7:-1]}" if kind == "bool" else ""
            yield Mutant(f"{source}: {name}{answer}", mutated)
        for number, (first, end) in enumerate(refusals(text, function), start=1):
            yield Mutant(f"{source}: {name} #{number}", f"{text[:first]}0{text[end:]}")


def refusals(text: str, function: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Yield where the calls that refuse, and the errors that are returned, begin and end."""
    body = function.start() + function[0].index("{")
    for one in ERROR.finditer(text, body, function.end()):
        yield one.span()
    for call in REFUSAL.finditer(text, body, function.end()):
        end, depth, is_quoted = call.end() + 1, 1, False
        while depth:
            is_quoted ^= text[end] == '"'
            depth += 0 if is_quoted else (text[end] == "(") - (text[end] == ")")
            end += 1
        yield call.start(), end


class Program:
    """A build of the program, beside a link to the library that is installed."""

    def __init__(self) -> None:
        """Copy its sources, and configure them."""
        shutil.rmtree(COPY, ignore_errors=True)
        shutil.copytree("replayer", COPY / "replayer")
        shutil.copy("CMakeLists.txt", COPY)
        command = [
            "cmake",
            "-S",
            str(COPY),
            "-B",
            str(BUILD),
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=Plain",
        ]
        subprocess.run([*command, "-DCMAKE_C_FLAGS=-O1 -w"], check=True, capture_output=True)
        for name, place in ((LIBRARY, library_path()), (PROGRAM, SOURCES / PROGRAM)):
            (BUILD / name).unlink(missing_ok=True)
            (BUILD / name).symlink_to(place)
        self.environment = {**os.environ, "TRACEKIT_NATIVE_DIR": str(BUILD.resolve())}

    def build(self) -> bool:
        """Build what has changed; return whether it compiles."""
        command = ["ninja", "-C", str(BUILD), "--quiet", PROGRAM]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def run_tests(tests: list[str], environment: dict[str, str]) -> str:
    """Run the tests in a copy of this process, which has all modules; return what became of them.

    Starting Python and importing the modules anew would take longer than most tests.
    """
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.environ.update(environment)
        signal.alarm(LONGEST_S)
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        os._exit(int(pytest.main([*PYTEST, *tests])))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "survived", 1: "killed"}.get(code, "timeout" if code < 0 else f"error {code}")


def judge(source: str, mutants: list[Mutant], program: Program, end_s: float) -> list[str]:
    """Try the mutants of a file; return the names of those that survived, or were not tried."""
    file, left = COPY / SOURCES / f"{source}.c", [mutant.name for mutant in mutants]
    original, survived = file.read_text(), list[str]()
    tests = [f"tests/replay/test_{name}.py" for name in TESTS[source].split()]
    if run_tests(tests, program.environment) != "survived":
        raise SystemExit(f"{source}: the tests fail without a mutant")
    try:
        for mutant in mutants:
            if time.monotonic() > end_s:
                return survived + [f"{name} (not tried)" for name in left]
            file.write_text(mutant.text)
            began_s = time.monotonic()
            outcome = "killed, does not compile"
            if program.build():
                outcome = run_tests(tests, program.environment)
            left.remove(mutant.name)
            survived += [mutant.name] if outcome == "survived" else []
            print(f"{outcome:<10}{time.monotonic() - began_s:>6.1f} s  {mutant.name}", flush=True)
    finally:
        file.write_text(original)
        program.build()
    return survived


def main() -> int:
    """Print a line for each mutant, and how many survived."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", nargs="*", default=list(TESTS), help=", ".join(TESTS))
    parser.add_argument("--only", default="", help="functions, with commas between them")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no other after so long")
    options = parser.parse_args()
    end_s = time.monotonic() + 60 * options.minutes
    program = Program()
    if not program.build():
        raise SystemExit("the program does not build")
    only = set(filter(None, options.only.split(",")))
    survived: list[str] = []
    tried = 0
    for source in options.sources:
        found = make_mutants(source, (SOURCES / f"{source}.c").read_text())
        chosen = [one for one in found if not only or one.name.split()[1] in only]
        known = [one for one in chosen if one.name not in EQUAL]
        for one in chosen:
            if one.name in EQUAL:
                print(f"left out          {one.name}: {EQUAL[one.name]}")
        survived += judge(source, known, program, end_s)
        tried += len(known)
    print(f"{tried} mutants, {len(survived)} survived or were not tried: {'; '.join(survived)}")
    return bool(survived)


if __name__ == "__main__":
    sys.exit(main())

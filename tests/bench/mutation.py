"""How many mutants of a source file its tests kill, and which of its branches they take.

    python3 -m venv out/mutation && out/mutation/bin/pip install universalmutator coverage
    python -m tests.bench.mutation replayer/decode/pair.c tests/decode --tool out/mutation/bin

universalmutator makes the mutants by its rules for the language, one changed line each. Those that
change nothing (the same syntax tree, the same object code) or that do not compile are left out. The
sample is taken by a hash of the line before and after, so a file that was renamed or moved has the
same mutants in its sample for all lines that it still has. What is changed is a copy of the
checkout, in which the tests run as well. Of C only the library is built; the programs stay those
that are installed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import SIGKILL, SIGXCPU
from typing import Any

from tests.house.tree import MADE, ROOT

COPY = ROOT / "out/mutation-copy"
"""Of the checkout: a mutant must never be in the files that are committed or installed."""
BUILD = ROOT / "out/mutation-build"
COVERED = ROOT / "out/mutation-coverage"
LONGEST_S = 600
LIBRARY = "libtracekit.so"
PYTEST = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no")
OWN_MODULES = """import sys
sys.meta_path[:] = [one for one in sys.meta_path if "ScikitBuild" not in type(one).__name__]
"""
"""The finder of an editable installation leads to the checkout, whatever the path says."""


@dataclass(frozen=True)
class Mutant:
    """One changed line; `number` counts equal changes in the file from 0."""

    before: str
    after: str
    number: int
    text: str

    @property
    def rank(self) -> str:
        """Return the hash by which the sample is taken."""
        change = f"{self.before}\0{self.after}\0{self.number}"
        return hashlib.sha256(change.encode()).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: killed, survived, timeout (which counts as killed)."""

    before: str
    after: str
    number: int
    line: int
    outcome: str


def make_mutants(source: Path, tool: Path) -> list[Mutant]:
    """Return all mutants of a file, in the order of the sample."""
    original = source.read_text().splitlines()
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        command = [str(tool / "mutate"), str(source), "--noCheck", "--mutantDir", folder]
        environment = {**os.environ, "PATH": f"{tool}:{os.environ['PATH']}"}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        paths = sorted(Path(folder).iterdir(), key=lambda path: int(path.name.split(".")[-2]))
        texts = dict.fromkeys(path.read_text() for path in paths)
    for text in texts:
        change = _changed(original, text.splitlines())
        if change is not None:
            found.append(Mutant(*change, seen[change], text))
            seen[change] += 1
    return sorted(found, key=lambda mutant: mutant.rank)


def _changed(before: list[str], after: list[str]) -> tuple[str, str] | None:
    """Return the lines that differ, without their indentation; None if they mean nothing."""
    first = next(
        (n for n, pair in enumerate(zip(before, after, strict=False)) if len({*pair}) > 1), None
    )
    if first is None:
        return None
    old = before[first].strip()
    if not old or old.startswith(("#", "//", "/*", "*", '"""')):
        return None
    return old, after[first].strip()


def copy_checkout(copy: Path) -> dict[str, str]:
    """Copy the checkout; return an environment in which Python takes its modules from the copy."""
    shutil.rmtree(copy, ignore_errors=True)
    left_out = shutil.ignore_patterns(*MADE, "*_cache", "*.egg-info")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=left_out)
    made = Path(sysconfig.get_path("platlib")) / "tracekit"
    shutil.copytree(made, copy / "tracekit", dirs_exist_ok=True)
    (copy / "sitecustomize.py").write_text(OWN_MODULES)
    return {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}


class PythonFile:
    """Mutants of a Python file are other syntax trees; docstrings are not part of them."""

    def __init__(self, source: Path, copy: Path = COPY) -> None:
        """Copy the checkout, and remember what the file is."""
        self.environment = copy_checkout(copy)
        self.copy, self.source = copy, copy / source
        self.original = self.source.read_text()

    def place(self, text: str) -> bool:
        """Put a mutant in place; return False if it is none."""
        try:
            compile(text, str(self.source), "exec")
            is_mutant = _tree(text) != _tree(self.original)
        except (SyntaxError, ValueError):
            return False
        if is_mutant:
            self._write(text)
        return is_mutant

    def put_back(self) -> None:
        """Put the original back."""
        self._write(self.original)

    def _write(self, text: str) -> None:
        for compiled in self.source.parent.glob(f"__pycache__/{self.source.stem}.*"):
            compiled.unlink()
        self.source.write_text(text)

    def branches(self, tests: list[str], tool: Path) -> tuple[int, int]:
        """Return the branches that the tests take, and all."""
        site = next(tool.resolve().parent.glob("lib/python*/site-packages"))
        with tempfile.TemporaryDirectory() as folder:
            # Of the tool's packages only this one: others hide modules of Python itself.
            (Path(folder) / "coverage").symlink_to(site / "coverage")
            report = Path(folder) / "report.json"
            path = f"{self.copy}:{folder}"
            data = {"PYTHONPATH": path, "COVERAGE_FILE": str(Path(folder) / "data")}
            environment = {**self.environment, **data}
            run = [sys.executable, "-m", "coverage"]
            package = f"--source={'.'.join(self.source.parent.relative_to(self.copy).parts)}"
            tested = [*run, "run", "--branch", package, "-m", "pytest", *PYTEST, *tests]
            where: dict[str, Any] = {"env": environment, "cwd": self.copy}
            subprocess.run(tested, check=True, stdout=subprocess.DEVNULL, **where)
            made = [*run, "json", "-q", f"--include={self.source}", "-o", str(report)]
            subprocess.run(made, check=True, **where)
            totals = json.loads(report.read_text())["totals"]
        return totals["covered_branches"], totals["num_branches"]


def _tree(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return ast.dump(tree)


class CFile:
    """Mutants of a C file are other object code, in a library of their own build."""

    def __init__(self, source: Path, copy: Path = COPY) -> None:
        """Copy the checkout, and build its library as it is."""
        self.environment = {**copy_checkout(copy), "TRACEKIT_NATIVE_DIR": str(BUILD)}
        self.copy, self.source = copy, copy / source
        self.original = self.source.read_text()
        _configure(copy, BUILD, "-O1")
        if not self._build():
            raise SystemExit(f"{source} does not build")
        self._code = self._object()

    def place(self, text: str) -> bool:
        """Build a mutant; return False if it is none, or does not compile."""
        self.source.write_text(text)
        return self._build() and self._object() != self._code

    def put_back(self) -> None:
        """Put the original back."""
        self.source.write_text(self.original)
        self._build()

    def _build(self) -> bool:
        command = ["ninja", "-C", str(BUILD), "--quiet", LIBRARY]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _object(self) -> bytes:
        (path,) = BUILD.glob(f"**/{self.source.name}.o")
        return path.read_bytes()

    def branches(self, tests: list[str], _tool: Path) -> tuple[int, int]:
        """Return the branches that the tests take, and all, as gcov counts them."""
        _configure(self.copy, COVERED, "-O0 --coverage")
        subprocess.run(["ninja", "-C", str(COVERED), "--quiet", LIBRARY], check=True)
        for counted in COVERED.glob("**/*.gcda"):
            counted.unlink()
        environment = {**self.environment, "TRACEKIT_NATIVE_DIR": str(COVERED)}
        run_tests(tests, self.copy, environment, limit_s=None)
        (data,) = COVERED.glob(f"**/{self.source.name}.gcda")
        command = ["gcov", "-b", "-n", str(data)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        text = ran.stdout.partition(f"{self.source.name}'")[2]
        found = re.search(r"Taken at least once:([0-9.]+)% of ([0-9]+)", text)
        if found is None:
            return 0, 0
        count = int(found[2])
        return round(float(found[1]) / 100 * count), count


def _configure(copy: Path, build: Path, flags: str) -> None:
    """Configure a build of the library beside links to the programs that are installed."""
    command = ["cmake", "-S", str(copy), "-B", str(build), "-G", "Ninja"]
    command += ["-DCMAKE_BUILD_TYPE=Plain", f"-DCMAKE_C_FLAGS={flags}"]
    subprocess.run(command, check=True, capture_output=True)
    for program in Path(sys.executable).parent.glob("tracekit-*"):
        if not (build / program.name).exists():
            (build / program.name).symlink_to(program)


def run_tests(
    tests: list[str], copy: Path, environment: dict[str, str], *, limit_s: int | None
) -> str:
    """Run the copy's tests up to the first that fails; return survived, killed or timeout.

    The limit is of processor time, so that a busy machine kills no mutant.
    """
    command = [sys.executable, "-m", "pytest", *PYTEST, *tests]
    if limit_s is not None:
        command = ["prlimit", f"--cpu={limit_s}", *command]
    try:
        ran = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    if ran.returncode < 0:
        return "timeout" if -ran.returncode in (SIGXCPU, SIGKILL) else "killed"
    return "survived" if ran.returncode == 0 else "killed"


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def judge(
    file: PythonFile | CFile, mutants: list[Mutant], options: argparse.Namespace
) -> list[Outcome]:
    """Run the tests on the first mutants of the sample that are some."""
    began_s, used_s = time.monotonic(), _used_s()
    if run_tests(options.tests, file.copy, file.environment, limit_s=None) != "survived":
        raise SystemExit("the tests fail without a mutant")
    limit_s = round(20 + 4 * (_used_s() - used_s))
    outcomes: list[Outcome] = []
    lines = [line.strip() for line in file.original.splitlines()]
    try:
        for mutant in mutants:
            is_late = options.minutes and time.monotonic() - began_s > 60 * options.minutes
            if len(outcomes) == options.count or is_late:
                break
            if file.place(mutant.text):
                outcome = run_tests(options.tests, file.copy, file.environment, limit_s=limit_s)
                line = lines.index(mutant.before) + 1
                outcomes.append(Outcome(mutant.before, mutant.after, mutant.number, line, outcome))
                print(f"  {outcome:<9}{line:>4}: {mutant.before}  =>  {mutant.after}", flush=True)
    finally:
        file.put_back()
    return outcomes


def main() -> None:
    """Print a line for each mutant, the share that was killed, and the share of branches."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("tests", nargs="+", help="what pytest runs")
    parser.add_argument("--tool", type=Path, required=True, help="folder of mutate's program")
    parser.add_argument("--like", type=Path, help="change only lines that this file has, too")
    parser.add_argument("--count", type=int, default=40, help="mutants to judge")
    parser.add_argument("--minutes", type=float, help="begin no other mutant after so long")
    parser.add_argument("--json", type=Path, help="file for all outcomes")
    options = parser.parse_args()
    BUILD.parent.mkdir(exist_ok=True)
    mutants = make_mutants(options.source, options.tool)
    if options.like:
        known = {line.strip() for line in options.like.read_text().splitlines()}
        mutants = [mutant for mutant in mutants if mutant.before in known]
    file = (PythonFile if options.source.suffix == ".py" else CFile)(options.source)
    outcomes = judge(file, mutants, options)
    killed = sum(one.outcome != "survived" for one in outcomes)
    taken, branches = file.branches(options.tests, options.tool)
    print(
        f"{options.source}: {killed} of {len(outcomes)} mutants killed"
        f" ({killed / max(len(outcomes), 1):.1%}; {len(mutants):,} could be made),"
        f" {taken} of {branches} branches taken ({taken / max(branches, 1):.1%})"
    )
    if options.json:
        found = {"branches_taken": taken, "branches": branches}
        rows = [asdict(one) for one in outcomes]
        options.json.write_text(json.dumps({**found, "mutants": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

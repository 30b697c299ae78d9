"""The command line starts quickly, because nothing slow is imported before it is needed."""

import os
import resource
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tracekit.commands import COMMANDS, GROUPS
from tracekit.version import __version__

HELP_LIMIT_S = 0.2
RUNS = 7
SLOW = {"_cffi_backend", "pyarrow", "duckdb", "pandas", "numpy", "seaborn", "matplotlib"}
SLOW |= {"jinja2", "rich"}


def help_s() -> float:
    """Return the processor time of the command: unlike the clock's, others hardly change it."""
    program = Path(sysconfig.get_path("scripts")) / "tracekit"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_is_quick() -> None:
    # The least of several: what else the machine does can only make it slower.
    assert min(help_s() for _ in range(RUNS)) < HELP_LIMIT_S


# Each command line in its turn, in one process; then what it has imported.
TYPE = """
import os, sys
from tracekit import cli
for line in sys.stdin.read().splitlines():
    sys.argv[1:] = line.split()
    try:
        cli.main()
    except SystemExit:
        pass
print(*sys.modules)
"""
EVERY = [*COMMANDS, *(f"{group} {part}" for group, parts in GROUPS.items() for part in parts)]


@pytest.mark.parametrize(
    ("lines", "environment"),
    [
        (["--help", *(f"{name} --help" for name in EVERY)], {}),
        (["no-such-command", *(f"{name} --no-such-option" for name in ("", *EVERY))], {}),
        (["", "re"], {"_TRACEKIT_COMPLETE": "complete_bash", "COMP_WORDS": "tracekit re"}),
    ],
    ids=["help", "errors", "completion"],
)
def test_nothing_slow_is_imported_before_a_command_runs(
    lines: list[str], environment: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TYPE],
        input="\n".join(lines), env=os.environ | {"COMP_CWORD": "1"} | environment,
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    loaded = done.stdout.splitlines()[-1].split()
    assert "tracekit.cli" in loaded
    assert SLOW & {*loaded} == set()


BEGIN = """
import os, sys
from tracekit import cli
sys.argv[1:] = [sys.argv[1]]
try:
    cli.main()
except SystemExit:
    print(os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.parametrize(
    ("command", "given", "threads"),
    [
        ("import", None, "1"),
        ("import", "3", "3"),
        ("capture", None, "None"),
        ("counters", None, "None"),
        ("lab", None, "None"),
    ],
)
def test_numpy_starts_no_threads_and_programs_of_the_user_see_nothing_of_it(
    command: str, given: str | None, threads: str
) -> None:
    # GIVEN an environment, WHEN a command is begun, which lacks its arguments
    name = "OPENBLAS_NUM_THREADS"
    environment = {key: value for key, value in os.environ.items() if key != name}
    environment |= {name: given} if given else {}
    begun = subprocess.run(
        [sys.executable, "-c", BEGIN, command], env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    # THEN one thread is asked for, unless the user said so or the command runs his programs
    assert begun.stdout.splitlines()[-1] == threads


ARROW = """
import sys
{imported}
from tracekit import arrow
arrow.pa.array(["a", None])
print("pandas" in sys.modules)
import pandas
print(arrow.pa.array(pandas.Series([1.0, float("nan")])).null_count)
"""


@pytest.mark.parametrize(
    ("imported", "printed"), [("import tracekit.cli", ["False", "0"]), ("", ["True", "1"])]
)
def test_arrow_loads_pandas_in_no_command_and_knows_it_elsewhere(
    imported: str, printed: list[str]
) -> None:
    code = ARROW.format(imported=imported)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == printed


END = """
import atexit, sys
from tracekit.__main__ import main
class Kept:
    def __del__(self):
        print("taken apart")
kept = Kept()
atexit.register(print, "removed")
main()
"""


@pytest.mark.parametrize(("option", "code"), [("--version", 0), ("--no-such-option", 2)])
def test_a_command_ends_at_once_and_leaves_nothing_undone(option: str, code: int) -> None:
    # GIVEN something to do at exit, and an object that Python would take apart after that
    done = subprocess.run(
        [sys.executable, "-c", END, option], check=False, capture_output=True, text=True
    )
    # THEN the first is done, all output is written, and nothing is taken apart
    assert done.returncode == code
    shown = [f"tracekit {__version__}"] if code == 0 else []
    assert done.stdout.splitlines() == [*shown, "removed"]
    assert ("No such option" in done.stderr) == (code == 2)

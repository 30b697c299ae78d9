"""The Tab key in each shell, switched on by the line that docs/completion.md names."""

import os
import pty
import re
import select
import shutil
import sysconfig
import time
from pathlib import Path

import pytest

from tests.house.tree import ROOT

SHELLS = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}
PAGE = (ROOT / "docs" / "completion.md").read_text().replace(r"\|", "|")
FIRST = {"zsh": "autoload -U compinit; compinit -u; "}
LIMIT_S = 60
WHOLE = {
    "verify-p": "verify-placement",
    "parse --out": "parse --output",
    "replay x --engine io": "replay x --engine io_uring",
    "recommend --nvm ssd-opt": "recommend --nvm ssd-optane",
    "recommend --profiles own.toml --base my": "recommend --profiles own.toml --base mydisk",
    "simulate tiers x --tiers ssd-optane,hdd-15": "simulate tiers x --tiers ssd-optane,hdd-15k",
    "simulate cache x --policy arc,s3": "simulate cache x --policy arc,s3-fifo",
    "bench log": "bench log-structured",
    "sweep varmail-": "sweep varmail-study-d",
    "personalities ff": "personalities ffsb",
    "import x --format sys": "import x --format systor",
    "analyze x --only thr": "analyze x --only throughput",
    "classify o": "classify out/my-trace",
    "compare out/my-trace fir": "compare out/my-trace first",
    "replay out/my-trace --resume fir": "replay out/my-trace --resume first",
}
"""What is typed behind `tracekit`, and what it is after the Tab key."""


def read(terminal: int, pattern: str) -> str:
    """Return what the pattern finds in what a shell prints; tell it that the terminal is plain."""
    shown = b""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and not (found := re.search(pattern, shown.decode())):
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536)
            if shown.endswith(b"\x1b[c"):  # fish waits for an answer
                os.write(terminal, b"\x1b[?1;2c")
    assert found, shown
    return found[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out" / "my-trace" / "replays" / "first").mkdir(parents=True)
    (tmp_path / "out" / "my-trace" / "trace.json").touch()
    (tmp_path / "out" / "my-trace" / "replays" / "first" / "summary.json").touch()
    (tmp_path / "own.toml").write_text("[mydisk]\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes_names(shell: str, folder: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "TERM": "xterm"}
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execve(program, [shell, *SHELLS[shell], "-i"], environment)  # noqa: S606
    line = re.search(rf"^\| {shell} \| .* \| `(.*)` \|$", PAGE, re.MULTILINE)
    assert line
    completed = {}
    with open(terminal, "wb", buffering=0) as keys:  # whose end ends the shell
        keys.write(f"{FIRST.get(shell, '')}{line[1]}; echo rea''dy\n".encode())
        read(terminal, r"(ready)\r?\n")
        for typed in WHOLE:
            # WHEN a line is typed, then Tab, THEN it can be echoed from start (^A) to end (^E)
            keys.write(f"tracekit {typed}\t\x01echo G''OT '\x05'\n".encode())
            completed[typed] = read(terminal, r"GOT tracekit ([^\r\n]*?) ?\r?\n")
    os.waitpid(child, 0)
    assert completed == WHOLE

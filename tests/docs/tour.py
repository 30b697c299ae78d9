"""The commands that README.md shows, with the output that it shows for each."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# What `make demo` runs when set-up is done; a test compares it with the Makefile.
DEMO = "tracekit run sample-traces/oltp -o out/demo --force"


@dataclass(frozen=True)
class Step:
    """One command of the tour and what it prints to stdout."""

    command: str
    output: str

    @property
    def words(self) -> list[str]:
        """The command as an argument list; `make demo` is what it runs after set-up."""
        return shlex.split(DEMO if self.command == "make demo" else self.command)


def steps() -> list[Step]:
    """Return the commands in the order in which README.md shows them."""
    found = []
    for block in BLOCK.findall(README.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Step(command, output.strip()))
    return found

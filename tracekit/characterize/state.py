"""What is done of a characterization: kept after each step, so that an interruption loses one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.contract import read_object
from tracekit.errors import UsageError
from tracekit.store import write_json

FORCE_HINT = "pass --force to begin anew"


@dataclass
class State:
    """The steps that are done, by what they were asked with; `made` is the file that is ours."""

    file: Path
    asked: Mapping[str, Any]
    results: list[dict[str, Any]] = field(default_factory=list)
    made: dict[str, Any] | None = None
    resumed: int = 0

    def done(self, number: int, step: Mapping[str, Any]) -> bool:
        """Say whether step `number` is done and is this very one."""
        return number < len(self.results) and self.results[number]["step"] == step

    def add(self, result: dict[str, Any]) -> None:
        """Keep a step's result."""
        self.results.append(result)
        self.save()

    def made_file(self) -> Path | None:
        """Return the file that was made for the measurement, if it still is that very one."""
        if self.made is None:
            return None
        path = Path(self.made["path"])
        try:
            info = path.lstat()
        except OSError:
            return None
        return path if [info.st_dev, info.st_ino] == self.made["inode"] else None

    def keep_made(self, path: Path) -> None:
        """Remember that the file is ours, by what it is and not by its name alone."""
        info = path.lstat()
        self.made = {"path": os.path.realpath(path), "inode": [info.st_dev, info.st_ino]}

    def remove_made(self) -> None:
        """Remove the file that was made for the measurement."""
        path = self.made_file()
        if path is not None:
            path.unlink()
        self.made = None

    def save(self) -> None:
        """Write the state in one step."""
        content = {
            "asked": dict(self.asked),
            "made": self.made,
            "resumed": self.resumed,
            "results": self.results,
        }
        write_json(self.file, content)


def open_state(file: Path, asked: Mapping[str, Any], *, anew: bool) -> State:
    """Return what is done already, or nothing; UsageError when other things were asked."""
    if anew and file.is_file():
        old = _read(file)
        old.remove_made()
        file.unlink()
    if not file.is_file():
        return State(file, asked)
    state = _read(file)
    other = [key for key in asked if state.asked.get(key) != asked[key]]
    if other:
        raise UsageError(
            f"{file.parent}: an interrupted measurement was asked with another {other[0]}:"
            f" {state.asked.get(other[0])!r}, not {asked[other[0]]!r}",
            hint=f"ask as before to go on, or {FORCE_HINT}",
        )
    if state.made is not None and state.made_file() is None:
        raise UsageError(
            f"{state.made['path']}: the file that the interrupted measurement made is gone",
            hint=FORCE_HINT,
        )
    state.resumed += 1
    return state


def _read(file: Path) -> State:
    content = read_object(file, hint=FORCE_HINT)
    lacking = [key for key in ("asked", "made", "resumed", "results") if key not in content]
    if lacking:
        raise UsageError(f"{file} lacks {', '.join(lacking)}", hint=f"remove {file.parent}")
    return State(
        file, content["asked"], content["results"], content["made"], int(content["resumed"])
    )

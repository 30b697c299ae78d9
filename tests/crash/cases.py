"""Commands that make or replace something, and how to see that it is the old or the new one."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.crash.watched import Command, Commands
from tests.parse.captures import capture

ROOT = Path(__file__).parents[2]
Tree = Mapping[str, str]
"""Each path in a folder, with the hash of a file, the text of a link, or that it is a folder."""

MEASURED = ("_ns", "_ratio", "_per_second", "pid", "tid", "handle", "step", "steps", "bytes")
"""Columns whose names end so differ from run to run; so does which steps a short run reaches."""


@dataclass(frozen=True)
class Case:
    """A command in a folder that was prepared; `output` is what it makes or replaces.

    Without `is_whole` each file of the output is old or new by itself: the command goes on where
    an earlier one ended, or replaces files one by one.
    """

    name: str
    base: str
    words: tuple[str, ...]
    output: str
    is_measured: bool = False
    is_whole: bool = True

    def again(self, place: Path) -> tuple[str, ...]:
        """Return the words of the next run, which may find that its output is there."""
        is_there = self.words[0] in REPLACING and (place / self.output).exists()
        if not is_there or "--force" in self.words:
            return self.words
        return (self.words[0], "--force", *self.words[1:])


PARSE = ("parse", "../inputs/video", "-o", "out")
IMPORT = (
    *("import", "../inputs/trace.csv", "--columns", "time,op,offset,length"),
    *("--unit", "time=ns", "-o", "out"),
)
ANALYZE = ("analyze", "out", *(f"--only={name}" for name in ("totals", "throughput", "mix")))
REPLAY = ("replay", "out", "--limit", "100", "--pace", "fast", "--name", "a")
CAPTURE = ("capture", "--files", "--below", "work", "-o", "out")
GREP = ("--", "grep", "-q", "mine", "work/data")
SWEEP = (
    *("sweep", "webserver", "--target", "work", "-o", "out", "--files", "2", "--threads", "1"),
    *("--duration", "5ms", "--repeat", "2", "--cache", "keep", "--no-report"),
)
FORCE = ("--force",)
REPLACING = ("parse", "import", "replay", "capture")
"""Commands that replace what is there only with --force."""

CASES = (
    Case("parse", "bare", PARSE, "out"),
    Case("parse in new folders", "bare", (*PARSE[:-1], "a/b/out"), "a/b/out"),
    Case("parse --force", "parsed", PARSE + FORCE, "out"),
    Case("parse --force of a link", "linked", (*PARSE[:-1], "link", *FORCE), "real/trace"),
    Case("import", "bare", IMPORT, "out"),
    Case("import --force", "parsed", IMPORT + FORCE, "out"),
    Case("classify", "parsed", ("classify", "out"), "out", is_whole=False),
    Case("analyze", "classified", ANALYZE, "out/findings"),
    Case("analyze anew", "analyzed", ANALYZE, "out/findings"),
    Case("replay", "parsed", REPLAY, "out/replays/a", is_measured=True),
    Case("replay --force", "replayed", REPLAY + FORCE, "out/replays/a", is_measured=True),
    Case("capture --files", "bare", CAPTURE + GREP, "out", is_measured=True),
    Case("capture --force", "parsed", CAPTURE + FORCE + GREP, "out", is_measured=True),
    Case("sweep", "bare", SWEEP, "out", is_measured=True, is_whole=False),
)


class Bases:
    """Prepared folders, each made once; all have files of the user's beside the output."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self.folder = folder
        self.commands = commands
        inputs = folder / "inputs"
        inputs.mkdir()
        shutil.copytree(ROOT / "sample-traces/video", inputs / "video")
        capture(inputs / "small")
        lines = (f"{n * 1_000_000},{'RW'[n % 2]},{n * 4096},4096\n" for n in range(300))
        (inputs / "trace.csv").write_text("".join(lines))

    def copy(self, name: str, place: Path) -> Path:
        """Copy a base to `place`, which is anew then."""
        base = self.folder / f"base-{name}"
        if not base.exists():
            getattr(self, f"_{name}")(base)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(base, place, symlinks=True)
        if place.parent != self.folder and not (place.parent / "inputs").exists():
            (place.parent / "inputs").symlink_to(self.folder / "inputs")
        return place

    def _bare(self, base: Path) -> None:
        for path in ("work/data", "thesis", ".out.tracekit", ".out/notes", "out.old/trace.json"):
            (base / path).parent.mkdir(parents=True, exist_ok=True)
            (base / path).write_text(f"mine: {path}\n" * 100)

    def _made(self, base: Path, name: str, *words: str) -> None:
        self.copy(name, base)
        ended = self.commands.run(Command(words, base))
        assert ended.code == 0, ended.errors

    def _parsed(self, base: Path) -> None:
        self._made(base, "bare", "parse", "../inputs/small", "-o", "out")

    def _linked(self, base: Path) -> None:
        self.copy("parsed", base)
        (base / "real").mkdir()
        (base / "out").rename(base / "real/trace")
        (base / "link").symlink_to("real/trace")

    def _classified(self, base: Path) -> None:
        self._made(base, "parsed", "classify", "out")

    def _analyzed(self, base: Path) -> None:
        self._made(base, "classified", *ANALYZE, "--param", "window_count=7")

    def _replayed(self, base: Path) -> None:
        self._made(base, "parsed", *REPLAY, "--limit", "1")


def tree(folder: Path) -> dict[str, str]:
    """Return what is in a folder, all of it; nothing where it is missing."""
    found = {".": "folder"} if folder.is_dir() else {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_dir():
            found[name] = "folder"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def is_ours(name: str) -> bool:
    """Say whether a path is hidden, and so what a killed command may leave."""
    return any(part.startswith(".") and ".tracekit-" in part for part in Path(name).parts)


def facts(folder: Path) -> dict[str, Any]:
    """Return what does not change from run to run of a measured folder, file by file."""
    readers: dict[str, Callable[[Path], Any]] = {".parquet": _columns, ".json": _keys}
    return {
        str(path.relative_to(folder)): readers.get(path.suffix, _name)(path)
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() and not is_ours(str(path.relative_to(folder)))
    }


def _columns(path: Path) -> dict[str, Any]:
    table = pq.read_table(path)
    names = [name for name in table.column_names if not name.endswith(MEASURED)]
    rows = sorted({str(row) for row in table.select(names).to_pylist()})
    return {"schema": str(table.schema.remove_metadata()), "rows": rows}


def _keys(path: Path) -> list[str]:
    return sorted(map(str, json.loads(path.read_text())))


def _name(path: Path) -> str:
    return path.name

"""What the Tab key offers for names that are looked up; where nothing fits, shells offer files."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import typer

from tracekit.choices import ImportFormat, words
from tracekit.paths import PACKAGE

TOPS = ("trace.json", "set.json")
LEVELS = ("", "*/", "*/*/", "*/*/*/")
"""Below what is typed: how far away a trace folder is found."""


def begun(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the names that begin as what stands behind the last comma or equals sign."""
    before, word = re.fullmatch(r"(.*[,=])?(.*)", incomplete).groups("")  # type: ignore[union-attr]
    return [before + name for name in names if name.startswith(word)]


def of(*names: str) -> Callable[[str], list[str]]:
    """Return what completes one of these words, or several with commas between them."""
    return lambda incomplete: begun(incomplete, names)


def _stems(*folders: str) -> list[str]:
    return sorted(file.stem for folder in folders for file in PACKAGE.glob(f"{folder}/*.toml"))


def device_profiles(context: typer.Context, incomplete: str) -> list[str]:
    """Return the device profiles, those of --profiles too."""
    names: dict[str, None] = {}
    for file in (PACKAGE / "profiles.toml", context.params.get("profiles")):
        with suppress(OSError, ValueError):
            names |= dict.fromkeys(tomllib.loads(Path(file).read_text()) if file else ())
    return begun(incomplete, names)


def base_devices(context: typer.Context, incomplete: str) -> list[str]:
    """Return these, and the traced disk."""
    return [*begun(incomplete, ["trace"]), *device_profiles(context, incomplete)]


def personalities(incomplete: str) -> list[str]:
    """Return the shipped personalities."""
    return begun(incomplete, _stems("workload/personalities"))


def work_profiles(incomplete: str) -> list[str]:
    """Return the shipped work profiles."""
    return begun(incomplete, _stems("workload/profiles"))


def definitions(incomplete: str) -> list[str]:
    """Return both."""
    return [*personalities(incomplete), *work_profiles(incomplete)]


def formats(incomplete: str) -> list[str]:
    """Return the built-in formats."""
    return begun(incomplete, words(ImportFormat))


def analyses(incomplete: str) -> list[str]:
    """Return the analyses."""
    from tracekit.analyze import ANALYSES

    return begun(incomplete, (name.rpartition("/")[2] for name in ANALYSES))


def traces(incomplete: str) -> list[str]:
    """Return the trace folders and sets that begin so, the nearest ones."""
    folder, slash, _ = incomplete.rpartition("/")
    top = Path(folder + slash)
    for level in LEVELS:
        with suppress(OSError):
            found = {one.parent for name in TOPS for one in top.glob(f"{level}*/{name}")}
            names = sorted(f"{folder}{slash}{one.relative_to(top)}" for one in found)
            if fitting := [name for name in names if name.startswith(incomplete)]:
                return fitting
    return []


def replays(incomplete: str) -> list[str]:
    """Return the replays of the trace folder in the line, which is parsed up to an option only."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    files = (file for word in line.split() for file in Path(word).glob("replays/*/*.json"))
    return begun(incomplete, sorted({file.parent.name for file in files}))

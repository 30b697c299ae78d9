"""The border to C: the only package that knows how the native library and programs are called."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from tracekit.errors import TracekitError

LIBRARY = "libtracekit.so"
PROGRAM = "tracekit-replay"


def _find(name: str, folders: list[Path]) -> Path:
    chosen = os.environ.get("TRACEKIT_NATIVE_DIR")
    candidates = [Path(chosen)] if chosen else folders
    for folder in candidates:
        if (folder / name).is_file():
            return folder / name
    looked = ", ".join(str(folder) for folder in candidates)
    raise TracekitError(f"the native part {name} is not in {looked}", hint="build it: make setup")


def library_path() -> Path:
    """Return the shared library's path; TRACEKIT_NATIVE_DIR overrides where it is looked for."""
    platlib = Path(sysconfig.get_path("platlib"))
    return _find(LIBRARY, [platlib / "tracekit", Path(__file__).resolve().parents[1]])


def program_path(name: str = PROGRAM) -> Path:
    """Return a program's path; TRACEKIT_NATIVE_DIR overrides where it is looked for."""
    return _find(name, [Path(sysconfig.get_path("scripts"))])

"""What a killed import left: how far it came, and all that it knew there, to be gone on with.

Every CHECKPOINT_BYTES of a text of requests, in one file or several, what was made of it until
there is written and synced, and then, in one step, a file of the state. Events that are paired and
requests that are sorted have none: what waits for its partner or its place would be most of it.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracekit.errors import InputError, UsageError
from tracekit.parquet_file import Written
from tracekit.readers.files import STANDARD_INPUT
from tracekit.readers.outliers import Bounds
from tracekit.readers.restarts import Shifts
from tracekit.readers.units import Import, ImportOptions
from tracekit.store import unfinished
from tracekit.version import __version__

NAME = "import.state"
HEAD_BYTES = 1 << 16
ALLOWED = {
    "builtins": {"set", "frozenset"},
    "collections": {"Counter"},
    "numpy": {"ndarray", "dtype"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "tracekit._native.readers": {"ColumnReader", "Depths", "Kind"},
    "tracekit.parquet_file": {"Written"},
    "tracekit.readers.checkpoint": {"Again", "Source", "State"},
    "tracekit.readers.blocks": {"Blocks"},
    "tracekit.readers.completeness": {"Present"},
    "tracekit.readers.damage": {"Damage", "Place"},
    "tracekit.readers.disorder": {"Disorder"},
    "tracekit.readers.hypotheses": {"Pairs"},
    "tracekit.readers.outliers": {"Bounds", "Outlier", "Outliers", "Sample"},
    "tracekit.readers.pieces": {"Gaps", "Piece"},
    "tracekit.readers.restarts": {"Part", "Restarts", "Shifts"},
    "tracekit.readers.text": {"BadLines"},
    "tracekit.readers.unit_changes": {"UnitChanges"},
    "tracekit.readers.unit_parts": {"Sampled", "UnitParts"},
    "tracekit.readers.units": {"Units"},
}
"""What a state may be made of: whoever writes the file can make nothing else of it."""


@dataclass(frozen=True)
class Source:
    """A file of an import: what shows that it is still the same."""

    bytes: int
    mtime_ns: int
    head_sha256: str


@dataclass(frozen=True)
class Again:
    """What is known of a trace that is read once more."""

    is_sorted: bool = False
    """Its requests are to be put in order first."""
    bounds: Bounds | None = None
    """What lies beyond is a wrong line."""
    shifts: Shifts | None = None
    """Its clock starts again."""


FIRST = Again()


@dataclass(frozen=True)
class State:
    """Where an import is."""

    version: str
    options: str
    sources: tuple[Source, ...]
    """The files, in the order of their paths."""
    again: Again
    at: int = 0
    """Bytes of the text that are read, of all files."""
    known: bytes = b""
    """What the reader knows, packed; nothing at the beginning."""
    rows: bytes = b""
    """What is known of the rows, and those that wait."""
    table: Written | None = None


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in ALLOWED.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return super().find_class(module, name)


def unpack(data: bytes) -> Any:
    """Return what `pack` packed; raise pickle.UnpicklingError for anything else."""
    return _Unpickler(io.BytesIO(data)).load()


def pack(value: Any) -> bytes:
    """Return a state as bytes."""
    return pickle.dumps(value)


def _sources_of(files: Sequence[Path]) -> tuple[Source, ...]:
    return tuple(map(_source_of, sorted(files)))


def _source_of(path: Path) -> Source:
    with path.open("rb") as file:
        found, head = os.fstat(file.fileno()), file.read(HEAD_BYTES)
    return Source(found.st_size, found.st_mtime_ns, hashlib.sha256(head).hexdigest())


@dataclass
class Mark:
    """A place between two blocks; among the batches it is called when all before it are written."""

    file: Path
    state: State

    def with_rows(self, rows: bytes) -> Mark:
        """Return it with what is known of the rows there."""
        return replace(self, state=replace(self.state, rows=rows))

    def __call__(self, table: Written | None) -> None:
        """Write the state, replacing an earlier one in one step."""
        part = _unfinished(self.file)
        with part.open("wb") as out:
            out.write(pack(replace(self.state, table=table)))
            out.flush()
            os.fsync(out.fileno())
        part.replace(self.file)


def _unfinished(file: Path) -> Path:
    return file.with_name(f"{NAME}.new")


def clear(folder: Path) -> None:
    """Remove the state of an import, as of one that came to its end."""
    for file in (folder / NAME, _unfinished(folder / NAME)):
        file.unlink(missing_ok=True)


def _can_go_on(files: Sequence[Path]) -> bool:
    """Say whether an import of the files can leave a state: of regular files."""
    return all(file != STANDARD_INPUT and file.is_file() for file in files)


def begin(run: Import, again: Again) -> Mark | None:
    """Return the mark of an import's beginning; None if it leaves no state."""
    if again.is_sorted or not _can_go_on(run.files):
        return None
    sources = _sources_of(run.files)
    return Mark(run.folder / NAME, State(__version__, _said(run.options), sources, again))


def begin_again(run: Import, again: Again) -> None:
    """Forget what was read, but not what was learnt where that took a state's time."""
    mark = begin(run, again)
    if mark is not None and mark.file.exists():
        mark(None)
    else:
        clear(run.folder)


def _said(options: ImportOptions) -> str:
    """Return the options that must be the same to go on."""
    return repr(replace(options, overwrite=False, resumes=False, explains=False))


def found(output: Path, files: Sequence[Path], *, options: ImportOptions) -> State | None:
    """Return where a killed import is to be gone on with; None where it begins anew.

    Raise UsageError where there is one and the user does not say what to do, or there is none to go
    on with, or it was another one; InputError where the file has changed since.
    """
    left = unfinished(output, NAME)
    if not left or (options.overwrite and not options.resumes):
        if options.resumes:
            message = f"{output}: --resume: no import was killed that left something to go on with"
            hint = "leave --resume out: only an import of requests in order of time can be resumed"
            raise UsageError(message, hint=hint)
        return None
    anew = "begin anew: --force"
    state = _read(left[-1] / NAME)
    if state is None or state.version != __version__:
        message = f"{left[-1]}: what a killed import left is not of this version"
        raise UsageError(message, hint=anew)
    if not options.resumes:
        place = f"byte {state.at:,} of its text"
        message = f"{output}: an import was killed behind {place}: what it made is {left[-1]}"
        raise UsageError(message, hint=f"go on with it: --resume, or {anew}")
    if state.options != _said(options):
        message = f"{output}: the killed import had other options"
        raise UsageError(message, hint=f"give the same, or {anew}")
    _reject_changed(state, files, hint=anew)
    return state


def _reject_changed(state: State, files: Sequence[Path], *, hint: str) -> None:
    """Raise InputError where the files are others than those of the killed import."""
    now = _sources_of(files) if _can_go_on(files) else ()
    if len(now) != len(state.sources):
        message = f"{files[0]}: its import was killed with {len(state.sources):,} files, not"
        raise InputError(f"{message} {len(files):,}", hint=hint)
    for file, one, then in zip(sorted(files), now, state.sources, strict=True):
        if one != then:
            sizes = f"{then.bytes:,} bytes then, {one.bytes:,} now"
            raise InputError(f"{file}: it changed since its import was killed: {sizes}", hint=hint)


def _read(file: Path) -> State | None:
    try:
        state = unpack(file.read_bytes())
    except (OSError, pickle.UnpicklingError, ValueError, EOFError, AttributeError, TypeError):
        return None
    return state if isinstance(state, State) else None

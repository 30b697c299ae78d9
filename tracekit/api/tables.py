"""The tables of a trace folder as lazy relations, and the report's figures of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from tracekit.api.relation import Relation, html_text
from tracekit.api.values import PathLike
from tracekit.errors import InputError
from tracekit.escapes import escape
from tracekit.locks import folder_lock

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tracekit.metadata import TraceInfo
    from tracekit.query import Database
    from tracekit.store import TraceFolder

P = ParamSpec("P")
Result = TypeVar("Result")


class _Lockable(Protocol):
    def locked(self, *, shared: bool = False) -> AbstractContextManager[None]: ...


Locked = TypeVar("Locked", bound=_Lockable)

INFO_KEYS = ("source", "clock", "devices", "counts", "loss", "inferences", "warnings")


class Tables:
    """A trace folder that is open: its tables, lazily, and figures of them."""

    def __init__(
        self,
        folder: TraceFolder | PathLike,
        *,
        summary: Mapping[str, Any] | None = None,
        temporary: Any = None,
    ) -> None:
        from tracekit.store import TraceFolder

        self.folder = folder if isinstance(folder, TraceFolder) else TraceFolder(Path(folder))
        self._version = _version(self.path)
        self._summary = summary
        self._temporary = temporary

    @property
    def path(self) -> Path:
        """The trace folder."""
        return self.folder.path

    @contextmanager
    def locked(self, *, shared: bool = False) -> Iterator[None]:
        """Hold the trace folder's lock; read trace.json anew if another process has changed it."""
        with folder_lock(self.path, shared=shared):
            if self._version != (now := _version(self.path)):
                self.folder, self._version = type(self.folder)(self.path), now
            yield

    @property
    def info(self) -> TraceInfo:
        """The content of trace.json."""
        return self.folder.info

    @property
    def summary(self) -> Mapping[str, Any]:
        """What the call that made the trace found, as its command prints with `--json`."""
        if self._summary is not None:
            return self._summary
        content = self.folder.content
        found = {key: content[key] for key in INFO_KEYS if key in content}
        return {"trace": str(self.path), **found}

    @property
    def headline(self) -> str:
        """How many requests, or what else is in it."""
        from tracekit.units import format_duration

        duration_ns = self.info.clock.duration_ns
        found = [
            f"{self.info.count(key):,} {key.replace('_', ' ')}"
            for key in ("requests", "file_operations", "memory_accesses")
            if key in self.info.counts
        ]
        if duration_ns:
            found.append(format_duration(duration_ns))
        return escape(", ".join([*found, str(self.info.source.format)]))

    @property
    def requests(self) -> Relation:
        """One row a request as queued; with `role` after `classify`."""
        return self.table("requests")

    @property
    def blocks(self) -> Relation:
        """One row a block with its temperature, after `classify`."""
        return self.table("blocks")

    @property
    def file_operations(self) -> Relation:
        """One row a file system call, of a capture of files."""
        return self.table("file_operations")

    @property
    def memory_accesses(self) -> Relation:
        """One row an access to memory, of a trace of valgrind, perf, gem5 or ramulator."""
        return self.table("memory_accesses")

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables and views that there are now."""
        from tracekit import query

        return tuple(query.views(self._database.connection()))

    def table(self, name: str) -> Relation:
        """Return a table or view by name; InputError says which stage makes a missing one."""
        from tracekit import query
        from tracekit.tables import MADE_BY

        if name not in self.tables:
            maker = MADE_BY.get(name)
            there = ", ".join(self.tables)
            raise InputError(
                f"{self.path}: there is no table '{name}'",
                hint=f"run: {maker}" if maker else f"there are: {there}",
            )
        return Relation(query.view(self._database.connection(), name), self)

    @property
    def findings(self) -> Findings:
        """The tables that `analyze` made, by name: `t.findings["totals"]`."""
        return Findings(self)

    def sql(self, statement: str) -> Relation:
        """Return the result of a statement that reads, as a lazy relation; see `tables`."""
        from tracekit import query

        return Relation(query.select(self._database.connection(), statement), self)

    def computed(self, name: str) -> Relation:
        """Return an analysis such as `replay/replayed`, computed when its rows are asked for."""
        from tracekit import query

        return Relation(query.computed(self._database.connection(), name), self)

    @functools.cached_property
    def _database(self) -> Database:
        from tracekit.query import Database

        return Database(self.folder)

    def figures(self, section: str = "") -> tuple[str, ...]:
        """Names of the report's figures that there are data for."""
        from tracekit.report.page import find_figures

        return tuple(find_figures(self.folder, section))

    def plot(self, figure: str | None = None, *, section: str = "") -> Axes:
        """Draw a figure of the report by its name in `figures()`; the first if none is named."""
        from tracekit.report.page import draw_axes, find_figures

        return draw_axes(
            find_figures(self.folder, section), figure, where=section or str(self.path)
        )

    def kept(self, place: str) -> dict[str, Any]:
        """Return the answer that a stage has just written there, with what is kept beside it."""
        from tracekit.metadata import read_object

        return read_object(self.folder.file(place), hint="run the stage again")

    def __repr__(self) -> str:
        return f"Trace {escape(str(self.path))}: {self.headline}"

    def _repr_html_(self) -> str:
        shown = self.requests._repr_html_() if "requests" in self.tables else ""
        title = f"<strong>Trace {html_text(self.path.name)}</strong>"
        return f"<div>{title}<p>{html_text(self.headline)}</p>{shown}</div>"


def _version(path: Path) -> tuple[int, int]:
    """Return what differs after trace.json was written."""
    try:
        found = (path / "trace.json").stat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def reads(
    call: Callable[Concatenate[Locked, P], Result],
) -> Callable[Concatenate[Locked, P], Result]:
    """Let a call share the trace folder's lock."""
    return _locking(call, shared=True)


def writes(
    call: Callable[Concatenate[Locked, P], Result],
) -> Callable[Concatenate[Locked, P], Result]:
    """Let a call have the trace folder's lock for itself."""
    return _locking(call, shared=False)


def _locking(
    call: Callable[Concatenate[Locked, P], Result], *, shared: bool
) -> Callable[Concatenate[Locked, P], Result]:
    @wraps(call)
    def wrapped(self: Locked, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        with self.locked(shared=shared):
            return call(self, *args, **kwargs)

    return wrapped


class Findings(Mapping[str, Relation]):
    """The tables that `analyze` made, by name."""

    def __init__(self, trace: Tables) -> None:
        self._trace = trace

    def __getitem__(self, name: str) -> Relation:
        if name not in set(self):
            raise InputError(
                f"{self._trace.path}: there is no finding '{name}'",
                hint=f"there are: {', '.join(self) or 'none: run analyze'}",
            )
        return self._trace.table(name)

    def __iter__(self) -> Iterator[str]:
        return (file.stem for file in self._trace.folder.files("findings/*.parquet"))

    def __len__(self) -> int:
        return len(list(iter(self)))

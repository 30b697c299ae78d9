"""How far a long stage is, on stderr and only when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_SHOWN: ContextVar[Any] = ContextVar("shown", default=None)


@contextmanager
def hidden() -> Iterator[None]:
    """Take the line that is shown away, while a program writes its own to the terminal."""
    line = _SHOWN.get()
    if line is None:
        yield
        return
    line.stop()
    try:
        yield
    finally:
        line.start()


@contextmanager
def _shown(line: Any) -> Iterator[Any]:
    before = _SHOWN.set(line)
    try:
        with line:
            yield line
    finally:
        _SHOWN.reset(before)


@contextmanager
def row_progress(label: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told of rows as they are done; the line is gone afterwards."""
    if not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TimeElapsedColumn(),
    )
    with _shown(Progress(*columns, console=Console(stderr=True), transient=True)) as bar:
        task = bar.add_task(label, total=None)
        yield lambda rows: bar.advance(task, rows)


@contextmanager
def byte_progress(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that is told of the bytes done and of all bytes, None if not known."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
    )
    with _shown(Progress(*columns, console=Console(stderr=True), transient=True)) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def step_progress(label: str) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that is told the name of a step, its number from 0 and of all steps."""
    if not sys.stderr.isatty():
        yield lambda _name, _number, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with _shown(Progress(*columns, console=Console(stderr=True), transient=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda name, number, total: bar.update(
            task, description=name, completed=number, total=total
        )


@contextmanager
def stage_progress() -> Iterator[Callable[[str], None]]:
    """Yield a function to call with what begins now; a turning mark shows activity."""
    if not sys.stderr.isatty():
        yield lambda _what: None
        return
    from rich.console import Console

    with _shown(Console(stderr=True).status("starting")) as status:
        yield status.update

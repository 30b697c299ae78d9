"""How far a long stage is: on stderr when that is a terminal, or in a notebook; else quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_SHOWN: ContextVar[Any] = ContextVar("shown", default=None)
NOTEBOOK_INTERVAL_S = 0.5


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


class _NotebookLine:
    """A line below a notebook's cell, replaced as work goes on and empty afterwards."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._shown_s = 0.0
        self._handle: Any = None

    def __call__(self, text: str) -> None:
        now_s = time.monotonic()
        if now_s - self._shown_s >= NOTEBOOK_INTERVAL_S:
            self._shown_s = now_s
            self._write(f"{self.label}: {text}")

    def __enter__(self) -> _NotebookLine:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._handle is not None:
            self._write("")

    def _write(self, text: str) -> None:
        from IPython import display

        show: Any = display.display
        content = {"text/plain": text}
        if self._handle is None:
            self._handle = show(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def _notebook_line(label: str) -> _NotebookLine | None:
    """Return a line when this runs in the kernel of a notebook."""
    # Only a kernel has imported it: nothing is imported for those that have none.
    kernel = sys.modules.get("ipykernel.kernelapp")
    return _NotebookLine(label) if kernel and kernel.IPKernelApp.initialized() else None


@contextmanager
def row_progress(label: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told of rows as they are done; the line is gone afterwards."""
    if line := _notebook_line(label):
        done = 0

        def count(rows: int) -> None:
            nonlocal done
            done += rows
            line(f"{done:,} rows")

        with line:
            yield count
        return
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
    if line := _notebook_line(label):
        with line:
            yield lambda done, total: line(
                f"{done >> 20:,} MiB" + (f" of {total >> 20:,}" if total else "")
            )
        return
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
    if line := _notebook_line(label):
        with line:
            yield lambda name, number, total: line(f"{name}, {number} of {total}")
        return
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
    """Yield a function that is told what begins now; a turning mark shows that it goes on."""
    if line := _notebook_line("now"):
        with line:
            yield line
        return
    if not sys.stderr.isatty():
        yield lambda _what: None
        return
    from rich.console import Console

    with _shown(Console(stderr=True).status("starting")) as status:
        yield status.update

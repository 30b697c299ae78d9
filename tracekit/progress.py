"""How far a long stage is: a bar on a terminal or in a notebook, else a line a minute on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from tracekit.escapes import bare, escape

_SHOWN: ContextVar[Any] = ContextVar("shown", default=None)
_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
NOTEBOOK_INTERVAL_S = 0.5
LINE_INTERVAL_S = 60.0
"""Of lines in a log, where stderr is no terminal."""


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
def quiet() -> Iterator[None]:
    """Show nothing of the stages in the block: one of many, of which the whole is shown."""
    before = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(before)


def _is_watched() -> bool:
    return sys.stderr.isatty() and not _QUIET.get()


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
        content = {"text/plain": escape(text)}
        if self._handle is None:
            self._handle = show(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def _notebook_line(label: str) -> _NotebookLine | None:
    """Return a line when this runs in the kernel of a notebook."""
    # Only a kernel has imported it: nothing is imported for those that have none.
    kernel = sys.modules.get("ipykernel.kernelapp")
    is_one = kernel and kernel.IPKernelApp.initialized() and not _QUIET.get()
    return _NotebookLine(label) if is_one else None


@contextmanager
def _bar(label: str, columns: Callable[[Any], tuple[Any, ...]]) -> Iterator[Callable[..., None]]:
    """Yield a function of a text, which a notebook shows, and of what a task of rich shows.

    `columns` makes what follows the bar from the module `rich.progress`; the line is gone
    afterwards. Texts of a task are escaped, and rich finds no markup in them.
    """
    if line := _notebook_line(label):
        with line:
            yield lambda text, **_task: line(text)
        return
    if not _is_watched():
        with _lines(label) as say:
            yield lambda text, **_task: say(text)
        return
    from rich import progress

    first = (progress.TextColumn("{task.description}", markup=False), progress.BarColumn())
    bar = progress.Progress(*first, *columns(progress), console=_console(), transient=True)
    with _shown(bar):
        task = bar.add_task(escape(label), total=None, step="")
        yield lambda _text, **shown: bar.update(task, **shown)


@contextmanager
def _lines(label: str) -> Iterator[Callable[[str], None]]:
    """Yield a function of a text; once a minute stderr, which is no terminal, gets the last one.

    So a log of a long run says how far it is also while one step takes many minutes.
    """
    last, done = [""], threading.Event()

    def write() -> None:
        while not done.wait(LINE_INTERVAL_S):
            with suppress(OSError, ValueError):  # nobody reads it any more
                if last[0]:
                    sys.stderr.write(f"{label}: {escape(last[0])}\n")
                    sys.stderr.flush()

    def say(text: str) -> None:
        last[0] = text

    if _QUIET.get():
        yield lambda _text: None
        return
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield say
    finally:
        done.set()
        writer.join()


def _console() -> Any:
    """Return the terminal of stderr for what rich draws, in which names are escaped already."""
    from rich.console import Console

    return Console(file=bare(sys.stderr), markup=False)


@contextmanager
def row_progress(label: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that gets the number of rows that were done since its last call."""
    done = 0

    def count(rows: int) -> None:
        nonlocal done
        done += rows
        show(f"{done:,} rows", completed=done)

    with _bar(label, lambda rich: ("{task.completed:,.0f} rows", rich.TimeElapsedColumn())) as show:
        yield count


@contextmanager
def byte_progress(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that gets the bytes done and all bytes, None if not known."""
    with _bar(
        label,
        lambda rich: (rich.DownloadColumn(binary_units=True), rich.TimeRemainingColumn()),
    ) as show:
        yield lambda done, total: show(
            f"{done >> 20:,} MiB" + (f" of {total >> 20:,}" if total else ""),
            completed=done,
            total=total,
        )


@contextmanager
def step_progress(label: str) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that gets the name of a step, its number from 0 and of all steps."""
    with _bar(
        label,
        lambda rich: (
            rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(),
            rich.TextColumn("{task.fields[step]}", markup=False),
        ),
    ) as show:
        yield lambda name, number, total: show(
            f"{name}, {number} of {total}", step=escape(name), completed=number, total=total
        )


@contextmanager
def stage_progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that gets what begins now; a turning mark shows that it goes on."""
    if line := _notebook_line("now"):
        with line:
            yield line
        return
    if not _is_watched():
        with _lines("now") as say:
            yield say
        return
    from rich.text import Text

    with _shown(_console().status("starting")) as status:
        yield lambda what: status.update(Text(escape(what)))

"""A trace imported as a set by tasks: they decode parts of it, and join volumes.

Tasks decode parts of the text. What is counted and concluded is so here, block after block in the
order of the text, by the code of an import on one machine. Then tasks join the rows of groups of
volumes and write them. All that tasks leave is in a folder of the set that is not finished; each
attempt at a task has its own, and only what a task returned is used: so one that is done again
doubles nothing.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tracekit.errors import TracekitError
from tracekit.fleet.catalogue import TraceSet, Volume, write_catalogue
from tracekit.fleet.split import reject_resume, split
from tracekit.readers.assemble import Sorting
from tracekit.readers.importing import import_trace
from tracekit.readers.parsed import Decoded, Joining, Text, decode_part, parts_of
from tracekit.readers.units import DEFAULTS, ImportOptions, OnBytes
from tracekit.store import INFO_NAME, SET_NAME, TraceFolder, new_folder, scratch_folder, write_on
from tracekit.tables import REQUESTS

GROUPS_A_TASK = 4
"""So many groups of volumes for each task that runs at a time: sizes of volumes differ."""
LEAST_GROUPS, MOST_GROUPS = 8, 512
LOG = "spark.log"


class Workers(Protocol):
    """Whoever does tasks."""

    at_a_time: int

    def each(
        self,
        work: Callable[[Any], Any],
        items: Sequence[Any],
        *,
        on_done: Callable[[int], None] = ...,
    ) -> list[Any]:
        """Return what the work returns for each item, in their order; raise what one fails with."""


StartWorkers = Callable[[Path], AbstractContextManager[Workers]]
"""Starts them, and ends them with the block; what they print goes to a file."""


def import_set_by_tasks(
    source: Sequence[Path],
    output: Path,
    *,
    options: ImportOptions = DEFAULTS,
    on_bytes: OnBytes = lambda _done, _total: None,
    start: StartWorkers,
) -> TraceSet:
    """Import a trace as `import_set` does, by tasks of workers that see the folder of the output.

    A trace that is no text, or one of which a part says nothing by itself, is read here, and no
    workers start.
    """
    reject_resume(options)
    with (
        new_folder(output, overwrite=options.overwrite, marker=SET_NAME) as part,
        scratch_folder(part / "whole") as scratch,
        ExitStack() as stack,
    ):
        tasks = _Tasks(start, part, scratch, on_bytes, stack)
        with _log_kept(part / LOG, output):
            whole = import_trace(
                source, scratch / "trace", options=replace(options, overwrite=False),
                on_bytes=tasks.read, decoder=tasks,
            )  # fmt: skip
            joining = tasks.joining
            volumes = [*(tasks.joined(joining) if joining else split(whole, part))]
        stack.close()
        write_catalogue(part, sorted(volumes, key=lambda one: one.name))
    return TraceSet(output)


@contextmanager
def _log_kept(log: Path, output: Path) -> Iterator[None]:
    """Keep what Spark printed beside the output, where it failed: nothing else is left there."""
    try:
        yield
    except TracekitError as error:
        if str(log) not in error.hint:
            raise
        kept = output.with_name(f"{output.name}.{LOG}")
        shutil.copyfile(log, kept)
        error.hint = error.hint.replace(str(log), str(kept))
        raise


@dataclass
class _Tasks:
    """The tasks of one import, of workers that start with the first of them."""

    start: StartWorkers
    part: Path
    """The set that is not finished."""
    scratch: Path
    on_bytes: OnBytes
    stack: ExitStack
    joining: Joining | None = None
    _workers: Workers | None = None

    def read(self, done: int, total: int | None) -> None:
        """Show how much was read, of a trace that is read here."""
        if self._workers is None:
            self.on_bytes(done, total)

    def decode(self, text: Text) -> list[Decoded]:
        """Return what became of the parts of a text."""
        parts = parts_of(text)
        self._workers = self.stack.enter_context(self.start(self.part / LOG))
        groups = min(GROUPS_A_TASK * self._workers.at_a_time, MOST_GROUPS)
        work = partial(
            decode_part,
            text=text,
            folder=self.scratch.absolute(),
            groups=max(LEAST_GROUPS, groups),
        )
        total, done = sum(part.bytes for part in parts), 0

        def on_done(number: int) -> None:
            nonlocal done
            done += parts[number].bytes
            self.on_bytes(done, total or None)

        return self._workers.each(work, parts, on_done=on_done)

    def take(self, joining: Joining) -> None:
        """Take what is needed to join the rows."""
        self.joining = joining

    def joined(self, joining: Joining) -> Iterator[Volume]:
        """Have groups of volumes joined and written, the largest first; yield each volume."""
        rows = zip(*(one.group_rows for one in joining.chunks), strict=True)
        sizes = {group: count for group, count in enumerate(map(sum, rows)) if count}
        groups = sorted(sizes, key=lambda group: -sizes[group])
        work = partial(_join, joining, self.scratch.absolute())
        each = self._workers.each(work, groups) if self._workers else []
        for place, volumes in each:
            for volume in volumes:
                (place / volume.name).rename(self.part / volume.name)
                yield volume


def _join(joining: Joining, folder: Path, group: int) -> tuple[Path, list[Volume]]:
    """Join the rows of a group of volumes; return a folder with these, and what they are."""
    place = Path(tempfile.mkdtemp(dir=folder))
    with scratch_folder(place / "group") as rows:
        sorting = None if joining.is_ordered else Sorting(rows)
        batches = joining.batches(group, sorting=sorting)
        write_on(rows / "requests.parquet", batches, schema=REQUESTS)
        shutil.copyfile(folder / "trace" / INFO_NAME, rows / INFO_NAME)
        return place, [*split(TraceFolder(rows), place)]

"""Traces in object storage: a copy of one on this machine, and files that are fetched or put."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.api import results
from tracekit.api.trace import Trace, temporary_place
from tracekit.api.values import PathLike
from tracekit.errors import PartialError, UsageError
from tracekit.objects.location import Location

if TYPE_CHECKING:
    from tracekit.objects.stored import StoredFolder
    from tracekit.store import TraceFolder


class StoredTrace(Trace):
    """A trace in object storage; `path` is a copy on this machine that lives as long as it.

    What a stage changes in the copy is put back when the stage is over.
    """

    def __init__(
        self,
        stored: StoredFolder,
        folder: Path,
        *,
        holder: Any,
        summary: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(folder, summary=summary, temporary=holder)
        self._stored = stored

    def naming(self) -> AbstractContextManager[None]:
        """Let errors in the block name the URL."""
        from tracekit.objects.stored import shown_as

        return shown_as(self._stored.location, self.path)

    @contextmanager
    def locked(self, *, shared: bool = False) -> Iterator[None]:
        """Hold the copy's lock; at the end of a stage that writes, put back what is new."""
        with self.naming(), super().locked(shared=shared):
            try:
                yield
            except PartialError:
                self._stored.publish(self.path)
                raise
            if not shared:
                self._stored.publish(self.path)

    def report(self, output: PathLike | None = None) -> results.Report:
        """Write one self-contained HTML file; by default an object of the trace."""
        found = super().report(output)
        if output is not None:
            return found
        place = self._stored.location / self._stored.files["report.html"].object
        return results.Report(self, {**found.summary, "report": str(place)})

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self._stored.location,))


def open(path: PathLike | Location) -> Trace:  # noqa: A001 - tk.open
    """Open a trace folder, also one in object storage by its URL; InputError when it is none."""
    location = Location.of(path)
    if location is None:
        return Trace(Path(path))  # type: ignore[arg-type]
    from tracekit.objects.stored import StoredFolder, shown_as

    place, holder = temporary_place()
    folder, stored = place / location.name, StoredFolder(location)
    folder.mkdir()
    with shown_as(location, folder):
        stored.fetch(folder)
        return StoredTrace(stored, folder, holder=holder)


@contextmanager
def fetched(sources: Sequence[PathLike]) -> Iterator[list[Path]]:
    """Yield files of this machine; those that URLs name are fetched, and gone after the block."""
    locations = [Location.of(one) for one in sources]
    if not any(locations):
        yield [Path(one) for one in sources]
        return
    from tracekit.free_space import check_room
    from tracekit.objects.stored import NO_SPACE, in_threads

    place, holder = temporary_place()
    paths = [
        place / str(number) / one.name if one else Path(sources[number])
        for number, one in enumerate(locations)
    ]
    wanted = {paths[number]: one for number, one in enumerate(locations) if one}
    for one in wanted.values():
        one.check_bucket()
    sizes = {path: one.size_bytes() for path, one in wanted.items()}
    check_room(place / "file", sum(sizes.values()), hint=NO_SPACE)
    for path in wanted:
        path.parent.mkdir()
    in_threads(lambda path, stop: wanted[path].fetch(path, stop, most_bytes=sizes[path]), wanted)
    yield paths
    del holder


def put_trace(
    folder: TraceFolder, location: Location, *, summary: Mapping[str, Any], holder: Any
) -> StoredTrace:
    """Put a new trace of this machine into object storage, where it replaces an earlier one."""
    from tracekit.objects.stored import StoredFolder

    stored = StoredFolder(location)
    stored.publish(folder.path, replaces=True)
    return StoredTrace(stored, folder.path, holder=holder, summary=summary)


def refuse_taken(location: Location, *, overwrite: bool) -> None:
    """Raise UsageError where there is something that is to stay, InputError without a bucket."""
    from tracekit.objects.stored import is_taken

    location.check_bucket()
    if not overwrite and is_taken(location):
        raise UsageError(
            f"{location} exists already", hint="choose another --output or pass --force"
        )

"""A trace set in object storage: each volume is fetched when it is worked on, and put back."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from tracekit.analyze import ANALYSES, OF_CGROUPS, OF_FILES, OF_VOLUMES
from tracekit.errors import InputError, PartialError, UsageError
from tracekit.fleet.catalogue import (
    RESULTS,
    TraceSet,
    Volume,
    read_catalogue,
    volume_of,
    write_catalogue,
)
from tracekit.fleet.groups import RESULT as GROUPS
from tracekit.fleet.placement import RESULT as PLACEMENT
from tracekit.objects.location import AbsentError, Location
from tracekit.objects.stored import THREADS, StoredFolder, shown_as
from tracekit.store import INFO_NAME, SET_NAME, TraceFolder
from tracekit.tables import FILE_MAP

OF_THE_SET = (GROUPS, PLACEMENT)


class StoredSet(TraceSet):
    """A trace set in object storage; `path` is a folder of this machine with what was fetched.

    It goes away with this object, or with the process.
    """

    def __init__(self, location: Location) -> None:
        """Read the catalogue; InputError where there is none."""
        self.location = location
        self._holder = tempfile.TemporaryDirectory(prefix="tracekit-", ignore_cleanup_errors=True)
        self.path = Path(self._holder.name) / location.name
        self.path.mkdir()
        self._stored: dict[str, StoredFolder] = {}
        for name in (SET_NAME, *OF_THE_SET):
            with suppress(AbsentError):
                (self.path / name).write_bytes((location / name).read())
            if name == SET_NAME and not (self.path / name).is_file():
                location.check_bucket()
                raise _not_a_set(location)
        with self.naming():
            self.volumes = read_catalogue(self.path).volumes

    def __str__(self) -> str:
        """Return the URL."""
        return str(self.location)

    def place(self, name: str) -> Path:
        """Return the folder of this machine with what was fetched of a volume."""
        return self.path / name

    def source(self, name: str) -> Location:
        """Return where the volume is."""
        return self.location / name

    def folders(
        self, *needed: str, names: Collection[str] | None = None
    ) -> Iterator[tuple[Volume, TraceFolder | InputError]]:
        """Fetch files of the volumes, several at a time, and yield them as a set on disk does."""
        chosen = [one for one in self.volumes if names is None or one.name in names]
        pool = ThreadPoolExecutor(THREADS)
        try:
            yield from zip(
                chosen, pool.map(lambda one: self._folder(one, needed), chosen), strict=True
            )
        finally:
            pool.shutdown(cancel_futures=True)

    def _folder(self, volume: Volume, needed: Sequence[str]) -> TraceFolder | InputError:
        stored = self._stored.setdefault(volume.name, StoredFolder(self.location / volume.name))
        try:
            with self.naming():
                stored.fetch(self.place(volume.name), *needed)
                return TraceFolder(self.place(volume.name))
        except InputError as error:
            return error

    def analyses(self, folder: TraceFolder) -> list[str]:
        """Return the analyses that `possible` names, told by the names of files that are there."""
        files = self._stored[folder.path.name].files
        of_cgroups = {f"findings/{one.rpartition('/')[2]}.parquet" for one in OF_CGROUPS}
        present = (
            (OF_FILES, f"{FILE_MAP}.parquet" in files),
            (OF_CGROUPS, not of_cgroups.isdisjoint(files)),
            (OF_VOLUMES, "intervals.parquet" in files),
        )
        absent = {name for names, is_there in present if not is_there for name in names}
        return [name for name in ANALYSES if name not in absent]

    def stages(self, name: str) -> list[str]:
        """Return which stages have results in a volume, up to date or not."""
        stored = self._stored.get(name)
        if stored is None:
            stored = self._stored[name] = StoredFolder(self.location / name)
            with suppress(InputError):
                stored.read()
        return [stage for stage, place in RESULTS.items() if place in stored.files]

    def log(self, name: str) -> Path:
        """Return a place in the working folder: the set's folder here goes away."""
        return Path(name)

    def publish(self, name: str) -> None:
        """Put a result of the whole set into the set's folder."""
        text = (self.path / name).read_text().replace(str(self.path), str(self.location))
        (self.location / name).write(text.encode())

    def naming(self) -> AbstractContextManager[None]:
        """Let errors in the block name the set by its URL."""
        return shown_as(self.location, self.path)

    def shown(self, text: str) -> str:
        """Return a text in which the set has its URL."""
        return text.replace(str(self.path), str(self.location))


def _not_a_set(location: Location) -> InputError:
    return InputError(
        f"{location} is not a trace set: it has no {SET_NAME}",
        hint="make one with: tracekit set add URL TRACE..., or tracekit import --split-by volume;"
        f" of volumes that are there: tracekit set add {location}",
    )


def put_set(traces: TraceSet, location: Location) -> StoredSet:
    """Put a set of this machine into object storage: the volumes, then the catalogue.

    Volumes of an earlier set there that are not in this one are removed at the end; what its
    catalogue does not name stays.
    """
    earlier: set[str] = set()
    with suppress(InputError):
        earlier = {one.name for one in StoredSet(location).volumes}
    for volume in traces.volumes:
        stored = StoredFolder(location / volume.name)
        stored.publish(traces.place(volume.name), replaces=True)
    (location / SET_NAME).write((traces.path / SET_NAME).read_bytes())
    for name in earlier - {one.name for one in traces.volumes}:
        StoredFolder(location / name).remove()
    for name in OF_THE_SET:
        (location / name).remove()
    return StoredSet(location)


def add_to_location(location: Location, traces: Sequence[Path]) -> StoredSet:
    """Add traces of this machine to a set in object storage, as `catalogue.add` does."""
    if StoredFolder(location).exists():
        raise UsageError(f"{location} is a trace folder, not a set", hint="name a new folder")
    errors: list[InputError | UsageError] = []
    for trace in traces:
        try:
            folder = TraceFolder(trace)
            stored = StoredFolder(location / folder.path.resolve().name)
            if stored.exists():
                name = folder.path.resolve().name
                errors.append(UsageError(f"{trace}: {location} has a volume {name} already"))
            else:
                stored.publish(trace)
        except InputError as error:
            errors.append(error)
    found = _made_anew(location, errors)
    if not found:
        if errors:
            raise errors[0]
        raise UsageError(f"{location} has no trace folders", hint="name the traces to put into it")
    _write_catalogue(location, found)
    if errors:
        names = [str(error) for error in errors]
        raise PartialError(f"{location}: {len(errors)} left out, the others are in it", *names)
    return StoredSet(location)


def _made_anew(location: Location, errors: list[InputError | UsageError]) -> list[Volume]:
    """Return the volumes that there are; damaged ones are among the errors, and stay listed."""
    known: dict[str, Volume] = {}
    with suppress(InputError):
        known = {one.name: one for one in StoredSet(location).volumes}
    found = []
    for name in location.folders():
        stored = StoredFolder(location / name)
        with tempfile.TemporaryDirectory(prefix="tracekit-") as scratch:
            if not stored.exists():
                continue
            place = Path(scratch) / name
            try:
                with shown_as(stored.location, place):
                    stored.fetch(place, INFO_NAME)
                    found.append(volume_of(name, TraceFolder(place).info))
            except InputError as error:
                errors.append(error)
                found += [known[name]] if name in known else []
    return found


def _write_catalogue(location: Location, volumes: Sequence[Volume]) -> None:
    with tempfile.TemporaryDirectory(prefix="tracekit-") as scratch:
        write_catalogue(Path(scratch), volumes)
        (location / SET_NAME).write((Path(scratch) / SET_NAME).read_bytes())

"""A trace set: a folder of volumes, each a trace folder, and the catalogue made from them."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import to_builtins

from tracekit.analyze import possible
from tracekit.errors import InputError, MissingError, PartialError, UsageError
from tracekit.escapes import operand, shell_line
from tracekit.locks import folder_lock
from tracekit.metadata import Count, Record, TraceInfo, read_object, validate
from tracekit.objects.location import Location
from tracekit.safe_open import check_inside
from tracekit.store import INFO_NAME, SET_NAME, TraceFolder, link, new_folder, write_json
from tracekit.version import __version__

SCHEMA = 1
PLAIN = " ,=@+:"
"""What a folder's name keeps of a device's, beside letters, digits and `_.-~`."""
RESULTS = {
    "classify": "blocks.parquet",
    "analyze": "findings/totals.parquet",
    "recommend": "recommendation.json",
    "simulate cache": "simulations/cache.json",
    "simulate tiers": "simulations/tiers.json",
    "report": "report.html",
}
Name = Annotated[str, msgspec.Meta(pattern=r"\A[^./\x00][^/\x00]*\Z")]


class Volume(Record):
    """A trace folder of a set, by its name, and what its trace.json says."""

    name: Name
    devices: list[str]
    format: str | None
    requests: Count
    operations: dict[str, Count]
    duration_ns: Count


class Catalogue(Record, kw_only=True):
    """The content of set.json."""

    schema: int = SCHEMA
    tool: dict[str, str] = msgspec.field(default_factory=lambda: {"tracekit": __version__})
    volumes: list[Volume]


class TraceSet:
    """A trace set on disk; the catalogue says which volumes there should be.

    `stored_set.StoredSet` is one in object storage, of which a part is on disk.
    """

    def __init__(self, path: Path) -> None:
        """Open an existing set; raise InputError for a folder that is none."""
        self.path = path
        self.volumes = read_catalogue(path).volumes

    def __str__(self) -> str:
        """Return what the user calls the set by."""
        return str(self.path)

    def place(self, name: str) -> Path:
        """Return the folder of a volume; raise InputError for a link."""
        return check_inside(self.path, f"{name}/{INFO_NAME}").parent

    def source(self, name: str) -> Path | Location:
        """Return what a stage of a volume opens, also on another machine."""
        return self.place(name)

    def folders(
        self,
        *needed: str,  # noqa: ARG002 - of one in object storage
        names: Collection[str] | None = None,
    ) -> Iterator[tuple[Volume, TraceFolder | InputError]]:
        """Yield volumes, all or those named, with their folders or why they cannot be opened.

        Of the folders the files are there whose places match one of those `needed`.
        """
        for volume in self.volumes:
            if names is None or volume.name in names:
                try:
                    yield volume, TraceFolder(self.place(volume.name))
                except InputError as error:
                    yield volume, error

    def analyses(self, folder: TraceFolder) -> list[str]:
        """Return the analyses of which a volume has what they need."""
        return possible(folder)

    def stages(self, name: str) -> list[str]:
        """Return which stages have results in a volume, up to date or not."""
        return [stage for stage, place in RESULTS.items() if (self.path / name / place).exists()]

    def unusable(self) -> dict[str, InputError]:
        """Return the volumes that are missing or damaged, each with what is wrong."""
        found = self.folders(INFO_NAME)
        return {volume.name: one for volume, one in found if isinstance(one, InputError)}

    def log(self, name: str) -> Path:
        """Return where a log of work with the set is written."""
        return self.path / name

    def keep(self, name: str, content: Any) -> None:
        """Write a result of the whole set as JSON."""
        write_json(self.path / name, content)
        self.publish(name)

    def publish(self, name: str) -> None:
        """Put a result of the whole set where the set is: there it is already."""

    def naming(self) -> AbstractContextManager[None]:
        """Let errors in the block name the set as the user does."""
        return nullcontext()

    def shown(self, text: str) -> str:
        """Return a text in which the set and its volumes have the names that the user gave."""
        return text


def opened(folder: TraceFolder | InputError) -> TraceFolder:
    """Return a volume's folder; raise why it cannot be opened."""
    if isinstance(folder, InputError):
        raise folder
    return folder


def is_set(path: Path) -> bool:
    """Say whether a folder is a trace set."""
    return (path / SET_NAME).is_file()


def read_catalogue(path: Path) -> Catalogue:
    """Return the content of a set's set.json; InputError where it is not one."""
    again = shell_line(["tracekit", "set", "add", operand(str(path))])
    if not is_set(path):
        hint = "make one with: tracekit set add SET TRACE..., or tracekit import --split-by volume"
        if any(_trace_folders(path)):
            hint = f"make it anew of its volumes: {again}"
        if not path.exists():
            raise MissingError(path, hint=f"check the path, or {hint}")
        raise InputError(f"{path} is not a trace set: it has no {SET_NAME}", hint=hint)
    file = check_inside(path, SET_NAME)
    hint = f"remove it, and make it anew of its volumes: {again}"
    content = read_object(file, hint=hint)
    if content.get("schema") != SCHEMA:
        message = f"{file} has schema {content.get('schema')!r}, this tracekit reads {SCHEMA}"
        raise InputError(message, hint=hint)
    found = validate(content, Catalogue, file=file, hint=hint)
    for name, following in pairwise(sorted(one.name for one in found.volumes)):
        if name == following:
            raise InputError(f"{file}: the volume {name!r} comes twice", hint=hint)
    return found


def _trace_folders(path: Path) -> Iterator[str]:
    """Yield the names of the trace folders in a folder, in order; hidden ones are unfinished."""
    if path.is_dir():
        inner = sorted(one.name for one in path.iterdir() if not one.name.startswith("."))
        yield from (name for name in inner if (path / name / INFO_NAME).is_file())


def volume_of(name: str, info: TraceInfo) -> Volume:
    """Return what the catalogue says of a volume."""
    kinds = info.counts.get("operations")
    return Volume(
        name=name,
        devices=[one.device for one in info.devices],
        format=info.source.format,
        requests=info.count("requests"),
        operations={**kinds} if isinstance(kinds, Mapping) else {},
        duration_ns=info.clock.duration_ns,
    )


def folder_name(device: str) -> str:
    """Return a device's name as the name of a folder: other signs are %XX, as in an address."""
    name = quote(device, safe=PLAIN)
    return f"%2E{name[1:]}" if name.startswith(".") else name or "%"


def write_catalogue(path: Path, volumes: Iterable[Volume]) -> None:
    """Write set.json, replacing it in one step."""
    write_json(path / SET_NAME, to_builtins(Catalogue(volumes=list(volumes))))


def add(path: Path, traces: Sequence[Path]) -> TraceSet:
    """Add traces to a set, which is made where there is none, and return it.

    Tables are linked where the system has links, the rest is copied, and the trace stays as it is.
    Trace folders that are in the set's folder already, as copied there by hand, are
    taken into the catalogue, and those that are gone leave it. A trace that is damaged or whose
    name is taken is left out: PartialError names it when the others are in.
    """
    if not traces and not any(_trace_folders(path)):
        raise UsageError(f"{path} has no trace folders", hint="name the traces to put into it")
    if (path / INFO_NAME).is_file():
        raise UsageError(f"{path} is a trace folder, not a set", hint="name a new folder")
    for trace in traces:
        if not trace.exists():
            raise MissingError(trace)
    with folder_lock(path):
        known = {one.name: one for one in read_catalogue(path).volumes} if is_set(path) else {}
        errors: list[InputError | UsageError] = [*_copied(path, traces)]
        found = []
        for name in _trace_folders(path):
            try:
                found.append(volume_of(name, TraceFolder(path / name).info))
            except InputError as error:
                found += [known[name]] if name in known else []
                errors.append(error)
        if errors and not found:
            raise errors[0]
        write_catalogue(path, found)
    if errors:
        names = [str(error) for error in errors]
        raise PartialError(f"{path}: {len(errors)} left out, the others are in it", *names)
    return TraceSet(path)


def _copied(path: Path, traces: Sequence[Path]) -> Iterator[InputError | UsageError]:
    """Put traces into a set's folder; yield why some are not."""
    for trace in traces:
        try:
            TraceFolder(trace)
            if trace.resolve().parent != path.resolve():
                _copy(trace, path / trace.resolve().name)
        except (InputError, UsageError) as error:
            yield error


def _copy(trace: Path, place: Path) -> None:
    if place.exists():
        raise UsageError(f"{trace}: {place.parent} has a volume {place.name} already")
    with new_folder(place) as part:
        shutil.copytree(trace, part, symlinks=True, copy_function=_linked, dirs_exist_ok=True)


def _linked(source: str, target: str) -> None:
    """Link a table, which is only ever replaced; copy what somebody may edit."""
    if source.endswith(".parquet"):
        link(Path(source), Path(target))
    else:
        shutil.copyfile(source, target)

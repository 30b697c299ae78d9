"""A trace folder in object storage: objects that are never changed, and a list of them.

The list, `files.json`, says which object is which file of the folder. It is put last: whoever reads
it finds the folder as it was or as it is, and what an upload left that was cut short is in no list.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import structs, to_builtins

from tracekit.errors import InputError, TracekitError
from tracekit.free_space import check_room
from tracekit.metadata import Count, Record, parse_object, validate
from tracekit.objects.location import AbsentError, Location
from tracekit.safe_open import sha256_of
from tracekit.store import INFO_NAME, SET_NAME
from tracekit.version import __version__

LIST_NAME = "files.json"
SCHEMA = 1
THREADS = 8
TRIES = 3
"""Of a fetch while others replace what is fetched."""
LEFT_BEHIND = timedelta(days=1)
"""An object in no list that is older is of an upload that was cut short."""
DIGITS = 16
OURS = re.compile(rf"-[0-9a-f]{{{DIGITS}}}(\.\w+)?\Z")
"""End of an object's name that `_object` gives: others are somebody's own, and stay."""
NO_SPACE = "set TMPDIR to a folder on a disk with more space"
Item = TypeVar("Item")
PLACE = r"\A(?!.*(^|/)\.\.?(/|\Z))[^/\x00]+(/[^/\x00]+)*\Z"
Place = Annotated[str, msgspec.Meta(pattern=PLACE)]


class StoredFile(Record):
    """A file of the folder: its object, and what must be in it."""

    object: Place
    bytes: Count
    sha256: str = ""
    """Empty of a file that was put there by other means, in a folder without a list."""


class StoredFiles(Record):
    """The content of files.json."""

    schema: int = SCHEMA
    tool: dict[str, str] = msgspec.field(default_factory=lambda: {"tracekit": __version__})
    files: dict[Place, StoredFile] = msgspec.field(default_factory=dict)


class StoredFolder:
    """A trace folder in object storage, and what of it was fetched into a folder of this machine.

    One that has no list is a trace folder that was copied there: its objects have the names of its
    files. What is published into it gets a list.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self.files: dict[str, StoredFile] = {}
        """By place, as of the latest `read`."""
        self._list: bytes | None = None
        self._fetched: dict[str, tuple[str, tuple[int, ...]]] = {}
        """Digest and state of the files on this machine that are as in the folder."""

    def read(self) -> None:
        """Read which files there are; InputError where it is no trace folder."""
        self._list = self._current()
        name = f"{self.location}/{LIST_NAME}"
        if self._list is not None:
            hint = "put the right one there, or remove the volume and make it again"
            content = parse_object(self._list, name, hint=hint)
            found = validate(content, StoredFiles, file=name, hint=hint)
            if found.schema != SCHEMA:
                raise InputError(
                    f"{name} has schema {found.schema}, this tracekit reads {SCHEMA}", hint=hint
                )
            self.files = found.files
            return
        listed = self.location.files()
        if INFO_NAME not in listed:
            self.location.check_bucket()
            raise InputError(
                f"{self.location} is not a trace folder: it has no {LIST_NAME} or {INFO_NAME}",
                hint="check the URL; a trace is put there by: tracekit import FILE -o URL",
            )
        for place in listed:
            if not re.match(PLACE, place):
                raise InputError(
                    f"{self.location}/{place}: a trace folder has no file of such a name",
                    hint="remove the object",
                )
        self.files = {
            place: StoredFile(object=place, bytes=one.size) for place, one in listed.items()
        }

    def _current(self) -> bytes | None:
        with suppress(AbsentError):
            return (self.location / LIST_NAME).read()
        return None

    def exists(self) -> bool:
        """Say whether there is a trace folder, damaged or not."""
        return any((self.location / name).exists() for name in (LIST_NAME, INFO_NAME))

    def fetch(self, folder: Path, *needed: str) -> None:
        """Copy the files into a folder of this machine; those whose places match, or all.

        What is there already of them is left as it is. InputError where an object is missing or
        damaged, or the disk has no space for all of them.
        """
        for left in reversed(range(TRIES)):
            self.read()
            try:
                self._fetch(folder, needed)
            except AbsentError as error:
                if left and self._current() != self._list:
                    continue  # somebody replaced it meanwhile
                hint = "put it back, or remove the volume and make it again"
                raise InputError(f"{error}, which {LIST_NAME} names", hint=hint) from None
            return

    def _fetch(self, folder: Path, needed: Iterable[str]) -> None:
        for place in [one for one in self._fetched if one not in self.files]:
            (folder / place).unlink(missing_ok=True)
            del self._fetched[place]
        wanted = {
            place: one
            for place, one in self.files.items()
            if (not needed or any(fnmatchcase(place, pattern) for pattern in needed))
            and (place not in self._fetched or self._fetched[place][0] != one.sha256)
        }
        if wanted:
            size = sum(one.bytes for one in wanted.values())
            check_room(folder / INFO_NAME, size, hint=NO_SPACE)
        for place in wanted:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
        in_threads(partial(self._fetch_one, folder), wanted)

    def _fetch_one(self, folder: Path, place: str, stop: Event) -> None:
        one, file = self.files[place], folder / place
        part = file.with_name(f".{file.name}.fetched")
        try:
            digest = (self.location / one.object).fetch(part, stop, most_bytes=one.bytes)
            size = part.stat().st_size
            if size != one.bytes or one.sha256 not in ("", digest):
                what = f"has {size:,} bytes of {one.bytes:,}" if size != one.bytes else "is damaged"
                raise InputError(
                    f"{self.location / one.object} {what}",
                    hint="put back a copy of it, or remove the volume and make it again",
                )
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
        self._fetched[place] = digest, _state(file)

    def publish(self, folder: Path, *, replaces: bool = False) -> None:
        """Put what is new in a folder of this machine; what is gone there goes here too.

        `replaces` is of a new trace in the place of an earlier one, of which nothing stays.
        TracekitError where somebody else has published meanwhile: theirs stays.
        """
        if replaces:
            self._fetched = {}
            with suppress(InputError):
                self.read()
        before = {} if replaces else self.files
        after = {place: one for place, one in before.items() if place not in self._fetched}
        found, new = dict[str, tuple[str, tuple[int, ...]]](), list[str]()
        for place, file in _files_of(folder):
            digest, state = self._fetched.get(place, ("", ()))
            if state != (now := _state(file)):
                digest = sha256_of(file)
            found[place] = digest, now
            known = before.get(place)
            if known and digest in (known.sha256, self._fetched.get(place, ("",))[0]):
                after[place] = structs.replace(known, sha256=digest)
            else:
                size = file.stat().st_size
                after[place] = StoredFile(object=_object(place, digest), bytes=size, sha256=digest)
                new.append(place)
        if after != before or self._list is None:
            self._put(folder, after, new)
            self._commit(after, folder)
        self._fetched = found

    def _put(self, folder: Path, files: Mapping[str, StoredFile], places: Iterable[str]) -> None:
        def put(place: str, stop: Event) -> None:
            (self.location / files[place].object).put(folder / place, stop)

        in_threads(put, places)

    def _commit(self, after: Mapping[str, StoredFile], folder: Path) -> None:
        """Replace the list, then remove what is in none any more."""
        if self._current() != self._list:
            raise TracekitError(
                f"{self.location}: somebody else wrote it meanwhile; that stays, this is left out",
                hint="run it again, when the other is done",
            )
        before = {one.object for one in self.files.values()}
        files = {place: after[place] for place in sorted(after)}
        text = json.dumps(to_builtins(StoredFiles(files=files)), indent=2, ensure_ascii=False)
        self._list, self.files = f"{text}\n".encode(), files
        (self.location / LIST_NAME).write(self._list)
        listed, named = self.location.files(), {one.object: place for place, one in after.items()}
        # Two that published at once, to the same fraction of a second, may have removed them.
        lost = [place for name, place in named.items() if name not in listed]
        kept = [place for place in lost if (folder / place).is_file()]
        self._put(folder, after, kept)
        oldest = datetime.now(UTC) - LEFT_BEHIND
        old = [
            name
            for name, one in listed.items()
            if name not in named
            and (name in before or (_is_ours(name) and one.mtime and one.mtime < oldest))
        ]
        in_threads(lambda name, _: (self.location / name).remove(), old)

    def remove(self) -> None:
        """Remove the trace folder's objects, the list first; what else is there stays."""
        with suppress(InputError):
            self.read()
        (self.location / LIST_NAME).remove()
        named = {one.object for one in self.files.values()}
        old = [name for name in self.location.files() if name in named or _is_ours(name)]
        in_threads(lambda name, _: (self.location / name).remove(), old)


def is_taken(location: Location) -> bool:
    """Say whether there is a trace folder or a trace set."""
    return any((location / name).exists() for name in (LIST_NAME, INFO_NAME, SET_NAME))


def in_threads(work: Callable[[Item, Event], Any], items: Iterable[Item]) -> None:
    """Do the work with each item, several at a time; raise what the first failure raises.

    The event is set when the others are to stop, also by Ctrl-C.
    """
    pool, stop = ThreadPoolExecutor(THREADS), Event()
    try:
        futures = [pool.submit(work, one, stop) for one in items]
        for future in wait(futures, return_when=FIRST_EXCEPTION).done:
            future.result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


@contextmanager
def shown_as(location: Location, folder: Path) -> Iterator[None]:
    """Let errors name the location in the place of the folder that stands for it here."""
    try:
        yield
    except TracekitError as error:
        error.args = tuple(str(one).replace(str(folder), str(location)) for one in error.args)
        error.hint = error.hint.replace(str(folder), str(location))
        raise


def _object(place: str, digest: str) -> str:
    """Return the object of a file: its name has a part of its digest, so none is ever changed."""
    name = PurePosixPath(place)
    return str(name.with_name(f"{name.stem}-{digest[:DIGITS]}{name.suffix}"))


def _is_ours(name: str) -> bool:
    return OURS.search(name) is not None


def _files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the regular files of a folder by their places; hidden ones are not finished."""
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(above, name)
            if not name.startswith(".") and stat.S_ISREG(file.lstat().st_mode):
                yield file.relative_to(folder).as_posix(), file


def _state(file: Path) -> tuple[int, ...]:
    """Return what differs after a file was replaced or changed."""
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns

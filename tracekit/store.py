"""The trace folder: Parquet tables beside a `trace.json`, written beside and then renamed."""

from __future__ import annotations

import errno
import fcntl
import glob
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import to_builtins
from msgspec.structs import replace

from tracekit.asked import asked
from tracekit.durable import (
    Identity,
    exchange,
    folder_for,
    identity,
    make_folder,
    rename_aside,
    rename_new,
    sync,
    sync_tree,
    unsynced,
)
from tracekit.errors import InputError, MissingError, TracekitError, UsageError, named_for
from tracekit.escapes import operand, shell_line
from tracekit.invoking_user import hand_over
from tracekit.locks import folder_lock
from tracekit.metadata import (
    TABLES,
    Kind,
    Source,
    TraceInfo,
    check_table,
    read_object,
    validate,
)
from tracekit.origin import of_result
from tracekit.parquet_file import TableFile, Written
from tracekit.paths import is_url
from tracekit.safe_open import check_inside
from tracekit.tables import COMPLETIONS, ROW_GROUP_ROWS, SCHEMA_VERSION
from tracekit.version import __version__

WRITE_BATCH_ROWS = 1 << 16
FEW_VALUES = ("length_bytes", "depth")


def encodings(schema: Any) -> dict[str, Any]:
    """Return how to store the columns: times and places as differences, texts by dictionary.

    Measured on a million requests of a capture: a fifth less time and space than dictionaries for
    all columns, and a fifth less time without the extremes of words and flags, which are of no use
    for a group. Pages of a MiB in place of 20,000 rows, and small numbers as they are, take another
    fifth of the time and a sixth of the space. Splitting places into bytes would take a tenth
    less again, but of the encodings it alone is too new for readers such as Spark's. Lengths and
    depths have few values: a dictionary takes a third of the space of what they take otherwise.
    """
    others = [field for field in schema if field.name not in FEW_VALUES]
    wide = [field.name for field in others if field.type in (pa.int64(), pa.uint64())]
    small = [field.name for field in others if field.type == pa.int32()]
    telling = (pa.int64(), pa.int32(), pa.float64())
    plain = dict.fromkeys(small, "PLAIN")
    return {
        "compression": "zstd",
        "compression_level": 1,
        "max_rows_per_page": ROW_GROUP_ROWS,
        "write_batch_size": WRITE_BATCH_ROWS,
        "write_statistics": [field.name for field in schema if field.type in telling],
        "use_dictionary": [name for name in schema.names if name not in (*wide, *small)],
        "column_encoding": dict.fromkeys(wide, "DELTA_BINARY_PACKED") | plain,
    }


INFO_NAME = "trace.json"
SET_NAME = "set.json"
"""In the folder of a trace set, whose volumes are trace folders; see `fleet`."""


NEEDED = {
    "times": "--rate 1000 (requests a second)",
    "operations": "--op read",
    "page size": "--page 4KiB",
}
"""What a format may not say, and how import is given it."""


class TraceFolder:
    """A trace on disk: `trace.json`, `requests.parquet`, and the tables that stages added.

    Whoever sent it chose its names and files: links and what is neither a regular file nor a folder
    are rejected where they are read or would be written.
    """

    def __init__(self, path: Path) -> None:
        """Open an existing folder; raise InputError if it is not a trace folder of this schema."""
        self.path = path
        self.content, self.info = _read_info(path)

    def file(self, place: str) -> Path:
        """Return the path of a file, there or not; raise InputError for a link or no file."""
        return check_inside(self.path, place)

    def subfolder(self, place: str) -> Path:
        """Return the path of a folder, there or not; raise InputError for a link."""
        return self.file(f"{place}/{INFO_NAME}").parent

    def files(self, pattern: str) -> list[Path]:
        """Return the files whose places match, such as `simulations/*.json`, in order."""
        found = sorted(self.path.glob(pattern))
        return [self.file(str(file.relative_to(self.path))) for file in found]

    def result(self, place: str, kind: type[Kind], *, hint: str) -> Kind | None:
        """Return what a stage left in a JSON file, None where it is not there."""
        file = self.file(place)
        if not file.exists():
            return None
        return validate(read_object(file, hint=hint), kind, file=file, hint=hint)

    def table(self, name: str) -> Path:
        """Return the path of a table such as `requests` or `findings/totals`, as `file`."""
        return self.file(f"{name}.parquet")

    def has(self, name: str) -> bool:
        """Say whether a stage has written the table."""
        return self.table(name).exists()

    def require(self, name: str, *, made_by: str) -> Path:
        """Return the table's path, or raise InputError that names the command which makes it.

        A table with a schema must have the schema's columns.
        """
        hint = f"run: {command_line(made_by, self.path)}"
        if not self.has(name):
            if self.has("memory_accesses") and not self.has("requests"):
                raise InputError(
                    f"{self.path} holds memory accesses, and no requests of a block device",
                    hint="simulate buffer takes memory accesses; take a trace of a block device",
                )
            raise InputError(f"{self.path}: there is no table '{name}'", hint=hint)
        if name in TABLES:
            hint = "parse the capture again" if made_by == "parse" else hint
            check_table(self.table(name), TABLES[name], hint=hint)
        return self.table(name)

    def require_known(self, *names: str, what: str) -> None:
        """Raise InputError where the trace's format does not say what is needed: see `unknown`."""
        missing = [name for name in names or NEEDED if name in (self.info.unknown or ())]
        if missing:
            ways = ", ".join(NEEDED[name] for name in missing)
            raise InputError(
                f"{self.path}: {what} needs {', '.join(missing)}, which the format of this"
                f" trace, {self.info.source.format}, does not say",
                hint=f"import it again with {ways}",
            )

    def check_tables(self, made_by: Mapping[str, str]) -> None:
        """Raise InputError for a table that is there and does not have the columns of its schema.

        `made_by` names the command of each table; completions need the requests that they name.
        """
        for place in TABLES:
            if self.has(place):
                self.require(place, made_by=made_by[place.rpartition("/")[2]])
        for file in self.files("replays/*/completions.parquet"):
            self.require("requests", made_by="parse")
            hint = f"replay again, or remove {file.parent}"
            check_table(file, COMPLETIONS, hint=hint, may_have_nulls=True)

    def save_info(self, **changes: Any) -> None:
        """Set fields of trace.json; the file is replaced in one step, other keys stay."""
        self.info = replace(self.info, **changes)
        self.content = {**self.content, **to_builtins(changes)}
        write_json(self.file(INFO_NAME), self.content)


def link(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the system has none for it."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def measurement_folder(path: Path) -> TraceFolder:
    """Open a trace folder, or make one that has no trace, for what is measured without one.

    Raises UsageError for a path that is there and is something else than an empty folder, or one
    in which a command was killed at its first step.
    """
    if (path / INFO_NAME).is_file():
        return TraceFolder(path)
    if path.exists() and (
        not path.is_dir() or {*path.iterdir()} - {*left_behind(path / INFO_NAME)}
    ):
        raise UsageError(
            f"{path} exists already and is no trace folder", hint="choose another --output"
        )
    make_folder(path)
    source = Source(format="measurements", kernel=os.uname().release)
    write_info(path, TraceInfo(source=source))
    return TraceFolder(path)


def _read_info(path: Path) -> tuple[dict[str, Any], TraceInfo]:
    file = check_inside(path, INFO_NAME) if path.is_dir() else path / INFO_NAME
    if not file.exists():
        hint = "make one with: tracekit parse CAPTURE -o FOLDER"
        if not path.exists():
            raise MissingError(path, hint=f"check the path, or {hint}")
        if (path / SET_NAME).is_file():
            hint = "it is a trace set: name one of its volumes, see tracekit set list"
        raise InputError(f"{path} is not a trace folder: it has no {INFO_NAME}", hint=hint)
    info = read_object(file, hint="parse the capture again")
    version = info.get("schema")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{file} has schema {version!r}, this tracekit {__version__} reads {SCHEMA_VERSION}",
            hint="parse the capture again with this version",
        )
    return info, validate(info, TraceInfo, file=file, hint="parse the capture again")


def write_info(folder: Path, info: TraceInfo, *, made_by: str = "") -> None:
    """Write a folder's trace.json, replacing the file in one step; `made_by` names the command."""
    if made_by:
        words = asked("read" if made_by == "import" else made_by)
        info = replace(info, made_by=made_by, asked=list(words))
    write_json(folder / INFO_NAME, to_builtins(info))


def command_line(command: str, folder: Path) -> str:
    """Return a command for a trace folder as it can be typed in a shell."""
    return shell_line(["tracekit", *command.split(), operand(str(folder))])


@contextmanager
def new_folder(
    path: Path,
    *,
    overwrite: bool = False,
    marker: str | None = INFO_NAME,
    goes_on: str | None = None,
) -> Iterator[Path]:
    """Yield an empty folder beside `path`, which gets that name when the block succeeds.

    It is on the disk before it has the name, and is exchanged with an earlier one in one step. Only
    a folder of ours is ever replaced: one that was there at the start and holds the file `marker`.
    What somebody else makes meanwhile stays, and the new folder gets a free name beside it, which
    the error says. On any other failure, Ctrl-C included, nothing is left. With `goes_on` it is the
    latest folder that a killed process left with a file of that name, if there is one.
    """
    with _new_folder(path, overwrite=overwrite, marker=marker, goes_on=goes_on) as (part, _):
        yield part


@contextmanager
def _new_folder(
    path: Path, *, overwrite: bool, marker: str | None, goes_on: str | None = None
) -> Iterator[tuple[Path, dict[Path, Identity]]]:
    """Yield the folder, and where to say what it has of the earlier one: the rest is kept."""
    place = _resolved(path)
    known: dict[Path, Identity] = {}
    earlier = identity(place)
    if earlier is not None and not (overwrite and _is_ours(place, marker)):
        hint = "choose another --output" if overwrite else "choose another --output or pass --force"
        raise UsageError(f"{path} exists already", hint=hint)

    def make(part: Path) -> None:
        left = _left_with(place, goes_on) if goes_on else []
        left[-1].rename(part) if left else part.mkdir()

    with (
        folder_for(place),
        named_for(place),
        _claimed(place, make, earlier, spared=goes_on) as part,
    ):
        with unsynced(part):
            yield part, known
            hand_over(part)
        sync_tree(part)
        if earlier is None or not _exchanged(part, place, earlier, marker):
            _give_name(part, place)
        elif marker is None:
            try:
                _keep_late(part, place, known)
            except BaseException:
                rename_aside(part, place)
                raise


@contextmanager
def changed_folder(path: Path) -> Iterator[Path]:
    """Yield a copy of a folder, or a new one, that replaces it in one step when the block succeeds.

    Its files are links to the same files: what is changed must be replaced, as `beside` does. What
    somebody else puts into the folder meanwhile goes into the new one.
    """
    if path.exists() and not path.is_dir():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with _new_folder(path, overwrite=True, marker=None) as (part, known):
        if path.is_dir():
            known.update(_files(path))
            shutil.copytree(path, part, symlinks=True, copy_function=_link, dirs_exist_ok=True)
        yield part


def _files(folder: Path) -> Iterator[tuple[Path, Identity]]:
    """Yield the place of each file in a folder and what has that name."""
    for place, _, names in os.walk(folder):
        for name in names:
            found = identity(file := Path(place, name))
            if found is not None:
                yield file.relative_to(folder), found


def _keep_late(old: Path, new: Path, known: Mapping[Path, Identity]) -> None:
    """Move into the new folder what came into the old one after it was copied.

    A file that both have changed gets a free name beside the new one.
    """
    for place, found in list(_files(old)):
        if known.get(place) == found:
            continue
        name = new / place
        make_folder(name.parent)
        if identity(name) in (None, known.get(place)):
            (old / place).replace(name)
        else:
            rename_aside(old / place, name)
        sync(name.parent)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # no links on this file system, or to files of others
        shutil.copy2(source, target)


def _is_ours(folder: Path, marker: str | None) -> bool:
    return folder.is_dir() and (marker is None or (folder / marker).is_file())


def _exchanged(part: Path, place: Path, earlier: Identity, marker: str | None) -> bool:
    """Exchange a folder with the earlier one and remove that; False if it is another by now."""
    with folder_lock(place):
        if identity(place) != earlier or not _is_ours(place, marker):
            return False
        exchange(part, place)
        if identity(part) != earlier:
            exchange(part, place)  # it was replaced between the look and the exchange
            return False
        sync(place.parent)
        return True


def _give_name(part: Path, place: Path, *, overwrite: bool = False) -> None:
    """Give a finished file or folder its name; raise TracekitError when somebody else has it.

    `overwrite` lets a file replace a file.
    """
    try:
        part.replace(place) if overwrite else rename_new(part, place)
    except (FileExistsError, IsADirectoryError):
        kept = rename_aside(part, place)
        sync(place.parent)
        raise TracekitError(
            f"{place} was made by somebody else meanwhile: it stays, and the result is {kept}",
            hint="rename the result, or run the command again",
        ) from None
    sync(place.parent)


@contextmanager
def beside(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary file name beside `path`, renamed to `path` when the block succeeds.

    The file is on the disk before it has the name. Without `overwrite` a file that is there stays:
    UsageError at the start; if somebody makes one meanwhile, ours gets a free name beside it, which
    the error says. What is no file, such as /dev/null or a pipe, is written to at the end and stays
    what it is; a disk is a UsageError.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    refuse_taken(path, overwrite=overwrite)
    if path.is_char_device() or path.is_fifo():
        with tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
            yield Path(folder) / path.name
            with (Path(folder) / path.name).open("rb") as whole, path.open("wb") as out:
                shutil.copyfileobj(whole, out)
        return
    place = _resolved(path)
    touch = partial(Path.touch, exist_ok=False)
    with folder_for(place), named_for(place), _claimed(place, touch) as part:
        yield part
        hand_over(part)
        sync(part)
        _give_name(part, place, overwrite=overwrite)


def refuse_taken(path: Path, *, overwrite: bool, name: str = "", can_force: bool = True) -> None:
    """Raise UsageError for an output that is a disk or a folder, or a file that is to stay.

    A command asks before it begins, and the kernel refuses what comes later. `name` suggests a file
    in the folder, `can_force` whether the command has --force.
    """
    if path.is_block_device():
        raise UsageError(f"{path} is a disk, not a file", hint="write to a file")
    if path.is_dir():
        hint = f"write to {path / name}" if name else "name a file in it"
        raise UsageError(f"{path} is a folder, not a file", hint=hint)
    if path.is_file() and not overwrite:
        hint = f"choose another --output{' or pass --force' if can_force else ''}"
        raise UsageError(f"{path} exists already", hint=hint)


def _resolved(path: Path) -> Path:
    """Return where an output goes through links; one in a trace folder must not leave that."""
    if is_url(path):
        raise UsageError(
            f"{path}: this is written to a file or folder of this machine",
            hint="name one; a trace folder is then copied there by: tracekit set add URL TRACE",
        )
    real, plain = os.path.realpath(path), os.path.abspath(path)
    if real == plain:
        return path
    for folder in Path(plain).parents:
        is_trace = (folder / INFO_NAME).is_file()
        if is_trace and not Path(real).is_relative_to(os.path.realpath(folder)):
            raise UsageError(
                f"{path} leads out of the trace folder {folder}: to {real}", hint="remove the link"
            )
    return Path(real)


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path` that is gone when the block ends."""
    with _claimed(path, Path.mkdir) as part, unsynced(part):
        yield part


def left_behind(path: Path) -> Iterator[Path]:
    """Yield what killed processes of this user left beside `path`, while nobody else may take it.

    That is what was not finished, and what was replaced; all that is finished has another name.
    """
    name = re.compile(rf"\.{re.escape(path.name)}\.tracekit-\d+-[0-9a-f]{{8}}")
    for stale in sorted(path.parent.glob(f".{glob.escape(path.name)}.tracekit-*")):
        if name.fullmatch(stale.name):
            with suppress(OSError), _abandoned(stale):
                yield stale


def unfinished(path: Path, name: str) -> list[Path]:
    """Return the folders that killed processes left beside `path` with this file, latest last."""
    return _left_with(_resolved(path), name)


def _left_with(place: Path, name: str) -> list[Path]:
    left = (folder for folder in left_behind(place) if (folder / name).is_file())
    return sorted(left, key=lambda folder: (folder / name).stat().st_mtime_ns)


@contextmanager
def _claimed(
    path: Path,
    make: Callable[[Path], None],
    earlier: Identity | None = None,
    *,
    spared: str | None = None,
) -> Iterator[Path]:
    """Yield a new temporary name beside `path`, which is gone when the block ends.

    A lock on what it names shows that its process lives; what a killed one left beside the same
    path is removed first, unless it has the `spared` file. A folder under the name that is not the
    new one, nor the `earlier` one that was replaced, is not ours to remove.
    """
    for stale in left_behind(path):
        if spared is None or not (stale / spared).is_file():
            with suppress(OSError):
                _remove(stale)
    part, lock = _claim(path, make)
    ours = (_identity_of(lock), earlier)
    try:
        yield part
    finally:
        os.close(lock)
        if not part.is_dir() or identity(part) in ours:
            _remove(part)


def _claim(path: Path, make: Callable[[Path], None]) -> tuple[Path, int]:
    """Make a temporary name beside `path`; return it and the descriptor that holds its lock."""
    while True:
        part = path.with_name(f".{path.name}.tracekit-{os.getpid()}-{secrets.token_hex(4)}")
        make(part)
        try:
            lock = os.open(part, os.O_RDONLY | os.O_NOFOLLOW)
            # Without locks, as on some network file systems, nothing is taken for left behind.
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_SH)
            if part.exists():
                return part, lock
            os.close(lock)
        except FileNotFoundError:
            pass
        except KeyboardInterrupt:
            _remove(part)
            raise
        # Somebody who was cleaning up took it for left behind before it was locked.


@contextmanager
def _abandoned(path: Path) -> Iterator[None]:
    """Hold the lock on a file or folder of this user; OSError when it is not, or is in use."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(fd)
        is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
        if found.st_uid != os.geteuid() or not is_plain:
            raise PermissionError(errno.EPERM, "not ours", str(path))
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)


def _identity_of(number: int) -> Identity:
    found = os.fstat(number)
    return found.st_dev, found.st_ino


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any, *, overwrite: bool = True) -> None:
    """Write JSON, indented and in the given key order, replacing the file in one step."""
    with beside(path, overwrite=overwrite) as part:
        part.write_text(_json_text(value))


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_results(
    folder: TraceFolder, place: str, *, result: Any, tables: Mapping[str, Any]
) -> None:
    """Write the tables of a stage by name, and its result, a Record or a dict, as JSON at `place`.

    The options of the stage's command and what it was made from are kept with it, see `origin`.

    All get their names when all are written, the JSON last: each is the old or the new one whole,
    and a new result never stands beside old tables.
    """
    with ExitStack() as stack:
        # What is entered first gets its name last.
        text = stack.enter_context(beside(folder.file(place)))
        content = to_builtins(result)
        made = of_result(folder.path, place, info=folder.content, result=content)
        text.write_text(_json_text({**content, **made}))
        for name, table in tables.items():
            part = stack.enter_context(beside(folder.table(name)))
            _write_parquet(part, table.to_batches(), schema=table.schema)


def write_table(path: Path, table: Any) -> None:
    """Write one Arrow table as Parquet, replacing the file in one step."""
    write_batches(path, table.to_batches(), schema=table.schema)


def write_batches(
    path: Path,
    batches: Iterable[Any],
    *,
    schema: Any,
    on_rows: Callable[[int], None] | None = None,
    overwrite: bool = True,
) -> int:
    """Stream record batches into one zstd Parquet file and return the number of rows.

    Rows are gathered into row groups of about a million; `on_rows` gets each batch's rows.
    The dictionaries of text columns may differ from batch to batch.
    """
    with beside(path, overwrite=overwrite) as part:
        return _write_parquet(part, batches, schema=schema, on_rows=on_rows)


def write_on(
    path: Path, batches: Iterable[Any], *, schema: Any, written: Written | None = None
) -> int:
    """Stream record batches into a file of an unfinished folder; return the number of their rows.

    A function among the batches is called with how far the file is written, when all rows before it
    are on the disk. What was `written` of the file before stays.
    """
    return _write_parquet(path, batches, schema=schema, written=written)


def _write_parquet(
    path: Path,
    batches: Iterable[Any],
    *,
    schema: Any,
    on_rows: Callable[[int], None] | None = None,
    written: Written | None = None,
) -> int:
    total = pending_rows = 0
    pending: list[Any] = []
    with path.open("r+b" if written else "wb") as out:
        file = TableFile(out, schema, options=encodings, written=written)

        def flush(rows: int) -> None:
            table = pa.Table.from_batches(pending, schema)
            file.write(table.slice(0, rows).unify_dictionaries())
            pending[:] = table.slice(rows).to_batches()

        for batch in batches:
            if callable(batch):
                if pending_rows:
                    flush(pending_rows)
                pending_rows = 0
                batch(file.sync())
                continue
            total += batch.num_rows
            pending_rows += batch.num_rows
            pending.append(batch)
            if on_rows is not None:
                on_rows(batch.num_rows)
            while pending_rows >= ROW_GROUP_ROWS:
                flush(ROW_GROUP_ROWS)
                pending_rows -= ROW_GROUP_ROWS
        if pending_rows:
            flush(pending_rows)
        file.finish()
    return total

"""From what the user named to a list of trace files, and what a file is by its first bytes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from tracekit.errors import InputError, MissingError
from tracekit.layout import Layout, read_layout
from tracekit.readers.joined_layouts import joined
from tracekit.safe_open import check_inside

STANDARD_INPUT = Path("-")
LAYOUT_NAME = "layout.json"
MOST_CPUS = 1 << 13
TRACE_NAME = re.compile(r"(?P<stem>.+)\.blktrace\.(?P<cpu>\d+)(\.(gz|xz|zst|bz2))?")

TEXT_NAME = re.compile(r"(?P<stem>.+)\.perf\.txt(\.(gz|xz|zst|bz2))?")
"""What `tracekit capture` keeps with the source perf, and older ones with bpftrace."""

OCTF_NAME = re.compile(r"(?P<stem>octf)\.trace\.(?P<cpu>\d+)(\.(gz|xz|zst|bz2))?")
"""Files of a trace of the Open CAS telemetry framework."""

CPU_NAME = re.compile(r"(?P<stem>.+\.blktrace|octf\.trace)\.(?P<cpu>\d+)(\.(gz|xz|zst|bz2))?")
"""Of a capture that has a file for each CPU."""


def find_files(inputs: Sequence[Path]) -> list[Path]:
    """Return the trace files that the inputs name: a file is itself, a folder its *.blktrace.*.

    A folder of a capture with perf has one *.perf.txt in their place, one of an OCTF
    trace its octf.trace.*. Raise InputError for what does not exist, a folder without a trace or
    with a link or pipe in the place of one, or a file given twice.
    """
    found: list[Path] = []
    for path in inputs:
        if path != STANDARD_INPUT and not path.exists():
            raise MissingError(path)
        found += _folder_files(path) if path.is_dir() else [path]
    _reject_same(found)
    return found


def _folder_files(folder: Path) -> list[Path]:
    texts = sorted(path for path in folder.iterdir() if TEXT_NAME.fullmatch(path.name))
    one_text = texts if len(texts) == 1 else []
    found = _by_cpu(folder, TRACE_NAME) or one_text or _by_cpu(folder, OCTF_NAME)
    if not found:
        raise InputError(
            f"{folder}: there is no trace in this folder, that is, no file NAME.blktrace.CPU",
            hint="name the trace files themselves, or make a trace with: tracekit capture",
        )
    return [check_inside(folder, path.name) for path in found]


def _by_cpu(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """Return the files whose names match, sorted by stem and CPU."""
    found = [(match, path) for path in folder.iterdir() if (match := pattern.fullmatch(path.name))]
    found.sort(key=lambda one: (one[0]["stem"], int(one[0]["cpu"]), one[1]))
    return [path for _, path in found]


def absent_cpus(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the CPUs below others whose file is missing; one without events has a file.

    They are those of the files of each stem, as in STEM.3.
    """
    cpus: dict[str, set[int]] = {}
    for name in names:
        if match := CPU_NAME.fullmatch(Path(name).name):
            cpus.setdefault(match["stem"], set()).add(int(match["cpu"]))
    return {
        stem: sorted(set(range(min(max(found), MOST_CPUS))) - found) for stem, found in cpus.items()
    }


def unread_cpus(files: Sequence[Path]) -> list[str]:
    """Return the files of other CPUs that lie beside those of a trace and are not among them."""
    given: dict[tuple[Path, str], set[str]] = {}
    for path in files:
        if match := CPU_NAME.fullmatch(path.name):
            given.setdefault((path.parent, match["stem"]), set()).add(match["cpu"])
    return [
        path.name
        for (folder, stem), cpus in given.items()
        for path in _by_cpu(folder, CPU_NAME)
        if (match := CPU_NAME.fullmatch(path.name))
        and match["stem"] == stem
        and match["cpu"] not in cpus
    ]


def _reject_same(files: Sequence[Path]) -> None:
    seen: dict[tuple[int, int], Path] = {}
    for path in files:
        if path == STANDARD_INPUT:
            key = (0, 0)
        else:
            info = path.stat()
            key = (info.st_dev, info.st_ino)
            if stat.S_ISDIR(info.st_mode):
                raise InputError(f"{path}: this is a folder, not a trace file", hint="name a file")
        if key in seen:
            raise InputError(
                f"{path}: this file was given twice, also as {seen[key]}",
                hint="name each file of the trace once",
            )
        seen[key] = path


def layout_of(inputs: Sequence[Path], given: Path | None) -> Layout:
    """Return the layout in the given file, else what those beside the inputs say together."""
    if given is not None:
        return read_layout(given)
    named = [path for path in inputs if path != STANDARD_INPUT]
    folders = {(path if path.is_dir() else path.parent).resolve(): path for path in named}
    files = [_file_with(path, LAYOUT_NAME) for path in folders.values()]
    return joined([read_layout(file) if file else Layout() for file in files] or [Layout()])


def file_beside(inputs: Sequence[Path], name: str) -> Path | None:
    """Return the first file of this name in a folder that is an input, or beside an input."""
    named = (path for path in inputs if path != STANDARD_INPUT)
    return next(filter(None, (_file_with(path, name) for path in named)), None)


def _file_with(path: Path, name: str) -> Path | None:
    if path.is_dir():
        return check_inside(path, name) if os.path.lexists(path / name) else None
    file = path.with_name(name)
    return file if file.is_file() else None


def default_output(inputs: Sequence[Path]) -> Path:
    """Return a folder name in the working folder, made from the first input's name."""
    first = inputs[0]
    if first == STANDARD_INPUT:
        return Path("trace")
    match = TRACE_NAME.fullmatch(first.name)
    stem = match["stem"] if match else first.resolve().name.split(".")[0]
    return Path(f"{stem or 'capture'}-trace")


BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLKTRACE = {bytes(order) for version in (7, 8) for order in (
    [version, 0x74, 0x61, 0x65], [0x65, 0x61, 0x74, version])}  # fmt: skip
UNPACK = "unpack it, and import the file in it"
OTHERS = (
    (0, b"PK\x03\x04", "a zip archive", UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (0, b"Rar!", "a rar archive", UNPACK),
    (257, b"ustar", "a tar archive", "import the file in it: tar -xOf FILE | tracekit import -"),
    (0, b"\x04\x22\x4d\x18", "compressed by lz4", "run: lz4 -dc FILE | tracekit import -"),
    (0, b"\x1f\x9d", "compressed by compress", "run: zcat FILE | tracekit import -"),
    (0, b"PERFILE2", "a recording of perf", "run: perf script --ns -i FILE | tracekit import -"),
    (0, b"\x17\x08\x44tracing", "a recording of trace-cmd",
     "run: trace-cmd report FILE | tracekit import -"),
    *((0, magic, "compressed twice", "unpack it once: gzip -dc, xz -dc, zstd -dc or bzip2 -dc")
      for magic in (b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")),
    (0, b"PAR1", "a Parquet file", "write it as CSV, and name the columns with --columns"),
    (0, b"SQLite format 3\0", "a database", "write a table as CSV, and name its --columns"),
    (0, b"\xff\xfe", "a text in UTF-16", "run: iconv -f UTF-16 -t UTF-8 FILE | tracekit import -"),
    (0, b"\xfe\xff", "a text in UTF-16", "run: iconv -f UTF-16 -t UTF-8 FILE | tracekit import -"),
)  # fmt: skip
"""Place and bytes of the sign, what the file is, and what to do with it."""
PRINTABLE = bytes(range(32, 127)) + b"\t\r\n"
FEWEST_LETTERS = 32
UTF16 = [f"run: iconv -f UTF-16{end} -t UTF-8 FILE | tracekit import -" for end in ("LE", "BE")]
"""Without a mark: of which order the text is, by the place of its letters."""


def readable_head(head: bytes, name: str) -> bytes:
    """Return a file's first bytes without a mark of UTF-8; raise InputError for what must be made
    readable first.
    """
    for place, sign, what, hint in OTHERS:
        if head[place:].startswith(sign):
            raise InputError(f"{name}: {what}, not the trace itself", hint=hint)
    for first, other in ((0, 1), (1, 0)):
        if len(head) >= FEWEST_LETTERS and not any(head[other::2]) and _is_text(head[first::2]):
            raise InputError(f"{name}: a text in UTF-16, not the trace itself", hint=UTF16[first])
    if b"\n" not in head and b"\r" in head and _is_text(head):
        hint = "run: tr '\\r' '\\n' < FILE | tracekit import -"
        raise InputError(f"{name}: its lines end with CR alone", hint=hint)
    return head.removeprefix(BYTE_ORDER_MARK)


def _is_text(head: bytes) -> bool:
    return not head.strip(PRINTABLE)


def is_blktrace(head: bytes) -> bool:
    """Say whether a file that begins so is a capture of blktrace, of either byte order."""
    return head[:4] in BLKTRACE

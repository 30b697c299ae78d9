"""Which file has which blocks of an image or device that is not mounted, by the tools for it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tracekit.errors import InputError, MissingError
from tracekit.helper_programs import find_helper, run_helper
from tracekit.metadata import Region
from tracekit.stack.mounts import read_mounts
from tracekit.stack.signatures import read_signature
from tracekit.units import SECTOR_BYTES

AT_ONCE = 2000
"""Inodes that a program is asked for at one time."""
HINT = "an image or device with one ext4 or XFS, that is, of the partition"
_EXT_NAME = re.compile(r"^/(\d+)/(\d+)/\d+/\d+/(.*)/\d*/$")
_EXT_COMMAND = re.compile(r"^debugfs:\s+(?:ls -p|stat) <(\d+)>$")
_EXT_EXTENT = re.compile(r"\((\d+)(?:\[u\])?(?:-(\d+)(?:\[u\])?)?\):(\d+)(?:-\d+)?")
_XFS_NAME = re.compile(r"^\d+\s+(\d+)\s+(\w+)\s+0x\w+\s+\d+ (.*) \((?:good|corrupt)\)$")
_XFS_INODE = re.compile(r"^current inode number is (\d+)$")
_XFS_EXTENT = re.compile(r"data offset (\d+) startblock \d+ \((\d+)/(\d+)\) count (\d+)")
Run = tuple[int, int, int]
"""Place in the file, first sector of the file system, and sectors."""


@dataclass(frozen=True)
class _Entry:
    inode: int
    name: str
    is_folder: bool


@dataclass(frozen=True)
class Reader:
    """How the files of a kind of file system are listed."""

    program: str
    root: int
    entries: Callable[[Path, Sequence[int]], Iterator[tuple[int, _Entry]]]
    """Given an image and inodes of folders, what is in which of them."""
    runs: Callable[[Path, Sequence[int]], Iterator[tuple[int, Run]]]
    """Given an image and inodes of files, where each lies."""


def read_image(image: Path, regions: Sequence[Region]) -> list[tuple[str, int, int, str, int]]:
    """Return device, first sector, sectors, path and place in the file of what an image has.

    Where the image is in the trace is known by its UUID in the layout. InputError says why not.
    """
    try:
        found = read_signature(image)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingError(image, hint=HINT) from None
    except OSError as error:
        raise InputError(f"{image}: cannot be read: {error.strerror}", hint=HINT) from None
    if found is None or found.kind not in ("ext4", "xfs"):
        raise InputError(f"{image}: holds {found.kind if found else 'no'} file system", hint=HINT)
    places = [one for one in regions if one.uuid == found.uuid and one.role == "fs"]
    if len(places) != 1:
        raise InputError(
            f"{image}: a file system that the trace's layout has {len(places)} times"
            f" ({found.uuid})",
            hint="the image must be of the traced disk, and lie there in one piece",
        )
    reader = _xfs(image) if found.kind == "xfs" else EXT4
    if find_helper(reader.program) is None:
        raise InputError(f"{reader.program} is missing", hint="install e2fsprogs or xfsprogs")
    device, start = places[0].device, places[0].start_sector
    mount = (places[0].mount or "").rstrip("/")
    paths = _paths(image, reader, mount)
    return [
        (device, start + first, sectors, paths[inode], place)
        for part in _parts(list(paths))
        for inode, (place, first, sectors) in reader.runs(image, part)
    ]


def is_mounted(image: Path) -> bool:
    """Whether a device, or a loop device of an image, is mounted: it may lack what is new."""
    info = image.stat()
    numbers = {f"{os.major(info.st_rdev)},{os.minor(info.st_rdev)}"}
    if not stat.S_ISBLK(info.st_mode):
        numbers = set()
        for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
            with suppress(OSError):
                if Path(backing.read_text().strip()).samefile(image):
                    disk = backing.parents[1]
                    devices = (disk / "dev", *disk.glob("loop*/dev"))
                    numbers |= {one.read_text().strip().replace(":", ",") for one in devices}
    return any(one.device in numbers for one in read_mounts())


def _paths(image: Path, reader: Reader, mount: str) -> dict[int, str]:
    """Return the paths of all files by their inodes, the first one of those with several."""
    folders, files = {reader.root: mount}, dict[int, str]()
    waiting = [reader.root]
    while waiting:
        level, waiting = waiting, []
        for part in _parts(level):
            for folder, entry in reader.entries(image, part):
                path = f"{folders[folder]}/{entry.name}"
                if not entry.is_folder:
                    files.setdefault(entry.inode, path)
                elif entry.name not in (".", "..") and entry.inode not in folders:
                    folders[entry.inode] = path
                    waiting.append(entry.inode)
    return files


def _parts(inodes: Sequence[int]) -> Iterator[list[int]]:
    left = iter(inodes)
    while part := list(islice(left, AT_ONCE)):
        yield part


def _asked(words: Sequence[str], commands: Sequence[str]) -> list[str]:
    text = "".join(f"{one}\n" for one in commands)
    done = run_helper(words, input=text, capture_output=True, text=True, errors="backslashreplace")
    if done.returncode:
        raise InputError(f"{words[0]}: {done.stderr.strip()}", hint=HINT)
    return list(done.stdout.splitlines())


def _debugfs(image: Path, command: str, inodes: Sequence[int]) -> Iterator[tuple[int, str]]:
    words = ["debugfs", "-f", "-", str(image)]
    inode = 0
    for line in _asked(words, [f"{command} <{one}>" for one in inodes]):
        if match := _EXT_COMMAND.match(line):
            inode = int(match[1])
        else:
            yield inode, line


def _ext4_entries(image: Path, folders: Sequence[int]) -> Iterator[tuple[int, _Entry]]:
    for folder, line in _debugfs(image, "ls -p", folders):
        match = _EXT_NAME.match(line)
        if match and match[2].startswith(("04", "10")) and int(match[1]):
            yield folder, _Entry(int(match[1]), match[3], match[2].startswith("04"))


def _ext4_runs(image: Path, files: Sequence[int]) -> Iterator[tuple[int, Run]]:
    (size,) = {
        int(line.split()[-1])
        for line in _asked(["debugfs", "-f", "-", str(image)], ["stats -h"])
        if line.startswith("Block size:")
    }
    scale = size // SECTOR_BYTES
    for inode, line in _debugfs(image, "stat", files):
        for first, last, block in _EXT_EXTENT.findall(line):
            count = int(last or first) - int(first) + 1
            yield inode, (int(first) * scale, int(block) * scale, count * scale)


EXT4 = Reader("debugfs", 2, _ext4_entries, _ext4_runs)


def _xfs_lines(image: Path, command: str, inodes: Sequence[int]) -> Iterator[tuple[int, str]]:
    commands = [word for one in inodes for word in (f"inode {one}", "inode", command)]
    number = 0
    for line in _asked(["xfs_db", "-r", str(image)], commands):
        text = line.removeprefix("xfs_db> ")
        while text.startswith("xfs_db> "):
            text = text.removeprefix("xfs_db> ")
        if match := _XFS_INODE.match(text):
            number = int(match[1])
        else:
            yield number, text


def _xfs_entries(image: Path, folders: Sequence[int]) -> Iterator[tuple[int, _Entry]]:
    for folder, line in _xfs_lines(image, "ls", folders):
        match = _XFS_NAME.match(line)
        if match and match[2] in ("regular", "directory"):
            yield folder, _Entry(int(match[1]), match[3], match[2] == "directory")


def _xfs(image: Path) -> Reader:
    lines = _asked(
        ["xfs_db", "-r", "-c", "sb 0", "-c", "p blocksize agblocks rootino", str(image)], []
    )
    numbers = {name: int(value) for name, _, value in (line.partition(" = ") for line in lines)}
    scale = numbers["blocksize"] // SECTOR_BYTES

    def runs(image: Path, files: Sequence[int]) -> Iterator[tuple[int, Run]]:
        for inode, line in _xfs_lines(image, "bmap", files):
            for offset, group, block, count in _XFS_EXTENT.findall(line):
                first = (int(group) * numbers["agblocks"] + int(block)) * scale
                yield inode, (int(offset) * scale, first, int(count) * scale)

    return Reader("xfs_db", numbers["rootino"], _xfs_entries, runs)

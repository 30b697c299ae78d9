"""Loop devices for the tests that need root; every one is detached again."""

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


def call(*command: str | Path, text: str = "") -> str:
    """Run a command that must succeed and return what it printed."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout.strip()


def image(path: Path, *, mib: int = 16) -> Path:
    """Make a sparse file."""
    path.write_bytes(b"")
    os.truncate(path, mib << 20)
    return path


@contextmanager
def small_file_system(place: Path, *, mib: int = 4) -> Iterator[Path]:
    """Yield a new directory that holds so many MiB and no more."""
    place.mkdir()
    try:
        call("mount", "-t", "tmpfs", "-o", f"size={mib}m", "none", place)
    except AssertionError as error:
        pytest.skip(f"needs tmpfs: {error}")
    try:
        yield place
    finally:
        call("umount", place)


def fill(file: Path) -> None:
    """Write to a file until its file system is full."""
    with suppress(OSError), file.open("ab", buffering=0) as out:
        while out.write(bytes(4096)):
            pass


@contextmanager
def loop(backing: Path, *options: str) -> Iterator[Path]:
    """Yield a loop device on the file."""
    try:
        device = call("losetup", *options, "--find", "--show", backing)
    except (AssertionError, FileNotFoundError) as error:
        pytest.skip(f"needs loop devices: {error}")
    try:
        yield Path(device)
    finally:
        call("losetup", "--detach", device)


@contextmanager
def mounted(device: Path, place: Path, *options: str) -> Iterator[Path]:
    """Mount a device that holds a file system."""
    place.mkdir()
    call("mount", *options, device, place)
    try:
        yield place
    finally:
        call("umount", place)


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Fail when a byte of the file has changed."""
    os.sync()
    before = digest(path)
    yield
    os.sync()
    assert digest(path) == before


def digest(path: Path) -> str:
    """Return a hash of all bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def token_of(device: Path) -> str:
    """Return what confirms a loop device or a partition of one, from the kernel's own files."""
    numbers = os.stat(device).st_rdev
    number = f"{os.major(numbers)}:{os.minor(numbers)}"
    place = Path("/sys/dev/block") / number
    sectors = (place / "size").read_text().strip()
    loop_folder = (place.resolve().parent if (place / "partition").exists() else place) / "loop"
    backing = Path((loop_folder / "backing_file").read_text().rstrip("\n"))
    parts = "+".join((loop_folder / name).read_text().strip() for name in ("offset", "sizelimit"))
    found = backing.stat()
    if stat.S_ISBLK(found.st_mode):
        return f"{number}:{sectors}@{token_of(backing)}+{parts}"
    born_ns = call("stat", "-c", "%.9W", backing).replace(".", "").lstrip("0") or "0"
    where = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}:{found.st_ino}"
    return f"{number}:{sectors}@{where}:{born_ns}:{found.st_size}+{parts}"

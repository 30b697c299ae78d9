"""A loop disk with three partitions: file system, external journal, swap.

It is the disk of the study that asks where a small NVM belongs. The swap partition is made and
never switched on.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

SECTORS_PER_MIB = 2048


@dataclass(frozen=True)
class Sizes:
    """Sizes of the three partitions, in MiB."""

    fs_mib: int
    journal_mib: int
    swap_mib: int

    def table(self) -> str:
        """Return the partition table as sfdisk reads it."""
        starts, at = [], 1
        for size in (self.fs_mib, self.journal_mib, self.swap_mib):
            starts.append(f"start={at * SECTORS_PER_MIB}, size={size * SECTORS_PER_MIB}")
            at += size
        return "label: gpt\n" + "\n".join(starts) + "\n"

    @property
    def total_bytes(self) -> int:
        """Return the size of the disk; a MiB at each end is for the partition table."""
        return (2 + self.fs_mib + self.journal_mib + self.swap_mib) << 20


def run(*command: str, text: str | None = None) -> str:
    """Run a program and return what it printed; its complaint is in the error when it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def loop_disk(image: Path, size_bytes: int) -> Iterator[str]:
    """Yield a loop device over a new file; both are gone afterwards.

    Direct I/O, so that a request reaches the disk below and its latency is real.
    """
    with ExitStack() as undo:
        with image.open("xb") as file:
            undo.callback(image.unlink)
            os.posix_fallocate(file.fileno(), 0, size_bytes)
        device = run("losetup", "--find", "--show", "--direct-io=on", str(image))
        undo.callback(_retry, "losetup", "--detach", device)
        yield device


@contextmanager
def three_role_disk(image: Path, sizes: Sizes) -> Iterator[str]:
    """Yield a loop device with an ext4, its external journal and a swap area; not mounted."""
    with loop_disk(image, sizes.total_bytes) as device, ExitStack() as undo:
        # The kernel may lack a scanner for partition tables: partx tells it what is there, also
        # where a device before this one left its partitions.
        run("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", device, text=sizes.table())
        run("partx", "--update", device)
        undo.callback(_retry, "partx", "--delete", device)
        run("mkfs.ext4", "-q", "-O", "journal_dev", "-b", "4096", f"{device}p2")
        # No lazy initialization: it would write in the background during a capture.
        options = f"-q -b 4096 -E lazy_itable_init=0 -J device={device}p2"
        run("mkfs.ext4", *options.split(), f"{device}p1")
        run("mkswap", f"{device}p3")
        yield device


@contextmanager
def mounted(device: str, point: Path) -> Iterator[Path]:
    """Mount a device on a new folder, and undo both."""
    point.mkdir()
    try:
        run("mount", device, str(point))
        try:
            yield point
        finally:
            _retry("umount", str(point))
    finally:
        point.rmdir()


def _retry(*command: str) -> None:
    """Run an undoing command, again for a while when the device is still busy."""
    for attempt in range(50):
        try:
            run(*command)
        except RuntimeError:
            if attempt == 49:
                raise
            time.sleep(0.1)
        else:
            return

"""An ext4 whose power can be cut at any call: what is in memory alone is lost."""

import errno
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.replay.disk import call, image, loop, mounted

SHUT_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN, which xfstests use for this; before it the log is written, or nothing."""
LOG_ONLY, NOTHING = 1, 2
MIB = 1024
MOST_BUSY_S = 20.0
# Nothing reaches the disk by itself: no data before a commit or a rename, no commit for an hour.
STRICT = "data=writeback,noauto_da_alloc,commit=3600"


@dataclass
class Ext4:
    """A mounted file system on a loop device."""

    device: Path
    place: Path

    def lose_power(self, kept: int) -> None:
        """Cut the power: `kept` is LOG_ONLY or NOTHING of what is in memory."""
        number = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(number, SHUT_DOWN, struct.pack("=I", kept))
        finally:
            os.close(number)

    def start_again(self) -> None:
        """Mount what is on the disk, whose log is replayed."""
        end_s = time.monotonic() + MOST_BUSY_S
        # The kernel ends the rings of a killed process behind its back.
        while subprocess.run(["umount", self.place], capture_output=True, check=False).returncode:
            assert time.monotonic() < end_s, f"{self.place} stays in use"
            time.sleep(0.05)
        # A process in a mount namespace of its own may still have it mounted.
        while not self._is_free():
            assert time.monotonic() < end_s, f"{self.device} stays mounted elsewhere"
            time.sleep(0.05)
        call("mount", "-o", STRICT, self.device, self.place)

    def _is_free(self) -> bool:
        try:
            os.close(os.open(self.device, os.O_RDONLY | os.O_EXCL))
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            raise
        return True

    def sync(self) -> None:
        """Write all that is in memory."""
        call("sync", "-f", self.place)


@contextmanager
def file_system(folder: Path) -> Iterator[Ext4]:
    """Yield a new ext4, or skip where none can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a file system")
    with loop(image(folder / "image", mib=MIB)) as device:
        call("mke2fs", "-q", "-t", "ext4", "-J", "size=8", device)
        with mounted(device, folder / "disk", "-o", STRICT) as place:
            yield Ext4(device, place)

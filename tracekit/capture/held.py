"""What a capture holds in the kernel beside settings: a mount of debugfs, a blktrace(8) trace."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tracekit.capture.mounts import read_mounts
from tracekit.errors import TracekitError

DEBUGFS = Path("/sys/kernel/debug")
PATIENCE_S = 3.0
# include/uapi/linux/fs.h
_BLKTRACESTART = 0x1274
_BLKTRACESTOP = 0x1275
_BLKTRACETEARDOWN = 0x1276


def mounted_debugfs() -> Path | None:
    """Return where debugfs is mounted, or None."""
    points = [Path(mount.point) for mount in read_mounts() if mount.filesystem == "debugfs"]
    return points[-1] if points else None


def mount_debugfs() -> None:
    """Mount debugfs at its usual place; raise TracekitError with the reason when it cannot be."""
    command = ["mount", "-t", "debugfs", "debugfs", str(DEBUGFS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TracekitError(f"debugfs cannot be mounted: {done.stderr.strip()}")


def unmount(point: str) -> None:
    """Take a mount away; one that another program uses by now is left to it."""
    subprocess.run(["umount", point], capture_output=True, check=False)


@contextmanager
def debugfs() -> Iterator[Path]:
    """Yield where debugfs is mounted; where it is not, mount it for that long."""
    folder = mounted_debugfs()
    if folder is not None:
        yield folder
        return
    mount_debugfs()
    try:
        yield DEBUGFS
    finally:
        unmount(str(DEBUGFS))


def tear_down(device: str) -> None:
    """End a trace of the device that no blktrace(8) is left to end.

    One that lives, also after a while, is somebody's own and is not touched.
    """
    end_s = time.monotonic() + PATIENCE_S
    while tracers(device):
        if time.monotonic() > end_s:
            return
        time.sleep(0.02)
    if not _is_traced(device):
        return
    disk = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        end_trace(disk)
    finally:
        os.close(disk)


def begin_trace(device: str) -> None:
    """Let the trace run that blktrace(8) has set up; afterwards it runs, whoever was first."""
    disk = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _control(disk, _BLKTRACESTART)
    finally:
        os.close(disk)


def end_trace(disk: int) -> None:
    """Stop and remove the kernel's trace of an open disk, whether or not it runs."""
    for request in (_BLKTRACESTOP, _BLKTRACETEARDOWN):
        _control(disk, request)


def _control(disk: int, request: int) -> None:
    try:
        fcntl.ioctl(disk, request)
    except OSError as error:
        if error.errno != errno.EINVAL:  # it is in that state already
            raise


def held_by_probes(devices: list[str]) -> list[tuple[str, str]]:
    """Return what looking for a source holds in the kernel for a moment, as `LET_GO` knows it."""
    mount = [] if mounted_debugfs() else [("mount", str(DEBUGFS))]
    return mount + [("trace", device) for device in devices if not _is_traced(device)]


def _is_traced(device: str) -> bool:
    enable = Path("/sys/block") / Path(device).name / "trace/enable"
    return enable.read_text().strip() != "0"


def tracers(device: str) -> list[int]:
    """Return the processes of blktrace(8) that trace the device."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if Path(os.fsdecode(words[0])).name == "blktrace" and os.fsencode(device) in words:
            found.append(int(path.parent.name))
    return found


LET_GO: dict[str, Callable[[str], None]] = {"mount": unmount, "trace": tear_down}
"""How each sort of thing that is held is let go, by its name in the state file."""

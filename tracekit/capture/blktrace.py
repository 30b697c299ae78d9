"""blktrace(8) with its relay buffers: changes no setting, names every process."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tracekit.capture.kernel_state import (
    DEBUGFS,
    Settings,
    begin_trace,
    debugfs,
    end_trace,
    mount_debugfs,
    mounted_debugfs,
    open_disk,
)
from tracekit.capture.recording import CaptureFiles, CaptureFolder, write_relayed
from tracekit.capture.tracefs import online_cpus, read_setting
from tracekit.errors import TracekitError

REMEDY = "apt install blktrace, run as root, on a kernel that is not locked down"
START_S = 20.0
STOP_S = 120.0
ASK_AGAIN_S = 5.0
POLL_S = 0.02
MOST_BUFFER_KIB = 512
LEAST_BUFFERS = 4
_TOTAL = re.compile(r"^=== (\S+) ===$.*?^\s*Total:\s+\d+ events \(dropped (\d+)\)", re.M | re.S)
# blktrace goes on when its trace runs already.
_NO_REASON = ("===", "CPU", "Total:", "BLKTRACESTART")
# include/uapi/linux/blktrace_api.h: name, act_mask, buf_size, buf_nr, start_lba, end_lba, pid
_BLKTRACESETUP = 0xC0481273
_SETUP = struct.Struct("@32sHIIQQI4x")


class Blktrace:
    """Record disks with blktrace(8); a `Source`."""

    name = "blktrace"

    def __init__(
        self, disks: Sequence[Path], spool: Path, *, settings: Settings, buffer_kib: int
    ) -> None:
        """Prepare to trace `disks`, folders in /sys/block, into files in the folder `spool`."""
        self._disks = disks
        self._devices = [f"/dev/{disk.name}" for disk in disks]
        self._folder, self._log = spool / "relay", spool / "relay.log"
        self._settings = settings
        self._buffer_kib = buffer_kib
        self._running: subprocess.Popen[bytes] | None = None
        self._seen_bytes = 0

    def start(self) -> None:
        """Begin to record, or raise TracekitError when blktrace does not."""
        folder = mounted_debugfs()
        if folder is None:
            folder = DEBUGFS
            self._settings.hold("mount", str(folder))
            mount_debugfs()
        for device in self._devices:
            self._settings.hold("trace", device)
        self._folder.mkdir()
        size_kib = min(MOST_BUFFER_KIB, self._buffer_kib // LEAST_BUFFERS)
        buffers = ("-b", str(size_kib), "-n", str(self._buffer_kib // size_kib))
        files = ("-r", str(folder), "-D", str(self._folder))
        # It ends its trace in order when this process dies, also by SIGKILL.
        command = ["setpriv", "--pdeathsig", "INT", "blktrace"]
        for device in self._devices:
            command += ["-d", device]
        with self._log.open("wb") as log:
            self._running = subprocess.Popen(
                [*command, *files, *buffers],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        self._wait_until_set_up()
        for device in self._devices:
            begin_trace(device)

    def _wait_until_set_up(self) -> None:
        """Wait until the kernel's buffers are there and each of blktrace's threads has its file."""
        end_s = time.monotonic() + START_S
        wanted = len(online_cpus()) * len(self._disks)
        while len(self._files()) < wanted or not self._are_set_up():
            self._check()
            if time.monotonic() > end_s:
                raise self._failure(f"blktrace did not begin within {START_S:.0f} s")
            time.sleep(POLL_S)

    def _are_set_up(self) -> bool:
        return all(read_setting(disk / "trace/enable") == "1" for disk in self._disks)

    def drain(self) -> int:
        """Return the bytes that blktrace wrote since the last call."""
        self._check()
        before = self._seen_bytes
        # Files are as large as the buffers until the end; what is in them shows in their blocks.
        self._seen_bytes = sum(path.stat().st_blocks * 512 for path in self._files())
        return max(self._seen_bytes - before, 0)

    def stop(self) -> Relayed:
        """Stop recording; blktrace writes the rest. Raise TracekitError when it does not end."""
        running = self._check()
        threads = [int(path.name) for path in Path(f"/proc/{running.pid}/task").iterdir()]
        dropped = self._dropped()
        if not _interrupted(running):
            raise self._failure(f"blktrace did not end within {STOP_S:.0f} s")
        totals = {name: int(lost) for name, lost in _TOTAL.findall(self._log_text())}
        if totals.keys() != dropped.keys():
            raise self._failure(f"blktrace left no whole trace (status {running.returncode})")
        dropped = {name: max(lost, totals[name]) for name, lost in dropped.items()}
        return Relayed(self._folder, self._log, dropped, frozenset(threads))

    def close(self) -> None:
        """End blktrace, whatever state it is in; the settings let go of the kernel's trace."""
        running = self._running
        if running is not None and running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()

    def _check(self) -> subprocess.Popen[bytes]:
        if self._running is None or self._running.poll() is not None:
            raise self._failure("blktrace ended by itself")
        return self._running

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.blktrace.*"))

    def _dropped(self) -> dict[str, int]:
        """Return how many records of each disk the kernel had no room for so far."""
        folder = (mounted_debugfs() or DEBUGFS) / "block"
        counters = {disk.name: folder / disk.name / "dropped" for disk in self._disks}
        return {
            name: int(counter.read_text()) if counter.exists() else 0
            for name, counter in counters.items()
        }

    def _log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _failure(self, what: str) -> TracekitError:
        lines = map(str.strip, self._log_text().splitlines())
        reasons = (line for line in lines if line and not line.startswith(_NO_REASON))
        status = self._running.poll() if self._running else None
        killed = f"by {signal.Signals(-status).name}" if status and status < 0 else ""
        reason = next(reasons, killed or "it gave no reason")
        return TracekitError(f"{what}: {reason}", hint=REMEDY)


def _interrupted(running: subprocess.Popen[bytes]) -> bool:
    """Ask blktrace to end until it does; return whether it did in time.

    A thread that it has just started may not get the first signal.
    """
    for _ in range(round(STOP_S / ASK_AGAIN_S)):
        running.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            running.wait(ASK_AGAIN_S)
            return True
    return False


@dataclass(frozen=True)
class Relayed:
    """What blktrace wrote; a `Recorded`."""

    folder: Path
    log: Path
    dropped: Mapping[str, int]
    """Records that the kernel had no room for, by disk."""
    threads: frozenset[int]
    """Of blktrace itself."""

    def write(self, folder: CaptureFolder) -> CaptureFiles:
        """Write the files of records and layout.json into `folder` and remove the spool files.

        They are NAME.blktrace.CPU, of several disks NAME-DISK.blktrace.CPU.
        """
        by_disk = dict(self.dropped)
        found = write_relayed(
            self.folder, folder, own=self.threads, dropped=tuple(by_disk.values())
        )
        found = replace(found, disks_dropped=tuple(by_disk.items()))
        # The records have the names of their processes.
        folder.finish(found, own_pid=os.getpid(), dropped_by_disk=by_disk)
        shutil.rmtree(self.folder)
        self.log.unlink()
        return found


def why_not(disk: Path | None) -> str | None:
    """Return why blktrace(8) cannot trace `disk`, a folder in /sys/block (None: any), or None.

    For a disk the kernel's trace is set up and its relay file opened, as blktrace would do.
    """
    for program, package in (("blktrace", "blktrace"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian: {package})"
    if disk is None:
        return None
    if read_setting(disk / "trace/enable") != "0":
        return f"{disk.name} is being traced already"
    try:
        with debugfs() as folder:
            return _refusal(disk.name, folder)
    except TracekitError as error:
        return str(error)


def _refusal(name: str, folder: Path) -> str | None:
    relay = folder / "block" / name / "trace0"
    try:
        with open_disk(f"/dev/{name}") as device:
            fcntl.ioctl(device, _BLKTRACESETUP, _SETUP.pack(b"", 0xFFFF, 4096, 2, 0, 0, 0))
            try:
                os.close(os.open(relay, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            finally:
                end_trace(device)
    except PermissionError:
        return f"opening {relay} is not permitted: this kernel is locked down (kernel_lockdown(7))"
    except FileNotFoundError:
        return f"the kernel made no relay file {relay}"
    except OSError as error:
        return f"BLKTRACESETUP of {name}: {error.strerror}"
    return None

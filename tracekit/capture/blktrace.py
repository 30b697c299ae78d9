"""blktrace(8) with its relay buffers: names every process."""

from __future__ import annotations

import fcntl
import re
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracekit.capture import kernel_state as kernel
from tracekit.capture.kernel_state import Settings
from tracekit.capture.programs import STOP_S, Program, ProgramSource
from tracekit.capture.recording import CaptureFiles, CaptureFolder, write_relayed
from tracekit.capture.spool import cut_zeros
from tracekit.capture.tracefs import CGROUP_OPTION, mount, online_cpus, read_setting, tracefs_folder
from tracekit.errors import TracekitError
from tracekit.helper_programs import find_helper, why_missing
from tracekit.units import SECTOR_BYTES

REMEDY = "apt install blktrace, run as root, on a kernel that is not locked down"
START_S = 20.0
ASK_AGAIN_S = 5.0
POLL_S = 0.02
MOST_BUFFER_KIB = 512
LEAST_BUFFERS = 4
_TOTAL = re.compile(r"^=== (\S+) ===$.*?^\s*Total:\s+\d+ events \(dropped (\d+)\)", re.M | re.S)
NO_REASON = "^(===|CPU|Total:|BLKTRACESTART)"
"""Lines of its totals, and of a trace that runs already, with which blktrace goes on."""
# include/uapi/linux/blktrace_api.h: name, act_mask, buf_size, buf_nr, start_lba, end_lba, pid
_BLKTRACESETUP = 0xC0481273
_SETUP = struct.Struct("@32sHIIQQI4x")


class Blktrace(ProgramSource):
    """Record disks with blktrace(8)."""

    name = "blktrace"

    def __init__(
        self, disks: Sequence[Path], spool: Path, *, settings: Settings, buffer_kib: int
    ) -> None:
        """Prepare to trace `disks`, folders in /sys/block, into files in the folder `spool`."""
        program = Program("blktrace", spool / "relay.log", remedy=REMEDY, noise=NO_REASON)
        super().__init__(program, spool / "relay")
        self._disks, self._settings, self._buffer_kib = disks, settings, buffer_kib

    def start(self) -> dict[str, Any]:
        """Begin to record, or raise TracekitError when blktrace does not."""
        folder = kernel.mounted_debugfs()
        if folder is None:
            folder = kernel.DEBUGFS
            self._settings.hold("mount", str(folder))
            mount("debugfs", folder)
        devices = [f"/dev/{disk.name}" for disk in self._disks]
        with suppress(TracekitError):  # without tracefs records name no cgroup
            option = tracefs_folder() / CGROUP_OPTION
            self._settings.change({option: "1"} if option.exists() else {})
        for device in devices:
            self._settings.hold("trace", device)
        self._data.mkdir()
        size_kib = min(MOST_BUFFER_KIB, self._buffer_kib // LEAST_BUFFERS)
        buffers = ("-b", str(size_kib), "-n", str(self._buffer_kib // size_kib))
        files = ("-r", str(folder), "-D", str(self._data))
        traced = [word for device in devices for word in ("-d", device)]
        # It ends its trace in order when this process dies, also by SIGKILL.
        command = ["setpriv", "--pdeathsig", "INT", "blktrace", *traced, *files, *buffers]
        self._program.launch(command)
        self._wait_until_set_up()
        for device in devices:
            kernel.begin_trace(device)
        return {}

    def _wait_until_set_up(self) -> None:
        """Wait until the kernel's buffers are there and each of blktrace's threads has its file."""
        end_s = time.monotonic() + START_S
        wanted = len(online_cpus()) * len(self._disks)
        enabled = [disk / "trace/enable" for disk in self._disks]
        while len(self._files()) < wanted or any(read_setting(one) != "1" for one in enabled):
            self._program.check()
            if time.monotonic() > end_s:
                raise self._program.failure(f"blktrace did not begin within {START_S:.0f} s")
            time.sleep(POLL_S)

    def stop(self) -> Relayed:
        """Stop recording; blktrace writes the rest. Raise TracekitError when it does not end."""
        running = self._program.check()
        threads = frozenset(int(path.name) for path in Path(f"/proc/{running.pid}/task").iterdir())
        dropped = self._dropped()
        if not _interrupted(running):
            raise self._program.failure(f"blktrace did not end within {STOP_S:.0f} s")
        totals = {name: int(lost) for name, lost in _TOTAL.findall(self._program.messages())}
        if totals.keys() != dropped.keys():
            what = f"blktrace left no whole trace (status {running.returncode})"
            raise self._program.failure(what)
        dropped = {name: max(lost, totals[name]) for name, lost in dropped.items()}
        return Relayed(self._data, self._program.log, dropped, threads)

    def _written_bytes(self) -> int:
        # Files are as large as the buffers until the end; what is in them shows in their blocks.
        return sum(path.stat().st_blocks * SECTOR_BYTES for path in self._files())

    def _files(self) -> list[Path]:
        return sorted(self._data.glob("*.blktrace.*"))

    def _dropped(self) -> dict[str, int]:
        """Return how many records of each disk the kernel had no room for so far."""
        folder = (kernel.mounted_debugfs() or kernel.DEBUGFS) / "block"
        counters = {disk.name: folder / disk.name / "dropped" for disk in self._disks}
        return {
            name: int(counter.read_text()) if counter.exists() else 0
            for name, counter in counters.items()
        }


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
    """What blktrace wrote."""

    folder: Path
    log: Path
    dropped: Mapping[str, int]
    """Records that the kernel had no room for, by disk."""
    threads: frozenset[int]
    """Of blktrace itself."""
    is_live: bool = True
    """Whether the kernel still is the one that recorded."""

    def write(self, folder: CaptureFolder) -> CaptureFiles:
        """Write the files of records and layout.json into `folder`.

        They are NAME.blktrace.CPU, of several disks NAME-DISK.blktrace.CPU.
        """
        lost = tuple(self.dropped.values())
        found = write_relayed(self.folder, folder, own=self.threads, dropped=lost, has_cgroups=True)
        found = replace(found, disks_dropped=tuple(self.dropped.items()))
        # The records have the names of their processes.
        folder.finish(
            found,
            is_live=self.is_live,
            own_pid=folder.own_pid,
            dropped_by_disk=dict(self.dropped),
        )
        return found


def recorded_in(folder: Path, *, is_live: bool = True) -> Relayed:
    """Return what is recorded in a folder, however that ended; blktrace's log has its totals."""
    log = folder / "relay.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    dropped = {name: int(lost) for name, lost in _TOTAL.findall(text)}
    # Its files are as large as its buffers until it ends in order.
    for path in (folder / "relay").glob("*.blktrace.*"):
        cut_zeros(path)
    return Relayed(folder / "relay", log, dropped, frozenset(), is_live)


def why_not(disk: Path | None) -> str | None:
    """Return why blktrace(8) cannot trace `disk`, a folder in /sys/block (None: any), or None.

    For a disk the kernel's trace is set up and its relay file opened, as blktrace would do.
    """
    for program, package in (("blktrace", "blktrace"), ("setpriv", "util-linux")):
        if find_helper(program) is None:
            return why_missing(program, f"is not installed (Debian: {package})")
    if disk is None:
        return None
    if read_setting(disk / "trace/enable") != "0":
        return f"{disk.name} is being traced already"
    try:
        with kernel.debugfs() as folder:
            return _refusal(disk.name, folder)
    except TracekitError as error:
        return str(error)


def _refusal(name: str, folder: Path) -> str | None:
    relay = folder / "block" / name / "trace0"
    try:
        with kernel.opened(f"/dev/{name}") as device:
            fcntl.ioctl(device, _BLKTRACESETUP, _SETUP.pack(b"", 0xFFFF, 4096, 2, 0, 0, 0))
            try:
                with kernel.opened(relay):
                    pass
            finally:
                kernel.end_trace(device)
    except PermissionError:
        return f"opening {relay} is not permitted: this kernel is locked down (kernel_lockdown(7))"
    except FileNotFoundError:
        return f"the kernel made no relay file {relay}"
    except OSError as error:
        return f"BLKTRACESETUP of {name}: {error.strerror}"
    return None

"""What the capture tests share: a small disk of three roles, the settings, how captures are run."""

import fcntl
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import invoke
from tests.recipes.three_roles import Sizes, mounted, three_role_disk
from tracekit.capture.layout import find_disk
from tracekit.capture.session import choose
from tracekit.capture.tracefs import online_cpus, read_setting, tracefs_folder
from tracekit.errors import TracekitError

CAPTURE = [sys.executable, "-m", "tracekit", "capture"]
TRACER = ("--source", "tracefs-blk")
SETTINGS = (
    *("current_tracer", "tracing_on", "trace_clock", "saved_cmdlines_size", "buffer_size_kb"),
    *("options/bin", "options/context-info", "options/overwrite", "options/record-cmd"),
    *("options/markers", "options/blk_cgroup"),
)
TIMEOUT_S = 120.0
"""Only what hangs takes so long."""
NOTIFY = 0x400
MESSAGE = 2
"""Of a record that is no event of the kernel."""
NONE = ("true",)
"""A command that does nothing."""


@dataclass(frozen=True)
class Disk:
    """A loop disk whose first partition is mounted."""

    device: str
    point: Path

    @property
    def name(self) -> str:
        return Path(self.device).name

    @property
    def switch(self) -> Path:
        """The file that says whether the disk is being traced."""
        return Path(f"/sys/block/{self.name}/trace/enable")

    def is_traced(self) -> bool:
        return self.switch.read_text().strip() == "1"

    def writer(self, count: int) -> list[str]:
        """Return a command that writes `count` blocks of 4 KiB, each made durable."""
        of = f"of={self.point}/file"
        return ["dd", "if=/dev/zero", of, "bs=4k", f"count={count}", "oflag=dsync", "status=none"]

    def capture(
        self, output: Path, *options: str, command: Sequence[str] = NONE, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Capture a command in a process of its own, which must end with this exit code."""
        return run_capture(self.device, "-o", output, *options, "--", *command, code=code)


def run_capture(*words: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run `tracekit capture WORDS`, which must end with this exit code, if one is given.

    It waits for the captures of others, who know nothing of the tests' turns.
    """
    command, end_s = [*CAPTURE, *map(str, words)], time.monotonic() + TIMEOUT_S
    while True:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        is_taken = "another capture is running" in done.stderr and time.monotonic() < end_s
        if code in (done.returncode, None) or not is_taken:
            break
        time.sleep(0.1)
    assert code in (done.returncode, None), done.stderr
    return done


def start_capture(*words: str | Path, cwd: Path | None = None) -> subprocess.Popen[str]:
    """Start `tracekit capture WORDS` and go on."""
    pipe = subprocess.PIPE
    command = [*CAPTURE, *map(str, words)]
    return subprocess.Popen(command, cwd=cwd, stdout=pipe, stderr=pipe, text=True)


def stop(running: subprocess.Popen[str], number: int) -> tuple[int, str, str]:
    """Send the signal; return exit status, output and messages."""
    running.send_signal(number)
    out, messages = running.communicate(timeout=TIMEOUT_S)
    return running.returncode, out, messages


def rejection(*words: str | Path) -> tuple[int, str]:
    """Return exit code and message of the error that a capture ends with, then its hint."""
    error = invoke("capture", *words).exception
    assert isinstance(error, TracekitError)
    assert "\n" not in f"{error}{error.hint}"
    return error.exit_code, f"{error}\n{error.hint}"


def wait_for(condition: Callable[[], Any]) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.02)


def wait_until_tracing(disk: Disk) -> None:
    """Wait until a capture of the disk with the kernel's tracer has begun, probes apart."""
    tracer = tracefs_folder() / "current_tracer"
    wait_for(lambda: tracer.read_text().strip() == "blk" and disk.is_traced())


def processes(*words: str) -> list[int]:
    """Return the processes whose command lines begin with these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if line.startswith("".join(f"{word}\0" for word in words).encode()):
            found.append(int(path.parent.name))
    return found


def parent_of(pid: int) -> int | None:
    """Return the process that started another one, or None once that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return int(re.search(r"PPid:\t(\d+)", status)[1])  # type: ignore[index]


def skip_unless_it_can_trace() -> None:
    """Skip where a capture cannot work, with the reason."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for loop devices and tracefs")
    for tool in ("losetup", "sfdisk", "partx", "mkfs.ext4", "mkswap"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    try:
        tracers = (tracefs_folder() / "available_tracers").read_text().split()
    except TracekitError as error:
        pytest.skip(f"needs tracefs: {error}")
    if "blk" not in tracers:
        pytest.skip("needs the kernel's tracer blk")


def skip_unless_it_works(source: str, *disks: Disk) -> None:
    """Skip where these disks cannot be captured with this source, with the reason."""
    folders = [find_disk(disk.device) for disk in disks]
    try:
        choose(source, tracefs=tracefs_folder(), disks=folders)
    except TracekitError as error:
        pytest.skip(str(error))


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """Yield a disk of 64 MiB fs, 8 MiB external journal and 8 MiB swap."""
    try:
        with (
            three_role_disk(folder / "disk.img", Sizes(64, 8, 8)) as device,
            mounted(f"{device}p1", folder / "fs") as point,
        ):
            yield Disk(device, point)
    except RuntimeError as error:
        if "losetup" in str(error):
            pytest.skip(f"needs loop devices: {error}")
        raise


LOOP_ADD, LOOP_REMOVE = 0x4C80, 0x4C81


def vanishing_disk(folder: Path) -> tuple[str, str]:
    """Attach a loop device; return it, and a script that reads it five times and removes it."""
    image = folder / "image"
    image.write_bytes(bytes(1 << 20))
    # Others take the lowest free device, which this one is not, between detaching and removing.
    number = 1000 + os.getpid() % 1000
    with Path("/dev/loop-control").open() as control:
        fcntl.ioctl(control, LOOP_ADD, number)
    device = f"/dev/loop{number}"
    subprocess.run(["losetup", device, image], check=True)
    remove = f"import fcntl; fcntl.ioctl(open('/dev/loop-control'), {LOOP_REMOVE}, {number})"
    read = f"dd if={device} of=/dev/null bs=4k count=5 iflag=direct status=none"
    # Others who look at new disks may still have it open.
    until_free = f'{sys.executable} -c "{remove}" 2>/dev/null && break'
    return device, (
        f"{read}; losetup -d {device}; for i in $(seq 100); do {until_free}; sleep 0.1; done"
    )


@contextmanager
def tracer_turn() -> Iterator[None]:
    """Wait for one's turn, and check that the machine's settings are given back in it.

    Tests run in several processes, the tracer is the whole machine's. The lock is on a file of
    tracefs, which processes in different roots share as well.
    """
    with (tracefs_folder() / "README").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        settings = tracing_settings()
        if settings["current_tracer"] != "nop":
            pytest.skip("the kernel's tracer is in use by something else")
        yield
        changed = set(tracing_settings().items()) ^ set(settings.items())
        if changed:  # so that those that follow are not skipped
            subprocess.run([sys.executable, "-m", "tracekit", "capture", "--recover"], check=False)
        assert not changed, sorted(changed)


@contextmanager
def setting(path: Path, value: str, back: str) -> Iterator[None]:
    """Set a file of the kernel, as another user of it would."""
    path.write_text(value)
    try:
        yield
    finally:
        path.write_text(back)


def tracing_settings() -> dict[str, str]:
    """Return the machine-wide settings that a capture changes."""
    folder = tracefs_folder()
    names = [*SETTINGS, *(f"per_cpu/cpu{cpu}/buffer_size_kb" for cpu in online_cpus())]
    return {name: read_setting(folder / name) for name in names if (folder / name).exists()}


def read_layout(folder: Path) -> dict[str, Any]:
    layout: dict[str, Any] = json.loads((folder / "layout.json").read_text())
    return layout


@dataclass(frozen=True)
class Record:
    """A record of a blktrace file, as this test reads it."""

    sequence: int
    time_ns: int
    sector: int
    length_bytes: int
    action: int
    category: int
    pid: int
    cpu: int
    payload: bytes


def records_of(data: bytes) -> list[Record]:
    """Read a blktrace v7 file, one header after the other."""
    found = []
    at = 0
    while at < len(data):
        magic, sequence, time_ns, sector, length, action, pid, _device, cpu, _error, extra = (
            struct.unpack_from("<IIQQIIIIIHH", data, at)
        )
        assert magic == 0x65617407
        payload = data[at + 48 : at + 48 + extra]
        place = (sector, length, action & 0xFFFF, action >> 16)
        found.append(Record(sequence, time_ns, *place, pid, cpu, payload))
        at += 48 + extra
    return found


def without_messages(records: list[Record]) -> list[Record]:
    """Leave out what was added to say control groups."""
    return [one for one in records if not (one.category & NOTIFY and one.action == MESSAGE)]

"""What the capture tests share: a small disk of three roles, and the machine's settings."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.recipes.three_roles import Sizes, mounted, three_role_disk
from tracekit.capture.tracefs import mounted_folder, online_cpus, read_setting

CAPTURE = [sys.executable, "-m", "tracekit", "capture"]
TRACER = ("--source", "tracefs-blk")
SETTINGS = (
    *("current_tracer", "tracing_on", "trace_clock", "saved_cmdlines_size", "buffer_size_kb"),
    *("options/bin", "options/context-info", "options/overwrite", "options/record-cmd"),
    *("options/markers", "options/blk_cgroup"),
)
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Disk:
    """A loop disk whose first partition is mounted."""

    device: str
    point: Path

    @property
    def name(self) -> str:
        return Path(self.device).name

    def writer(self, count: int) -> list[str]:
        """Return a command that writes `count` blocks of 4 KiB, each made durable."""
        of = f"of={self.point}/file"
        return ["dd", "if=/dev/zero", of, "bs=4k", f"count={count}", "oflag=dsync", "status=none"]


def skip_unless_it_can_trace() -> None:
    """Skip where a capture cannot work, with the reason."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for loop devices and tracefs")
    for tool in ("losetup", "sfdisk", "partx", "mkfs.ext4", "mkswap"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    folder = mounted_folder()
    if folder is None or "blk" not in (folder / "available_tracers").read_text().split():
        pytest.skip("needs tracefs with the tracer blk")


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


@contextmanager
def tracer_turn() -> Iterator[None]:
    """Wait for one's turn: tests run in several processes, the tracer is the whole machine's.

    The lock is on a file of tracefs, which processes in different roots share as well.
    """
    folder = mounted_folder()
    assert folder is not None
    with (folder / "README").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if tracing_settings()["current_tracer"] != "nop":
            pytest.skip("the kernel's tracer is in use by something else")
        yield


def tracing_settings() -> dict[str, str]:
    """Return the machine-wide settings that a capture changes."""
    folder = mounted_folder()
    assert folder is not None
    names = [*SETTINGS, *(f"per_cpu/cpu{cpu}/buffer_size_kb" for cpu in online_cpus())]
    return {name: read_setting(folder / name) for name in names if (folder / name).exists()}


def wait_until_tracing(disk: Disk) -> None:
    """Wait until a capture of the disk with the kernel's tracer has begun, probes apart."""
    enable = Path(f"/sys/block/{disk.name}/trace/enable")
    tracer = (mounted_folder() or Path()) / "current_tracer"
    end_s = time.monotonic() + TIMEOUT_S
    while (tracer.read_text().strip(), enable.read_text().strip()) != ("blk", "1"):
        assert time.monotonic() < end_s, "the capture did not begin"
        time.sleep(0.02)


def run_capture(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CAPTURE, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


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
        found.append(
            Record(
                sequence, time_ns, sector, length, action & 0xFFFF, action >> 16, pid, cpu, payload
            )
        )
        at += 48 + extra
    return found

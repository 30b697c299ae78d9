"""The kernel's tracing file system: where it is, and how its settings are read."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.helper_programs import run_helper
from tracekit.stack.mounts import read_mounts

FOLDERS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
MOST_SAVED_NAMES = 32768
CGROUP_OPTION = "options/blk_cgroup"
"""With it all records of block events name the cgroup that the kernel counts them for."""
_EXPANDED = re.compile(r"expanded: (\d+)")
_CHOSEN = re.compile(r"\[([^\]]+)\]")


def mounted_folder() -> Path | None:
    """Return where tracefs is mounted, or None when it is not mounted or may not be entered."""
    return next((one for one in FOLDERS if os.access(one / "current_tracer", os.F_OK)), None)


def tracefs_folder() -> Path:
    """Return where tracefs is mounted; mount it when it is not, as systemd does at boot."""
    folder = mounted_folder()
    if folder is None:
        folder = FOLDERS[0]
        hint = "run as root on a kernel with CONFIG_FTRACE and CONFIG_BLK_DEV_IO_TRACE"
        mount("tracefs", folder, hint=hint)
    return folder


def mount(filesystem: str, point: Path, *, hint: str = "") -> bool:
    """Mount a file system of the kernel; raise TracekitError with the reason when it cannot be.

    Return False where another command has mounted it meanwhile: that one takes it away.
    """
    command = ["mount", "-t", filesystem, filesystem, str(point)]
    done = run_helper(command, capture_output=True, text=True)
    wanted = (filesystem, str(point))
    if done.returncode == 0:
        return True
    if wanted in ((one.filesystem, one.point) for one in read_mounts()):
        return False
    message = f"{filesystem} cannot be mounted on {point}: {done.stderr.strip()}"
    raise TracekitError(message, hint=hint)


def read_setting(path: Path) -> str:
    """Return a setting's value in the form that can be written back.

    A list such as `[local] global mono` gives the chosen word. A ring buffer that was never used
    shows `7 (expanded: 1408)`: the size that its next user would get is the one to give back.
    `saved_cmdlines_size` is rounded up by the kernel beyond the largest value that it takes.
    """
    text = path.read_text().strip()
    if path.name == "saved_cmdlines_size":
        return str(min(int(text), MOST_SAVED_NAMES))
    for pattern in (_EXPANDED, _CHOSEN):
        found = pattern.search(text)
        if found is not None:
            return found.group(1)
    return text


def online_cpus() -> list[int]:
    """Return the numbers of the CPUs that are online."""
    cpus: list[int] = []
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def buffer_counters(folder: Path, cpu: int) -> dict[str, int]:
    """Return the whole-number lines of a CPU's ring buffer statistics, such as `overrun`."""
    lines = (folder / f"per_cpu/cpu{cpu}/stats").read_text().splitlines()
    pairs = (line.partition(": ") for line in lines)
    return {name: int(value) for name, _, value in pairs if value.isdigit()}


def saved_names(folder: Path) -> dict[int, str]:
    """Return the process names that the kernel remembered for traced pids."""
    return names_in((folder / "saved_cmdlines").read_text(errors="replace"))


def names_in(text: str) -> dict[int, str]:
    """Return the process names that a text of `saved_cmdlines` has."""
    pairs = (line.partition(" ") for line in text.splitlines())
    return {int(pid): name for pid, _, name in pairs if pid.isdigit() and name not in ("", "<...>")}

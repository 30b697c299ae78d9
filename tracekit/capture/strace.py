"""strace(1) as a source of file operations: its command, and what it costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.native.calls import Calls, Start

NAME = "strace"
# What the decoder follows. `?` lets strace pass over calls that this machine does not have.
FOLLOWED = (
    *("open", "openat", "openat2", "creat", "close", "close_range", "dup", "dup2", "dup3", "fcntl"),
    *("read", "pread64", "readv", "preadv", "preadv2"),
    *("write", "pwrite64", "writev", "pwritev", "pwritev2"),
    *("sendfile", "copy_file_range", "splice", "lseek", "ftruncate", "truncate", "fallocate"),
    *("fsync", "fdatasync", "sync_file_range", "sync", "syncfs", "getdents", "getdents64"),
    *("stat", "lstat", "fstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"),
    *("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat"),
    *("mkdir", "mkdirat", "rmdir", "mmap", "munmap", "msync"),
    *("clone", "clone3", "fork", "vfork", "execve", "execveat", "exit", "exit_group"),
    *("chdir", "fchdir", "prctl"),
)
# What moves bytes or names in ways that no row can stand for: told by name and number.
COUNTED = (
    *("io_uring_setup", "io_uring_enter", "io_submit", "open_by_handle_at", "chroot"),
    *("pivot_root", "symlink", "symlinkat", "mknod", "mknodat", "vmsplice", "tee"),
)
# Numbers instead of names of flags (-X raw) are short and need no table; -s 0 keeps what is read
# and written out of the text; -y tells what is behind descriptors that were never seen opened.
OPTIONS = (
    *("-f", "-y", "-s", "0", "-X", "raw", "--seccomp-bpf", "--quiet=attach,personality"),
    *("--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns"),
    *("-e", "signal=none"),
)
PROBE_CALLS = 2000
REMEDY = "apt install strace (5.11 or newer)"


@dataclass(frozen=True)
class Cost:
    """What tracing costs here, by a program that reads and writes single bytes."""

    call_ns: int
    """What a traced call takes longer in all."""
    duration_ns: int
    """How much longer its own duration looks in the trace."""


def command(output: Path, traced: Sequence[str]) -> list[str]:
    """Return the command that runs `traced` and writes its calls to `output`."""
    program = shutil.which(NAME)
    if program is None:
        raise TracekitError(f"{NAME} is not on PATH", hint=REMEDY)
    calls = ",".join(f"?{name}" for name in (*FOLLOWED, *COUNTED))
    return [program, *OPTIONS, "-o", str(output), "-e", f"trace={calls}", "--", *traced]


def probe() -> str | None:
    """Return why strace cannot be used here, or None when it can."""
    with tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
        try:
            ran = subprocess.run(
                command(Path(folder) / "text", ["true"]),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=20,
                check=False,
            )
        except TracekitError as error:
            return str(error)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{NAME}: {error}"
    if ran.returncode == 0:
        return None
    return (ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"])[0]


def cost() -> Cost | None:
    """Measure what tracing a call costs; None where dd(1) is missing or cannot be traced."""
    if shutil.which("dd") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
        text = Path(folder) / "text"
        start_s = _seconds(command(text, _copy(1)))
        traced_s = _seconds(command(text, _copy(PROBE_CALLS)))
        plain_s = _seconds(_copy(20 * PROBE_CALLS)) - _seconds(_copy(1))
        shown_ns = _mean_duration_ns(text)
    plain_ns = max(plain_s, 0.0) * 1e9 / (40 * PROBE_CALLS)
    call_ns = (traced_s - start_s) * 1e9 / (2 * PROBE_CALLS) - plain_ns
    return Cost(max(round(call_ns), 0), max(round(shown_ns - plain_ns), 0))


def _copy(count: int) -> list[str]:
    return ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", f"count={count}", "status=none"]


def _seconds(program: Sequence[str]) -> float:
    began_s = time.perf_counter()
    subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return time.perf_counter() - began_s


def _mean_duration_ns(text: Path) -> float:
    """Return how long a read of /dev/zero took by the text."""
    fd = os.open(text, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with Calls(fd, Start("/", below="/dev/zero")) as calls:
            durations = [rows["end_ns"] - rows["start_ns"] for rows in calls.batches()]
    finally:
        os.close(fd)
    return float(durations[0].mean()) if durations else 0.0

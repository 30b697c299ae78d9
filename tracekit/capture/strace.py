"""The source strace: its text, which any user can have."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tracekit.capture.command import run, signals_held
from tracekit.capture.file_source import FileSource, Job, Recorded, space_left, why_full
from tracekit.capture.programs import probe_failure
from tracekit.errors import TracekitError, UsageError
from tracekit.helper_programs import (
    find_helper,
    helper_environment,
    run_helper,
    why_missing,
    withheld,
)
from tracekit.invoking_user import User

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
    *("mkdir", "mkdirat", "rmdir", "mmap", "mremap", "munmap", "msync"),
    *("clone", "clone3", "fork", "vfork", "unshare", "execve", "execveat", "exit", "exit_group"),
    *("chdir", "fchdir", "prctl", "symlink", "symlinkat", "mknod", "mknodat", "ioctl"),
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
    *("setxattr", "lsetxattr", "fsetxattr", "getxattr", "lgetxattr", "fgetxattr"),
    *("listxattr", "llistxattr", "flistxattr", "removexattr", "lremovexattr", "fremovexattr"),
)
# What moves bytes or names in ways that no row can stand for: reported by name and number.
COUNTED = (
    *("io_uring_setup", "io_uring_enter", "io_submit", "open_by_handle_at", "chroot"),
    *("pivot_root", "vmsplice", "tee"),
    *("setxattrat", "getxattrat", "listxattrat", "removexattrat", "file_setattr"),
)
# Numbers instead of names of flags (-X raw) are short and need no table; -s 0 keeps what is read
# and written out of the text; -y names what is behind descriptors that were never seen opened.
OPTIONS = (
    *("-f", "-y", "-s", "0", "-X", "raw", "--seccomp-bpf", "--quiet=attach,personality"),
    *("--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns"),
    *("-e", "signal=none"),
)
PROBE_S = 20.0
REMEDY = "apt install strace (5.11 or newer)"


def command(output: Path, traced: Sequence[str], *, user: User | None = None) -> list[str]:
    """Return the command that runs `traced` as the user and writes its calls to `output`."""
    program = find_helper(NAME)
    if program is None:
        raise TracekitError(why_missing(NAME), hint=REMEDY)
    calls = ",".join(f"?{name}" for name in (*FOLLOWED, *COUNTED))
    words = [program, *OPTIONS, "-o", str(output), "-e", f"trace={calls}"]
    if user is not None:
        if user.name is None:
            raise UsageError(
                f"--files as user {user.uid}: strace knows users by name, and this one has none",
                hint="give another --user, or --user root",
            )
        words.append(f"--user={user.name}")
    variables = withheld() | (user.variables if user else {})
    return [*words, *(f"--env={name}={text}" for name, text in variables.items()), "--", *traced]


def probe() -> str | None:
    """Return why strace cannot be used here, or None when it can."""
    with tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
        try:
            return probe_failure(command(Path(folder) / "text", ["true"]), within_s=PROBE_S)
        except TracekitError as error:
            return str(error)


class Strace(FileSource):
    """Record with strace(1)."""

    name = NAME
    remedy = REMEDY
    how = "under strace"
    probe_calls = 2000

    def probe(self) -> str | None:
        """Return why strace cannot be used here, or None when it can."""
        return probe()

    def record(self, job: Job, raw: Path) -> Recorded:
        """Run the command under strace, whose text goes to `raw`."""
        limit = Limit(raw)
        with signals_held() as stop:
            ran = run(
                command(raw, job.command, user=job.user),
                stop,
                popen={"env": helper_environment()},
                is_stdout_ours=job.is_stdout_ours,
                each=limit,
            )
            if limit.kept_bytes is not None:
                os.truncate(raw, limit.kept_bytes)
        failure = limit.why or (str(ran.failure) if ran.failure else None)
        return Recorded(ran, stop.name, failure)

    def trial_s(self, program: Sequence[str], raw: Path) -> float:
        """Run a helper program under strace."""
        raw.unlink(missing_ok=True)
        began_s = time.perf_counter()
        run_helper(command(raw, program), stdin=subprocess.DEVNULL, capture_output=True)
        return time.perf_counter() - began_s


class Limit:
    """Keeps strace's text from filling its disk: strace, on which the command depends, goes on."""

    def __init__(self, text: Path) -> None:
        """Watch the disk of `text`."""
        self._text = text
        self.kept_bytes: int | None = None
        """What is kept of the text, once the disk is nearly full."""

    @property
    def why(self) -> str | None:
        """Why the text is not whole."""
        if self.kept_bytes is None:
            return None
        return why_full(self._text)

    def __call__(self) -> None:
        """Look, and free what came after the disk was nearly full."""
        size = self._text.stat().st_size if self._text.exists() else 0
        if self.kept_bytes is None and not space_left(self._text):
            self.kept_bytes = size
        if self.kept_bytes is not None and size > self.kept_bytes:
            # What strace writes next lies behind a hole.
            os.truncate(self._text, self.kept_bytes)

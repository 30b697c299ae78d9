"""Runs a command of tracekit and sees its calls that change files; any can be its last."""

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.replay.program import compile_c

ROOT = Path(__file__).parents[2]
START_S = 300.0
MOST_S = 300.0
"""Only what hangs takes so long, however busy the machine is."""

# struct seccomp_notif (with seccomp_data), struct seccomp_notif_resp and what ioctl does with them.
NOTIFICATION = struct.Struct("=QIIiIQ6Q")
ANSWER = struct.Struct("=QqiI")
RECEIVE = 3 << 30 | NOTIFICATION.size << 16 | ord("!") << 8
SEND = 3 << 30 | ANSWER.size << 16 | ord("!") << 8 | 1
GO_ON = 1

AT_FDCWD = -100
ON_FILE = {
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile"), 0),
    **dict.fromkeys(("ftruncate", "fallocate", "fchmod", "fchown"), 0),
    **dict.fromkeys(("fsync", "fdatasync", "syncfs"), 0),
    **dict.fromkeys(("copy_file_range", "splice"), 2),
}
"""Calls of an open file, with the position of its descriptor."""
BY_NAME: dict[str, tuple[tuple[int | None, int], ...]] = {
    **dict.fromkeys(("open", "creat", "unlink", "mkdir", "rmdir", "mknod"), ((None, 0),)),
    **dict.fromkeys(("chmod", "chown", "lchown", "truncate"), ((None, 0),)),
    **dict.fromkeys(("openat", "openat2", "unlinkat", "mkdirat", "mknodat"), ((0, 1),)),
    **dict.fromkeys(("fchmodat", "fchownat"), ((0, 1),)),
    **dict.fromkeys(("rename", "link"), ((None, 0), (None, 1))),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), ((0, 1), (2, 3))),
    "symlink": ((None, 1),),
    "symlinkat": ((1, 2),),
}
"""Calls with names, each with the positions of its folder's descriptor and of its text."""
FLAGS = {"open": 1, "openat": 2, "unlinkat": 2, "renameat2": 4}


@dataclass(frozen=True)
class Call:
    """A call that may change files below the place, as it was when it began."""

    name: str
    path: Path
    other: Path | None = None
    flags: int = 0


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (below 0: by a signal), texts, and its calls in order."""

    code: int
    output: str
    errors: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Command:
    """Words of a command of tracekit, and the folder where it runs, whose changes are watched."""

    words: tuple[str, ...]
    place: Path


class Commands:
    """Starts commands: `with Commands(folder) as commands`; `folder` is for its own files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.library = folder / "watch.so"
        self.socket = folder / "server"
        self.number = 0

    def __enter__(self) -> "Commands":
        source = Path(__file__).with_name("watch.c")
        compile_c("-shared", "-fPIC", "-O1", "-o", self.library, source)
        # What tracing costs is measured with 400,000 writes of dd to nowhere, which are seen here.
        (self.folder / "bin").mkdir()
        (self.folder / "bin/dd").symlink_to(shutil.which("true") or "true")
        words = [sys.executable, "-m", "tests.crash.server", str(self.socket)]
        self.server = subprocess.Popen(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        end_s = time.monotonic() + START_S
        while not self.socket.exists():
            assert self.server.poll() is None, "the server of commands did not start"
            assert time.monotonic() < end_s
            time.sleep(0.02)
        return self

    def __exit__(self, *_error: object) -> None:
        self.server.kill()
        self.server.wait()

    def run(self, command: Command) -> Ended:
        """Run a command to its end."""
        return self.start(command).wait()

    def start(self, command: Command, watch: tuple[str, str] | None = None) -> "Running":
        """Start a command; several can run at once."""
        self.number += 1
        texts = (self.folder / f"{self.number}.out", self.folder / f"{self.number}.err")
        return Running(self.socket, command, texts, watch)

    def watched(
        self,
        command: Command,
        *,
        last: int | None = None,
        before_kill: Callable[[], None] = lambda: None,
    ) -> Ended:
        """Run a command and note its calls; kill all its processes before call `last` is done."""
        address = self.folder / f"{self.number}.watch"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(address))
            listener.listen(1)
            listener.settimeout(START_S)
            running = self.start(command, (str(self.library), str(address)))
            supervisor, _ = listener.accept()
        with supervisor:
            text, listeners, _, _ = socket.recv_fds(supervisor, 1 << 16, 1)
        address.unlink()
        if not listeners:
            reason = address.with_suffix(".refused").read_text()
            pytest.skip(f"calls cannot be watched here: {reason}")
        names = {int(line.split()[0]): line.split()[1] for line in text.decode().splitlines()}
        with open(listeners[0], "rb", buffering=0) as notifications:
            answering = Supervisor(notifications.fileno(), names, command.place, before_kill)
            calls = answering.watch(last, running.pid)
        ended = running.wait()
        return Ended(ended.code, ended.output, ended.errors, tuple(calls))


class Running:
    """A command that was started."""

    def __init__(
        self,
        server: Path,
        command: Command,
        texts: tuple[Path, Path],
        watch: tuple[str, str] | None,
    ) -> None:
        self.texts = texts
        own = texts[0].parent
        asked = {
            "words": command.words,
            "folder": str(command.place),
            "environment": {
                **dict.fromkeys(("HOME", "TMPDIR"), str(own)),
                "PATH": f"{own / 'bin'}:{os.environ['PATH']}",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            "output": str(texts[0]),
            "errors": str(texts[1]),
            "watch": watch,
        }
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(MOST_S)
        self.connection.connect(str(server))
        self.connection.send(json.dumps(asked).encode())
        self.pid = int(self.connection.recv(64))

    def wait(self) -> Ended:
        """Return how it ended."""
        with self.connection:
            code = int(self.connection.recv(64))
        output, errors = (text.read_text(errors="replace") for text in self.texts)
        for text in self.texts:
            text.unlink()
        return Ended(code, output, errors)


class Supervisor:
    """Answers the notifications of one command's processes."""

    def __init__(
        self, fd: int, names: dict[int, str], place: Path, before_kill: Callable[[], None]
    ) -> None:
        self.before_kill = before_kill
        self.fd = fd
        self.names = names
        self.place = place

    def watch(self, last: int | None, pid: int) -> list[Call]:
        """Let calls go on until none of the processes is left, or all are killed before `last`."""
        calls: list[Call] = []
        for number, task, name, arguments in self._notifications():
            if last is not None and len(calls) == last:
                kill([task])
                continue
            call = self._call(task, name, arguments)
            if call is not None:
                calls.append(call)
                if len(calls) == last:
                    # The disk stands still from here on: whoever would change it waits, and dies.
                    self.before_kill()
                    kill([*family(pid), task])
                    continue
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.fd, SEND, ANSWER.pack(number, 0, 0, GO_ON))
        return calls

    def _notifications(self) -> Iterator[tuple[int, int, str, tuple[int, ...]]]:
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        end_s = time.monotonic() + MOST_S
        while True:
            events = poll.poll(1000)
            assert time.monotonic() < end_s, "the command does not end"
            if events and events[0][1] & select.POLLIN:
                try:
                    found = fcntl.ioctl(self.fd, RECEIVE, bytes(NOTIFICATION.size))
                except OSError:  # It was killed before it was heard.
                    continue
                number, task, _, call, _, _, *arguments = NOTIFICATION.unpack(found)
                yield number, task, self.names[call], tuple(arguments)
            elif events:
                return

    def _call(self, task: int, name: str, arguments: tuple[int, ...]) -> Call | None:
        """Return the call if it is about a file below the place."""
        try:
            if name == "sync":
                return Call(name, self.place)
            if name in ON_FILE:
                path = Path(os.readlink(f"/proc/{task}/fd/{_signed(arguments[ON_FILE[name]])}"))
                return Call(name, path) if path.is_relative_to(self.place) else None
            paths = [
                _named(task, AT_FDCWD if at is None else _signed(arguments[at]), arguments[text])
                for at, text in BY_NAME[name]
            ]
            flags = arguments[FLAGS[name]] & 0xFFFFFFFF if name in FLAGS else 0
            if name == "creat":
                flags = os.O_CREAT | os.O_TRUNC
            elif name == "openat2":
                flags = struct.unpack("=Q", _memory(task, arguments[2], 8))[0]
                if not flags & (os.O_CREAT | os.O_TRUNC):
                    return None
        except OSError:
            # A task that was killed meanwhile; the call of one that lives can be read.
            if Path(f"/proc/{task}").exists():
                raise
            return None
        if not any(path.is_relative_to(self.place) for path in paths):
            return None
        return Call(name, paths[0], paths[1] if len(paths) > 1 else None, flags)


def _signed(number: int) -> int:
    """Return a descriptor, of which only the lower 32 bits count."""
    return struct.unpack("=i", struct.pack("=I", number & 0xFFFFFFFF))[0]  # type: ignore[no-any-return]


def _memory(task: int, address: int, size: int) -> bytes:
    with open(f"/proc/{task}/mem", "rb", buffering=0) as memory:
        return os.pread(memory.fileno(), size, address)


def _named(task: int, folder: int, address: int) -> Path:
    """Return the absolute path that a call names, links in its folders followed."""
    text = _memory(task, address, min(4096, 8192 - address % 4096)).split(b"\0", 1)[0]
    base = os.readlink(f"/proc/{task}/{'cwd' if folder == AT_FDCWD else f'fd/{folder}'}")
    path = Path(os.path.normpath(Path(base) / os.fsdecode(text)))
    return path.parent.resolve() / path.name


def family(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def kill(processes: list[int]) -> None:
    """Kill them, or the processes of these threads."""
    for one in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)

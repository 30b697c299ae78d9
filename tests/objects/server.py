"""An S3 server on the loopback interface (moto's), and a line to it that can be cut."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import FileSystem

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "objects" / "bin" / "moto_server"
START_S = 60
POLL_S = 0.05
REQUEST = re.compile(r'"(?:\x1b\[\d+m)*([A-Z]+) (\S+) HTTP')
SENT = 65536
ANSWER_S = 10


def why_not() -> str:
    """Return why there is no server; empty where there is one."""
    return "" if PROGRAM.exists() else f"no {PROGRAM.relative_to(ROOT)}: .ci/setup dev installs it"


@dataclass
class Server:
    """A running server, whose objects are in its memory."""

    log: Path
    port: int

    @property
    def variables(self) -> dict[str, str]:
        """The environment with which it is found."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def requests(self) -> list[tuple[str, str]]:
        """Return the method and path of all requests until now."""
        return REQUEST.findall(self.log.read_text())


@contextmanager
def server(folder: Path, **variables: str) -> Iterator[Server]:
    """Yield a server on a free port; it ends with the block."""
    log = folder / "server.log"
    environs = {**os.environ, **variables}
    with log.open("wb") as out:
        program = subprocess.Popen(
            [PROGRAM, "-H", "127.0.0.1", "-p", "0"], stdout=out, stderr=out, env=environs
        )
    try:
        end_s = time.monotonic() + START_S
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())):
            if program.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"the server did not start: {log.read_text()}")
            time.sleep(POLL_S)
        yield Server(log, int(found[1]))
    finally:
        program.kill()
        program.wait()


def make_bucket(name: str) -> str:
    """Make a bucket; return its URL."""
    system, path = FileSystem.from_uri(f"s3://{name}?allow_bucket_creation=true")
    system.create_dir(path)
    return f"s3://{name}"


class Line:
    """A proxy before a server, which falls silent after so many uploads, as a server that dies."""

    def __init__(self, port: int, *, uploads: int) -> None:
        self._left = uploads
        self.bytes_up = self.bytes_down = 0
        """What went to the server, and what came back, with the heads of requests."""
        self._target = port
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._unanswered: set[socket.socket] = set()
        """Sockets to the server on which an upload waits for its answer."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                there = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._open += [client, there]
                for pair, counts in (((client, there), True), ((there, client), False)):
                    copy = threading.Thread(target=self._copy, args=(*pair, counts), daemon=True)
                    copy.start()

    def _copy(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while data := source.recv(SENT):
                if counts and data.startswith(b"PUT "):
                    with self._lock:
                        self._left -= 1
                    if self._left < 0:
                        self._cut_when_answered()
                        return
                    self._unanswered.add(target)
                elif not counts and not data.startswith(b"HTTP/1.1 100"):
                    self._unanswered.discard(source)
                with self._lock:
                    self.bytes_up += len(data) if counts else 0
                    self.bytes_down += 0 if counts else len(data)
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _cut_when_answered(self) -> None:
        """Let the server keep the uploads before, and end."""
        until_s = time.monotonic() + ANSWER_S
        while self._unanswered and time.monotonic() < until_s:
            time.sleep(0.01)
        self.cut()

    def cut(self) -> None:
        """End all connections, and accept none any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._open.clear()

"""Starts commands of tracekit with its modules loaded: `python -m tests.crash.server SOCKET`.

A command that starts anew loads modules for 0.5 s of processor time, thousands of times over in
these tests. All after that is the program's own: its process, arguments and children.
"""

import ctypes
import importlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

LOADED = (
    *("tracekit.cli", "tracekit.api.start", "tracekit.api.trace", "tracekit.api.measure"),
    *("tracekit.readers.blktrace", "tracekit.readers.importing", "tracekit.query"),
    *("tracekit.analyze", "tracekit.classify", "tracekit.replay.run", "tracekit.replay.captured"),
    *("tracekit.sweep.run", "tracekit.capture.files", "tracekit.pipeline", "tracekit.report.page"),
)


def main() -> None:
    """Listen; each connection is a command, whose PID and then exit status are sent back."""
    for name in LOADED:
        importlib.import_module(name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        parent = os.getppid()
        listener.settimeout(1)
        while os.getppid() == parent:
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                wait_for_command(client)
            client.close()


def wait_for_command(client: socket.socket) -> None:
    """Start the command that the client asks for and send its end; return in the command only."""
    asked = json.loads(client.recv(1 << 16))
    command = os.fork()
    if command == 0:
        client.close()
        become(asked)
    client.send(str(command).encode())
    _, status = os.waitpid(command, 0)
    client.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def become(asked: dict[str, Any]) -> NoReturn:
    """Be the command: `words` in `folder`, with `environment`, output to `output` and `errors`."""
    os.setsid()
    os.chdir(asked["folder"])
    os.environ.update(asked["environment"])
    for number, name in enumerate(("/dev/null", asked["output"], asked["errors"])):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY
        os.dup2(os.open(name, flags, 0o600), number)
    if asked["watch"]:
        watch(*asked["watch"])
    sys.argv = ["tracekit", *asked["words"]]
    from tracekit.__main__ import main as run

    run()
    sys.exit(0)


def watch(library: str, place: str) -> None:
    """Let calls that change files wait for whoever listens at `place`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as supervisor:
        supervisor.connect(place)
        error = ctypes.CDLL(library).watch(supervisor.fileno())
        if error:
            Path(place).with_suffix(".refused").write_text(os.strerror(error))
            os._exit(125)


if __name__ == "__main__":
    main()

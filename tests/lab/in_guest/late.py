"""Use a target between a replay's check of it and its first write; print what came of it.

Arguments: how (open, map or mount), the name of the results, and the command line of the replay.
"""

import ctypes
import json
import mmap
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

TRIES = 5
PART = "*.done.*.part"
PIECE = 2 << 20


def mapped(target: Path) -> mmap.mmap:
    """Return the first bytes of a target."""
    file = os.open(target, os.O_RDWR)
    memory = mmap.mmap(file, PIECE)
    os.close(file)
    return memory


def head(target: Path, *, wiped: bool = False) -> bytes:
    """Return how the target begins, and keep nothing of it."""
    with mapped(target) as memory:
        if wiped:
            memory[:4096] = bytes(4096)
        return memory[:4096]


def use(ends: ExitStack, how: str, target: Path) -> str:
    """Use the target; return what is said of a mount."""
    if how == "mount":
        words = ["mount", str(target), "/mnt"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stderr
    file = os.open(target, os.O_RDWR)
    if how == "open":
        ends.callback(os.close, file)
        return ""
    # Python's own mapping keeps a descriptor.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, PIECE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
    os.close(file)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "it cannot be mapped")
    ends.callback(libc.munmap, ctypes.c_void_p(address), PIECE)
    return ""


def main() -> None:
    """Try until the replay was stopped before its first write."""
    how, name, *line = sys.argv[1:]
    target = Path(line[line.index("--target") + 1])
    for _ in range(TRIES):
        before = head(target, wiped=how != "mount")
        process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        while not [*Path().glob(PART)] and process.poll() is None:
            time.sleep(0.0005)
        process.send_signal(signal.SIGSTOP)
        is_late = head(target) != before
        with ExitStack() as ends:
            mount_said = use(ends, how, target)
            process.send_signal(signal.SIGCONT)
            said = process.communicate()[1]
        if not is_late:
            break
    found = {"code": process.returncode, "said": said, "mount_said": mount_said}
    found |= {"is_late": is_late, "is_written": head(target) != before}
    Path(os.environ["LAB_OUT"], f"{name}.late").write_text(json.dumps(found))


if __name__ == "__main__":
    main()

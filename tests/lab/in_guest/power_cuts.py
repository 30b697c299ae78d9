"""Cuts the power of a disk while folders on it are replaced; run in a guest, prints JSON.

From the cut on, device mapper drops what is written to the disk; then the disk is mounted again.
"""

import hashlib
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tracekit import cli

SHARE, FS = (Path(os.environ[name]) for name in ("LAB_SHARE", "LAB_FS"))
ROUNDS = 24
CUT = "/dev/dm-0"
OUT = FS / "out"
Tree = dict[str, str]


def call(*command: str, text: str = "") -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, input=text)
    return done.stdout.strip()


DISK = call("findmnt", "-no", "SOURCE", str(FS))
SECTORS = call("blockdev", "--getsz", DISK)
WRITES = f"0 {SECTORS} flakey {DISK} 0 3600 0"
DROPS = f"0 {SECTORS} flakey {DISK} 0 0 3600 1 drop_writes"


def become(table: str) -> None:
    """Give the device another table without writing anything of the file system before."""
    call("dmsetup", "--noudevsync", "suspend", "--nolockfs", "--noflush", "cut")
    call("dmsetup", "--noudevsync", "load", "cut", "--table", table)
    call("dmsetup", "--noudevsync", "resume", "cut")


def parse(name: str) -> int:
    """Start a command that replaces the folder; return its PID."""
    pid = os.fork()
    if pid:
        return pid
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv = ["tracekit", "parse", str(SHARE / name), "-o", str(OUT), "--force"]
    try:
        cli.main()
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1 if end.code else 0)
    os._exit(0)


def made(name: str) -> tuple[Tree, float]:
    """Replace the folder to the end; return what is in it and how long it took."""
    start_s = time.monotonic()
    _, status = os.waitpid(parse(name), 0)
    if status:
        raise RuntimeError(f"parse of {name} ended with {status}")
    return tree(), time.monotonic() - start_s


def tree() -> Tree:
    return {
        str(path.relative_to(OUT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(OUT.rglob("*"))
        if path.is_file()
    }


def cut(name: str, after_s: float, trees: dict[str, Tree]) -> dict[str, object]:
    """Cut the power so long after the start of a command; return what the disk has then."""
    pid = parse(name)
    time.sleep(after_s)
    ended = os.waitpid(pid, os.WNOHANG)[0] == pid
    become(DROPS)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    call("umount", str(FS))
    become(WRITES)
    call("mount", "-t", "ext4", CUT, str(FS))
    there = tree()
    which = [key for key, one in trees.items() if one == there]
    thesis = (FS / "thesis").read_text()
    return {"ended": ended, "made": name, "found": which, "files": list(there), "thesis": thesis}


def main() -> None:
    for name in ("numpy", "tracekit.api.start", "tracekit.readers.blktrace"):
        importlib.import_module(name)
    call("umount", str(FS))
    call("dmsetup", "--noudevsync", "create", "cut", "--table", WRITES)
    call("mke2fs", "-q", "-F", "-t", "ext4", CUT)
    call("mount", "-t", "ext4", CUT, str(FS))
    (FS / "thesis").write_text("mine")
    os.sync()
    chance = random.Random(1)  # noqa: S311 - the same each time
    names = ("small", "large")
    trees: dict[str, Tree] = {}
    for name in names:
        trees[name], lasts_s = made(name)
    found = []
    for number in range(ROUNDS):
        found.append(cut(names[number % 2], chance.uniform(0.2, 1.2) * lasts_s, trees))
    json.dump({"rounds": found, "lasts_s": lasts_s}, sys.stdout)


if __name__ == "__main__":
    main()

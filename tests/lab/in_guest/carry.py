"""Cuts the power at each command of a script; run in a guest, prints JSON.

From a cut on, device mapper drops what is written to both disks; then they are mounted again.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

FS = Path(os.environ["LAB_FS"])
SCRIPT = Path(os.environ["LAB_SHARE"]) / "carry.sh"
SHIMS, LEFT = Path("/run/shims"), Path("/run/left")
COMMANDS = (
    *("umount", "mount", "e2fsck", "tune2fs", "mke2fs", "cp", "mv", "rm", "rmdir", "mkdir"),
    *("touch", "sync"),
)
SHIM = """#!/bin/sh
left=$(cat {left})
if [ "$left" -le 0 ]; then exec python3 {me} power-off $PPID; fi
echo $((left - 1)) >{left}
exec {real} "$@"
"""


def call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout.strip()


def become(name: str, *, drops: bool) -> None:
    """Give a device another table without writing anything of the file system before."""
    disk = Path(f"/run/{name}.disk").read_text()
    sectors = call("blockdev", "--getsz", disk)
    times = "0 3600 1 drop_writes" if drops else "3600 0"
    call("dmsetup", "--noudevsync", "suspend", "--nolockfs", "--noflush", name)
    table = f"0 {sectors} flakey {disk} 0 {times}"
    call("dmsetup", "--noudevsync", "load", name, "--table", table)
    call("dmsetup", "--noudevsync", "resume", name)


def power_off(script: int) -> None:
    """Lose what is not on the disks yet, and end the script."""
    for name in ("fs", "nvm"):
        become(name, drops=True)
    os.kill(script, 9)


def restart() -> None:
    """Unmount all and have the disks as they are, without what the caches hold of them."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in reversed(mounts):
        if point.startswith((str(FS), "/srv/tracekit-nvm")):
            call("umount", point.encode().decode("unicode_escape"))
    for name in ("fs", "nvm"):
        call("blockdev", "--flushbufs", f"/dev/mapper/{name}")
        become(name, drops=False)
    Path("/proc/sys/vm/drop_caches").write_text("3")


def tree(place: Path) -> dict[str, str]:
    """Return the sums of all files that are not the script's own."""
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file() and ".tracekit-" not in str(path)
    }


def fresh() -> dict[str, str]:
    """Make an ext4 with files on the disk, and nothing on the NVM; return its files."""
    restart()
    call("wipefs", "--all", "/dev/mapper/nvm")
    call("mke2fs", "-q", "-F", "-t", "ext4", "-J", "size=4", "/dev/mapper/fs")
    call("mount", "/dev/mapper/fs", str(FS))
    for number in range(20):
        (FS / f"file {number}").write_bytes(os.urandom(1000 * number))
    os.sync()
    return tree(FS)


def run(way: str, commands: int) -> bool:
    """Run so many commands of the script and cut the power; return whether it came to its end."""
    LEFT.write_text(f"{commands}\n")
    given = {"TRACEKIT_APPLY": "yes", "NVM": "/dev/mapper/nvm", "FS": "/dev/mapper/fs"}
    path = f"{SHIMS}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(SCRIPT), way],
        env={**os.environ, **given, "PATH": path},
        stdout=sys.stderr,
        check=False,
    )
    return done.returncode == 0


def cut() -> dict[str, object]:
    """Cut the power at each command of both ways; return what was wrong, and how many cuts."""
    SHIMS.mkdir()
    for name in COMMANDS:
        real = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        text = SHIM.format(left=LEFT, me=Path(__file__).resolve(), real=real)
        (SHIMS / name).write_text(text)
        (SHIMS / name).chmod(0o755)
    call("umount", str(FS))
    call("umount", "/mnt/dax")
    for name, disk in (("fs", Path("/run/fs").read_text().strip()), ("nvm", "/dev/pmem0")):
        Path(f"/run/{name}.disk").write_text(disk)
        sectors = call("blockdev", "--getsz", disk)
        table = f"0 {sectors} flakey {disk} 0 3600 0"
        call("dmsetup", "--noudevsync", "create", name, "--table", table)
        call("dmsetup", "mknodes", name)
    wrong: list[str] = []
    cuts = {"apply": 0, "undo": 0}
    for way in cuts:
        for commands in range(20):
            files = fresh()
            if way == "undo" and not run("apply", 1000):
                raise RuntimeError("the script cannot be run to its end")
            ended = run(way, commands)
            restart()
            call("mount", "/dev/mapper/fs", str(FS))
            if tree(FS) != files:
                wrong.append(f"{way}, cut before command {commands}: files differ")
            if not run(way, 1000) or tree(FS) != files:
                wrong.append(f"{way}, cut before command {commands}: cannot go on")
            if ended:
                break
            cuts[way] += 1
    return {"wrong": wrong, "cuts": cuts}


if __name__ == "__main__":
    if sys.argv[1:2] == ["power-off"]:
        power_off(int(sys.argv[2]))
    else:
        json.dump(cut(), sys.stdout)

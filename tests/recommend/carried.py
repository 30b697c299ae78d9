"""Disks on which scripts are run, cut and taken back, in a mount namespace of their own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.recipes.three_roles import loop_disk, run

CUT = """#!/bin/sh
read -r left <'{count}'
if [ "$left" -le 0 ]; then kill -9 $PPID; exit 137; fi
echo $((left - 1)) >'{count}'
exec '{real}' "$@"
"""
# What is tested is not how quick a disk is: its images are in memory where the machine has that.
MEMORY = next((one for one in ("/dev/shm",) if os.access(one, os.W_OK)), None)  # noqa: S108
COMMANDS = (
    *("umount", "mount", "e2fsck", "tune2fs", "mke2fs", "cp", "mv", "rm", "rmdir", "mkdir"),
    *("touch", "sync"),
)


@dataclass
class Host:
    """Two loop devices, and a namespace whose mounts end with it."""

    place: Path
    disk: str
    nvm: str
    holder: int

    @property
    def fstab(self) -> Path:
        return self.place / "fstab"

    def inside(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the namespace."""
        words = ["nsenter", f"--mount=/proc/{self.holder}/ns/mnt", *command]
        given = {**os.environ, **environment}
        return subprocess.run(words, capture_output=True, text=True, check=False, env=given)

    def must(self, *command: str) -> str:
        """Run a command in the namespace, which must end well; return what it prints."""
        done = self.inside(*command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def script(
        self, file: Path, *words: str, cut: int | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script for real; with `cut` it is killed before its command of that number."""
        given = {
            "TRACEKIT_APPLY": "yes",
            "NVM": self.nvm,
            "FSTAB": str(self.fstab),
            "NVM_MOUNT": str(self.place / "nvm"),
            **more,
        }
        if cut is not None:
            given["PATH"] = f"{self._shims(cut)}:{os.environ['PATH']}"
        return self.inside("sh", str(file), *words, **given)

    def _shims(self, cut: int) -> Path:
        """Return a folder of commands that let so many of them run."""
        folder, count = self.place / "shims", self.place / "count"
        folder.mkdir(exist_ok=True)
        count.write_text(f"{cut}\n")
        for name in COMMANDS:
            real = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
            assert real is not None
            (folder / name).write_text(CUT.format(count=count, real=real))
            (folder / name).chmod(0o755)
        return folder

    def unmount_all(self) -> None:
        """End all mounts of both devices, as a restart does."""
        for _ in range(8):
            table = self.must("cat", "/proc/self/mountinfo").splitlines()
            mine = [line.split()[4] for line in table if str(self.place) in line.split()[4]]
            if not mine:
                return
            self.must("umount", mine[-1].encode().decode("unicode_escape"))

    def saved(self) -> tuple[bytes, bytes]:
        """Return what is on both devices, which are unmounted."""
        self.unmount_all()
        return Path(self.disk).read_bytes(), Path(self.nvm).read_bytes()

    def restore(self, saved: tuple[bytes, bytes]) -> None:
        """Unmount both devices and put on them what was there before."""
        self.unmount_all()
        for device, content in zip((self.disk, self.nvm), saved, strict=True):
            with open(device, "r+b", buffering=0) as file:
                assert file.write(content) == len(content)
                os.fsync(file.fileno())

    def files(self, folder: Path) -> dict[str, str]:
        """Return the content of all files below a folder of the namespace, by path."""
        text = self.must(
            "sh", "-c", 'cd "$1" && find . -type f -exec sha256sum {} +', "-", str(folder)
        )
        pairs = (line.split("  ", 1) for line in text.splitlines())
        return {name: total for total, name in sorted(pairs)}


@contextmanager
def host(place: Path) -> Iterator[Host]:
    """Yield a machine with a disk of 48 MiB and an NVM of 24 MiB; all is gone afterwards."""
    with ExitStack() as undo:
        images = Path(undo.enter_context(TemporaryDirectory(dir=MEMORY)))
        disk, nvm = (
            undo.enter_context(loop_disk(images / name, mib << 20))
            for name, mib in (("disk.img", 48), ("nvm.img", 24))
        )
        words = ["unshare", "--mount", "--propagation", "private", "sleep", "600"]
        holder = subprocess.Popen(words)
        undo.callback(holder.wait)
        undo.callback(holder.kill)
        machine = Host(place, disk, nvm, holder.pid)
        undo.callback(machine.unmount_all)
        machine.fstab.write_text("# of the test\n")
        while machine.inside("true").returncode != 0:
            pass
        yield machine


def wipe(machine: Host) -> None:
    """Make the NVM empty again."""
    run("wipefs", "--quiet", "--all", machine.nvm)

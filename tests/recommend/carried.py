"""Disks on which scripts are run, cut and taken back, in a mount namespace of their own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.command_line import succeed
from tests.recipes.three_roles import loop_disk, run
from tests.recommend.test_units import WORDS
from tests.simulate.placement_models import Request, write_trace
from tests.traces import written

CUT = """#!/bin/sh
read -r left <'{count}'
if [ "$left" -le 0 ]; then kill -9 $PPID; exit 137; fi
echo $((left - 1)) >'{count}'
exec '{real}' "$@"
"""
# What is tested is not how quick a disk is: its images are in memory where the machine has that.
MEMORY = next((one for one in ("/dev/shm",) if os.access(one, os.W_OK)), None)  # noqa: S108
NAME = "it's $HOME; a log"
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

    @property
    def point(self) -> Path:
        """Where the disk is mounted."""
        return self.place / "fs"

    def inside(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the namespace."""
        # Its root, too: that of the namespace is the machine's, where this is a chroot.
        place = f"/proc/{self.holder}"
        words = ["nsenter", f"--mount={place}/ns/mnt", f"--root={place}/root", *map(str, command)]
        given = {**os.environ, **environment}
        return subprocess.run(words, capture_output=True, text=True, check=False, env=given)

    def must(self, *command: str | Path) -> str:
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
        return self.inside("sh", file, *words, **given)

    def carried_out(self, file: Path, *words: str, hint: str = "", **more: str) -> str:
        """Run a script, which must end well; return what it prints."""
        done = self.script(file, *words, cut=None, **more)
        assert done.returncode == 0, hint + done.stdout + done.stderr
        return done.stdout

    def refused(self, file: Path, *words: str, why: str, **more: str) -> None:
        """Run a script, which must say why it stops before its first command."""
        done = self.script(file, *words, cut=None, **more)
        assert (done.returncode, done.stdout) == (1, "")
        assert why in done.stderr

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

    def files(self, folder: Path | None = None) -> dict[str, str]:
        """Return the content of all files below a folder, or on the disk, by path."""
        text = self.must(
            "sh",
            "-c",
            'cd "$1" && find . -type f -exec sha256sum {} +',
            "-",
            str(folder or self.point),
        )
        pairs = (line.split("  ", 1) for line in text.splitlines())
        return {name: total for total, name in sorted(pairs)}

    def wipe(self) -> None:
        """Make the NVM empty again."""
        run("wipefs", "--quiet", "--all", self.nvm)

    def fresh(self) -> dict[str, str]:
        """Make an ext4 with files and its own journal, mounted; return its files."""
        self.unmount_all()
        self.wipe()
        run("mke2fs", "-q", "-F", "-t", "ext4", "-J", "size=4", self.disk)
        self.must("mkdir", "-p", self.point)
        self.must("mount", self.disk, self.point)
        self.must(
            *("sh", "-c", 'cd "$1" && mkdir -p "$2/sub" && umask 027'
             ' && seq 20000 >"$2/sub/a b" && seq 9 >"$2/x" && ln -s x "$2/link" && sync', "-"),
            *(str(self.point), NAME),
        )  # fmt: skip
        return self.files()

    def features(self) -> str:
        """Return what the superblock of the disk says."""
        return run("dumpe2fs", "-h", self.disk)

    def own_files(self) -> dict[str, str]:
        """Return the files but those that a script keeps beside what it moves."""
        return {name: sum_ for name, sum_ in self.files().items() if ".tracekit-" not in name}

    def written_when_moved(self, moved: Path) -> dict[str, str]:
        """Write to what was moved: on the NVM, and comes back from there. Return all files."""
        target = moved if self.inside("test", "-f", moved).returncode == 0 else moved / "new"
        self.must("sh", "-c", 'echo new >"$1"', "-", target)
        return self.own_files()

    def journal_script(self, **more: Any) -> Path:
        """Return the script for the journal of the disk."""
        return journal_script(self.place, self.disk, self.point, **more)

    def move_script(self, path: Path | None = None) -> Path:
        """Return the script for a path on the disk, by default NAME."""
        return move_script(self.place, self.disk, path or self.point / NAME)


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
            if holder.poll() is not None:
                pytest.skip("no mount namespace of its own can be had here")
        yield machine


def region(name: str, role: str, sectors: range, **more: Any) -> dict[str, Any]:
    """Return a part of a device with the name of a whole one."""
    place = {"device": name.split(maxsplit=1)[0], "name": name, "role": role}
    size = {"start_sector": sectors.start, "sectors": len(sectors)}
    return {"filesystem": "ext4", "mount": None, "evidence": "", **place, **size, **more}


def script_of(
    folder: Path, requests: list[Request], *words: str | Path, layout: list[dict[str, Any]]
) -> Path:
    """Recommend for a trace, and return the script's file."""
    write_trace(folder / "trace", requests, layout=layout)
    file = folder / "carry.sh"
    succeed("recommend", folder / "trace", *WORDS, *words, "--script", file, "--force")
    subprocess.run(["sh", "-n", file], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-S", "warning", file], check=True)
    return file


def with_journal(
    disk: str, point: Path | None, **more: Any
) -> tuple[list[dict[str, Any]], list[Request]]:
    """Return the layout of a file system with a journal of 4 MiB, and requests of all of that."""
    name = Path(disk).name
    journal = region(f"{name} journal", "journal", range(32768, 32768 + 8192))
    requests = [Request("journal", 32768 + 16 * n, device=name) for n in range(512)]
    mount = str(point) if point else None
    return [region(name, "fs", range(98304), mount=mount, **more), journal], requests


def journal_script(folder: Path, disk: str, point: Path | None = None, **more: Any) -> Path:
    """Return the script of a trace whose journal of 4 MiB belongs on the NVM."""
    layout, requests = with_journal(disk, point, **more)
    return script_of(folder, requests, "--unit", "role", "--capacity", "5MiB", layout=layout)


def of_path(folder: Path, disk: str, path: Path) -> tuple[tuple[str | Path, ...], list[Request]]:
    """Return the options that name one file or directory of a disk, and requests of all of it."""
    name = Path(disk).name
    table = written(
        folder / "files.csv", f'path,device,first_sector,sectors\n"{path}",{name},800,8192\n'
    )
    requests = [Request("fs", 800 + 16 * n, device=name) for n in range(512)]
    return ("--unit", "file", "--files", table), requests


def move_script(folder: Path, disk: str, path: Path) -> Path:
    """Return the script of a trace of which one file or directory belongs on the NVM."""
    words, requests = of_path(folder, disk, path)
    layout = [region(Path(disk).name, "fs", range(98304))]
    return script_of(folder, requests, *words, "--capacity", "13MiB", layout=layout)


def run_kind(device: str) -> str:
    done = subprocess.run(
        ["blkid", "-p", "-o", "value", "-s", "TYPE", device], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.stdout.strip()


VOLUME = [region("dm-3", "fs", range(80000))]

HOT = [Request("fs", 16 * n, device="dm-3") for n in range(400)]


def volume_script(folder: Path, *words: str) -> Path:
    """Return the script of a trace of a logical volume."""
    return script_of(folder, HOT, *words, layout=VOLUME)


def swap_script(folder: Path) -> Path:
    layout = [region("away", "swap", range(800))]
    words = ("--unit", "role", "--capacity", "1GiB")
    return script_of(folder, [Request("swap", 0, device="away")], *words, layout=layout)

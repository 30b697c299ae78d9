"""Carries scripts out in a guest and cuts the power at each of their commands; prints JSON.

From a cut on, device mapper drops what is written to both disks. Then all is taken down as by a
restart, the disks are as they were at the cut, and what was on them is set up and mounted again.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SHARE, FS = Path(os.environ["LAB_SHARE"]), Path("/mnt/carried")
BASE, NVM, LV = "/dev/mapper/fs", "/dev/mapper/nvm", "/dev/group/volume"
DISKS = ("fs", "nvm")
SHIMS, LEFT, CUT = Path("/run/shims"), Path("/run/left"), Path("/run/cut")
MOUNTS = Path("/proc/self/mountinfo")
FSTAB, NVM_MOUNT = Path("/etc/fstab"), "/srv/tracekit-nvm"
COMMANDS = (
    *("umount", "mount", "e2fsck", "tune2fs", "mke2fs", "cp", "mv", "rm", "rmdir", "mkdir"),
    *("touch", "sync", "debugfs", "mkswap", "swapon", "swapoff", "pvcreate", "vgextend", "pvmove"),
    *("lvcreate", "lvchange", "lvconvert", "lvremove", "vgreduce", "pvremove"),
)
SHIM = """#!/bin/sh
left=$(cat {left})
echo $((left - 1)) >{left}
if [ "$left" -ne 0 ]; then exec {real} "$@"; fi
if [ -n "${{{within}:-}}" ]; then
  {real} "$@" </dev/null >/dev/null 2>&1 &
  running=$!
  sleep "${within}"
fi
for name in fs nvm; do
  dmsetup --noudevsync suspend --nolockfs --noflush $name
  dmsetup --noudevsync load $name /run/$name.drops
  dmsetup --noudevsync resume $name
done
if [ -n "${{running:-}}" ]; then
  kill -9 $running
  dmsetup info -c --noheadings -o name | while read -r name; do
    dmsetup --noudevsync resume $name
  done
  wait
fi
echo {name} >{cut}
kill -9 $PPID
"""
"""Counts commands. At one of them, from then on all writes are lost and the script is gone."""
LVM = """
activation { udev_sync=0 udev_rules=0 monitoring=0 verify_udev_operations=0 }
devices {
  use_devicesfile=0 obtain_device_list_from_udev=0 scan=["/dev"]
  filter=["a|^/dev/mapper/(fs|nvm)$|", "r|.*|"]
}
global { use_lvmpolld=0 event_activation=0 }
backup { backup=0 archive=0 }
"""
WITHIN = "CUT_WITHIN"
"""Set to the seconds for which the command runs in which the cut is; else it does not begin."""
WITHIN_S = 0.4
MOST_CUTS = 30


def call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout.strip()


def become(name: str, table: Path) -> None:
    """Give a disk another table without writing anything of the file system before."""
    call("dmsetup", "--noudevsync", "suspend", "--nolockfs", "--noflush", name)
    call("dmsetup", "--noudevsync", "load", name, str(table))
    call("dmsetup", "--noudevsync", "resume", name)


def mapped() -> list[str]:
    """Return the devices of the device mapper that stand upon the two disks."""
    lines = call("dmsetup", "info", "-c", "--noheadings", "-o", "name").splitlines()
    return [name for name in lines if name not in DISKS]


def resume() -> None:
    """Let go what a killed command had suspended; what it cannot be any more fails from now on."""
    for name in mapped():
        try:
            call("dmsetup", "--noudevsync", "resume", name)
        except RuntimeError:
            call("dmsetup", "--noudevsync", "wipe_table", "--force", name)


def restart() -> None:
    """Take all down and have the disks as they are, without what the caches hold of them."""
    resume()
    points = [line.split()[4] for line in MOUNTS.read_text().splitlines()]
    for point in reversed(points):
        if point.startswith((str(FS), NVM_MOUNT)):
            call("umount", point.encode().decode("unicode_escape"))
    for line in Path("/proc/swaps").read_text().splitlines()[1:]:
        call("swapoff", line.split()[0])
    for _ in range(20):
        left = mapped()
        if not left:
            break
        for name in left:
            with suppress(RuntimeError):  # what stands upon it goes first
                call("dmsetup", "--noudevsync", "remove", name)
    else:
        raise RuntimeError(f"still there: {left}")
    shutil.rmtree("/dev/group", ignore_errors=True)
    for name in DISKS:
        call("blockdev", "--flushbufs", f"/dev/mapper/{name}")
        if CUT.exists():
            become(name, Path(f"/run/{name}.keeps"))
            call("blockdev", "--flushbufs", f"/dev/mapper/{name}")
    CUT.unlink(missing_ok=True)


def tree(place: Path) -> dict[str, str]:
    """Return the sums of all files, which are in no folder that is only for a time."""
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file() and ".tracekit-" not in str(path.relative_to(place))
    }


def application(number: int) -> None:
    """Write as a database does: in place and at the end, each with fsync."""
    folder = FS / "data"
    folder.mkdir(exist_ok=True)
    for name, size in (("table", 3_000_000), (f"log {number}", 200_000)):
        with (folder / name).open("r+b" if (folder / name).exists() else "w+b") as file:
            for at in range(0, size, 50_000):
                file.seek(at)
                file.write(os.urandom(4096))
                file.flush()
            os.fsync(file.fileno())
    os.sync()


def make_ext4(device: str, *words: str) -> None:
    how = ("-q", "-F", "-t", "ext4", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0")
    call("mke2fs", *how, *(words or ("-J", "size=4")), device)


def make_plain() -> None:
    make_ext4(BASE)


def make_volume() -> None:
    """A logical volume of several extents, which is not all of its group."""
    call("pvcreate", BASE)
    call("vgcreate", "-s", "1M", "group", BASE)
    call("lvcreate", "--yes", "-Wn", "-Zn", "-L", "24M", "-n", "volume", "group")
    make_ext4(LV)


def kind(device: str, tag: str = "TYPE") -> str:
    command = ("blkid", "-p", "-o", "value", "-s", tag, device)
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def lvm(*words: str) -> list[str]:
    return call(*words[:1], "--noheadings", "-a", "-o", *words[1:]).split()


def journal_device() -> bool:
    uuid = kind(NVM, "UUID") if kind(NVM) == "jbd" else ""
    header = call("dumpe2fs", "-h", BASE)
    return uuid != "" and uuid in header.replace(" ", "").replace("JournalUUID:", "\n").split("\n")


def swap() -> bool:
    node = Path(NVM).resolve()
    lines = call("swapon", "--show=NAME,PRIO", "--noheadings", "--raw").splitlines()
    return any(line in (f"{node} 100", f"{NVM} 100") for line in lines)


def moved() -> bool:
    found = call("findmnt", "-rn", "-o", "TARGET,SOURCE")
    return f"{FS}/data {NVM}[/data]" in found


def on_nvm() -> bool:
    return any(one.startswith(NVM) for one in lvm("lvs", "seg_pe_ranges", "--segments", "group"))


def cached(way: str) -> Callable[[], bool]:
    """Return whether the volume has a cache of that kind on the NVM."""

    def has_it() -> bool:
        if lvm("lvs", "segtype", "group/volume") != [way.removesuffix("-back")]:
            return False
        return way != "cache-back" or lvm("lvs", "cache_mode", "group/volume") == ["writeback"]

    return has_it


@dataclass(frozen=True)
class Kind:
    """One kind of script, what it is for, and how to see that what it does is in use."""

    script: str
    make: Callable[[], None]
    in_use: Callable[[], bool]
    given: tuple[tuple[str, str], ...] = ()
    long: tuple[str, ...] = ()
    """Commands that are cut while they run, too."""
    is_mended: bool = False
    """Whether it may take the next run to start again."""


VOLUME = (("LV_dm_3", LV),)
KINDS = {
    "journal": Kind("journal", make_plain, journal_device, (("FS", BASE), ("POINT", str(FS)))),
    "swap": Kind("swap", make_plain, swap),
    "move": Kind("move", make_plain, moved, long=("cp",)),
    "extents": Kind("extents", make_volume, on_nvm, VOLUME, long=("pvmove",)),
    "cache": Kind(
        "cache", make_volume, cached("cache"), VOLUME, long=("lvconvert",), is_mended=True
    ),
    "writeback": Kind(
        "cache",
        make_volume,
        cached("cache-back"),
        (*VOLUME, ("CACHE", "writeback")),
        is_mended=True,
    ),
    "writecache": Kind(
        "cache", make_volume, cached("writecache"), (*VOLUME, ("CACHE", "writecache"))
    ),
}


@dataclass
class Trial:
    """A kind of script on its two disks."""

    one: Kind
    wrong: list[str]
    last: str = ""
    """Command at which the power was cut."""

    def start(self) -> None:
        """Set up and mount what the disks hold, as a start of the machine does."""
        device = BASE
        if self.one.make is make_volume:
            call("vgchange", "-q", "-ay", "--poll", "n", "group")
            device = LV
        call("mount", device, str(FS))
        call("mount", "-a")
        call("swapon", "-a")

    def run(
        self, way: str, commands: int = 10_000, *, within: bool = False, is_lost: bool = False
    ) -> bool:
        """Run so many commands of the script and cut the power; return whether it ended well."""
        LEFT.write_text(f"{commands}\n")
        given = {"TRACEKIT_APPLY": "yes", "NVM": NVM, **dict(self.one.given)}
        given |= {"PATH": f"{SHIMS}:{os.environ['PATH']}", "DM_DISABLE_UDEV": "1"}
        given |= {WITHIN: str(WITHIN_S)} if within else {}
        given |= {"NVM_LOST": "yes", "NVM": ""} if is_lost else {}
        begin_s = time.monotonic()
        done = subprocess.run(
            ["sh", str(SHARE / f"{self.one.script}.sh"), way],
            env={**os.environ, **given},
            stdout=sys.stderr,
            check=False,
        )
        say(f"{way} {commands}: {done.returncode} after {time.monotonic() - begin_s:.1f} s")
        return done.returncode == 0

    def cut(self, way: str, number: int, files: dict[str, str], *, within: bool) -> bool:
        """Cut the power at a command; return whether the script had ended before."""
        self.start()
        ended = self.run(way, number, within=within)
        self.last = CUT.read_text().strip() if CUT.exists() else ""
        where = f"{way}, cut {'in' if within else 'before'} command {number}, {self.last}"
        restart()
        self.check_back(way, files, where)
        return ended

    def check_back(self, way: str, files: dict[str, str], where: str) -> bool:
        """Start after a cut, and check that all files are there and the next run ends the work.

        Return whether it started by itself; where LVM may not, the next run has to mend that.
        """
        has_started = True
        try:
            self.start()
        except RuntimeError as error:
            has_started = False
            say(f"{where}: {error}")
            if not self.one.is_mended or not self.run(way):
                self.wrong.append(f"{where}: does not start: {error}")
            restart()
            self.start()
        # Of a directory that is on its way one of the places has all.
        places = [FS, *(FS / f"data.tracekit-{name}" for name in ("old", "new"))]
        places += [Path(NVM_MOUNT, name) for name in ("data", "data.undone")]
        kept = [tree(place) for place in places if place.exists()]
        checks = {"files differ": files in kept or _below(files) in kept}
        checks["cannot go on"] = self.run(way)
        checks["is not as it should be"] = self.one.in_use() == (way == "apply")
        checks["files differ at the end"] = tree(FS) == files
        for what, is_right in checks.items():
            if not is_right:
                self.wrong.append(f"{where}: {what}")
                say(self.wrong[-1])
        restart()
        return has_started

    def cut_all(self, way: str, first: int, step: int) -> int:
        """Cut the power at commands; return how often. What is on the disks was taken down."""
        state = {name: Path(f"/dev/mapper/{name}").read_bytes() for name in DISKS}
        table = FSTAB.read_text()
        self.start()
        files = tree(FS)
        restart()
        number, within, count = first, False, 0
        while not self.cut(way, number, files, within=within):
            count += 1
            if count > MOST_CUTS:
                raise RuntimeError(f"{way} does not end: {self.wrong}")
            within = not within and self.last in self.one.long
            number += 0 if within else step
            fill(state)
            FSTAB.write_text(table)
        return count


def _below(files: dict[str, str]) -> dict[str, str]:
    """Return what a directory has of the files."""
    return {name.removeprefix("data/"): value for name, value in files.items()}


def fill(state: dict[str, bytes]) -> None:
    """Give both disks a content."""
    for name, content in state.items():
        with Path(f"/dev/mapper/{name}").open("r+b") as device:
            device.write(content)
            device.flush()
            os.fsync(device.fileno())


def size_of(name: str) -> int:
    return int(call("blockdev", "--getsize64", f"/dev/mapper/{name}"))


def prepared(trial: Trial) -> dict[str, str]:
    """Make what a script is for on empty disks, and use it; return its files. All is taken down."""
    fill({name: bytes(size_of(name)) for name in DISKS})
    FSTAB.write_text("")
    trial.one.make()
    trial.start()
    application(1)
    files = tree(FS)
    restart()
    return files


def try_kind(one: Kind, way: str, wrong: list[str], *, first: int, step: int) -> int:
    """Use what it is for, and cut the power at each command of a way; return at how many.

    With `lost` the NVM is dead, and what was done is taken back.
    """
    trial = Trial(one, wrong)
    before = after = prepared(trial)
    if way != "apply":
        trial.start()
        if not trial.run("apply"):
            wrong.append("the script cannot be run to its end")
        restart()
        trial.start()
        if not one.in_use():
            wrong.append("not in use after a restart")
        application(2)
        after = tree(FS)
        restart()
    if way != "lost":
        return trial.cut_all(way, first, step)
    fill({"nvm": bytes(size_of("nvm"))})
    with suppress(RuntimeError):  # not all can be mounted
        trial.start()
    checks = {"cannot be taken back": trial.run("undo", is_lost=True)}
    restart()
    trial.start()
    checks["files differ"] = tree(FS) == (before if one.script == "move" else after)
    checks["is in use"] = not one.in_use()
    wrong += [what for what, is_right in checks.items() if not is_right]
    restart()
    return 0


def say(line: str) -> None:
    """Print a line where a guest that dies still shows it."""
    sys.stderr.write(f"{line}\n")
    with Path("/dev/console").open("a") as console:
        console.write(f"{line}\n")


def real(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        raise RuntimeError(f"the guest has no {name}")
    return found


def set_up() -> None:
    """Make the shims, and the two disks by device mapper."""
    os.environ |= {"DM_DISABLE_UDEV": "1"}
    for folder in (SHIMS, FS, Path("/etc/lvm")):
        folder.mkdir(parents=True, exist_ok=True)
    Path("/etc/lvm/lvm.conf").write_text(LVM)
    for name in COMMANDS:
        text = SHIM.format(left=LEFT, real=real(name), within=WITHIN, name=name, cut=CUT)
        (SHIMS / name).write_text(text)
        (SHIMS / name).chmod(0o755)
    for path in sorted((SHARE / "modules").glob("*.ko")):
        words = ("rd_nr=1", "rd_size=49152") if path.stem.endswith("-brd") else ()
        subprocess.run(
            ["busybox", "insmod", str(path), *words], stderr=subprocess.DEVNULL, check=False
        )
    call("umount", os.environ["LAB_FS"])
    for name, disk in (("fs", Path("/run/fs").read_text().strip()), ("nvm", "/dev/ram0")):
        sectors = call("blockdev", "--getsz", disk)
        for kept, times in (("keeps", "3600 0"), ("drops", "0 3600 1 drop_writes")):
            table = f"0 {sectors} flakey {disk} 0 {times}\n"
            Path(f"/run/{name}.{kept}").write_text(table)
        call("dmsetup", "--noudevsync", "create", name, f"/run/{name}.keeps")


def main() -> None:
    """Try kinds of scripts."""
    set_up()
    wrong: dict[str, list[str]] = {word: [] for word in sys.argv[1:]}
    cuts = {}
    for word in sys.argv[1:]:
        # Of KIND:WAY:FIRST:STEP only some commands are cut.
        name, way, *numbers = word.split(":")
        first, step = map(int, numbers or (0, 1))
        cuts[word] = try_kind(KINDS[name], way, wrong[word], first=first, step=step)
    json.dump({"wrong": wrong, "cuts": cuts}, sys.stdout)


if __name__ == "__main__":
    main()

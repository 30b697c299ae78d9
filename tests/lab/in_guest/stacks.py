"""Storage stacks: each is built, traced under a load, and taken apart to see what lay where.

Run in a guest. Of each stack it leaves blktrace's files, layout.json, and for each disk a byte a
sector: the first letter of the role by debugfs, xfs_db and filefrag. Which
block of the highest device lies where on a disk is seen, not computed: each block of it is written
with its own number, and the disks are read.
"""

import json
import mmap
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, "/lab/host")
from tracekit.capture.layout import find_disks, read_again, read_layout
from tracekit.stack.mounts import read_mounts

OUT, SHARE = Path(os.environ["LAB_OUT"]), Path(os.environ["LAB_SHARE"])
POINT, UNION = Path("/mnt/stack"), Path("/mnt/union")
SWAP = POINT / "swapfile"
MIB = 1 << 20
BLOCK = 4096
DISK_MIB = 384
DISKS = ("base", "nvm")
TAG = b"tracekit block: "


def sh(command: str, *, check: bool = True) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{command}: {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


@dataclass
class Built:
    """A stack: its highest device and the roles of that one's blocks, and how it is taken apart."""

    top: str | None = None
    """What is tagged; None: `whole` says what each device is for."""
    mount: str = ""
    whole: dict[str, str] = field(default_factory=dict)
    """Role by device, of devices that are of one role."""
    swap: str = ""
    truth: Callable[[str], list[tuple[int, int, str]]] | None = None
    """Given the top: first sector, sectors and role of what is not fs on it."""
    untagged: str = "other"
    """Role of what is not of the top."""
    undo: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    """Commands whose texts describe it on another host."""
    is_followed: bool = False
    """Its blocks change places: remaps of all devices say where each request comes from."""


def journal_of(device: str) -> list[tuple[int, int, str]]:
    """Return where the journal lies by debugfs."""
    (block_bytes,) = re.findall(r"Block size: +(\d+)", sh(f"dumpe2fs -h {device}"))
    scale = int(block_bytes) // 512
    text = sh(f"debugfs -R 'stat <8>' {device}").partition("EXTENTS:")[2]
    found = re.findall(r"\(\d+(?:-\d+)?\):(\d+)(?:-(\d+))?", text)
    return [(int(a) * scale, (int(b or a) - int(a) + 1) * scale, "journal") for a, b in found]


def xfs_log_of(device: str) -> list[tuple[int, int, str]]:
    """Return where the log lies by xfs_db."""
    text = sh(f"xfs_db -r -c 'sb 0' -c 'print blocksize logblocks logstart' {device}")
    size, blocks, start = (int(word) for word in re.findall(r"= (\d+)", text))
    text = sh(f"xfs_db -r -c 'convert fsblock {start} daddr' {device}")
    return [(int(re.findall(r"\d+", text)[-1]), blocks * size // 512, "journal")]


def swap_file_of(_device: str) -> list[tuple[int, int, str]]:
    rows = re.findall(
        r"^ *\d+: +\d+\.\. *\d+: +(\d+)\.\. *\d+: +(\d+):",
        sh(f"filefrag -v -b512 {SWAP}"),
        re.MULTILINE,
    )
    return [(int(start), int(count), "swap") for start, count in rows]


def ext4(device: str, options: str = "") -> None:
    how = "-E lazy_itable_init=0,lazy_journal_init=0,nodiscard"
    sh(f"mke2fs -q -F -t ext4 -b 4096 {how} {options} {device}")


def plain() -> Built:
    sh("printf 'label: gpt\nsize=200MiB\nsize=100MiB\n' | sfdisk -q /dev/base")
    ext4("/dev/base1")
    return Built("/dev/base1", "/dev/base1", truth=journal_of)


def dm_linear() -> Built:
    """Two disks in a row, with the journal over the joint."""
    size = 150 * 2048
    table = f"0 {size} linear /dev/base 8192\n{size} {size} linear /dev/nvm 4096"
    sh(f"dmsetup create both --table '{table}'")
    top = "/dev/mapper/both"
    ext4(top, "-J size=64")
    return Built(top, top, truth=journal_of, undo=("dmsetup remove both",))


LVM_UNDO = ("vgremove -ff -y vg", "pvremove -ffy /dev/base /dev/nvm")


def lvm_thin() -> Built:
    sh("pvcreate -ffy /dev/base /dev/nvm && vgcreate vg /dev/base /dev/nvm")
    sh("lvcreate -y -L 300M -T vg/pool -c 64k --errorwhenfull y")
    sh("lvcreate -y -V 400M -T vg/pool -n thin")
    ext4("/dev/vg/thin")
    return Built("/dev/vg/thin", "/dev/vg/thin", truth=journal_of, undo=LVM_UNDO)


def lvm_mixed() -> Built:
    """A striped root and a swap volume beside it, as installers make them."""
    sh("pvcreate -ffy /dev/base /dev/nvm && vgcreate -s 4M vg /dev/base /dev/nvm")
    sh("lvcreate -y -i 2 -I 64k -L 200M -n root vg && lvcreate -y -L 64M -n swap vg")
    sh("lvextend -L 300M vg/root")
    ext4("/dev/vg/root")
    sh("mkswap /dev/vg/swap")
    top = "/dev/vg/root"
    return Built(top, top, swap="/dev/vg/swap", truth=journal_of, undo=LVM_UNDO)


def lvm_cached(how: str) -> Built:
    """A volume whose fast blocks are on the other disk, with a journal that is written again."""
    sh("pvcreate -ffy /dev/base /dev/nvm && vgcreate vg /dev/base /dev/nvm")
    sh("lvcreate -y -L 300M -n slow vg /dev/base && lvcreate -y -an -L 200M -n fast vg /dev/nvm")
    sh(f"lvconvert -y {how} --cachevol fast vg/slow")
    top = "/dev/vg/slow"
    ext4(top, "-J size=4")
    return Built(top, top, truth=journal_of, undo=LVM_UNDO, is_followed=True)


def lvm_cache() -> Built:
    return lvm_cached("--type cache --chunksize 32k --cachemode writeback")


def lvm_writecache() -> Built:
    return lvm_cached("--type writecache")


def crypt() -> Built:
    """Encrypted by a cipher that changes nothing: what is written can be found on the disk."""
    table = f"0 {300 * 2048} crypt cipher_null-ecb - 0 /dev/base 32768"
    sh(f"dmsetup create crypt --table '{table}'")
    top = "/dev/mapper/crypt"
    ext4(top)
    return Built(top, top, truth=journal_of, undo=("dmsetup remove crypt",))


def md(level: str, *members: str, version: str = "1.2", options: str = "") -> Built:
    how = f"--run --level={level} --raid-devices={len(members)} --metadata={version} {options}"
    sh(f"yes | mdadm --create /dev/md0 {how} {' '.join(members)}")
    ext4("/dev/md0")
    texts = (
        *("lsblk -J -b -O", "blkid", "cat /proc/mdstat", "mdadm --detail /dev/md0", "findmnt -J"),
        *(f"mdadm --examine {' '.join(members)}", "dumpe2fs -h /dev/md0"),
        "debugfs -R 'stat <8>' /dev/md0",
    )
    undo = ("mdadm --stop /dev/md0",)
    return Built("/dev/md0", "/dev/md0", truth=journal_of, undo=undo, texts=texts)


def md1() -> Built:
    return md("1", "/dev/base", "/dev/nvm", options="--assume-clean")


def md_unlike() -> Built:
    """A RAID 0 over members of two sizes: the end of it lies on the larger one alone."""
    sh("printf 'label: gpt\nsize=250MiB\n' | sfdisk -q /dev/nvm")
    return md("0", "/dev/base", "/dev/nvm1", options="--chunk=64")


def md_linear() -> Built:
    sh("printf 'label: gpt\nsize=150MiB\n' | sfdisk -q /dev/base")
    return md("linear", "/dev/base1", "/dev/nvm", version="1.0")


def md5() -> Built:
    """Its parity, which nothing tags, has no role."""
    sh("printf 'label: gpt\nsize=150MiB\nsize=150MiB\n' | sfdisk -q /dev/base")
    options = "--chunk=64 --assume-clean --bitmap=none"
    built = md("5", "/dev/base2", "/dev/nvm", "/dev/base1", options=options)
    built.untagged = "parity"
    return built


def ext4_external() -> Built:
    sh("mke2fs -q -F -O journal_dev -b 4096 /dev/nvm")
    ext4("/dev/base", "-J device=/dev/nvm")
    return Built(mount="/dev/base", whole={"base": "fs", "nvm": "journal"})


def xfs() -> Built:
    sh("mkfs.xfs -q -f -K /dev/base")
    return Built("/dev/base", "/dev/base", truth=xfs_log_of)


def xfs_on_linear() -> Built:
    sh(f"dmsetup create x --table '0 {320 * 2048} linear /dev/base 2048'")
    sh("mkfs.xfs -q -f -K /dev/mapper/x")
    return Built("/dev/mapper/x", "/dev/mapper/x", truth=xfs_log_of, undo=("dmsetup remove x",))


def xfs_external() -> Built:
    sh("mkfs.xfs -q -f -K -l logdev=/dev/nvm,size=64m /dev/base")
    return Built(mount="-o logdev=/dev/nvm /dev/base", whole={"base": "fs", "nvm": "journal"})


def btrfs() -> Built:
    sh("mkfs.btrfs -q -f -d single -m raid1 /dev/base /dev/nvm")
    return Built(mount="/dev/base", whole={"base": "fs", "nvm": "fs"})


def swap_partition() -> Built:
    sh("printf 'label: gpt\nsize=200MiB\nsize=150MiB\n' | sfdisk -q /dev/base && mkswap /dev/base2")
    ext4("/dev/base1")
    return Built("/dev/base1", "/dev/base1", swap="/dev/base2", truth=journal_of)


def swap_file() -> Built:
    ext4("/dev/base")
    return Built("/dev/base", "/dev/base", swap=str(SWAP), truth=journal_of)


def overlay() -> Built:
    ext4("/dev/base")
    return Built("/dev/base", "/dev/base", truth=journal_of)


STACKS: dict[str, Callable[[], Built]] = {
    "ext4 on a partition": plain,
    "dm-linear over two disks": dm_linear,
    "LVM thin": lvm_thin,
    "LVM striped and swap": lvm_mixed,
    "LVM cache": lvm_cache,
    "LVM writecache": lvm_writecache,
    "crypt": crypt,
    "md1": md1,
    "md0 over two sizes": md_unlike,
    "md linear": md_linear,
    "md5": md5,
    "ext4 external journal": ext4_external,
    "XFS internal log": xfs,
    "XFS on dm-linear": xfs_on_linear,
    "XFS external log": xfs_external,
    "btrfs on two disks": btrfs,
    "swap partition": swap_partition,
    "swap file": swap_file,
    "overlay": overlay,
}


def wipe() -> None:
    for disk in DISKS:
        sh(f"wipefs -qaf /dev/{disk}; blkdiscard -f /dev/{disk}")
        sh(f"dd if=/dev/zero of=/dev/{disk} bs=1M count=8 conv=fsync status=none")
        sh(f"blockdev --rereadpt /dev/{disk}", check=False)


def make_disks() -> None:
    for name in DISKS:
        folder = Path("/sys/kernel/config/nullb") / name
        folder.mkdir()
        settings = {
            "size": DISK_MIB,
            "memory_backed": 1,
            "blocksize": 512,
            "irqmode": 2,
            "completion_nsec": 50000,
            "hw_queue_depth": 16,
            "cache_size": 8,
            "discard": 1,
            "power": 1,
        }
        for key, value in settings.items():
            (folder / key).write_text(str(value))


HOG = """
memory = bytearray(80 << 20)
for turn in range(2):
    for at in range(0, len(memory), 4096):
        memory[at] = turn + at % 251
assert sum(memory[4096::4096])
"""


def load(folder: Path, *, swaps: bool) -> None:
    """Write small files durably and a large one, read them again from the disk."""
    for number in range(60):
        with (folder / f"small{number}").open("wb") as file:
            file.write(os.urandom(2 * BLOCK))
            file.flush()
            os.fsync(file.fileno())
    with (folder / "large").open("wb") as file:
        for _ in range(8):
            file.write(os.urandom(MIB))
    os.sync()
    if swaps:
        group = Path("/sys/fs/cgroup/hog")
        group.mkdir(exist_ok=True)
        (group / "memory.max").write_text(str(40 * MIB))
        sh(f"sh -c 'echo 0 > {group}/cgroup.procs; exec python3 -c \"{HOG}\"'")
    Path("/proc/sys/vm/drop_caches").write_text("3")
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != "swapfile":
            path.read_bytes()
    for number in range(0, 60, 3):
        (folder / f"small{number}").unlink()
    os.sync()


def traced(folder: Path, work: Callable[[], None], more: Sequence[str] = ()) -> None:
    """Trace the disks, and more devices into a folder of their own."""
    running = []
    for place, names in ((folder, DISKS), (folder / "above", more)):
        place.mkdir(exist_ok=True)
        words = [word for name in names for word in ("-d", f"/dev/{name}")]
        with (place / "blktrace.log").open("w") as log:
            command = ["blktrace", *words, "-D", str(place), "-b", "512", "-n", "8"]
            if names:
                running.append(subprocess.Popen(command, stdout=log, stderr=log))
    time.sleep(2)
    work()
    time.sleep(0.5)
    for one in running:
        one.send_signal(2)
        one.wait()


def tag(top: str) -> None:
    """Write its number into each block of a device."""
    sectors = int(sh(f"blockdev --getsz {top}"))
    file = os.open(top, os.O_RDWR | os.O_DIRECT)
    count = 256
    with mmap.mmap(-1, count * BLOCK) as buffer:
        for first in range(0, sectors // 8, count):
            some = min(count, sectors // 8 - first)
            for number in range(some):
                buffer[number * BLOCK : number * BLOCK + len(TAG) + 8] = TAG + struct.pack(
                    "<Q", first + number
                )
            try:
                os.pwrite(file, memoryview(buffer)[: some * BLOCK], first * BLOCK)
            except OSError:
                break  # a thin pool is full: what the trace wrote to had its place before
    with suppress(OSError):
        os.fsync(file)
    os.close(file)


def tags_on(disk: str) -> Iterator[tuple[int, int]]:
    """Yield the first sector of each tagged block of a disk, and its number."""
    sh("sync; echo 3 > /proc/sys/vm/drop_caches")
    with open(f"/dev/{disk}", "rb") as file:
        at = 0
        while data := file.read(4 * MIB):
            for match in re.finditer(re.escape(TAG), data):
                if match.start() % 512 == 0:
                    number = struct.unpack_from("<Q", data, match.end())[0]
                    yield at + match.start() // 512, number
            at += len(data) // 512


def truth_of(built: Built, special: list[tuple[int, int, str]]) -> dict[str, bytes]:
    """Return a letter of the role for each sector of each disk."""
    letter = built.untagged[:1].encode()
    found = {disk: bytearray(letter * (DISK_MIB * 2048)) for disk in DISKS}
    for disk, role in built.whole.items():
        found[disk][:] = role[:1].encode() * len(found[disk])
    if built.top is None:
        return {disk: bytes(one) for disk, one in found.items()}
    letters = bytearray(b"f" * (DISK_MIB * 4 * 2048))
    for first, count, role in special:
        letters[first : first + count] = role[:1].encode() * count
    tag(built.top)
    for disk in DISKS:
        for sector, number in tags_on(disk):
            found[disk][sector : sector + 8] = letters[number * 8 : number * 8 + 8]
    return {disk: bytes(one) for disk, one in found.items()}


def mark_swap(device: str, found: dict[str, bytes]) -> dict[str, bytes]:
    """Mark where a swap device lies: by tagging it after all else was read."""
    tag(device)
    for disk in DISKS:
        now = bytearray(found[disk])
        for sector, _ in tags_on(disk):
            if now[sector : sector + 1] == b"o":
                now[sector : sector + 8] = b"s" * 8
        found[disk] = bytes(now)
    return found


def prepare(name: str, built: Built) -> Path:
    """Mount a stack and switch its swap on; return the folder to work in."""
    sh(f"mount {built.mount} {POINT}")
    if built.swap == str(SWAP):
        sh(f"dd if=/dev/zero of={SWAP} bs=1M count=100 status=none")
        sh(f"chmod 600 {SWAP}; sync; mkswap {SWAP}")
    if built.swap:
        sh(f"swapon {built.swap}")
    if name != "overlay":
        return POINT
    for part in ("lower", "upper", "work"):
        (POINT / part).mkdir()
    folders = f"lowerdir={POINT}/lower,upperdir={POINT}/upper,workdir={POINT}/work"
    sh(f"mount -t overlay overlay -o {folders} {UNION}")
    return UNION


def run(name: str) -> None:
    folder = OUT / re.sub(r"\W+", "-", name)
    folder.mkdir(parents=True)
    wipe()
    built = STACKS[name]()
    target = prepare(name, built)
    above = [one.name for one in Path("/sys/block").glob("dm-*")] if built.is_followed else []
    special = swap_file_of("") if built.swap == str(SWAP) else []

    def work() -> None:
        load(target, swaps=bool(built.swap))
        if special:  # is not there any more at the end
            sh(f"swapoff {SWAP} && rm {SWAP}; sync")

    disks = find_disks([f"/dev/{disk}" for disk in DISKS])
    before = read_layout(disks, read_mounts())
    traced(folder, work, above)
    layout, _ = read_again(before, disks, mounts=read_mounts())
    if built.is_followed:
        capture_own(folder / "own")
    (folder / "layout.json").write_text(json.dumps(layout))
    for number, command in enumerate(built.texts):
        (folder / f"text{number}").write_text(sh(command))
    sh("swapoff -a")
    sh(f"umount {UNION}", check=False)
    sh(f"umount {POINT}")
    special += built.truth(built.top) if built.truth and built.top else []
    if built.is_followed and built.top:
        numbers = os.stat(built.top).st_rdev
        (folder / "top.json").write_text(json.dumps([numbers, special]))
    else:
        write_truth(folder, built, special)
    for command in built.undo:
        sh(command)


def capture_own(output: Path) -> None:
    """Capture the disks as users do, and see what is traced behind that."""
    sync = f"dd if=/dev/urandom of={POINT}/own$n bs=8k count=1 conv=fsync status=none"
    script = f"for n in $(seq 60); do {sync}; done; sync; echo 3 >/proc/sys/vm/drop_caches"
    words = f"/dev/base /dev/nvm -o {output} --names 0 -- sh -c '{script}; cat {POINT}/own*'"
    sh(f"PYTHONPATH={SHARE} python3 -m tracekit capture {words} >/dev/null 2>{output}.said")
    enabled = [one.read_text() for one in Path("/sys/block").glob("*/trace/enable")]
    (output / "traced").write_text(str(sum(text.strip() != "0" for text in enabled)))


def write_truth(folder: Path, built: Built, special: list[tuple[int, int, str]]) -> None:
    found = truth_of(built, special)
    if built.swap.startswith("/dev/"):
        found = mark_swap(built.swap, found)
    for disk, letters in found.items():
        (folder / f"truth.{disk}").write_bytes(letters)


def main() -> None:
    os.environ["DM_DISABLE_UDEV"] = "1"
    for module in sorted((SHARE / "modules").iterdir()):
        sh(f"busybox insmod {module}", check=False)
    Path("/etc/lvm").mkdir(exist_ok=True)
    Path("/etc/lvm/lvm.conf").write_text(
        "activation { udev_sync=0 udev_rules=0 monitoring=0 verify_udev_operations=0 }\n"
        'devices { types=["nullb", 16] use_devicesfile=0 obtain_device_list_from_udev=0'
        ' scan=["/dev"] filter=["a|^/dev/(base|nvm)$|", "r|.*|"] }\n'
        "global { use_lvmpolld=0 event_activation=0 }\nbackup { backup=0 archive=0 }\n"
    )
    for folder in (POINT, UNION):
        folder.mkdir()
    make_disks()
    failed = {}
    for name in sys.argv[1:] or STACKS:
        try:
            run(name)
        except (RuntimeError, OSError, TypeError) as error:
            failed[name] = str(error)
            sh(f"swapoff -a; umount {UNION}; umount {POINT}", check=False)
            sh("dmsetup remove_all -f; mdadm --stop --scan", check=False)
    (OUT / "failed.json").write_text(json.dumps(failed))


main()

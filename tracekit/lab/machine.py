"""QEMU: its command line, how it is started and ended, and whether KVM works with it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec import to_builtins

from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.helper_programs import find_helper, start_helper
from tracekit.lab.image import QEMU, Image, cache_folder
from tracekit.machine_state import boot_id
from tracekit.metadata import Record, read_object, validate
from tracekit.store import scratch_folder, write_json
from tracekit.units import MIB, parse_duration, parse_size

SAID = "tracekit-lab: "
"""How lines on the console begin that the lab's own scripts wrote."""
UP = "up"
PATIENCE_S = (60.0, 120.0)
"""For a guest to come up, before it is started a second and a third time."""
PROBE_LIMIT_S = 30.0
POLL_S = 0.05
TAIL_LINES = 15
ACCELERATORS = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    "tcg": ("-accel", "tcg,thread=multi", "-cpu", "max"),
    "icount": ("-accel", "tcg,thread=single", "-cpu", "max", "-icount", "shift=1,sleep=off"),
}
"""icount: time by instructions, the same whatever else the host does."""
CLOCK = "tsc=reliable clocksource=tsc"
NO_TESTS = "cryptomgr.notests"
"""The kernel tests its ciphers when it starts: a third of the instructions until then."""


@dataclass(frozen=True)
class NvmeDisk:
    """The namespace of an NVMe controller of its own: /dev/nvme0n1 and /dev/ng0n1, and so on."""

    mib: int
    zone_mib: int = 0
    """Size of its zones; 0: it has none."""
    block_bytes: int = 512
    most_open: int = 0
    """Zones at once; 0: all, as below."""
    most_active: int = 0

    def words(self, number: int, path: Path) -> list[str]:
        """Return QEMU's command line for the disk in a file."""
        name = f"lab-nvme{number}"
        zones = f",zoned=true,zoned.zone_size={self.zone_mib}M" if self.zone_mib else ""
        zones += f",zoned.max_open={self.most_open}" if self.most_open else ""
        zones += f",zoned.max_active={self.most_active}" if self.most_active else ""
        blocks = f"logical_block_size={self.block_bytes},physical_block_size={self.block_bytes}"
        return [
            *("-drive", f"file={_escaped(path)},format=raw,if=none,id={name},cache=unsafe"),
            *("-device", f"nvme,id={name}-controller,serial={name}"),
            *("-device", f"nvme-ns,drive={name},bus={name}-controller,{blocks}{zones}"),
        ]


@dataclass(frozen=True)
class Machine:
    """What QEMU emulates."""

    image: Image
    accelerator: str
    """A key of ACCELERATORS."""
    memory_mib: int
    cpus: int
    disks: tuple[tuple[str, Path], ...] = ()
    """Serial number and image file; files that the lab made, never a device."""
    nvme: tuple[tuple[NvmeDisk, Path], ...] = ()
    kernel_words: str = ""

    def command(self, console: Path) -> list[str]:
        """Return QEMU's command line; the guest has no network and no way to the host's files."""
        clock = "" if self.accelerator == "kvm" else CLOCK
        command = [
            *(QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-machine", "q35,usb=off", *ACCELERATORS[self.accelerator]),
            *("-m", f"{self.memory_mib}M", "-smp", str(self.cpus), "-nic", "none"),
            *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"),
            *("-kernel", str(self.image.kernel), "-initrd", str(self.image.initramfs)),
            *("-append", f"console=ttyS0 quiet panic=-1 {NO_TESTS} {clock} {self.kernel_words}"),
            *("-chardev", f"file,id=console,path={_escaped(console)}"),
            *("-serial", "chardev:console"),
        ]
        for serial, path in self.disks:
            if not path.is_file():
                raise TracekitError(f"{path} is not an image file: the lab uses no other disk")
            mode = "on" if serial in ("lab-root", "lab-input") else "off"
            command += [
                "-drive",
                f"file={_escaped(path)},format=raw,if=none,id={serial},cache=unsafe,readonly={mode}",
                "-device",
                f"virtio-blk-pci,drive={serial},serial={serial},werror=report,rerror=report",
            ]
        for number, (disk, path) in enumerate(self.nvme):
            command += disk.words(number, path)
        return command


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")


def start(machine: Machine, console: Path, *, limit_s: float) -> str:
    """Run the guest until it switches itself off and return what it wrote on its console.

    A guest whose kernel hangs before it does anything is started again: without KVM that happens,
    rarely, on a host with much else to do. Raise TracekitError with the end of the console when the
    guest does not end within `limit_s`.
    """
    end_s = time.monotonic() + limit_s
    for patience_s in (*PATIENCE_S, limit_s):
        if _ran(machine, console, end_s=end_s, patience_s=patience_s):
            return _read(console)
        if time.monotonic() >= end_s:
            break
    raise TracekitError(
        f"the guest did not end within {limit_s:.0f} s; its console ended with:",
        *tail(_read(console)),
        hint="raise --timeout",
    )


def _ran(machine: Machine, console: Path, *, end_s: float, patience_s: float) -> bool:
    """Run the guest and return True once it has ended by itself, False if it had to be ended.

    That is at `end_s`, or after `patience_s` in which it did not come up.
    """
    command = machine.command(console)
    if find_helper("setpriv"):
        # The guest ends with this process, even when that is killed.
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    console.unlink(missing_ok=True)
    with console.with_name("qemu.log").open("w+") as talk:
        guest = start_helper(command, stdin=subprocess.DEVNULL, stdout=talk, stderr=talk)
        patience_end_s = min(end_s, time.monotonic() + patience_s)
        try:
            while guest.poll() is None:
                time.sleep(POLL_S)
                if time.monotonic() > patience_end_s:
                    if patience_end_s == end_s or UP not in said_lines(_read(console)):
                        return False
                    patience_end_s = end_s
        finally:
            guest.kill()
            guest.wait()
        talk.seek(0)
        said = talk.read().strip()
    if guest.returncode != 0:
        reason = said.splitlines()[-1] if said else f"status {guest.returncode}"
        raise TracekitError(f"{QEMU} failed: {reason}")
    return True


def _read(console: Path) -> str:
    with suppress(FileNotFoundError):
        return console.read_text(errors="replace").replace("\r", "")
    return ""


def tail(text: str) -> list[str]:
    """Return the last lines of a console, as far as there are any."""
    return [f"  {line}" for line in text.strip().splitlines()[-TAIL_LINES:]]


class KvmProbe(Record):
    """The content of kvm.json: whether a guest booted under KVM since this boot of the host."""

    boot_id: str
    works: bool


def kvm_works(image: Image) -> bool:
    """Say whether a guest boots under KVM: found by booting one, once for each boot of the host."""
    kept = cache_folder() / "kvm.json"
    boot = boot_id()
    with suppress(InputError):
        hint = "remove the file"
        known = validate(read_object(kept, hint=hint), KvmProbe, file=kept, hint=hint)
        if known.boot_id == boot:
            return known.works
    works = _boots(Machine(image, "kvm", memory_mib=512, cpus=1, kernel_words="lab.probe"))
    write_json(kept, to_builtins(KvmProbe(boot_id=boot, works=works)))
    return works


def _boots(machine: Machine) -> bool:
    if not Path("/dev/kvm").exists():
        return False
    with scratch_folder(cache_folder() / "probe") as work:
        try:
            console = start(machine, work / "console.log", limit_s=PROBE_LIMIT_S)
        except TracekitError:
            return False
    return f"{SAID}probed" in console


def choose_accelerator(image: Image, *, is_exact: bool) -> str:
    """Return the key of ACCELERATORS for this machine."""
    if is_exact:
        return "icount"
    return "kvm" if kvm_works(image) else "tcg"


def said_lines(console: str) -> Sequence[str]:
    """Return what the lab's own scripts wrote on the console."""
    return [line.partition(SAID)[2] for line in console.splitlines() if SAID in line]


ROLES = ("fs", "journal", "swap")
LEAST_MIB = {"fs": 16, "journal": 4, "swap": 1}
MOST_MIB = 1 << 22
TABLE_MIB = 2
"""A MiB at each end of a disk is for the partition table."""
LONGEST_NS = 10**9
DEPTH = 64
"""Requests that an emulated disk serves at once unless another number is given."""
MOST_DEPTH = 1024


@dataclass(frozen=True)
class Part:
    """A partition of one role."""

    role: str
    mib: int
    latency_ns: int
    """0 for a virtual disk, as fast as QEMU serves it; else of an emulated one in memory."""
    depth: int = DEPTH
    """Requests that an emulated disk serves at once; the others wait."""


@dataclass(frozen=True)
class Disk:
    """Parts of one latency and depth, in the order in which they were given."""

    parts: tuple[Part, ...]

    @property
    def mib(self) -> int:
        """Return the size of the disk."""
        return TABLE_MIB + sum(part.mib for part in self.parts)

    @property
    def latency_ns(self) -> int:
        """Return what each request takes at least; 0 for a virtual disk."""
        return self.parts[0].latency_ns

    @property
    def depth(self) -> int:
        """Return how many requests an emulated disk serves at once."""
        return self.parts[0].depth


def parse_disks(texts: Sequence[str]) -> list[Disk]:
    """Return the disks that texts such as fs=2GiB or swap=512MiB:108us describe.

    Parts of the same latency and depth share a disk. Raise UsageError for what is wrong, naming it.
    """
    parts = [_parse_part(text) for text in texts]
    roles = [part.role for part in parts]
    for role in ROLES:
        if roles.count(role) > 1:
            raise UsageError(f"--disk: {role} is given twice", hint="give each role once")
    if "journal" in roles and "fs" not in roles:
        raise UsageError("--disk: a journal without a file system", hint="add --disk fs=SIZE")
    speeds = dict.fromkeys((part.latency_ns, part.depth) for part in parts)
    return [
        Disk(tuple(part for part in parts if (part.latency_ns, part.depth) == speed))
        for speed in speeds
    ]


def _parse_part(text: str) -> Part:
    role, equals, rest = text.partition("=")
    size, colon, speed = rest.partition(":")
    latency, second, depth = speed.partition(":")
    if not equals or role not in ROLES:
        raise UsageError(
            f"--disk: '{text}' is no disk",
            hint=f"write ROLE=SIZE[:LATENCY[:DEPTH]], {', '.join(ROLES)}",
        )
    mib = parse_size(size, option="--disk") // MIB
    if not LEAST_MIB[role] <= mib <= MOST_MIB:
        raise UsageError(
            f"--disk: {role} of {size}: from {LEAST_MIB[role]} MiB to {MOST_MIB >> 20} TiB"
        )
    latency_ns = parse_duration(latency, option="--disk") if colon else 0
    if colon and not 0 < latency_ns <= LONGEST_NS:
        raise UsageError(f"--disk: a latency of {latency}", hint="it is from 1ns to 1s")
    depth = depth if second else str(DEPTH)
    if not depth.isascii() or not depth.isdigit() or not 1 <= int(depth) <= MOST_DEPTH:
        raise UsageError(f"--disk: a depth of '{depth}'", hint=f"it is from 1 to {MOST_DEPTH}")
    return Part(role, mib, latency_ns, int(depth))


def dax_start_mib(dax_mib: int, memory_mib: int) -> int:
    """Return where in the guest's memory, of both sizes together, the persistent part begins.

    It must lie in one piece of real memory and leave the kernel and the end alone: QEMU's q35 has
    2 GiB of it below 4 GiB and the rest above, or all below when there is less than 2.75 GiB.
    Raise UsageError when it does not fit.
    """
    if dax_mib <= 1024 and memory_mib >= 768:
        return 512
    if memory_mib + dax_mib >= 2816 and memory_mib >= 2304:
        return 4096
    raise UsageError(
        f"--pmem of {dax_mib} MiB does not fit beside --memory of {memory_mib} MiB",
        hint="give --memory 768MiB for up to 1 GiB of persistent memory, 2304MiB for more",
    )

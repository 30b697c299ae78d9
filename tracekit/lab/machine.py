"""QEMU: its command line, how it is started and ended, and whether KVM works with it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.lab.build import QEMU, Image, cache_folder
from tracekit.store import scratch_folder, write_json

SAID = "tracekit-lab: "
"""How lines on the console begin that the lab's own scripts wrote."""
UP = "up"
PATIENCE_S = (60.0, 120.0)
"""For a guest to come up, before it is started a second and a third time."""
PROBE_LIMIT_S = 30.0
POLL_S = 0.05
TAIL_LINES = 15
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
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
class Machine:
    """What QEMU is asked for."""

    image: Image
    accelerator: str
    """A key of ACCELERATORS."""
    memory_mib: int
    cpus: int
    disks: tuple[tuple[str, Path], ...] = ()
    """Serial number and image file; files that the lab made, never a device."""
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
        f"the guest did not end within {limit_s:.0f} s; its console ended with:\n"
        + tail(_read(console)),
        hint="raise --timeout",
    )


def _ran(machine: Machine, console: Path, *, end_s: float, patience_s: float) -> bool:
    """Run the guest and return True once it has ended by itself, False if it had to be ended.

    That is at `end_s`, or after `patience_s` in which it did not come up.
    """
    command = machine.command(console)
    if shutil.which("setpriv"):
        # The guest ends with this process, even when that is killed.
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    console.unlink(missing_ok=True)
    with console.with_name("qemu.log").open("w+") as talk:
        guest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=talk, stderr=talk)
        patience_end_s = min(end_s, time.monotonic() + patience_s)
        try:
            while guest.poll() is None:
                time.sleep(POLL_S)
                if time.monotonic() > patience_end_s:
                    if patience_end_s == end_s or UP not in said_lines(_read(console)):
                        return False
                    patience_end_s = end_s
        finally:
            _end(guest)
        talk.seek(0)
        said = talk.read().strip()
    if guest.returncode != 0:
        reason = said.splitlines()[-1] if said else f"status {guest.returncode}"
        raise TracekitError(f"{QEMU} failed: {reason}")
    return True


def _end(guest: subprocess.Popen[bytes]) -> None:
    if guest.poll() is None:
        guest.send_signal(signal.SIGKILL)
        guest.wait()


def _read(console: Path) -> str:
    with suppress(FileNotFoundError):
        return console.read_text(errors="replace").replace("\r", "")
    return ""


def tail(text: str) -> str:
    """Return the last lines of a console, as far as there are any."""
    return "\n".join(f"  {line}" for line in text.strip().splitlines()[-TAIL_LINES:])


def kvm_works(image: Image) -> bool:
    """Say whether a guest boots under KVM: found by booting one, once for each boot of the host."""
    kept = cache_folder() / "kvm.json"
    boot_id = BOOT_ID.read_text().strip()
    with suppress(OSError, ValueError):
        known = json.loads(kept.read_text())
        if known["boot_id"] == boot_id:
            return bool(known["works"])
    works = _boots(Machine(image, "kvm", memory_mib=512, cpus=1, kernel_words="lab.probe"))
    write_json(kept, {"boot_id": boot_id, "works": works})
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

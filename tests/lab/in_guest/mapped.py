"""Captures of stacked devices by BPF and by the kernel's tracer; run in a guest, prints JSON.

The load is the same for both: reads, writes and flushes with nothing in the page cache.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

OUT, SHARE, TALK = Path(os.environ["LAB_OUT"]), Path(os.environ["LAB_SHARE"]), Path("/run/talk")
SOURCES = ("bpf", "tracefs-blk")
LOAD = """
dd if=/dev/zero of={top} bs=4k count=200 oflag=direct conv=notrunc status=none
dd if={top} of=/dev/null bs=64k count=40 skip=3 iflag=direct status=none
dd if=/dev/zero of={top} bs=1M count=4 seek=10 oflag=direct conv=notrunc,fsync status=none
dd if=/dev/zero of={top} bs=8k count=20 seek=900 oflag=direct,dsync conv=notrunc status=none
"""


def sh(command: str) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def make_disk(name: str) -> str:
    """Make a disk in memory and return its path."""
    folder = Path("/sys/kernel/config/nullb") / name
    folder.mkdir()
    settings = {"size": 64, "memory_backed": 1, "irqmode": 2, "completion_nsec": 50_000}
    for key, value in {**settings, "cache_size": 8, "power": 1}.items():
        (folder / key).write_text(str(value))
    found = Path("/dev") / name
    return str(found if found.exists() else f"/dev/nullb{(folder / 'index').read_text().strip()}")


def linear(first: str, second: str) -> tuple[str, str]:
    """Return a device over pieces of two disks that meet in the middle of what is written."""
    table = f"0 22528 linear {first} 2048\n22528 22528 linear {second} 4096"
    sh(f"dmsetup create both --table '{table}'")
    return "/dev/mapper/both", "dmsetup remove --retry both"


def crypt(first: str, _second: str) -> tuple[str, str]:
    table = f"0 45056 crypt cipher_null-ecb - 0 {first} 2048"
    sh(f"dmsetup create crypt --table '{table}'")
    return "/dev/mapper/crypt", "dmsetup remove --retry crypt"


def mirror(first: str, second: str) -> tuple[str, str]:
    how = "--run --level=1 --raid-devices=2 --assume-clean --metadata=1.2 --bitmap=none"
    sh(f"mdadm --create /dev/md0 {how} {first} {second}")
    return "/dev/md0", "mdadm --stop /dev/md0"


STACKS = {"linear": linear, "crypt": crypt, "mirror": mirror}


def capture(name: str, disks: list[str], source: str, load: str) -> dict[str, Any]:
    words = ["capture", *disks, "-o", str(OUT / name), "--source", source, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", *words, "--", "sh", "-c", load],
        capture_output=True,
        text=True,
        check=False,
    )
    return {"status": done.returncode, "stderr": done.stderr, "stdout": done.stdout}


def main() -> None:
    """Build each stack, capture it by each source, and take it apart."""
    for module in sorted((SHARE / "modules").iterdir()):
        subprocess.run(["insmod", str(module)], check=False)
    bpf = Path("/usr/local/bin/tracekit-bpf")
    bpf.parent.mkdir(parents=True, exist_ok=True)
    bpf.write_text(
        f'#!/bin/sh\nexec {SHARE}/bpf/ld.so --library-path {SHARE}/bpf {SHARE}/bpf/program "$@"\n'
    )
    bpf.chmod(0o755)
    disks = [make_disk(name) for name in ("first", "second")]
    found: dict[str, Any] = {}
    for name, build in STACKS.items():
        top, undo = build(*disks)
        sh("dmsetup mknodes")  # without udev the nodes have the names of the devices
        for source in SOURCES:
            load = LOAD.format(top=top)
            made = capture(f"{name}-{source}", [top, *disks], source, load)
            found[f"{name}-{source}"] = made
        sh(undo)
    sys.stdout.write(json.dumps(found))


main()

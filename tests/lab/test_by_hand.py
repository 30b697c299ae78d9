"""The commands that a script leaves to an administrator, typed in a guest, and taken back."""

import shlex
import shutil
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import pytest

from tests.lab.guests import run_script, share_modules, with_packages
from tracekit.model.commands_by_hand import bcache, lvm_cache, xfs_log, zram, zswap
from tracekit.units import MIB

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-by-hand")]
MODULES = ("brd", "xfs", "bcache", "zram", "lz4", "dm_cache_smq", "dm_writecache")
PACKAGES = ("bcache-tools", "lvm2", "thin-provisioning-tools", "xfsdump", "xfsprogs")
NAMES = {"/dev/NVM": "/dev/ram0", "/dev/EMPTY": "/dev/ram1", "PERCENT": "30"}
NAMES |= {"/OLD": "/mnt/old", "/NEW": "/mnt/new"}
LOG = xfs_log("/dev/ram1", "/mnt/old")
CACHES = {
    **{f"bcache {mode}": bcache(mode) for mode in ("through", "back")},
    **{f"lvm {mode}": lvm_cache(mode) for mode in ("writethrough", "writeback", "writecache")},
}
SWAP = {"zram": zram(8 * MIB), "zswap": zswap(8 * MIB)}


def commands(lines: Sequence[str]) -> list[str]:
    """Return what is typed, on this guest's devices."""
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for name, here in NAMES.items():
        typed = [line.replace(name, here) for line in typed]
    return [f"{{ {line}; }} || failed {shlex.quote(line)}" for line in typed]


def steps(lines: Sequence[str]) -> tuple[str, str]:
    """Return what carries out, and what takes back."""
    apply = list(takewhile(lambda line: "undo" not in line, lines))
    return "\n".join(commands(apply)), "\n".join(commands(lines[len(apply) :]))


def script() -> str:
    """Return a script of the guest that does all of it, one after the other."""
    log, back = steps(LOG)
    lines = [f"log_is_inside\n{log}\nlog_is_outside\n{back}\nlog_is_back"]
    for name, texts in CACHES.items():
        log, back = steps(texts)
        lines += [f"no_cache_yet\n{log}\nis_cached {name}\n{back}\nis_uncached {name}"]
    for name, texts in SWAP.items():
        log, back = steps(texts)
        lines += [f"{log}\n{name}_is Y\n{back}\n{name}_is N"]
    return "\n".join([". $LAB_SHARE/by_hand.sh", *lines, "echo all > $LAB_OUT/done"])


def test_what_is_by_hand_can_be_typed_and_taken_back(place: Path) -> None:
    # GIVEN a guest with two empty disks, and file systems with files
    share = place / "share"
    share_modules(share, *MODULES, packages=PACKAGES)
    shutil.copy(Path(__file__).parent / "in_guest/by_hand.sh", share)
    # WHEN each command is typed, THEN none fails, what it makes is in use, and files stay
    options = (*with_packages(PACKAGES), "--memory", "2GiB", "--timeout", "560")
    files = run_script(place, script(), *options)
    assert (files / "done").read_text() == "all\n"

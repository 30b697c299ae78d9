"""Scripts of recommendations, carried out in guests; the power is cut at each of their commands."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.guests import lab, share_modules
from tests.recommend.test_carry_out import (
    journal_script,
    move_script,
    swap_script,
    volume_script,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-carry-out")]
IN_GUEST = Path(__file__).parent / "in_guest/carry.py"
MODULES = ("brd", "dm_mirror", "dm_cache_smq", "dm_writecache")
PACKAGES = ("lvm2", "thin-provisioning-tools")
MOUNTED = Path("/mnt/carried")


SCRIPTS: dict[str, Callable[[Path], Path]] = {
    "journal": lambda folder: journal_script(folder, "fs", MOUNTED),
    "swap": swap_script,
    "move": lambda folder: move_script(folder, "fs", MOUNTED / "data"),
    "extents": lambda folder: volume_script(folder, "--unit", "extent=1MiB", "--capacity", "4MiB"),
    "cache": lambda folder: volume_script(folder, "--capacity", "64KiB"),
}


@pytest.fixture(scope="module")
def share(place: Path) -> Path:
    """Share all scripts, what runs them in the guest, and its modules."""
    share = place / "share"
    for name, make in SCRIPTS.items():
        make(place).rename(share / f"{name}.sh")
    shutil.copy(IN_GUEST, share)
    share_modules(share, *MODULES, packages=PACKAGES)
    return share


@pytest.mark.parametrize(
    "cuts",
    [
        {"journal:apply": 6, "swap:apply": 5, "swap:undo": 4},
        {"journal:undo": 5},
        {"extents:apply": 4},
        {"extents:undo": 4},
        {"cache:apply": 5},
        {"cache:undo": 4},
        {"writecache:apply": 5},
        {"cache:lost": 0, "swap:lost": 0},
    ],
    ids=" ".join,
)
def test_the_power_may_go_at_any_command(cuts: dict[str, int], share: Path) -> None:
    # GIVEN scripts, WHEN the power is cut at each of their commands
    packages = [word for name in PACKAGES for word in ("--package", name)]
    words = ("--disk", "fs=48MiB", "--share", str(share), "--timeout", "600", *packages)
    ran = lab("run", *words, "--", "python3", "carry.py", *cuts)
    assert ran.returncode == 0, ran.stderr
    # THEN all data can be reached, what was moved is in use, and the next run ends the work
    assert json.loads(ran.stdout) == {"wrong": {name: [] for name in cuts}, "cuts": cuts}

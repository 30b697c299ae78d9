"""Scripts of recommendations, carried out in guests; the power is cut at each of their commands."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guests import lab, share_modules, with_packages
from tests.recommend.carried import journal_script, move_script, swap_script, volume_script

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-carry-out")]
IN_GUEST = Path(__file__).parent / "in_guest"
MODULES = ("brd", "nbd", "dm_mirror", "dm_cache_smq", "dm_writecache")
PACKAGES = ("lvm2", "thin-provisioning-tools")
MOUNTED = Path("/mnt/carried")
IN_PACKAGE = "tests/lab/in_guest"


SCRIPTS: dict[str, Callable[[Path], Path]] = {
    "journal": lambda folder: journal_script(folder, "fs", MOUNTED),
    "swap": swap_script,
    "move": lambda folder: move_script(folder, "fs", MOUNTED / "data"),
    "extents": lambda folder: volume_script(folder, "--unit", "extent=1MiB", "--capacity", "8MiB"),
    "cache": lambda folder: volume_script(folder, "--capacity", "64KiB"),
}


@pytest.fixture(scope="module")
def share(place: Path) -> Path:
    """Share all scripts, what runs them in the guest, and its modules."""
    share = place / "share"
    for name, make in SCRIPTS.items():
        make(place).rename(share / f"{name}.sh")
    (share / IN_PACKAGE).mkdir(parents=True)
    for name in ("carry.py", "within.py"):
        shutil.copy(IN_GUEST / name, share / IN_PACKAGE)
    share_modules(share, *MODULES, packages=PACKAGES)
    return share


@pytest.mark.parametrize(
    "cuts",
    [
        {"journal:apply": 6, "swap:apply": 5, "swap:undo": 4},
        {"journal:undo": 5},
        {"extents:apply": 4},
        {"extents:undo": 4},
        {"cache:apply": 6},
        {"cache:undo": 4},
        {"writecache:apply": 5},
        {"cache:lost": 0, "swap:lost": 0},
    ],
    ids=" ".join,
)
def test_the_power_may_go_at_any_command(cuts: dict[str, int], share: Path) -> None:
    # GIVEN scripts, WHEN the power is cut at each of their commands
    found = run_in_guest(share, "carry", *cuts)
    # THEN all data can be reached, what was moved is in use, and the next run ends the work
    assert found == {"wrong": {name: [] for name in cuts}, "cuts": cuts}


def run_in_guest(share: Path, module: str, *words: str) -> dict[str, Any]:
    """Run what is in in_guest on two disks, and return the JSON that it prints."""
    options = ("--disk", "fs=48MiB", "--share", str(share), "--timeout", "900")
    program = ("python3", "-m", f"{IN_PACKAGE.replace('/', '.')}.{module}", *words)
    ran = lab("run", *options, *with_packages(PACKAGES), "--", *program)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize(("kind", "repaired"), [("cache", True), ("writecache", False)])
def test_the_power_may_go_within_lvconvert(kind: str, repaired: bool, share: Path) -> None:
    # GIVEN the writes of lvconvert and behind it, WHEN the power is cut at ten places among them,
    # with all that was written or only what was flushed
    found = run_in_guest(share, "within", kind, "10")
    # THEN all files are there, where LVM does not start the volume after the next run of the
    # script, and that or its undo ends the work
    assert found["wrong"] == []
    assert found["started"] >= 10
    assert (found["repaired"] > 0) == repaired

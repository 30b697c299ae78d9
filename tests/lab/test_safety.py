"""The campaign on nodes that the guest alone has: dm, LVM, md, zram, nbd, bcache; swap, exports."""

import shutil
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.lab.guests import run_script, share_modules, with_packages
from tests.replay.program import WRITES, write_plan

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-safety")]
MODULES = ("loop", "brd", "raid1", "dm_thin_pool", "zram", "nbd", "bcache")
EXPORTERS = ("nvmet", "target_core_iblock", "target_core_file")
PACKAGES = ("bcache-tools", "lvm2", "mdadm", "nbd-client", "nbd-server")
LIMIT_S = 330
"""A case takes 1.5 to 5 s, and each group has at most 60."""
GROUPS = (
    *(("partition", "null_blk"), ("ram", "nbd"), ("zram", "zram with a device")),
    *((name,) for name in ("mirror", "bcache", "linear", "volume", "thin", "loop over linear")),
)
SCRIPT = """
cp -r $LAB_SHARE /tmp/work; cd /tmp/work; mkdir -p /lib/modules
export TMPDIR=/dev/shm
exec timeout LIMIT python3 safety.py NODES > $LAB_OUT/said 2>&1
"""


@pytest.fixture(scope="module")
def shared(place: Path) -> Path:
    """Share the campaign, its plan and the modules; return the guest's place."""
    share = place / "share"
    share_modules(share, *MODULES, *EXPORTERS, packages=PACKAGES)
    write_plan(share / "a.plan", WRITES[:1])
    (share / "tests/replay").mkdir(parents=True)
    shutil.copy(ROOT / "tests/replay/campaign.py", share / "tests/replay")
    shutil.copy(ROOT / "tests/lab/in_guest/safety.py", share)
    return place


@pytest.mark.parametrize("group", GROUPS, ids=", ".join)
def test_nothing_is_written_that_somebody_else_uses(shared: Path, group: tuple[str, ...]) -> None:
    nodes = " ".join(f"'{name}'" for name in group)
    script = SCRIPT.replace("NODES", nodes).replace("LIMIT", str(LIMIT_S))
    timeout = ("--timeout", str(LIMIT_S + 60))
    files = run_script(shared, script, *with_packages(PACKAGES), *timeout, out=group[0])
    assert (files / "said").read_text() == ""
    lines = (files / "cases").read_text().splitlines()
    assert not "\n".join(line for line in lines if line.startswith("problem: "))
    # Each node was tried with its users, or the kernel has no module for it.
    for name in group:
        tried = [line for line in lines if f" s: {name}, " in line]
        assert len(tried) >= 16 or f"not had: {name}: the kernel has no module" in "\n".join(lines)

"""The role of each request of real storage stacks, with and without a layout, against the truth."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.lab.guests import run_script, share_modules
from tracekit.classify import ClassifyOptions, classify
from tracekit.readers.blktrace import parse

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-stacks")]
MODULES = ("dm_thin_pool", "dm_crypt", "crypto_null", "raid1", "xfs", "btrfs")
PACKAGES = ("lvm2", "mdadm", "xfsprogs", "btrfs-progs", "thin-provisioning-tools")
ROLES = {"f": "fs", "j": "journal", "s": "swap", "o": "other"}
# Least share right without a layout: a thin pool's metadata is nobody's, and dm-crypt puts the
# first commits out of order.
STACKS = {
    "ext4 on a partition": 1.0,
    "dm-linear over two disks": 1.0,
    "LVM thin": 0.9,
    "crypt": 0.98,
    "md1": 1.0,
    "ext4 external journal": 1.0,
    "XFS internal log": 1.0,
    "XFS external log": 1.0,
    "btrfs on two disks": 1.0,
    "swap partition": 1.0,
    "swap file": 1.0,
    "overlay": 1.0,
}
NAMES = list(STACKS)


def share_right(folder: Path, place: Path, *, has_layout: bool) -> float:
    """Return the share of reads and writes with the role that their first sector has in truth."""
    place.mkdir()
    for file in folder.glob("*.blktrace.*"):
        shutil.copy(file, place)
    layout = json.loads((folder / "layout.json").read_text())
    partitions = layout["partitions"] if has_layout else []
    (place / "layout.json").write_text(json.dumps({**layout, "partitions": partitions}))
    trace, _ = parse([place], place / "trace")
    classify(trace, ClassifyOptions())
    truth = {
        disk: np.frombuffer((folder / f"truth.{disk}").read_bytes(), np.uint8)
        for disk in ("base", "nvm")
    }
    columns = ("device", "sector", "operation", "role")
    rows = pq.read_table(trace.table("requests"), columns=list(columns)).to_pylist()
    data = [row for row in rows if row["operation"] in ("read", "write")]
    assert len(data) > 200
    right = [ROLES[chr(truth[row["device"]][row["sector"]])] == row["role"] for row in data]
    return right.count(True) / len(right)


@pytest.mark.parametrize("names", [NAMES[:3], NAMES[3:6], NAMES[6:9], NAMES[9:]], ids=" ".join)
def test_roles_of_storage_stacks(names: list[str], place: Path, tmp_path: Path) -> None:
    # GIVEN stacks that were built, loaded and traced in a guest
    share = place / "share"
    if not (share / "modules").exists():
        share_modules(share, *MODULES, packages=PACKAGES)
        shutil.copy(Path(__file__).parent / "in_guest/stacks.py", share)
    packages = [word for name in PACKAGES for word in ("--package", name)]
    script = "python3 stacks.py " + " ".join(f"'{name}'" for name in names)
    options = (*packages, "--memory", "2GiB", "--timeout", "560")
    files = run_script(place, script, *options, out=names[0].replace(" ", "-"))
    assert json.loads((files / "failed.json").read_text()) == {}
    # THEN with the layout each request has its role, and without one nearly each
    for number, name in enumerate(names):
        folder = files / "".join(one if one.isalnum() else "-" for one in name)
        assert share_right(folder, tmp_path / f"with{number}", has_layout=True) == 1.0
        least = STACKS[name]
        assert share_right(folder, tmp_path / f"without{number}", has_layout=False) >= least

"""The role of each request of real storage stacks, with and without a layout, against the truth."""

import json
import os
import shutil
import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.lab.guests import run_script, share_modules, share_tracekit, with_packages
from tracekit.capture.layout import describe_texts
from tracekit.capture.recording import remaps_in
from tracekit.capture.remaps import followed
from tracekit.classify import ClassifyOptions, classify
from tracekit.readers.blktrace import parse

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-stacks")]
MODULES = (
    *("dm_thin_pool", "dm_crypt", "crypto_null", "raid1", "raid0", "linear", "raid456"),
    *("xfs", "btrfs", "dm_cache", "dm_cache_smq", "dm_writecache"),
)
PACKAGES = ("lvm2", "mdadm", "xfsprogs", "btrfs-progs", "thin-provisioning-tools")
ROLES = {"f": "fs", "j": "journal", "s": "swap", "o": "other"}
# Least share right without a layout: a thin pool's metadata is nobody's, and dm-crypt puts the
# first commits out of order. A journal over several members of an array is hardly seen on one.
STACKS = {
    "ext4 on a partition": 1.0,
    "dm-linear over two disks": 1.0,
    "LVM thin": 0.9,
    "crypt": 0.98,
    "md1": 1.0,
    "md0 over two sizes": 0.95,
    "md linear": 0.98,
    "md5": 0.7,
    "ext4 external journal": 1.0,
    "XFS internal log": 1.0,
    "XFS external log": 1.0,
    "btrfs on two disks": 1.0,
    "swap partition": 1.0,
    "swap file": 1.0,
    "overlay": 1.0,
}
LEAST_BY_LAYOUT = {"md5": 0.99}
"""Of RAID 5 whole stripes are followed: at its ends a journal has one with others."""
CACHED = ("LVM cache", "LVM writecache")
NAMES = list(STACKS)
HEADER = struct.Struct("<IIQQIIIIIHH")
REMAP = 15
MOST_NS = 50_000_000
"""From a remap to what it is the remap of."""


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
    letters = [chr(truth[row["device"]][row["sector"]]) for row in data]
    pairs = zip(letters, data, strict=True)
    right = [ROLES[letter] == row["role"] for letter, row in pairs if letter in ROLES]
    return right.count(True) / len(right)


def built(place: Path, names: Sequence[str]) -> dict[str, Path]:
    """Build, load and trace stacks in a guest; return the folder of each."""
    share = place / "share"
    if not (share / "modules").exists():
        share_modules(share, *MODULES, packages=PACKAGES)
        share_tracekit(share, "stacks.py")
    out = names[0].replace(" ", "-")
    found = {name: "".join(one if one.isalnum() else "-" for one in name) for name in names}
    files = place / out / "files"
    if files.exists():
        return {name: files / folder for name, folder in found.items()}
    script = "python3 stacks.py " + " ".join(f"'{name}'" for name in names)
    options = (*with_packages(PACKAGES), "--memory", "2GiB", "--timeout", "900")
    run_script(place, script, *options, out=out)
    assert json.loads((files / "failed.json").read_text()) == {}
    return {name: files / folder for name, folder in found.items()}


@pytest.mark.parametrize(
    "names", [NAMES[at : at + 3] for at in range(0, len(NAMES), 3)], ids=" ".join
)
def test_roles_of_storage_stacks(names: list[str], place: Path, tmp_path: Path) -> None:
    # GIVEN stacks that were built, loaded and traced in a guest
    for number, (name, folder) in enumerate(built(place, names).items()):
        # THEN with the layout each request has its role, and without one nearly each
        by_layout = share_right(folder, tmp_path / f"with{number}", has_layout=True)
        assert by_layout >= LEAST_BY_LAYOUT.get(name, 1.0)
        least = STACKS[name]
        assert share_right(folder, tmp_path / f"without{number}", has_layout=False) >= least
        # AND texts of the host put all where it is
        if texts := sorted(folder.glob("text*")):
            assert regions_by(texts) == regions_of(json.loads((folder / "layout.json").read_text()))


def regions_of(layout: dict[str, Any]) -> list[tuple[Any, ...]]:
    keys = ("device", "start_sector", "sectors", "role")
    return sorted(tuple(one[key] for key in keys) for one in layout["partitions"])


def regions_by(texts: Sequence[Path]) -> list[tuple[Any, ...]]:
    found = {path.name: path.read_text() for path in texts}
    named = {("md0=" if "Inode: 8" in text else "") + name: text for name, text in found.items()}
    return regions_of(describe_texts(named, ["base", "nvm"]).layout)


@pytest.mark.parametrize("name", CACHED)
def test_roles_of_what_reaches_the_device_of_a_cache(
    name: str, place: Path, tmp_path: Path
) -> None:
    # GIVEN a volume with a cache, and the remaps of all devices, which say what each request is of
    folder = built(place, [name])[name]
    layout = json.loads((folder / "layout.json").read_text())
    remaps = remaps_in([*folder.glob("*.blktrace.*"), *(folder / "above").glob("*.blktrace.*")])
    # WHEN they are followed; THEN nearly each has the role of its block
    found = roles_at_cache(folder, followed(layout, remaps), tmp_path / "followed")
    assert sum(role == given for role, given in found) >= 0.98 * len(found)
    # WHEN only the requests decide; THEN nearly none has another one
    found = roles_at_cache(folder, layout, tmp_path / "guessed")
    assert sum(given not in (role, "unknown") for role, given in found) <= 0.02 * len(found)
    # AND that requests decide is said
    assert any("lie on" in doubt and "is not known" in doubt for doubt in layout["doubts"])


def roles_at_cache(folder: Path, layout: Mapping[str, Any], place: Path) -> list[tuple[str, str]]:
    """Return the role of the block that each request at the cache is of, and the one it has."""
    place.mkdir()
    for file in folder.glob("*.blktrace.*"):
        shutil.copy(file, place)
    (place / "layout.json").write_text(json.dumps(layout))
    trace, _ = parse([place], place / "trace")
    classify(trace, ClassifyOptions())
    origin, base_ns = origins(folder), trace.info.clock.base_ns
    numbers = {one.device: (one.major or 0) << 20 | (one.minor or 0) for one in trace.info.devices}
    rows = pq.read_table(trace.table("requests")).to_pylist()
    found = [
        (role, row["role"])
        for row in rows
        if row["operation"] in ("read", "write") and row["device"] == "nvm"
        if (role := origin(numbers[row["device"]], row["sector"], base_ns + row["queue_ns"]))
    ]
    assert len(found) > 500
    return found


@pytest.mark.parametrize("name", CACHED)
def test_a_capture_follows_requests_to_a_cache(name: str, place: Path, tmp_path: Path) -> None:
    # GIVEN a capture of the disks below a volume with a cache
    folder = built(place, [name])[name] / "own"
    # THEN it has the files of these disks alone, and nothing is traced any more
    assert {path.name.split(".")[0] for path in folder.glob("*.blktrace.*")} == {
        "own-base",
        "own-nvm",
    }
    assert (folder / "traced").read_text() == "0"
    # AND what the journal's thread wrote is journal, on whichever disk
    trace, _ = parse([folder], tmp_path / "trace")
    classify(trace, ClassifyOptions())
    rows = pq.read_table(trace.table("requests")).to_pylist()
    writes = [row for row in rows if row["operation"] == "write"]
    names = ((row["process"] or "", row["role"]) for row in writes)
    written = [role for name, role in names if name.startswith("jbd2/")]
    assert written.count("journal") > 60
    assert written.count("journal") >= 0.98 * len(written)


def origins(folder: Path) -> Callable[[int, int, int], str | None]:
    """Return what gives the role of the block that a request is of: by device, sector and time."""
    top, special = json.loads((folder / "top.json").read_text())
    remaps: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for path in folder.rglob("*.blktrace.*"):
        data, at = path.read_bytes(), 0
        while at < len(data):
            _, _, time_ns, sector, _, action, _, device, *_, extra = HEADER.unpack_from(data, at)
            if action & 0xFFFF == REMAP:
                below, _, place = struct.unpack_from(">IIQ", data, at + HEADER.size)
                remaps.setdefault((device, sector), []).append((time_ns, below, place))
            at += HEADER.size + extra
    for some in remaps.values():
        some.sort()

    def role_of(device: int, sector: int, time_ns: int) -> str | None:
        while device != os.major(top) << 20 | os.minor(top):
            known = remaps.get((device, sector), [])
            latest = bisect_right(known, (time_ns, 1 << 32, 0)) - 1
            if latest < 0 or time_ns - known[latest][0] > MOST_NS:
                return None  # of the cache itself
            _, device, sector = known[latest]
        roles = (role for first, count, role in special if first <= sector < first + count)
        return next(roles, "fs")

    return role_of

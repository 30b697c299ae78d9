"""Persistent memory beside a plain disk in a guest: MAP_SYNC on DAX and nowhere else."""

import json
import shutil
from pathlib import Path

import pytest

from tests.lab.guests import run_script
from tests.replay.program import content, expected_content, record, write_plan
from tracekit.plans.block_plan import DISCARD, FLUSH, FUA, READ, WRITE
from tracekit.sweep.run import WITHOUT_DAX

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-dax")]
SIZE_BYTES = 1 << 20
ROWS = [record(WRITE, 8 * n, 8, flags=FUA * (n % 2)) for n in range(256)]
ROWS += [record(DISCARD, 512, 512), record(WRITE, 640, 3), record(READ, 512, 512)]
ROWS += [record(FLUSH)]
"""Stores all of a target, makes a hole, stores into it, and flushes."""
MAPPED = """
import mmap, os
MAP_SHARED_VALIDATE, MAP_SYNC = 3, 0x80000
for name in ("LAB_DAX", "LAB_FS"):
    fd = os.open(os.environ[name] + "/file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 4096)
    try:
        mmap.mmap(fd, 4096, flags=MAP_SHARED_VALIDATE | MAP_SYNC)[:5] = b"bytes"
        print(name, os.pread(fd, 5, 0))
    except OSError as error:
        print(name, error.strerror)
"""
SCRIPT = f"""
set -e
cp -r $LAB_SHARE /tmp/work
cd /tmp/work
python3 mapped.py
for folder in $LAB_DAX $LAB_FS; do
  name=${{folder##*/}}
  tracekit-replay a.plan --engine dax --target $folder/t --keep > $LAB_OUT/$name.json
  echo 3 > /proc/sys/vm/drop_caches
  cp $folder/t $LAB_OUT/$name.content
done
truncate -s 1M $LAB_DAX/target
truncate -s 2M $LAB_DAX/late
tracekit-replay one.plan --target $LAB_DAX/target > $LAB_OUT/summary.json
for engine in dax threads; do
  python3 late.py open $engine tracekit-replay slow.plan --target $LAB_DAX/late --engine $engine \\
    --write-to $LAB_DAX/late --completions slow.done --summary slow.json
done
grep /mnt/dax /proc/mounts
{WITHOUT_DAX}
grep /mnt/dax /proc/mounts
umount $LAB_DAX
token=$(cat /sys/block/pmem0/dev):$(cat /sys/block/pmem0/size)
python3 late.py mount mount tracekit-replay slow.plan --target /dev/pmem0 --engine threads \\
  --overwrite-signature ext --write-to "$token" --completions slow.done --summary slow.json
echo to stderr >&2
exit 7
"""


@pytest.fixture(scope="module")
def files(place: Path) -> Path:
    """Run the script in a guest with persistent memory and a plain disk; return what it brought."""
    (place / "share/mapped.py").write_text(MAPPED)
    write_plan(place / "share/a.plan", ROWS)
    write_plan(place / "share/one.plan", [record(READ, 0, 8)])
    slow = [record(WRITE, 0, 8, at_ns=n * 10**7) for n in range(100)]
    write_plan(place / "share/slow.plan", slow)
    shutil.copy(Path(__file__).parent / "in_guest/late.py", place / "share")
    return run_script(place, SCRIPT, "--pmem", "128MiB", "--disk", "fs=64MiB", code=3)


def test_the_commands_own_failure_is_told_with_what_it_said(files: Path) -> None:
    said = (files.parents[1] / "stderr").read_text()
    assert "to stderr\n" in said
    assert "failed in the guest with status 7" in said
    assert json.loads((files.parent / "lab.json").read_text())["exit_status"] == 7


def test_memory_is_mapped_synchronously_on_dax_only_until_it_is_mounted_without(
    files: Path,
) -> None:
    on_dax, on_disk, before, after = (files.parents[1] / "stdout").read_text().splitlines()
    # MAP_SYNC works on DAX, and not on the disk.
    assert (on_dax, on_disk) == ("LAB_DAX b'bytes'", "LAB_FS Operation not supported")
    # What a sweep does to it takes DAX away.
    assert "dax=always" in before
    assert "dax=always" not in after


def test_the_replayer_and_the_share_are_there(files: Path) -> None:
    summary = json.loads((files / "summary.json").read_text())
    assert summary["counts"]["done"] == 1
    assert summary["targets"][0]["path"] == "/mnt/dax/target"


def test_stores_are_synchronous_on_dax_only_and_right_on_both(files: Path) -> None:
    # WHEN the dax engine replays it on ext4 on persistent memory, and on ext4 on a disk
    # THEN each target holds what the plan wrote, read back past what was cached
    expected = expected_content(ROWS, SIZE_BYTES)
    features = {}
    for name in ("dax", "fs"):
        summary = json.loads((files / f"{name}.json").read_text())
        assert summary["counts"]["done"] == len(ROWS)
        assert (content(files / f"{name}.content") == expected).all()
        features[name] = summary["engine"]["features"]
    # AND the mapping is durable by itself on DAX, and not on the disk
    assert features["dax"]["map_sync"]
    assert features["dax"]["prefaulted"]
    assert not features["fs"]["map_sync"]


def test_who_comes_between_check_and_first_write_is_seen(files: Path) -> None:
    # WHEN another process opens the file of a replay that has checked it
    for engine in ("dax", "threads"):
        found = json.loads((files / f"{engine}.late").read_text())
        # THEN nothing is written
        assert (found["is_late"], found["code"], found["is_written"]) == (False, 1, False), found
        assert "process has the file open" in found["said"]
    # AND a device that a replay has checked cannot be mounted any more: it is the replay's
    found = json.loads((files / "mount.late").read_text())
    assert (found["is_late"], found["code"], found["is_written"]) == (False, 0, True), found
    assert "already mounted or mount point busy" in found["mount_said"]

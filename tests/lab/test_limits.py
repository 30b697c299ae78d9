"""Limits of control groups of version 2 in a guest, DAX and discards: what a dry run says."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guests import run_script
from tests.replay.program import record, write_plan
from tests.replay_files import program as of_files
from tests.replay_files.program import do, table
from tracekit.plans.block_plan import DISCARD, READ, WRITE

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-limits")]
MIB = 1 << 20
SCRIPT = """
set -e
cp -r $LAB_SHARE /tmp/work
cd /tmp/work
groups=/sys/fs/cgroup
mkdir files
mountpoint -q $groups || mount -t cgroup2 none $groups
echo "+pids +memory" > $groups/cgroup.subtree_control
mkdir -p $groups/outer/inner
limit() { echo $2 > $groups/outer/$1; }  # FILE VALUE
inside() {  # NAME COMMAND...: in the inner group
  name=$1
  shift
  echo 0 > $LAB_OUT/$name.code
  bash -c 'echo $$ > /sys/fs/cgroup/outer/inner/cgroup.procs; exec "$@"' sh "$@" \\
    > $LAB_OUT/$name.json 2> $LAB_OUT/$name.said || echo $? > $LAB_OUT/$name.code
}
echo "+pids +memory" > $groups/outer/cgroup.subtree_control
limit pids.max 20
inside threads-dry tracekit-replay a.plan --target t --engine threads --threads 64 --dry-run
inside threads tracekit-replay a.plan --target t --engine threads --threads 64
inside files tracekit-replay files.plan files
limit pids.max max
limit memory.high 6M
inside high-dry tracekit-replay a.plan --target t --dry-run
limit memory.high max
limit memory.max 6M
inside memory-dry tracekit-replay a.plan --target t --dry-run
inside memory tracekit-replay a.plan --target t
inside killed tracekit-replay a.plan --target killed --no-space-check
limit memory.max 64M
inside enough tracekit-replay a.plan --target t
for folder in $LAB_DAX $LAB_FS; do
  name=${folder##*/}
  tracekit-replay a.plan --engine dax --target $folder/t --dry-run > $LAB_OUT/mapped-$name.json
done
umount $LAB_DAX
token=$(cat /sys/block/pmem0/dev):$(cat /sys/block/pmem0/size)
dd if=/dev/zero of=/dev/pmem0 bs=1M count=8 status=none
tracekit-replay discards.plan --target /dev/pmem0 --write-to $token --dry-run \\
  > $LAB_OUT/discards.json
cat /sys/block/pmem0/queue/discard_max_bytes > $LAB_OUT/discard-bytes
"""


@pytest.fixture(scope="module")
def files(place: Path) -> Path:
    """Run under limits in a guest; return what it brought."""
    rows = [record(READ, 0, 8), record(WRITE, 8, 8)]
    write_plan(place / "share/a.plan", rows)
    write_plan(place / "share/discards.plan", [*rows, record(DISCARD, 0, 8), record(DISCARD, 8, 8)])
    threads = [[do("stat", "old")]] * 64
    of_files.write_plan(place / "share/files.plan", threads, files=table("old"))
    return run_script(place, SCRIPT, "--pmem", "64MiB", "--disk", "fs=64MiB")


def code(files: Path, name: str) -> int:
    return int((files / f"{name}.code").read_text())


def fit(files: Path, name: str) -> dict[str, Any]:
    told = json.loads((files / f"{name}.json").read_text())
    return {n["code"]: n for n in (*told["fit"], *told["targets"][0]["fit"])}


def test_limits_of_the_group_above_are_said_before(files: Path) -> None:
    # THEN a dry run names what is needed, there, and the file that sets it, in the group above
    note = fit(files, "threads-dry")["group_threads_limit"]
    assert note["needed"] == 68
    assert "of 20 by /sys/fs/cgroup/outer/pids.max" in note["message"]
    note = fit(files, "high-dry")["group_memory_high"]
    assert "of 6.0 MiB by /sys/fs/cgroup/outer/memory.high" in note["message"]
    # AND runs that would fail are refused, before a file is made
    for name, limit in (
        ("threads", "of 20 by /sys/fs/cgroup/outer/pids.max"),
        ("files", "of 20 by /sys/fs/cgroup/outer/pids.max"),
        ("memory", "of 6.0 MiB by /sys/fs/cgroup/outer/memory.max"),
        ("memory-dry", "of 6.0 MiB by /sys/fs/cgroup/outer/memory.max"),
    ):
        said = (files / f"{name}.said").read_text()
        assert code(files, name) == 1
        assert limit in said


def test_the_kernel_kills_what_is_refused_and_not_what_runs(files: Path) -> None:
    assert code(files, "killed") == 128 + signal.SIGKILL
    assert (code(files, "enough"), fit(files, "enough")) == (0, {})


def test_loads_and_stores_without_dax_are_said_in_a_dry_run(files: Path) -> None:
    assert "no_map_sync" not in fit(files, "mapped-dax")
    assert "no_map_sync" in fit(files, "mapped-fs")


def test_a_disk_that_discards_nothing_is_said_in_a_dry_run(files: Path) -> None:
    assert (files / "discard-bytes").read_text().strip() == "0"
    assert fit(files, "discards")["no_discard"]["requests"] == 2

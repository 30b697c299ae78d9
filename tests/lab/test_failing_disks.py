"""Disks of a guest that fail: bad sectors, writes that fail, a disk that goes in the middle."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lab.guests import run_script
from tests.replay.program import record, write_plan
from tracekit.plans.block_plan import READ, WRITE
from tracekit.replay.completions import HEADER, RECORD, STATUSES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-failing-disks")]
BLOCKS = 512
BAD = range(264, 392)
"""Blocks of 4 KiB that device mapper answers with errors, behind all places of signatures."""
SLOW_REQUESTS = 700
PERIOD_NS = 5_000_000
SOME_READS = 100
"""Reads after which a disk goes; a few of them are of the program before it begins."""
SCRIPT = """
set -e
disk=$(cat /run/disk0)
umount /mnt/fs
wipefs --quiet --all --force $disk
dd if=/dev/zero of=$disk bs=1M count=8 conv=fsync status=none
sectors=$(blockdev --getsz $disk)
map() { dmsetup --noudevsync create "$1" --table "$2"; }
replay() {  # NAME PLAN DEVICE ENGINE
  folder=/sys/class/block/${3##*/}
  token=$(cat $folder/dev):$(cat $folder/size)
  [ ! -s $folder/serial ] || token=$(cat $folder/serial)
  tracekit-replay "$2" --engine "$4" --target "$3" --write-to "$token" \
    --completions $LAB_OUT/$1.done --summary $LAB_OUT/$1.json || [ $? = 3 ]
}
reads_of() { read -r reads _ < /sys/class/block/$1/stat; echo "$reads"; }
wait_for_reads() {  # DISK: until a number more were done than now
  enough=$(($(reads_of $1) + SOME_READS))
  while [ "$(reads_of $1)" -lt $enough ]; do sleep 0.1; done
}
map bad "0 2112 linear $disk 0
2112 1024 error
3136 $((sectors - 3136)) linear $disk 3136"
replay bad-io_uring all.plan /dev/dm-0 io_uring
replay bad-threads all.plan /dev/dm-0 threads
dmsetup --noudevsync remove bad
map flaky "0 $sectors flakey $disk 0 0 3600 1 error_writes"
replay flaky all.plan /dev/dm-0 io_uring
dmsetup --noudevsync remove flaky
map going "0 $sectors linear $disk 0"
(wait_for_reads dm-0; dmsetup --noudevsync wipe_table going) &
replay wiped slow.plan /dev/dm-0 io_uring
wait
dmsetup --noudevsync remove going
(wait_for_reads ${disk##*/}; echo 1 > $(readlink -f /sys/block/${disk##*/}/device/..)/remove) &
replay removed slow.plan $disk io_uring
"""
SCRIPT = SCRIPT.replace("SOME_READS", str(SOME_READS))
Runs = Mapping[str, tuple[dict[str, Any], Any]]
RUNS = ("bad-io_uring", "bad-threads", "flaky", "wiped", "removed")


@pytest.fixture(scope="module")
def runs(place: Path) -> Runs:
    """Replay on disks that fail, in one guest; return summary and completions of each run."""
    kinds = [READ, WRITE]
    rows = [record(kinds[n % 2], 8 * n, 8, at_ns=n * 100_000) for n in range(BLOCKS)]
    write_plan(place / "share/all.plan", rows)
    slow = [record(READ, 8 * (n % BLOCKS), 8, at_ns=n * PERIOD_NS) for n in range(SLOW_REQUESTS)]
    write_plan(place / "share/slow.plan", slow)
    files = run_script(place, SCRIPT, "--disk", "fs=64MiB")
    found = {}
    for name in RUNS:
        data = (files / f"{name}.done").read_bytes()
        rows_of = np.frombuffer(data[HEADER.itemsize :], RECORD)
        found[name] = json.loads((files / f"{name}.json").read_text()), rows_of
    return found


@pytest.mark.parametrize("name", ["bad-io_uring", "bad-threads"])
def test_bad_sectors_fail_their_requests_and_no_others(runs: Runs, name: str) -> None:
    summary, rows = runs[name]
    failed = rows["request_id"][rows["status"] == STATUSES.index("failed")]
    assert sorted(failed.tolist()) == list(BAD)
    assert len(rows) == BLOCKS
    assert [(e["name"], e["count"]) for e in summary["errors"]] == [("EIO", len(BAD))]
    assert summary["outcome"] == "finished"


def test_writes_that_fail_leave_reads_alone(runs: Runs) -> None:
    _, rows = runs["flaky"]
    found = Counter(zip(rows["operation"].tolist(), rows["status"].tolist(), strict=True))
    assert found == {(READ, 0): BLOCKS // 2, (WRITE, 1): BLOCKS // 2}


@pytest.mark.parametrize("name", ["wiped", "removed"])
def test_a_disk_that_goes_in_the_middle_ends_no_run(runs: Runs, name: str) -> None:
    # GIVEN a run of 3.5 s whose disk goes after some of its reads
    summary, rows = runs[name]
    # THEN all requests have their records: done before, failed after, in time
    assert summary["outcome"] == "finished"
    assert len(rows) == SLOW_REQUESTS
    by_id = rows[np.argsort(rows["request_id"])]
    is_done = by_id["status"] == STATUSES.index("done")
    assert is_done[:50].all()
    assert not is_done[-100:].any()
    # Linux lets a disk that was taken out end before its first byte: reads get nothing.
    assert {e["name"] for e in summary["errors"]} <= {"EIO", "ENXIO", "ENODEV", "ENODATA"}
    # Each is submitted when it is due; the first one may be late by itself.
    assert summary["timing"]["actual_duration_ns"] > (SLOW_REQUESTS - 2) * PERIOD_NS

"""The dax engine in a guest: MAP_SYNC on a DAX file system, and none on a plain disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.guests import lab, skip_unless_guests_run
from tests.replay.program import (
    DISCARD,
    FLUSH,
    FUA,
    READ,
    WRITE,
    content,
    expected_content,
    record,
    write_plan,
)

pytestmark = pytest.mark.slow
SIZE_BYTES = 1 << 20
SCRIPT = """
set -e
for folder in $LAB_DAX $LAB_FS; do
  name=${folder##*/}
  tracekit-replay a.plan --engine dax --target $folder/t --keep > $LAB_OUT/$name.json
  echo 3 > /proc/sys/vm/drop_caches
  cp $folder/t $LAB_OUT/$name.content
done
"""


def test_stores_are_synchronous_on_dax_only_and_right_on_both(tmp_path: Path) -> None:
    skip_unless_guests_run()
    # GIVEN a plan that stores all of a target, makes a hole, stores into it, and flushes
    share = tmp_path / "share"
    share.mkdir()
    rows = [record(WRITE, 8 * n, 8, flags=FUA * (n % 2)) for n in range(256)]
    rows += [record(DISCARD, 512, 512), record(WRITE, 640, 3), record(READ, 512, 512)]
    rows += [record(FLUSH)]
    write_plan(share / "a.plan", rows)
    # WHEN the dax engine replays it on ext4 on persistent memory, and on ext4 on a disk
    ran = lab(
        *("run", "--pmem", "128MiB", "--disk", "fs=64MiB", "--share", str(share)),
        *("-o", str(tmp_path / "out"), "--", "sh", "-c", SCRIPT),
    )
    assert ran.returncode == 0, ran.stderr
    # THEN each target holds what the plan wrote, read back past what was cached
    expected = expected_content(rows, SIZE_BYTES)
    features = {}
    for name in ("dax", "fs"):
        summary = json.loads((tmp_path / f"out/files/{name}.json").read_text())
        assert summary["counts"]["done"] == len(rows)
        assert (content(tmp_path / f"out/files/{name}.content") == expected).all()
        features[name] = summary["engine"]["features"]
    # AND the mapping is durable by itself on DAX, and not on the disk
    assert features["dax"]["map_sync"]
    assert features["dax"]["prefaulted"]
    assert not features["fs"]["map_sync"]

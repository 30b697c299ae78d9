"""Loads and stores: durable where the kernel grants it, errors where a page cannot be had."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replay.program import FLUSH, FUA, READ, WRITE, content, pattern, record, run, write_plan

KIB = 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB in memory."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a file system in memory")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_stores_reach_the_file_and_it_is_told_how(tmp_path: Path) -> None:
    target = tmp_path / "t"
    rows = [record(WRITE, 8 * n, 8, flags=FUA * (n % 2)) for n in range(64)]
    rows += [record(FLUSH), record(READ, 0, 512)]
    plan = write_plan(tmp_path / "a.plan", rows)
    ran = run(plan, "--engine", "dax", "--target", str(target), "--keep")
    assert ran.code == 0, ran.messages
    assert (content(target) == pattern(0, 64 * 4096)).all()
    features = ran.summary["engine"]["features"]
    assert set(features) == {"map_sync", "prefaulted", "libpmem", "non_temporal_stores"}
    assert features["prefaulted"]
    assert not (features["libpmem"] and features["non_temporal_stores"])
    assert ran.summary["in_flight_max"] == 1


# TSan's own handler of signals leaves the signal blocked when ours jumps back.
@pytest.mark.plain
def test_a_page_that_cannot_be_had_is_an_error_of_the_request(
    tmp_path: Path, small_disk: Path
) -> None:
    # GIVEN a file of 4 MiB without blocks on a file system of 1 MiB
    target = small_disk / "t"
    with target.open("wb") as file:
        file.truncate(4 << 20)
    plan = write_plan(tmp_path / "a.plan", [record(WRITE, 8 * n, 8) for n in range(1024)])
    # WHEN all of it is written
    ran = run(plan, "--engine", "dax", "--target", str(target), "--write-to", str(target))
    # THEN what fits is written, the others fail, and no signal ends the program
    assert ran.code == 3, ran.messages
    found = Counter(ran.statuses().values())
    assert 0 < found["done"] <= 256
    assert found["done"] + found["failed"] == 1024
    assert [error["name"] for error in ran.summary["errors"]] == ["EIO"]
    assert not ran.summary["engine"]["features"]["prefaulted"]


def test_what_may_only_be_read_is_only_read(tmp_path: Path) -> None:
    target = tmp_path / "t"
    target.write_bytes(bytes(64 * KIB))
    rows = [record(WRITE, 0, 8), record(READ, 0, 128)]
    ran = run(write_plan(tmp_path / "a.plan", rows), "--engine", "dax", "--target", str(target))
    assert ran.statuses() == {0: "skipped_read_only", 1: "done"}
    assert not content(target).any()


def test_only_flushes_need_no_mapping(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(FLUSH)] * 3, needed_sectors=8)
    ran = run(plan, "--engine", "dax", "--target", str(tmp_path / "t"))
    assert ran.code == 0, ran.messages
    assert ran.summary["counts"]["done"] == 3


def test_a_smaller_file_is_read_to_its_end_only(tmp_path: Path) -> None:
    target = tmp_path / "t"
    target.write_bytes(bytes(4096))
    rows = [record(READ, 0, 8), record(READ, 8, 8)]
    plan = write_plan(tmp_path / "a.plan", rows)
    ran = run(plan, "--engine", "dax", "--target", str(target), "--out-of-range", "skip")
    assert ran.statuses() == {0: "done", 1: "skipped_out_of_range"}


def test_every_request_has_a_submission_of_its_own(tmp_path: Path) -> None:
    # GIVEN many requests that are due at once
    plan = write_plan(tmp_path / "a.plan", [record(WRITE, 0, 2048)] * 50)
    ran = run(plan, "--engine", "dax", "--target", str(tmp_path / "t"))
    rows = ran.rows()
    # THEN the time of one does not contain that of those before it
    order = rows["submit_ns"].argsort()
    assert (rows["submit_ns"][order][1:] >= rows["complete_ns"][order][:-1]).all()

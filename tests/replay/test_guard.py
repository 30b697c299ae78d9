"""Devices: nothing is ever written to what is in use, whatever the options say."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.replay.disk import call, image, loop, mounted, needs_root, token_of
from tests.replay.program import WRITE, content, expected_content, record, run, write_plan
from tests.replay.refusal import RECORDS, refused, unchanged, write_plan_of

STILL = ("-o", "ro")
"""How to mount a file system that must not write anything by itself, however long a test takes."""


def everything_confirmed(device: Path) -> list[str]:
    """Return options of somebody who insists: the checks must hold all the same."""
    allowed = ("ext", "swap", "mbr", "gpt")
    signatures = [word for name in allowed for word in ("--overwrite-signature", name)]
    return ["--target", str(device), "--write-to", token_of(device), *signatures]


@needs_root
@pytest.mark.root
def test_a_free_device_needs_its_token(tmp_path: Path) -> None:
    backing = image(tmp_path / "img")
    plan = write_plan_of(tmp_path)
    with loop(backing) as device:
        with unchanged(backing):
            ran = run(plan, "--target", str(device), "--write-to", str(device))
            assert ran.summary["counts"]["skipped_read_only"] == 3
        assert ran.summary["targets"][0]["confirm_with"] == token_of(device)
        ran = run(plan, "--target", str(device), "--write-to", token_of(device))
        assert ran.summary["counts"]["done"] == 3
        call("blockdev", "--flushbufs", str(device))
    assert (content(backing) == expected_content(RECORDS, 16 << 20)).all()


@needs_root
@pytest.mark.root
def test_a_mounted_device_is_refused_even_for_reading(tmp_path: Path) -> None:
    backing = image(tmp_path / "img")
    call("mkfs.ext4", "-q", str(backing))
    plan = write_plan_of(tmp_path)
    with loop(backing) as device, mounted(device, tmp_path / "mnt", *STILL), unchanged(backing):
        refused(run(plan, *everything_confirmed(device)), "mounted at", str(tmp_path / "mnt"))
        refused(run(plan, "--target", str(device)), "mounted at")


@needs_root
@pytest.mark.root
def test_a_device_mounted_after_the_plan_was_made_is_refused(tmp_path: Path) -> None:
    backing = image(tmp_path / "img")
    call("mkfs.ext4", "-q", str(backing))
    plan = write_plan_of(tmp_path)
    with loop(backing) as device:
        ready = run(plan, *everything_confirmed(device), "--dry-run")
        assert ready.summary["outcome"] == "dry_run"
        with mounted(device, tmp_path / "mnt", *STILL), unchanged(backing):
            refused(run(plan, *everything_confirmed(device)), "mounted at")


@needs_root
@pytest.mark.root
def test_a_device_under_another_name_is_refused(tmp_path: Path) -> None:
    backing = image(tmp_path / "img")
    call("mkfs.ext4", "-q", str(backing))
    plan = write_plan_of(tmp_path)
    with loop(backing) as device, mounted(device, tmp_path / "mnt", *STILL):
        node = tmp_path / "harmless"
        os.mknod(node, 0o600 | stat.S_IFBLK, os.stat(device).st_rdev)
        (tmp_path / "link").symlink_to(node)
        with unchanged(backing):
            for path in (node, tmp_path / "link"):
                refused(run(plan, *everything_confirmed(path)), "mounted at")


@contextmanager
def partitioned(tmp_path: Path) -> Iterator[tuple[Path, Path, Path]]:
    """Yield a backing file, its loop device and the first of its two partitions."""
    backing = image(tmp_path / "img", mib=32)
    call("sfdisk", "-q", str(backing), text="label: gpt\nsize=16MiB\nsize=8MiB\n")
    with loop(backing) as device:
        # The kernel may lack a scanner for partition tables: partx tells it what is there.
        call("partx", "--add", str(device))
        try:
            yield backing, device, Path(f"{device}p1")
        finally:
            call("partx", "--delete", str(device))


# Within the 5 s after which a mounted ext4 writes by itself.
@pytest.mark.plain
@needs_root
@pytest.mark.root
def test_the_disk_of_a_mounted_partition_is_refused_its_neighbour_is_not(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "a.plan", RECORDS[:2])
    with partitioned(tmp_path) as (backing, device, first):
        call("mkfs.ext4", "-q", str(first))
        with mounted(first, tmp_path / "mnt", *STILL), unchanged(backing):
            refused(run(plan, *everything_confirmed(device)), "mounted at")
            refused(run(plan, *everything_confirmed(first)), "mounted at")
            second = Path(f"{device}p2")
            ran = run(plan, "--target", str(second), "--write-to", token_of(second), "--dry-run")
            assert ran.code == 0, ran.messages
            assert ran.summary["targets"][0]["may_write"] is True


@needs_root
@pytest.mark.root
def test_a_device_with_a_swap_signature_is_refused(tmp_path: Path) -> None:
    backing = image(tmp_path / "img")
    call("mkswap", str(backing))
    with loop(backing) as device, unchanged(backing):
        ran = run(write_plan_of(tmp_path), "--target", str(device), "--write-to", token_of(device))
        refused(ran, "it holds swap")


@needs_root
@pytest.mark.root
def test_what_is_behind_a_loop_device_is_refused(tmp_path: Path) -> None:
    # GIVEN a file behind a loop device, and that loop device behind another
    backing = image(tmp_path / "img")
    plan = write_plan_of(tmp_path)
    with loop(backing) as device, loop(device) as upper, unchanged(backing):
        # WHEN the file, under another name, or the lower device is the target
        (tmp_path / "other").hardlink_to(backing)
        file = run(plan, "--target", str(tmp_path / "other"), "--write-to", str(tmp_path / "other"))
        lower = run(plan, *everything_confirmed(device))
        # THEN both are refused by what they are
        refused(file, "behind the loop device", device.name)
        refused(lower, "behind the loop device", upper.name)


@contextmanager
def settled(*devices: Path) -> Iterator[None]:
    """Have everything written that the caches hold for these devices, one after the other."""
    for device in devices:
        call("blockdev", "--flushbufs", str(device))
    yield


@needs_root
@pytest.mark.root
def test_what_is_behind_a_loop_device_is_refused_when_its_name_is_gone(tmp_path: Path) -> None:
    # GIVEN a mounted loop device on a device whose node was removed, or means another by now
    backing, other = image(tmp_path / "img"), image(tmp_path / "other")
    plan = write_plan_of(tmp_path)
    with loop(backing) as device, loop(other) as free:
        node = tmp_path / "node"
        os.mknod(node, 0o600 | stat.S_IFBLK, device.stat().st_rdev)
        with loop(node) as upper:
            node.unlink()
            call("mkfs.ext4", "-q", str(upper))
            with (
                mounted(upper, tmp_path / "mnt", *STILL),
                settled(upper, device),
                unchanged(backing),
            ):
                # WHEN the lower device is the target, THEN it is refused by its number
                gone = run(plan, *everything_confirmed(device))
                refused(gone, "behind the loop device", upper.name)
                os.mknod(node, 0o600 | stat.S_IFBLK, free.stat().st_rdev)
                taken = run(plan, *everything_confirmed(device))
                refused(taken, "behind the loop device", upper.name)


@needs_root
@pytest.mark.root
def test_a_device_that_somebody_claimed_is_refused(tmp_path: Path) -> None:
    backing = image(tmp_path / "img")
    with loop(backing) as device:
        claim = os.open(device, os.O_RDONLY | os.O_EXCL)
        try:
            with unchanged(backing):
                refused(run(write_plan_of(tmp_path), *everything_confirmed(device)), "in use")
        finally:
            os.close(claim)


@needs_root
@pytest.mark.root
def test_addresses_that_do_not_fit_the_sectors_of_a_disk_run_buffered(tmp_path: Path) -> None:
    backing = image(tmp_path / "img")
    records = [record(WRITE, 3, 1), record(WRITE, 17, 8)]
    plan = write_plan(tmp_path / "a.plan", records)
    with loop(backing, "--sector-size", "4096") as device:
        ran = run(plan, *everything_confirmed(device))
        assert ran.code == 0, ran.messages
        assert ran.summary["targets"][0]["is_direct"] is False
        assert "not aligned" in ran.summary["targets"][0]["direct_note"]
        strict = run(plan, *everything_confirmed(device), "--direct", "on")
        refused(strict, "not aligned")
        call("blockdev", "--flushbufs", str(device))
    assert (content(backing) == expected_content(records, 16 << 20)).all()

"""Devices: nothing is ever written to what is in use, whatever the options say."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.replay.disk import call, image, loop, mounted, token_of, unchanged
from tests.replay.program import WRITES, Replay, content, expected_content, record
from tracekit.plans.block_plan import WRITE

pytestmark = pytest.mark.root
STILL = ("-o", "ro")
"""How to mount a file system that must not write anything by itself, however long a test takes."""


@pytest.fixture
def backing(tmp_path: Path) -> Path:
    return image(tmp_path / "img")


@pytest.fixture
def device(backing: Path) -> Iterator[Path]:
    with loop(backing) as found:
        yield found


@pytest.fixture
def ext4(backing: Path) -> Path:
    call("mkfs.ext4", "-q", backing)
    return backing


def confirmed(device: Path) -> dict[str, Any]:
    """Return options of somebody who insists: the checks must hold all the same."""
    signatures = ["ext", "swap", "mbr", "gpt"]
    return {"target": device, "write_to": token_of(device), "overwrite_signature": signatures}


def test_a_free_device_needs_its_token(replay: Replay, backing: Path, device: Path) -> None:
    with unchanged(backing):
        ran = replay(WRITES, confirmed=device)
        assert ran.counts["skipped_read_only"] == 3
    assert ran.target["confirm_with"] == token_of(device)
    assert replay(WRITES, target=device, write_to=token_of(device)).counts["done"] == 3
    call("blockdev", "--flushbufs", device)
    assert (content(backing) == expected_content(WRITES, 16 << 20)).all()


def test_a_mounted_device_is_refused_even_for_reading_and_by_another_name(
    replay: Replay, tmp_path: Path, ext4: Path, device: Path
) -> None:
    # GIVEN a device that is free when the plan is made, and mounted when it runs
    ready = replay(WRITES, dry_run=True, **confirmed(device))
    assert ready.summary["outcome"] == "dry_run"
    node, link = tmp_path / "harmless", tmp_path / "link"
    os.mknod(node, 0o600 | stat.S_IFBLK, os.stat(device).st_rdev)
    link.symlink_to(node)
    with mounted(device, tmp_path / "mnt", *STILL), unchanged(ext4):
        replay(WRITES, target=device).refused("mounted at")
        for path in (device, node, link):
            replay(WRITES, **confirmed(path)).refused("mounted at", str(tmp_path / "mnt"))


def test_what_only_the_source_of_a_mount_names_is_refused(
    replay: Replay, tmp_path: Path, backing: Path, device: Path
) -> None:
    # GIVEN a mount that shows a number of its own, by a name with a blank, as some file systems do
    link, place = tmp_path / "a name", tmp_path / "mnt"
    place.mkdir()
    for source in (device, backing):
        link.unlink(missing_ok=True)
        link.symlink_to(source)
        call("mount", "-t", "ramfs", link, place)
        try:
            with unchanged(backing):
                replay(WRITES, **confirmed(device)).refused("mounted at")
        finally:
            call("umount", place)
    # THEN a name that is none of the target's is no matter
    assert replay(WRITES, dry_run=True, **confirmed(device)).code == 0


@contextmanager
def partitioned(backing: Path) -> Iterator[tuple[Path, Path, Path]]:
    """Yield the loop device of a file, and its two partitions."""
    os.truncate(backing, 32 << 20)
    call("sfdisk", "-q", backing, text="label: gpt\nsize=16MiB\nsize=8MiB\n")
    with loop(backing) as device:
        # The kernel may lack a scanner for partition tables: partx tells it what is there, also
        # instead of what the device had under another file.
        call("partx", "--update", device)
        try:
            yield device, Path(f"{device}p1"), Path(f"{device}p2")
        finally:
            call("partx", "--delete", device)


# Within the 5 s after which a mounted ext4 writes by itself.
@pytest.mark.plain
def test_the_disk_of_a_mounted_partition_is_refused_its_neighbour_is_not(
    replay: Replay, tmp_path: Path, backing: Path
) -> None:
    with partitioned(backing) as (device, first, second):
        call("mkfs.ext4", "-q", first)
        with mounted(first, tmp_path / "mnt", *STILL), unchanged(backing):
            for path in (device, first):
                replay(WRITES[:2], **confirmed(path)).refused("mounted at")
            ran = replay(WRITES[:2], target=second, write_to=token_of(second), dry_run=True)
            assert ran.code == 0, ran.messages
            assert ran.target["may_write"] is True


def test_a_device_with_a_swap_signature_is_refused(
    replay: Replay, backing: Path, device: Path
) -> None:
    call("mkswap", backing)
    with unchanged(backing):
        replay(WRITES, target=device, write_to=token_of(device)).refused("it holds swap")


def test_what_is_behind_a_loop_device_is_refused(
    replay: Replay, tmp_path: Path, backing: Path, device: Path
) -> None:
    # GIVEN a file behind a loop device under another name, and that loop device behind another
    other = tmp_path / "other"
    other.hardlink_to(backing)
    with loop(device) as upper, unchanged(backing):
        # THEN both are refused by what they are
        replay(WRITES, confirmed=other).refused("behind the loop device", device.name)
        replay(WRITES, **confirmed(device)).refused("behind the loop device", upper.name)


def test_what_is_behind_a_loop_device_is_refused_when_its_name_is_gone(
    replay: Replay, tmp_path: Path, backing: Path, device: Path
) -> None:
    # GIVEN a mounted loop device on a device whose node was removed, or means another by now
    node = tmp_path / "node"
    os.mknod(node, 0o600 | stat.S_IFBLK, device.stat().st_rdev)
    with loop(image(tmp_path / "other")) as free, loop(node) as upper:
        node.unlink()
        call("mkfs.ext4", "-q", upper)
        with mounted(upper, tmp_path / "mnt", *STILL):
            for one in (upper, device):  # what the caches hold is written before
                call("blockdev", "--flushbufs", one)
            with unchanged(backing):
                # WHEN the lower device is the target, THEN it is refused by its number
                replay(WRITES, **confirmed(device)).refused("behind the loop device", upper.name)
                os.mknod(node, 0o600 | stat.S_IFBLK, free.stat().st_rdev)
                replay(WRITES, **confirmed(device)).refused("behind the loop device", upper.name)


def test_a_device_that_somebody_claimed_is_refused(
    replay: Replay, backing: Path, device: Path
) -> None:
    claim = os.open(device, os.O_RDONLY | os.O_EXCL)
    try:
        with unchanged(backing), loop(device) as upper:
            replay(WRITES, **confirmed(device)).refused("behind the loop device", upper.name)
            # THEN one upon it is refused, too
            words = "the kernel says that it is in use by what is below it:"
            replay(WRITES, **confirmed(upper)).refused(words, device.name)
        with unchanged(backing):
            replay(WRITES, **confirmed(device)).refused("in use")
    finally:
        os.close(claim)


def test_addresses_that_do_not_fit_the_sectors_of_a_disk_run_buffered(
    replay: Replay, backing: Path
) -> None:
    records = [record(WRITE, 3, 1), record(WRITE, 17, 8)]
    with loop(backing, "--sector-size", "4096") as device:
        ran = replay(records, **confirmed(device))
        assert ran.code == 0, ran.messages
        assert ran.target["is_direct"] is False
        assert "not aligned" in ran.target["direct_note"]
        replay(records, direct="on", **confirmed(device)).refused("not aligned")
        call("blockdev", "--flushbufs", device)
    assert (content(backing) == expected_content(records, 16 << 20)).all()

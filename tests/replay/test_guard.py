"""Nothing is ever written to what is in use or was not confirmed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.replay.disk import call, digest, image, loop, mounted, needs_root, token_of
from tests.replay.program import (
    READ,
    WRITE,
    Ran,
    content,
    expected_content,
    record,
    run,
    write_plan,
)

RECORDS = [record(WRITE, 0, 64), record(WRITE, 2048, 8), record(WRITE, 16384, 8)]


def write_plan_of(folder: Path) -> Path:
    return write_plan(folder / "a.plan", RECORDS)


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Fail when a byte of the file has changed."""
    os.sync()
    before = digest(path)
    yield
    os.sync()
    assert digest(path) == before


def refused(ran: Ran, *words: str) -> None:
    assert ran.code == 1, ran.messages
    assert all(word in ran.messages for word in words), ran.messages
    assert len(ran.messages.splitlines()) == 1
    assert not ran.completions.exists()


def everything_confirmed(device: Path) -> list[str]:
    """Return options of somebody who insists: the checks must hold all the same."""
    allowed = ("ext", "swap", "mbr", "gpt")
    signatures = [word for name in allowed for word in ("--overwrite-signature", name)]
    return ["--target", str(device), "--write-to", token_of(device), *signatures]


# --- files ---------------------------------------------------------------------------------------


def test_an_existing_file_is_read_only_without_confirmation(tmp_path: Path) -> None:
    # GIVEN an existing file
    target = image(tmp_path / "precious", mib=16)
    plan = write_plan(tmp_path / "a.plan", [*RECORDS, record(READ, 0, 8)])
    # WHEN a plan with writes runs on it without --write-to
    with unchanged(target):
        ran = run(plan, "--target", str(target))
    # THEN writes are skipped and counted, never turned into reads
    assert ran.code == 0
    assert ran.summary["counts"]["skipped_read_only"] == 3
    assert ran.summary["counts"]["done"] == 1
    assert ran.summary["operations"][0]["operation"] == "read"
    assert ran.summary["operations"][0]["done"] == 1
    assert ran.statuses() == {0: "skipped_read_only", 1: "skipped_read_only",
                              2: "skipped_read_only", 3: "done"}  # fmt: skip


def test_only_the_exact_token_confirms(tmp_path: Path) -> None:
    target = image(tmp_path / "precious", mib=16)
    plan = write_plan_of(tmp_path)
    for wrong in ("yes", "precious", str(target) + "/", str(tmp_path)):
        with unchanged(target):
            ran = run(plan, "--target", str(target), "--write-to", wrong)
        assert ran.summary["counts"]["skipped_read_only"] == 3
    # WHEN the absolute path is given, as the summary says
    token = ran.summary["targets"][0]["confirm_with"]
    ran = run(plan, "--target", str(target), "--write-to", token)
    # THEN it is written
    assert ran.summary["counts"]["done"] == 3
    assert (content(target) == expected_content(RECORDS, 16 << 20)).all()


def test_a_file_that_somebody_has_open_is_not_written(tmp_path: Path) -> None:
    target = image(tmp_path / "disk.img", mib=16)
    plan = write_plan_of(tmp_path)
    with target.open("rb"), unchanged(target):
        ran = run(plan, "--target", str(target), "--write-to", str(target))
        refused(ran, "another process has the file open")


def test_a_file_with_a_signature_is_not_overwritten(tmp_path: Path) -> None:
    target = image(tmp_path / "disk.img", mib=16)
    call("mkfs.ext4", "-q", "-F", str(target))
    plan = write_plan_of(tmp_path)
    with unchanged(target):
        ran = run(plan, "--target", str(target), "--write-to", str(target))
        refused(ran, "it holds ext")
        wrong = ("--overwrite-signature", "xfs")
        ran = run(plan, "--target", str(target), "--write-to", str(target), *wrong)
        refused(ran, "it holds ext")
    right = ("--overwrite-signature", "ext")
    ran = run(plan, "--target", str(target), "--write-to", str(target), *right)
    assert ran.summary["counts"]["done"] == 3


SIGNATURES = [
    ("swap", 4086, b"SWAPSPACE2"), ("xfs", 0, b"XFSB"), ("btrfs", 65600, b"_BHRfS_M"),
    ("lvm", 512, b"LABELONE"), ("md", 4096, b"\xfc\x4e\x2b\xa9"), ("luks", 0, b"LUKS\xba\xbe"),
    ("gpt", 512, b"EFI PART"), ("gpt", (16 << 20) - 512, b"EFI PART"), ("mbr", 510, b"\x55\xaa"),
    ("md", (16 << 20) - 8192, b"\xfc\x4e\x2b\xa9"), ("md", (16 << 20) - 65536, b"\xfc\x4e\x2b\xa9"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "offset", "magic"), SIGNATURES)
def test_signatures_refuse(tmp_path: Path, name: str, offset: int, magic: bytes) -> None:
    target = image(tmp_path / "disk.img", mib=16)
    with target.open("r+b") as file:
        file.seek(offset)
        file.write(magic)
    with unchanged(target):
        ran = run(write_plan_of(tmp_path), "--target", str(target), "--write-to", str(target))
        refused(ran, f"it holds {name}", f"--overwrite-signature {name}")


def test_what_is_neither_file_nor_device_is_refused(tmp_path: Path) -> None:
    plan = write_plan_of(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        ran = run(plan, "--target", str(path), "--write-to", str(path))
        refused(ran, "neither a regular file nor a block device")


def test_a_file_made_for_the_run_is_removed_and_no_other(tmp_path: Path) -> None:
    plan = write_plan_of(tmp_path)
    ran = run(plan, "--target", str(tmp_path / "t"))
    assert ran.summary["targets"][0]["kind"] == "made file"
    assert not (tmp_path / "t").exists()
    # A dangling link would make a file somewhere else.
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    refused(run(plan, "--target", str(tmp_path / "link")), "cannot make the file")
    assert not (tmp_path / "elsewhere").exists()


def test_a_dry_run_makes_and_writes_nothing(tmp_path: Path) -> None:
    target = image(tmp_path / "precious", mib=16)
    plan = write_plan_of(tmp_path)
    with unchanged(target):
        ran = run(plan, "--target", str(target), "--write-to", str(target), "--dry-run")
    made = run(plan, "--target", str(tmp_path / "new"), "--dry-run")
    assert ran.summary["outcome"] == made.summary["outcome"] == "dry_run"
    assert ran.summary["targets"][0]["planned"]["write_bytes"] == 80 * 512
    assert not (tmp_path / "new").exists()
    assert not ran.completions.exists()


def test_two_targets_on_the_same_file_are_refused(tmp_path: Path) -> None:
    target = image(tmp_path / "one", mib=16)
    (tmp_path / "two").hardlink_to(target)
    records = [record(WRITE, 0, 8, target=0), record(WRITE, 0, 8, target=1)]
    plan = write_plan(tmp_path / "a.plan", records, labels=("fs", "default"))
    with unchanged(target):
        ran = run(plan, "--target", f"fs={target}", "--target", str(tmp_path / "two"))
        refused(ran, "fs and default are the same")


# --- devices -------------------------------------------------------------------------------------


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
    with loop(backing) as device, mounted(device, tmp_path / "mnt"), unchanged(backing):
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
        with mounted(device, tmp_path / "mnt"), unchanged(backing):
            refused(run(plan, *everything_confirmed(device)), "mounted at")


@needs_root
@pytest.mark.root
def test_a_device_under_another_name_is_refused(tmp_path: Path) -> None:
    backing = image(tmp_path / "img")
    call("mkfs.ext4", "-q", str(backing))
    plan = write_plan_of(tmp_path)
    with loop(backing) as device, mounted(device, tmp_path / "mnt"):
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


@needs_root
@pytest.mark.root
def test_the_disk_of_a_mounted_partition_is_refused_its_neighbour_is_not(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "a.plan", RECORDS[:2])
    with partitioned(tmp_path) as (backing, device, first):
        call("mkfs.ext4", "-q", str(first))
        with mounted(first, tmp_path / "mnt"), unchanged(backing):
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

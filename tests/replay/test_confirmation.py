"""Files: nothing is written that was not confirmed, is open elsewhere or bears a signature."""

import os
import resource
import shutil
from pathlib import Path

import pytest

from tests.replay.disk import call, image
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
from tests.replay.refusal import RECORDS, refused, unchanged, write_plan_of


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


def test_each_signature_must_be_named(tmp_path: Path) -> None:
    # GIVEN a file system on what was a disk with partitions, and part of a RAID
    target = image(tmp_path / "disk.img", mib=16)
    call("mkfs.ext4", "-q", "-F", str(target))
    with target.open("r+b") as file:
        for offset, magic in ((510, b"\x55\xaa"), ((16 << 20) - 65536, b"\xfc\x4e\x2b\xa9")):
            file.seek(offset)
            file.write(magic)
    told = ("--target", str(target), "--write-to", str(target))
    plan = write_plan_of(tmp_path)

    def allowed(*names: str) -> Ran:
        words = [word for name in names for word in ("--overwrite-signature", name)]
        return run(plan, *told, *words)

    # WHEN all but one of them are named, THEN that one still refuses
    with unchanged(target):
        refused(allowed(), "it holds ext and md and mbr; to destroy it: --overwrite-signature ext")
        for name in ("ext", "md", "mbr"):
            others = {"ext", "md", "mbr"} - {name}
            refused(allowed(*others), f"it holds {name}; to destroy it: --overwrite-signature")
    assert allowed("mbr", "md", "ext").summary["counts"]["done"] == 3


@pytest.mark.parametrize("maker", ["mkfs.minix", "mkfs.bfs", "mkfs.ext2 -q -F", "mkswap"])
def test_what_the_makers_of_file_systems_leave_is_recognised(tmp_path: Path, maker: str) -> None:
    target = image(tmp_path / "disk.img", mib=16)
    words = maker.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"needs {words[0]}")
    call(*words, str(target))
    name = {"mkfs.ext2": "ext", "mkswap": "swap"}.get(words[0], words[0].removeprefix("mkfs."))
    with unchanged(target):
        ran = run(write_plan_of(tmp_path), "--target", str(target), "--write-to", str(target))
        refused(ran, f"it holds {name};")


SIGNATURES = [
    ("swap", 4086, b"SWAPSPACE2"), ("xfs", 0, b"XFSB"), ("btrfs", 65600, b"_BHRfS_M"),
    ("lvm", 512, b"LABELONE"), ("md", 4096, b"\xfc\x4e\x2b\xa9"), ("luks", 0, b"LUKS\xba\xbe"),
    ("gpt", 512, b"EFI PART"), ("gpt", (16 << 20) - 512, b"EFI PART"), ("mbr", 510, b"\x55\xaa"),
    ("jfs", 32768, b"JFS1"), ("reiserfs", 65588, b"ReIsEr2Fs"), ("apfs", 32, b"NXSB"),
    ("udf", 32769, b"BEA01"), ("bluestore", 0, b"bluestore block device"),
    ("stratis", 4612, b"!Stra0tis\x86\xff\x02^Arh"), ("ddf", (16 << 20) - 512, b"\xde\x11" * 2),
    ("isw", (16 << 20) - 1024, b"Intel Raid ISM Cfg Sig. 1.2"), ("vmdk", 0, b"KDMV"),
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


def test_a_file_that_cannot_be_made_long_enough_is_not_left(tmp_path: Path) -> None:
    # GIVEN a plan whose target is longer than this process may make a file
    plan = write_plan(tmp_path / "a.plan", [record(READ, 1 << 20, 8)])
    limit = 1 << 20

    # WHEN it runs
    ran = run(
        plan,
        *("--target", str(tmp_path / "t")),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )

    # THEN it is refused, and the file is gone
    refused(ran, "cannot make it as long as the plan needs", "File too large")
    assert not (tmp_path / "t").exists()


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


def test_a_dry_run_says_of_a_new_file_what_a_run_would(tmp_path: Path) -> None:
    plan = write_plan_of(tmp_path)
    told = ("--target", str(tmp_path / "new"))
    dry, real = run(plan, *told, "--dry-run"), run(plan, *told)
    keys = ("kind", "is_direct", "direct_note", "align_bytes", "size_bytes", "can_zero")
    for key in (*keys, "can_discard", "may_write", "out_of_range"):
        assert dry.summary["targets"][0][key] == real.summary["targets"][0][key], key
    # and where no file can be made, both say so
    nowhere = ("--target", str(tmp_path / "none/new"))
    for ran in (run(plan, *nowhere, "--dry-run"), run(plan, *nowhere)):
        refused(ran, "cannot make the file", "No such file or directory")


def test_no_file_is_made_among_devices(tmp_path: Path) -> None:
    # GIVEN the name of a device that is not there
    if os.stat("/dev").st_dev == os.stat("/").st_dev:
        pytest.skip("needs a /dev of its own")
    target = Path("/dev/tracekit-no-such-disk")
    # WHEN it is the target, THEN no file in memory takes its place
    for more in ([], ["--dry-run"]):
        ran = run(write_plan_of(tmp_path), "--target", str(target), *more)
        refused(ran, "there is no such device")
        assert not target.exists()


def test_two_targets_on_the_same_file_are_refused(tmp_path: Path) -> None:
    target = image(tmp_path / "one", mib=16)
    (tmp_path / "two").hardlink_to(target)
    records = [record(WRITE, 0, 8, target=0), record(WRITE, 0, 8, target=1)]
    plan = write_plan(tmp_path / "a.plan", records, labels=("fs", "default"))
    with unchanged(target):
        ran = run(plan, "--target", f"fs={target}", "--target", str(tmp_path / "two"))
        refused(ran, "fs and default are the same")


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_two_targets_on_the_same_new_file_are_refused(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    # GIVEN one path for two targets, at which there is nothing yet
    records = [record(WRITE, 0, 8, target=0), record(WRITE, 0, 8, target=1)]
    plan = write_plan(tmp_path / "a.plan", records, labels=("fs", "default"))
    new = str(tmp_path / "new")
    # THEN the second is not taken for a file that was there before
    ran = run(plan, "--target", f"fs={new}", "--target", new, *options)
    refused(ran, "fs and default are the same made file")
    assert not (tmp_path / "new").exists()

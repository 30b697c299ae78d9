"""Files: nothing is written that was not confirmed, is open elsewhere or bears a signature."""

import os
import resource
import shutil
from pathlib import Path

import pytest

from tests.replay.disk import call, image, unchanged
from tests.replay.processes import limited
from tests.replay.program import WRITES, Ran, Replay, content, expected_content, record
from tracekit.plans.block_plan import READ, WRITE


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """Return a file that was there before."""
    return image(tmp_path / "precious")


def test_an_existing_file_is_read_only_without_confirmation(replay: Replay, precious: Path) -> None:
    # WHEN a plan with writes runs on an existing file without --write-to
    with unchanged(precious):
        ran = replay([*WRITES, record(READ, 0, 8)], target=precious)
    # THEN writes are skipped and counted, never turned into reads
    assert ran.code == 0
    assert (ran.counts["skipped_read_only"], ran.counts["done"]) == (3, 1)
    assert ran.summary["operations"][0]["operation"] == "read"
    assert ran.summary["operations"][0]["done"] == 1
    assert ran.statuses() == {**dict.fromkeys(range(3), "skipped_read_only"), 3: "done"}


def test_only_the_exact_token_confirms(replay: Replay, tmp_path: Path, precious: Path) -> None:
    for wrong in ("yes", "precious", f"{precious}/", tmp_path):
        with unchanged(precious):
            ran = replay(WRITES, target=precious, write_to=wrong)
        assert ran.counts["skipped_read_only"] == 3
    # WHEN the absolute path is given, as the summary says, THEN it is written
    ran = replay(WRITES, target=precious, write_to=ran.target["confirm_with"])
    assert ran.counts["done"] == 3
    assert (content(precious) == expected_content(WRITES, 16 << 20)).all()


def test_a_file_that_somebody_has_open_is_not_written(replay: Replay, precious: Path) -> None:
    with precious.open("rb"), unchanged(precious):
        replay(WRITES, confirmed=precious).refused("another process has the file open")


def test_each_signature_must_be_named(replay: Replay, precious: Path) -> None:
    # GIVEN a file system on what was a disk with partitions, and part of a RAID
    call("mkfs.ext4", "-q", "-F", precious)

    def allowed(*names: str) -> Ran:
        return replay(WRITES, confirmed=precious, overwrite_signature=list(names))

    with unchanged(precious):
        allowed().refused("it holds ext")
        allowed("xfs").refused("it holds ext")
    overwrite(precious, (510, b"\x55\xaa"), ((16 << 20) - 65536, b"\xfc\x4e\x2b\xa9"))
    # WHEN all but one of them are named, THEN that one still refuses
    with unchanged(precious):
        allowed().refused("it holds ext and md and mbr; to destroy it: --overwrite-signature ext")
        for name in ("ext", "md", "mbr"):
            others = {"ext", "md", "mbr"} - {name}
            allowed(*others).refused(f"it holds {name}; to destroy it: --overwrite-signature")
    assert allowed("mbr", "md", "ext").counts["done"] == 3
    # AND one alone is enough where there is no other
    call("mkfs.ext4", "-q", "-F", image(precious))
    assert allowed("ext").counts["done"] == 3


def overwrite(path: Path, *parts: tuple[int, bytes]) -> None:
    with path.open("r+b") as file:
        for offset, data in parts:
            file.seek(offset)
            file.write(data)


@pytest.mark.parametrize("maker", ["mkfs.minix", "mkfs.bfs", "mkfs.ext2 -q -F", "mkswap"])
def test_what_the_makers_of_file_systems_leave_is_recognised(
    replay: Replay, precious: Path, maker: str
) -> None:
    program, *words = maker.split()
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    call(program, *words, precious)
    name = {"mkfs.ext2": "ext", "mkswap": "swap"}.get(program, program.removeprefix("mkfs."))
    with unchanged(precious):
        replay(WRITES, confirmed=precious).refused(f"it holds {name};")


def test_what_is_neither_file_nor_device_is_refused(replay: Replay, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        replay(WRITES, confirmed=path).refused("neither a regular file nor a block device")


def test_a_file_made_for_the_run_is_removed_and_no_other(
    replay: Replay, tmp_path: Path, target: Path
) -> None:
    assert replay(WRITES, target=target).target["kind"] == "made file"
    assert not target.exists()
    # A dangling link would make a file somewhere else.
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    replay(WRITES, target=tmp_path / "link").refused("cannot make the file")
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_cannot_be_made_long_enough_is_not_left(replay: Replay, target: Path) -> None:
    # GIVEN a plan whose target is longer than this process may make a file
    limit = limited(resource.RLIMIT_FSIZE, 1 << 20)
    ran = replay([record(READ, 1 << 20, 8)], target=target, preexec_fn=limit)
    # THEN it is refused, and the file is gone
    ran.refused("the plan needs a longer file than this process may write", "ulimit -f")
    assert not target.exists()


def test_a_dry_run_writes_nothing_and_says_of_a_new_file_what_a_run_would(
    replay: Replay, tmp_path: Path, target: Path, precious: Path
) -> None:
    with unchanged(precious):
        ran = replay(WRITES, confirmed=precious, dry_run=True)
    assert ran.target["planned"]["write_bytes"] == 80 * 512
    assert not ran.completions.exists()
    dry = replay(WRITES, target=target, dry_run=True)
    assert ran.summary["outcome"] == dry.summary["outcome"] == "dry_run"
    assert not target.exists()
    real = replay(WRITES, target=target)
    keys = ("kind", "is_direct", "direct_note", "align_bytes", "size_bytes", "can_zero")
    for key in (*keys, "can_discard", "may_write", "out_of_range"):
        assert dry.target[key] == real.target[key], key
    # AND where no file can be made, both say so
    for options in ({"dry_run": True}, {}):
        ran = replay(WRITES, target=tmp_path / "none/new", **options)
        ran.refused("cannot make the file", "No such file or directory")


def test_no_file_is_made_among_devices(replay: Replay) -> None:
    # GIVEN the name of a device that is not there
    if os.stat("/dev").st_dev == os.stat("/").st_dev:
        pytest.skip("needs a /dev of its own")
    missing = Path("/dev/tracekit-no-such-disk")
    # WHEN it is the target, THEN no file in memory takes its place
    for options in ({}, {"dry_run": True}):
        replay(WRITES, target=missing, **options).refused("there is no such device")
        assert not missing.exists()


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
@pytest.mark.parametrize("is_new", [True, False])
def test_two_targets_on_the_same_file_are_refused(
    replay: Replay, tmp_path: Path, precious: Path, words: tuple[str, ...], *, is_new: bool
) -> None:
    # GIVEN one path for two targets, at which there is nothing yet, or two names of a file
    records = [record(WRITE, 0, 8, target=0), record(WRITE, 0, 8, target=1)]
    first = second = tmp_path / "new"
    if not is_new:
        first, second = precious, tmp_path / "two"
        second.hardlink_to(first)
    # THEN the second is not taken for a file that was there before
    with unchanged(precious):
        ran = replay(records, *words, target=[f"fs={first}", second], labels=("fs", "default"))
    ran.refused(f"fs and default are the same{' made file' if is_new else ''}")
    assert not (tmp_path / "new").exists()

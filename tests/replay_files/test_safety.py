"""Nothing but the directory of the run is touched, and what cannot go through does not begin."""

import resource
import struct
import zlib
from pathlib import Path

import pytest

from tests.replay.disk import call, image, loop, mounted, needs_root
from tests.replay_files.program import do, run, write_plan
from tracekit.plans.file_plan import HEADER, FileTable, Setting

OWN = "tracekit-files"


def small(path: Path, size_bytes: int = 100) -> Path:
    files = FileTable()
    files.add("d/old", size_bytes=size_bytes)
    return write_plan(path / "plan", [[do("stat", "d/old")]], files=files)


def test_what_is_there_stays_and_what_was_made_goes(tmp_path: Path) -> None:
    plan, target = small(tmp_path), tmp_path / "target"
    (target / "d").mkdir(parents=True)
    (target / "d/old").write_text("mine")
    ran = run(plan, target)
    assert ran.code == 0
    assert (target / "d/old").read_text() == "mine"
    assert [path.name for path in target.iterdir()] == ["d"]


def test_what_an_earlier_run_left_is_replaced_on_request_only(tmp_path: Path) -> None:
    plan = small(tmp_path)
    assert run(plan, tmp_path, "--keep").code == 0
    (tmp_path / OWN / "run/more").mkdir()
    ran = run(plan, tmp_path)
    assert (ran.code, ran.summary) == (1, {})
    assert "--replace" in ran.messages
    assert (tmp_path / OWN / "run/more").is_dir()
    assert run(plan, tmp_path, "--replace").code == 0
    assert not (tmp_path / OWN).exists()


def test_a_directory_of_that_name_without_the_mark_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "thesis").write_text("mine")
    ran = run(small(tmp_path), tmp_path, "--replace")
    assert ran.code == 1
    assert "mark" in ran.messages
    assert (tmp_path / OWN / "thesis").read_text() == "mine"


def test_a_link_of_that_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis").write_text("mine")
    (tmp_path / OWN).symlink_to(tmp_path / "precious")
    for arguments in ((), ("--replace",)):
        assert run(small(tmp_path), tmp_path, *arguments).code == 1
    assert (tmp_path / "precious/thesis").read_text() == "mine"


def test_a_link_that_appears_below_is_removed_and_not_followed(tmp_path: Path) -> None:
    plan = small(tmp_path)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis").write_text("mine")
    assert run(plan, tmp_path, "--keep").code == 0
    (tmp_path / OWN / "run/way-out").symlink_to(tmp_path / "precious")
    assert run(plan, tmp_path, "--replace").code == 0
    assert (tmp_path / "precious/thesis").read_text() == "mine"


def test_a_run_in_use_is_not_replaced(tmp_path: Path) -> None:
    import fcntl

    plan = small(tmp_path)
    assert run(plan, tmp_path, "--keep").code == 0
    with (tmp_path / OWN / "made-by-tracekit-file-replay").open() as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        ran = run(plan, tmp_path, "--replace")
    assert ran.code == 1
    assert "in use" in ran.messages
    assert (tmp_path / OWN / "run/d/old").exists()


def test_files_that_do_not_fit_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    ran = run(small(tmp_path, size_bytes=1 << 60), tmp_path)
    assert (ran.code, ran.summary) == (1, {})
    assert "MiB are free" in ran.messages
    assert not (tmp_path / OWN).exists()


def test_more_open_files_than_allowed_are_refused(tmp_path: Path) -> None:
    files = FileTable()
    files.add("old")
    thread = [do("open", "old", handle=handle) for handle in range(200)]
    plan = write_plan(tmp_path / "plan", [thread], files=files)

    def limit(soft: int, hard: int) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    ran = run(plan, tmp_path, preexec_fn=lambda: limit(100, 150))
    assert (ran.code, ran.summary) == (1, {})
    assert "ulimit -n" in ran.messages
    # WHEN it may be raised far enough, THEN the program raises it itself
    ran = run(plan, tmp_path, preexec_fn=lambda: limit(100, 400))
    assert (ran.code, ran.summary["directory"]["file_limit"]) == (0, 233)


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    plan = small(tmp_path)
    for target in (tmp_path / "missing", plan):
        ran = run(plan, target)
        assert ran.code == 1
        assert str(target) in ran.messages


def damaged(plan: bytes, offset: int, value: bytes) -> bytes:
    """Return the plan with other bytes somewhere and right checksums all the same."""
    data = bytearray(plan)
    data[offset : offset + len(value)] = value
    records = 128 + 64
    struct.pack_into("<2I", data, 92, zlib.crc32(data[128:records]), zlib.crc32(data[records:]))
    struct.pack_into("<I", data, 124, zlib.crc32(data[:124]))
    return bytes(data)


TABLES = 128 + 64 + 24 + 32  # header, one record, one thread, one step: here begin the files
NAMES = TABLES + 2 * 32


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (0, b"X", "first bytes"),
        (8, b"\x02", "another version"),
        (16, b"\x30", "does not fit"),
        (32, b"\x02", "truncated"),
        (56, b"\x01", "longer"),
        (60, b"\x00", "threads"),
        (72, b"\xff" * 8, "64 MiB"),
        (88, b"\x09", "flags"),
        (128 + 60, b"\x63", "unknown operation"),
        (128 + 59, b"\xff", "unknown flags"),
        (128 + 61, b"\x01", "step"),
        (128 + 40, b"\x02", "file that the plan does not have"),
        (128 + 40, b"\xff\xff\xff\xff", "lacks the file"),
        (128 + 48, b"\x00\x00\x00\x00", "handle that the plan does not have"),
        (128 + 52, b"\x00\x00\x00\x00", "waits"),
        (128, b"\x01", "order of time"),
        (128 + 64, b"\x01", "thread 0"),
        (128 + 64 + 24, b"\x00", "label"),
        (TABLES + 32 + 20, b"\x01", "below a directory"),
        (TABLES + 24, b"\x07", "unknown kind"),
        (TABLES + 16, b"\x09", "no proper name"),
        (NAMES, b"/", "leave the directory"),
        (NAMES, b".", "leave the directory"),
    ],
)
def test_a_damaged_plan_is_refused(tmp_path: Path, offset: int, value: bytes, words: str) -> None:
    files = FileTable()
    files.add("d/old", size_bytes=100)
    threads = [[do("stat", "d/old", step=0)]]
    plan = write_plan(tmp_path / "plan", threads, files=files, setting=Setting(steps=("look",)))
    plan.write_bytes(damaged(plan.read_bytes(), offset, value))
    ran = run(plan, tmp_path)
    assert (ran.code, ran.summary) == (1, {})
    assert words in ran.messages
    assert not (tmp_path / OWN).exists()


@pytest.mark.parametrize("place", [50, 100, 150, 200, 240, 270])
def test_one_wrong_bit_is_found(tmp_path: Path, place: int) -> None:
    plan = small(tmp_path)
    data = bytearray(plan.read_bytes())
    data[place] ^= 1
    plan.write_bytes(data)
    assert run(plan, tmp_path).code == 1


@pytest.mark.parametrize("size", [0, 10, HEADER.itemsize, HEADER.itemsize + 64, -1])
def test_a_truncated_plan_is_refused(tmp_path: Path, size: int) -> None:
    plan = small(tmp_path)
    plan.write_bytes(plan.read_bytes()[:size])
    assert run(plan, tmp_path).code == 1


@needs_root
def test_a_real_file_system_of_its_own(tmp_path: Path) -> None:
    # GIVEN an ext4 file system, whose root is not empty
    disk = image(tmp_path / "disk", mib=64)
    call("mkfs.ext4", "-q", str(disk))
    with loop(disk) as device, mounted(device, tmp_path / "mnt") as place:
        # WHEN a plan runs there with cold caches
        ran = run(small(tmp_path, size_bytes=1 << 20), place, "--cache", "cold")
        # THEN its root is as before
        assert [path.name for path in place.iterdir()] == ["lost+found"]
    assert ran.code == 0
    assert ran.summary["directory"]["file_system_magic"] == "0xef53"
    assert ran.summary["preparation"]["dropped"] in ("all", "data")
    assert ran.summary["preparation"]["bytes"] == 1 << 20

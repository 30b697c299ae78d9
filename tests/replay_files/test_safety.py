"""Nothing but the directory of the run is touched, and what cannot go through does not begin."""

import fcntl
import resource
import struct
import zlib
from pathlib import Path

import pytest

from tests.replay.disk import call, image, loop, mounted
from tests.replay.processes import limited
from tests.replay_files.program import KEPT, OWN, Replay, do, run, table, write_plan
from tracekit.plans.file_plan import HEADER, Setting


def small(folder: Path, size_bytes: int = 100) -> Path:
    """Return a plan that looks at the only file."""
    files = table("d/old", size_bytes=size_bytes)
    return write_plan(folder / "plan", [[do("stat", "d/old")]], files=files)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return small(tmp_path)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """Return a directory with a file of the user's."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis").write_text("mine")
    return tmp_path / "precious"


def test_what_is_there_stays_and_what_was_made_goes(plan: Path, target: Path) -> None:
    (target / "d").mkdir()
    (target / "d/old").write_text("mine")
    assert run(plan, target).code == 0
    assert (target / "d/old").read_text() == "mine"
    assert [path.name for path in target.iterdir()] == ["d"]


def test_what_an_earlier_run_kept_is_replaced_on_request_only(plan: Path, target: Path) -> None:
    assert run(plan, target, keep=True).code == 0
    (target / KEPT / "more").mkdir()
    run(plan, target).refused("which kept it", "--replace")
    assert (target / KEPT / "d/old").exists()
    assert (target / KEPT / "more").is_dir()
    ran = run(plan, target, replace=True)
    assert (ran.code, ran.summary["directory"]["replaced"]) == (0, "kept run")
    assert not (target / OWN).exists()


def test_a_directory_of_that_name_without_the_mark_is_never_removed(
    plan: Path, tmp_path: Path, precious: Path
) -> None:
    own = precious.rename(tmp_path / OWN)
    run(plan, tmp_path, replace=True).refused("mark")
    assert (own / "thesis").read_text() == "mine"


def test_an_empty_directory_of_that_name_is_used(plan: Path, tmp_path: Path) -> None:
    # What a run leaves that is killed before its mark is there, or when the mark is gone.
    (tmp_path / OWN).mkdir()
    ran = run(plan, tmp_path)
    assert (ran.code, ran.summary["directory"]["replaced"]) == (0, "nothing")
    assert not (tmp_path / OWN).exists()


def test_a_link_of_that_name_is_not_followed(plan: Path, tmp_path: Path, precious: Path) -> None:
    (tmp_path / OWN).symlink_to(precious)
    for words in ((), ("--replace",)):
        run(plan, tmp_path, *words).refused()
    assert (precious / "thesis").read_text() == "mine"


def test_a_link_that_appears_below_is_removed_and_not_followed(
    plan: Path, tmp_path: Path, precious: Path
) -> None:
    assert run(plan, tmp_path, keep=True).code == 0
    (tmp_path / KEPT / "way-out").symlink_to(precious)
    assert run(plan, tmp_path, replace=True).code == 0
    assert (precious / "thesis").read_text() == "mine"


def test_a_run_in_use_is_not_replaced(plan: Path, tmp_path: Path) -> None:
    assert run(plan, tmp_path, keep=True).code == 0
    with (tmp_path / OWN / "made-by-tracekit-file-replay").open() as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        run(plan, tmp_path, replace=True).refused("in use")
    assert (tmp_path / KEPT / "d/old").exists()


def test_files_that_do_not_fit_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    run(small(tmp_path, size_bytes=1 << 60), tmp_path).refused("MiB are free")
    assert not (tmp_path / OWN).exists()


def test_more_open_files_than_allowed_are_refused(replay: Replay) -> None:
    thread = [do("open", "old", handle=handle) for handle in range(200)]
    too_few, enough = (limited(resource.RLIMIT_NOFILE, 100, hard) for hard in (150, 400))
    replay([thread], files=table("old"), preexec_fn=too_few).refused("ulimit -n")
    # WHEN it may be raised far enough, THEN the program raises it itself
    ran = replay([thread], files=table("old"), preexec_fn=enough)
    assert (ran.code, ran.summary["directory"]["file_limit"]) == (0, 233)


def test_a_directory_that_is_none_is_refused(plan: Path, tmp_path: Path) -> None:
    for target in (tmp_path / "missing", plan):
        run(plan, target).refused(str(target))


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
        (88, b"\x11", "flags"),
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
    threads = [[do("stat", "d/old", step=0)]]
    setting = Setting(steps=("look",))
    plan = write_plan(tmp_path / "plan", threads, files=table("d/old"), setting=setting)
    plan.write_bytes(damaged(plan.read_bytes(), offset, value))
    run(plan, tmp_path).refused(words)
    assert not (tmp_path / OWN).exists()


@pytest.mark.parametrize("place", [50, 100, 150, 200, 240, 270])
def test_one_wrong_bit_is_found(plan: Path, place: int) -> None:
    data = bytearray(plan.read_bytes())
    data[place] ^= 1
    plan.write_bytes(data)
    run(plan, plan.parent).refused()


@pytest.mark.parametrize("size", [0, 10, HEADER.itemsize, HEADER.itemsize + 64, -1])
def test_a_truncated_plan_is_refused(plan: Path, size: int) -> None:
    plan.write_bytes(plan.read_bytes()[:size])
    run(plan, plan.parent).refused()


@pytest.mark.root
def test_a_real_file_system_of_its_own(tmp_path: Path) -> None:
    # GIVEN an ext4 file system, whose root is not empty
    disk = image(tmp_path / "disk", mib=64)
    call("mkfs.ext4", "-q", disk)
    with loop(disk) as device, mounted(device, tmp_path / "mnt") as place:
        # WHEN a plan runs there with cold caches
        ran = run(small(tmp_path, size_bytes=1 << 20), place, cache="cold")
        # THEN its root is as before
        assert [path.name for path in place.iterdir()] == ["lost+found"]
    assert ran.code == 0
    assert ran.summary["directory"]["file_system_magic"] == "0xef53"
    assert ran.summary["preparation"]["dropped"] in ("all", "data")
    assert ran.summary["preparation"]["bytes"] == 1 << 20

"""Nothing but the directory of the run is touched; full disks and signals leave what was done."""

import errno
import fcntl
import json
import os
import resource
import signal
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.replay.disk import call, image, loop, mounted
from tests.replay.processes import await_in, await_true, limited
from tests.replay.program import compiled_shim
from tests.replay_files.program import (
    KEPT,
    OWN,
    RESULT,
    Replay,
    command,
    do,
    run,
    table,
    write_plan,
)
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


LOOP = [do("create", "new", handle=0), do("close", "new", handle=0), do("unlink", "new")]
MIB = 1 << 20


@pytest.mark.root
def test_a_disk_that_fills_up_ends_the_run(replay: Replay, small_disk: Path) -> None:
    # GIVEN a plan that says it needs little, and writes 16 MiB
    writes = [do("write", "big", handle=0, offset=n * MIB, length=MIB) for n in range(16)]
    thread = [do("create", "big", handle=0), *writes, do("fsync", "big", handle=0)]
    ran = replay([thread], setting=Setting(needed_bytes=0), directory=small_disk)
    # THEN the first that found no room ended it, and is counted by operation
    assert (ran.code, ran.summary["outcome"], ran.summary["ended_by"]) == (3, "full", "full")
    (error,) = ran.summary["errors"]
    assert (error["operation"], error["name"], error["count"]) == ("write", "ENOSPC", 1)
    results = ran.rows()["result"].tolist()
    assert results[-1] == -errno.ENOSPC
    assert sum(results[:-1]) <= 4 * MIB
    # AND the directory is empty again
    assert list(small_disk.iterdir()) == []


@pytest.mark.root
def test_a_file_set_that_does_not_fit_is_refused_or_removed(
    replay: Replay, small_disk: Path
) -> None:
    thread = [do("stat", "f0")]
    for words, message in (((), "MiB are free"), (("--no-space-check",), "cannot make the file")):
        files = table(*(f"f{number}" for number in range(8)), size_bytes=MIB)
        replay([thread], *words, files=files, directory=small_disk).refused(message)
        assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_longer_than_the_process_may_write_is_refused(
    replay: Replay, *, is_there: bool
) -> None:
    # GIVEN a file of 2 MiB that is there before, or comes by the last of three writes
    thread = [do("create", "f", handle=0)]
    thread += [do("write", "f", handle=0, offset=n * MIB // 2, length=MIB) for n in range(3)]
    files = None
    if is_there:
        thread, files = [do("truncate", "f", length=0)], table("f", size_bytes=2 * MIB)
    # WHEN the process may write files of 1.75 MiB, THEN it says so before
    ran = replay([thread], files=files, preexec_fn=limited(resource.RLIMIT_FSIZE, 7 * MIB // 4))
    ran.refused("2097152 bytes", "ulimit -f")
    # AND a file of just that size is none of the kind
    limit = limited(resource.RLIMIT_FSIZE, 2 * MIB)
    assert replay([thread], files=files, preexec_fn=limit).code == 0


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "plan", [LOOP], setting=Setting(is_repeatable=True))


@pytest.fixture
def running(tmp_path: Path, endless: Path) -> subprocess.Popen[bytes]:
    """Return a run of a minute that has written more than a block of results."""
    child = subprocess.Popen(command(endless, tmp_path, repeat=0, duration_ns=60 * 10**9))
    least_bytes = 64 + 4096 * RESULT.itemsize
    await_true(lambda: [p for p in tmp_path.glob("*.part") if p.stat().st_size > least_bytes])
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_in_good_order(
    tmp_path: Path, running: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    running.send_signal(number)
    assert running.wait(10) == 3
    told = json.loads((tmp_path / "plan.json").read_text())
    assert (told["outcome"], told["ended_by"]) == ("interrupted", "signal")
    rows = np.frombuffer((tmp_path / "plan.done").read_bytes()[64:], RESULT)
    assert len(rows) == told["counts"]["operations"]
    assert not (tmp_path / OWN).exists()


def test_a_killed_run_leaves_what_was_written(
    tmp_path: Path, endless: Path, running: subprocess.Popen[bytes]
) -> None:
    running.kill()
    running.wait(10)
    (part,) = tmp_path.glob("plan.done.*.part")
    data = part.read_bytes()
    assert int.from_bytes(data[20:24], "little") == 0  # not complete
    rows = np.frombuffer(data[64 : 64 + (len(data) - 64) // 48 * 48], RESULT)
    whole = rows[rows["is_whole"] == 1]
    assert len(whole) >= 4096
    assert np.all(whole["operation_id"] == np.arange(len(whole)) % 3)
    # AND the next run removes its directory, and says so
    ran = run(endless, tmp_path)
    assert (ran.code, ran.summary["directory"]["replaced"]) == (0, "killed run")
    assert f"removed {tmp_path / OWN}, which a killed run had left" in ran.messages
    assert not (tmp_path / OWN).exists()


def test_a_signal_in_the_preparation_leaves_nothing(tmp_path: Path) -> None:
    files = table(*(f"f{number}" for number in range(20_000)), size_bytes=1000)
    plan = write_plan(tmp_path / "plan", [[do("stat", "f0")]], files=files)
    with subprocess.Popen(command(plan, tmp_path)) as child:
        await_in(child, (tmp_path / OWN / "run/f0").exists, pause_s=0.001)
        child.send_signal(signal.SIGTERM)
        assert child.wait() == 3
    told = json.loads((tmp_path / "plan.json").read_text())
    assert (told["outcome"], told["ended_by"]) == ("interrupted", "nothing")
    assert told["preparation"]["files"] < 20_000
    assert not (tmp_path / OWN).exists()


def test_removal_ends_soon_after_the_signal_and_the_next_run_goes_on(tmp_path: Path) -> None:
    # GIVEN a run on twenty files, each of which takes 0.4 s to remove
    files = table(*(f"old{number}" for number in range(20)))
    plan = write_plan(tmp_path / "plan", [[do("stat", "old0", start_ns=60 * 10**9)]], files=files)
    slow = os.environ | {"LD_PRELOAD": str(compiled_shim(tmp_path)), "SHIM_UNLINK_MS": "400"}
    line = command(plan, tmp_path, pace="trace")
    with subprocess.Popen(line, env=slow, stderr=subprocess.PIPE, text=True) as child:
        await_in(child, (tmp_path / KEPT / "old19").exists)
        # WHEN a signal ends it
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=20)
    # THEN it ends with what could be removed in 3 s, and says so
    assert child.returncode == 3
    assert f"{tmp_path}/{OWN} is removed in part only: the signal came 3 s ago" in said
    assert 0 < len([*(tmp_path / KEPT).iterdir()]) < 20
    # AND the next run removes the rest
    write_plan(plan, [[do("stat", "old0")]], files=files)
    ran = run(plan, tmp_path)
    assert (ran.code, ran.summary["directory"]["replaced"]) == (0, "killed run")
    assert not (tmp_path / OWN).exists()


def test_results_that_cannot_be_written_end_the_run(tmp_path: Path, endless: Path) -> None:
    # GIVEN a limit of file sizes that the results of an endless run pass
    limit = limited(resource.RLIMIT_FSIZE, MIB)
    ran = run(endless, tmp_path, repeat=0, duration_ns=30 * 10**9, preexec_fn=limit)
    assert (ran.code, ran.summary["outcome"], ran.summary["ended_by"]) == (1, "failed", "results")
    assert "cannot write all results" in ran.messages
    assert len(list(tmp_path.glob("plan.done.*.part"))) == 1
    assert not (tmp_path / OWN).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_is_refused(tmp_path: Path, endless: Path) -> None:
    place = tmp_path / "locked"
    place.mkdir(mode=0o500)
    assert "Permission denied" in run(endless, place).messages

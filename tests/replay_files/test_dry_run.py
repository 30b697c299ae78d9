"""A dry run says what a replay of files would make, need and fail at, and makes nothing."""

import json
import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tests.replay.disk import image, loop, mounted, small_file_system
from tests.replay.failing import failing_file
from tests.replay.groups import limited_group
from tests.replay.processes import limited
from tests.replay_files import captured
from tests.replay_files.program import KEPT, OWN, Operation, Ran, do, run, table, write_plan
from tracekit.errors import TracekitError
from tracekit.plans import file_plan
from tracekit.plans.file_plan import AT_POSITION, DIRECT, FileTable

MIB = 1 << 20
OWN_INODES = 3
"""The directory of a run, its mark, and where the plan's paths begin."""
DRY = pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["real", "dry"])
WORK: list[Operation] = [
    do("create", "d/new", handle=0),
    do("write", "d/new", handle=0, offset=MIB, length=5000),
    do("close", "d/new", handle=0),
    do("stat", "d/old"),
]


def notes(ran: Ran) -> dict[str, dict[str, Any]]:
    """Return the notes by their code."""
    return {note["code"]: note for note in ran.summary["fit"]}


def work_plan(folder: Path, threads: int = 1, *, size_bytes: int = 3 * MIB) -> Path:
    """Return a plan of threads of which each makes a file beside one that is there."""
    files = table("d/old", size_bytes=size_bytes)
    names = [f"d/new{number}" for number in range(threads)]
    work = [[{**one, "file": one["file"].replace("d/new", name)} for one in WORK] for name in names]
    for number, thread in enumerate(work):
        for operation in thread:
            operation.update({"handle": number} if "handle" in operation else {})
    return write_plan(folder / "plan", work, files=files)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return work_plan(tmp_path)


def test_it_says_what_the_run_says_and_makes_nothing(plan: Path, target: Path) -> None:
    before = target.stat()
    # WHEN a plan is run dry, and for real
    dry = run(plan, target, "--dry-run")
    assert (dry.code, dry.summary["outcome"], dry.messages) == (0, "dry_run", "")
    # THEN nothing was made, and there is nothing of a run
    assert (target.stat().st_mtime_ns, list(target.iterdir())) == (before.st_mtime_ns, [])
    assert not dry.completions.exists()
    assert dry.summary.keys().isdisjoint(("counts", "preparation", "operations"))
    # AND both say the same, but for the free space
    real = run(plan, target)
    for told in (dry, real):
        assert told.summary["directory"].pop("free_bytes") > 0
        assert told.summary["directory"].pop("free_inodes") != 0
    assert real.code == 0
    for key in ("plan", "directory", "fit"):
        assert dry.summary[key] == real.summary[key]
    # AND it is what the plan needs
    about, made = dry.summary["directory"], dry.summary["plan"]
    assert (made["present_files"], made["present_directories"]) == (1, 1)
    assert (made["present_bytes"], made["longest_name_bytes"]) == (3 * MIB, len("new0"))
    assert about["longest_bytes"] == 3 * MIB
    assert about["needed_bytes"] == 3 * MIB + MIB + 5000 + 3 * os.statvfs(target).f_frsize
    assert (about["needed_inodes"], about["longest_limit"]) == (3 + OWN_INODES, None)


@pytest.mark.root
def test_the_file_system_is_named_with_what_is_free_in_it(plan: Path, small_disk: Path) -> None:
    about = run(plan, small_disk, "--dry-run", "--no-space-check").summary["directory"]
    disk = os.statvfs(small_disk)
    assert about["file_system"] == "tmpfs"
    assert about["free_bytes"] == disk.f_bavail * disk.f_frsize
    assert about["free_inodes"] == disk.f_favail


@pytest.mark.root
@DRY
@pytest.mark.parametrize("kind", ["bytes", "inodes", "longest", "open files"])
def test_what_refuses_a_run_refuses_a_dry_one(
    tmp_path: Path, small_disk: Path, kind: str, dry: tuple[str, ...]
) -> None:
    plan = work_plan(tmp_path, size_bytes=2 * MIB)
    child = limited(resource.RLIMIT_CORE, 0)
    says: tuple[str, ...] = ("MiB are free",)
    if kind == "bytes":
        plan = work_plan(tmp_path, size_bytes=5 * MIB)
    elif kind == "inodes":
        subprocess.run(["mount", "-o", "remount,nr_inodes=5", small_disk], check=True)
        says = ("6 inodes", "are free")
    elif kind == "longest":
        child, says = limited(resource.RLIMIT_FSIZE, MIB), ("2097152 bytes", "ulimit -f")
    else:
        child, says = limited(resource.RLIMIT_NOFILE, 20), ("34", "ulimit -n")
    run(plan, small_disk, *dry, preexec_fn=child).refused(*says)
    assert list(small_disk.iterdir()) == []


def test_what_was_kept_is_replaced_on_request_only(plan: Path, target: Path) -> None:
    assert run(plan, target, keep=True).code == 0
    # WHEN a run is to be where one was kept, THEN that needs its word, and it is still there
    run(plan, target, "--dry-run").refused("which kept it", "--replace")
    about = run(plan, target, "--dry-run", "--replace").summary["directory"]
    assert about["replaced"] == "kept run"
    assert (target / KEPT / "d/old").stat().st_size == 3 * MIB


@pytest.mark.root
def test_what_a_killed_run_left_counts_as_free_and_stays(tmp_path: Path, small_disk: Path) -> None:
    # GIVEN what a run left that was killed, beside which it does not fit a second time
    plan = work_plan(tmp_path, size_bytes=2 * MIB)
    assert run(plan, small_disk, keep=True).code == 0
    mark = small_disk / OWN / "made-by-tracekit-file-replay"
    mark.rename(mark.with_name("used-by-tracekit-file-replay"))
    disk = os.statvfs(small_disk)
    assert disk.f_bavail * disk.f_frsize < 3 * MIB
    # WHEN it is run dry, THEN that is counted and still there
    about = run(plan, small_disk, "--dry-run").summary["directory"]
    left = [small_disk / OWN, *(small_disk / OWN).rglob("*")]
    taken = sum(path.lstat().st_blocks * 512 for path in left)
    assert taken > 2 * MIB
    assert about["replaced"] == "killed run"
    assert about["free_bytes"] == disk.f_bavail * disk.f_frsize + taken
    assert about["free_inodes"] == disk.f_favail + len(left)
    assert run(plan, small_disk).code == 0


@pytest.mark.parametrize("kind", ["foreign", "file", "missing"])
def test_a_directory_that_cannot_be_used_is_refused(plan: Path, target: Path, kind: str) -> None:
    own, says = target / OWN, ""
    if kind == "foreign":
        own.mkdir()
        (own / "thesis").write_text("mine")
        says = "mark is missing"
    elif kind == "file":
        own.write_text("mine")
        says = "is no directory"
    place = target / "nowhere" if kind == "missing" else target
    run(plan, place, "--dry-run").refused(str(place), says)
    assert kind == "missing" or own.exists()


@pytest.mark.root
def test_a_file_system_that_can_only_be_read_is_refused(plan: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    run(plan, small_disk, "--dry-run").refused(str(small_disk), "Read-only file system")


@pytest.mark.root
def test_ranges_that_a_file_system_cannot_allocate_are_counted(tmp_path: Path) -> None:
    # GIVEN ext4 without extents, which allocates nothing in advance, and a plan that does
    keep, hole = file_plan.KEEP_SIZE, file_plan.PUNCH_HOLE
    thread = [do("open", "old", handle=0)]
    thread += [do("fallocate", "old", handle=0, length=4096, flags=f) for f in (0, 0, keep, hole)]
    plan = write_plan(tmp_path / "plan", [thread], files=table("old", size_bytes=9000))
    disk = image(tmp_path / "disk", mib=32)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^extents,^64bit", disk], check=True)
    with loop(disk) as device, mounted(device, tmp_path / "fs") as place:
        dry, real = run(plan, place, "--dry-run"), run(plan, place)
    # THEN as many are counted as fail
    assert notes(dry) == notes(real)
    assert notes(dry)["no_fallocate"]["requests"] == real.counts["failed"] == 3
    assert set(real.errors) == {"EOPNOTSUPP"}


@pytest.mark.root
def test_direct_transfers_of_no_whole_blocks_are_counted(tmp_path: Path) -> None:
    # GIVEN a disk with blocks of 4 KiB, and transfers with O_DIRECT of sectors and blocks
    thread = [do("open", "old", handle=0, flags=DIRECT), do("open", "old", handle=1)]
    for handle in (0, 1):
        for offset, length in ((0, 4096), (512, 4096), (4096, 512), (8192, 8192)):
            thread.append(do("read", "old", handle=handle, offset=offset, length=length))
            thread.append(do("write", "old", handle=handle, offset=offset, length=length))
    thread.append(do("read", "old", handle=0, offset=AT_POSITION, length=100))
    plan = write_plan(tmp_path / "plan", [thread], files=table("old", size_bytes=16384))
    disk = image(tmp_path / "disk", mib=64)
    with loop(disk, "--sector-size", "4096") as device:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        with mounted(device, tmp_path / "fs") as place:
            dry, real = run(plan, place, "--dry-run"), run(plan, place, cache="sync")
    # THEN as many are counted as fail
    assert notes(dry)["unaligned_direct"]["requests"] == real.counts["failed"] == 5
    assert "5 operations" in notes(dry)["unaligned_direct"]["message"]
    assert set(real.errors) == {"EINVAL"}


@pytest.mark.root
def test_names_longer_than_the_file_system_takes_are_refused(tmp_path: Path) -> None:
    # GIVEN a file system whose names have at most 40 bytes
    plan = write_plan(tmp_path / "plan", [[do("stat", "f" * 41)]], files=FileTable())
    with failing_file(tmp_path / "fs", name_bytes=40) as file:
        run(plan, file.parent, "--dry-run").refused("41 bytes needed, 40 bytes there")
        ran = run(plan, file.parent, "--dry-run", "--no-space-check")
        assert (ran.code, list(notes(ran))) == (0, ["long_names"])
        shorter = write_plan(tmp_path / "plan", [[do("stat", "f" * 40)]], files=FileTable())
        assert notes(run(shorter, file.parent, "--dry-run")) == {}


@pytest.mark.root
@pytest.mark.plain  # sanitizers have threads of their own
@DRY
def test_too_few_threads_for_the_group_are_refused(
    tmp_path: Path, target: Path, dry: tuple[str, ...]
) -> None:
    plan = work_plan(tmp_path, 64)
    with limited_group("pids", "pids.max", 30) as (file, enter):
        ran = run(plan, target, *dry, preexec_fn=enter)
        ran.refused("64 needed", f"of 30 by {file}", "--no-space-check")
        assert list(target.iterdir()) == []
        # What starts all the same finds that it is so.
        if not dry:
            ran = run(plan, target, "--no-space-check", preexec_fn=enter)
            assert (ran.code, ran.summary["outcome"]) == (1, "failed")
            assert "cannot start the threads" in ran.messages
        file.write_text("100")
        assert notes(run(plan, target, *dry, preexec_fn=enter)) == {}


@pytest.mark.root
@pytest.mark.plain  # sanitizers have memory of their own
@DRY
def test_files_in_memory_need_the_memory_of_the_group(tmp_path: Path, dry: tuple[str, ...]) -> None:
    # GIVEN a tmpfs of 64 MiB, and a group that may have 32 MiB of memory for files of 48 MiB
    plan = work_plan(tmp_path, size_bytes=48 * MIB)
    with (
        small_file_system(tmp_path / "memory", mib=64) as place,
        limited_group("memory", "memory.limit_in_bytes", 32 * MIB) as (file, enter),
    ):
        ran = run(plan, place, *dry, preexec_fn=enter)
        ran.refused("control group", f"of 32.0 MiB by {file}", "kill the run")
        assert list(place.iterdir()) == []
        file.write_text(str(128 * MIB))
        ran = run(plan, place, *dry, preexec_fn=enter)
        assert (ran.code, notes(ran)) == (0, {})


@pytest.mark.plain
@DRY
@pytest.mark.parametrize(
    ("kind", "name"), [(resource.RLIMIT_AS, "RLIMIT_AS"), (resource.RLIMIT_DATA, "RLIMIT_DATA")]
)
def test_too_little_memory_for_threads_is_refused(
    tmp_path: Path, target: Path, dry: tuple[str, ...], kind: int, name: str
) -> None:
    # GIVEN 100 threads, each with a stack of 256 KiB and a buffer of 1 MiB, in 64 MiB
    plan = work_plan(tmp_path, 100)
    ran = run(plan, target, *dry, preexec_fn=limited(kind, 64 * MIB))
    ran.refused("MiB needed", f"of 64.0 MiB by {name}", "ulimit -", "--no-space-check")
    assert list(target.iterdir()) == []
    assert run(plan, target, *dry, preexec_fn=limited(kind, 256 * MIB)).code == 0


def folder_of(place: Path) -> Path:
    """Return a trace of three operations of which one cannot be replayed."""
    files: list[captured.Row] = [
        {"path": "/d/old", "size_bytes": 5000},
        {"path": "/d/new", "evidence": "absent"},
    ]
    operations: list[captured.Row] = [
        {"operation": "create", "file_id": 1, "handle": 1},
        {"operation": "stat", "file_id": 0},
        {"operation": "mmap", "file_id": 0, "handle": 1},
    ]
    return captured.trace(place / "trace", files, operations).path


def test_the_command_shows_it_and_keeps_nothing(tmp_path: Path, target: Path) -> None:
    folder = folder_of(tmp_path)
    before = sorted(path for path in folder.rglob("*"))
    shown = succeed("replay", folder, "--files", target, "--dry-run").output
    # THEN it says what would be made, where, and what is left out
    text = " ".join(shown.split())
    assert "2 operations in 1 threads create 1, stat 1" in text
    assert f"{target}:" in text
    assert "made before the run: 1 files of 4.88 KiB, 1 directories" in text
    assert "longest file: 4.88 KiB" in text
    assert "1 left out: mapped memory is not seen 1" in text
    assert "dry run: nothing was made" in text
    # AND nothing was made
    assert list(target.iterdir()) == []
    assert sorted(path for path in folder.rglob("*")) == before
    # AND the same can be had as values
    told = json.loads(succeed("replay", folder, "--files", target, "--dry-run", "--json").stdout)
    assert told["outcome"] == "dry_run"
    assert told["directory"]["path"] == str(target)
    result = tk.open(folder).replay_files(target, dry_run=True)
    assert result.summary["plan"]["present_bytes"] == 5000
    assert not result.is_partial


@pytest.mark.root
def test_the_command_refuses_and_may_be_told_to_start(tmp_path: Path, small_disk: Path) -> None:
    folder = folder_of(tmp_path)
    with (small_disk / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, os.statvfs(small_disk).f_bavail * 4096 - 8192)
    for more in (), ("--dry-run",):
        done = invoke("replay", folder, "--files", small_disk, *more)
        refused(done, "MiB are free", error=TracekitError)
    done = invoke("replay", folder, "--files", small_disk, "--dry-run", "--no-space-check")
    assert done.exit_code == 0


def test_results_that_do_not_fit_are_refused_in_a_dry_run(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path)
    fields = list(os.statvfs(folder))
    fields[0] = fields[1] = fields[4] = 1
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(fields))
    done = invoke("replay", folder, "--files", target, "--dry-run")
    assert "are needed" in str(done.exception)

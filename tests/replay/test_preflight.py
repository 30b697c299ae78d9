"""What does not fit is said before the first request: space, limits, alignment, abilities."""

import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_line import invoke
from tests.privileges.others import OTHER, as_user, must_reach, other_folder
from tests.replay.disk import image, loop, mounted, token_of
from tests.replay.processes import limited
from tests.replay.program import Ran, Record, Replay, command, play, record, write_plan
from tests.replay.trace import trace
from tests.replay_files import captured
from tracekit._native import program_path
from tracekit.plans.block_plan import DISCARD, READ, WRITE, WRITE_ZEROES

BLOCK = 4096
MIB = 1 << 20


def notes(ran: Ran) -> dict[str, dict[str, Any]]:
    """Return the notes of the run and of its first target by their code."""
    return {note["code"]: note for note in (*ran.summary["fit"], *ran.target["fit"])}


def mixed(seed: int, count: int, *, blocks: int = 4096) -> list[Record]:
    """Return requests of one sector to some blocks; discards now and then free what was taken."""
    random = np.random.default_rng(seed)
    found = []
    for kind in random.choice([READ, WRITE, WRITE, WRITE, DISCARD], count):
        length = int(random.integers(1, 200 if kind == DISCARD else 40))
        found.append(record(int(kind), int(random.integers(0, 8 * blocks - length)), length))
    return found


def peak_bytes(records: list[Record], held: set[int]) -> int:
    """Return the most space that the records take one after the other, beyond blocks held."""
    now, peak = set(held), 0
    for _, sector, _, sectors, operation, *_ in records:
        start, end = sector * 512, (sector + sectors) * 512
        if operation in (WRITE, WRITE_ZEROES):
            now |= set(range(start // BLOCK, -(-end // BLOCK)))
        elif operation == DISCARD:
            now -= set(range(-(-start // BLOCK), end // BLOCK))
        peak = max(peak, len(now) - len(held))
    return peak * BLOCK


@pytest.fixture
def full(small_disk: Path) -> Path:
    """Return a file system in which 1 MiB is free."""
    with (small_disk / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, 3 * MIB)
    return small_disk


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_new", [True, False], ids=["made", "sparse"])
@pytest.mark.root
def test_space_is_counted_by_blocks_as_writes_take_and_discards_free_it(
    replay: Replay, full: Path, seed: int, is_new: bool
) -> None:
    # GIVEN a plan that takes more than there is, on a new file or one that has every third block
    rows, target = mixed(seed, 600), full / "t"
    held: set[int] = set()
    options: dict[str, Any] = {"target": target}
    if not is_new:
        held = set(range(0, 300, 3))
        with image(target).open("r+b") as out:
            for block in held:
                os.pwrite(out.fileno(), b"x", block * BLOCK)
        options["write_to"] = target
    free = os.statvfs(full).f_bavail * BLOCK
    needed = peak_bytes(rows, held)
    assert needed > free
    # WHEN it is tried, dry and for real
    for words in ((), ("--dry-run",)):
        ran = replay(rows, *words, needed_sectors=32768, **options)
        # THEN nothing runs, and it says why, where and what to do
        ran.refused(str(target), "too little free space", "MiB needed", "--no-space-check")
    assert target.exists() != is_new
    # and who starts all the same finds both numbers, and the failures that they meant
    options |= {"pace": "fast", "depth": 1, "no_space_check": True}
    ran = replay(rows, needed_sectors=32768, **options)
    assert notes(ran)["no_space"]["needed"] == needed
    assert notes(ran)["no_space"]["available"] == free
    assert set(ran.errors) == {"ENOSPC"}


@pytest.mark.root
def test_what_fits_exactly_runs_and_one_block_more_does_not(replay: Replay, full: Path) -> None:
    free = os.statvfs(full).f_bavail
    for extra in (0, 1):
        # Far from each other: the file is 64 times as long as the file system is large.
        rows = [record(WRITE, 4096 * n + 7, 1) for n in range(free + extra)]
        rows += rows
        ran = replay(rows, target=full / "t", pace="fast")
        assert (ran.code, ran.messages.count("too little")) == ((1, 1) if extra else (0, 0))


@pytest.mark.root
@pytest.mark.parametrize("offset", [0, MIB])
def test_the_file_behind_a_loop_device_needs_its_space(
    replay: Replay, full: Path, offset: int
) -> None:
    # GIVEN a loop device on a sparse file where 1 MiB is free
    rows = [record(WRITE, 2048 + 8 * n, 8) for n in range(300)]
    with loop(image(full / "backing", mib=8), "--offset", str(offset)) as device:
        options = {"target": device, "write_to": token_of(device), "pace": "fast"}
        # WHEN 1.2 MiB are to be written
        ran = replay(rows, **options)
        # THEN it says so before
        ran.refused(str(device), "behind this loop device", "1.2 MiB needed, 1.0 MiB there")
        ran = replay(rows, no_space_check=True, **options)
        assert notes(ran)["no_backing_space"]["needed"] == 300 * BLOCK
        assert ran.counts["failed"] > 0
        # and what has its space already needs none
        hole = ("--punch-hole", f"--offset={offset + MIB}", f"--length={300 * BLOCK}")
        subprocess.run(("fallocate", *hole, full / "backing"), check=True)
        with (full / "backing").open("r+b") as out:
            for n in range(100):
                os.pwrite(out.fileno(), b"x" * BLOCK, offset + MIB + n * BLOCK)
        again = replay(rows, "--dry-run", no_space_check=True, **options)
        left = notes(again).get("no_backing_space", {"needed": 0})
        assert left["needed"] <= 200 * BLOCK


@pytest.mark.root
def test_targets_and_results_on_one_disk_share_its_space(full: Path, small_plan: Path) -> None:
    # GIVEN two targets of 600 KiB each where 1 MiB is free
    words = ("--target", f"a={full / 'a'}", "--target", f"b={full / 'b'}")
    ran = play(small_plan, command(small_plan, *words, pace="fast"))
    ran.refused(f"b={full / 'b'}", "614400 bytes needed")
    # and completions that leave too little for a target, or have too little themselves
    line = command(small_plan, *words, pace="fast")
    line[line.index("--completions") + 1] = str(full / "done")
    ran = play(small_plan, line)
    assert (ran.code, ran.messages.count("refused")) == (1, 1)
    with (full / "filler").open("r+b") as filler:
        os.posix_fallocate(filler.fileno(), 3 * MIB, MIB - 2 * BLOCK)
    line = command(small_plan, engine="null", pace="fast")
    line[line.index("--completions") + 1] = str(full / "done")
    ran = play(small_plan, line)
    ran.refused(str(full / "done"), "too little free space for the completions")


@pytest.fixture
def small_plan(tmp_path: Path) -> Path:
    """Return a plan of two targets, each of which takes 600 KiB."""
    rows = [record(WRITE, 64 * n, 8, target=t) for n in range(150) for t in (0, 1)]
    return write_plan(tmp_path / "a.plan", rows, labels=("a", "b"))


@pytest.mark.parametrize(
    ("is_new", "words"),
    [(True, ("--dry-run",)), (False, ()), (False, ("--dry-run",))],  # a real one cannot be made
    ids=["made", "existing", "existing-dry"],
)
def test_writes_beyond_the_largest_file_of_the_process_are_refused(
    replay: Replay, target: Path, is_new: bool, words: tuple[str, ...]
) -> None:
    if not is_new:
        image(target, mib=1)
    rows = [record(WRITE, 8 * n + 4, 8) for n in range(200)]
    options: dict[str, Any] = {"target": target} if is_new else {"confirmed": target}
    options |= {"preexec_fn": limited(resource.RLIMIT_FSIZE, MIB // 2)}
    replay(rows, *words, **options).refused("largest file of this process", "73 requests")
    options |= {"no_space_check": True}
    assert notes(replay(rows, *words, **options))["file_size_limit"]["requests"] == 73


def test_completions_beyond_the_largest_file_are_refused(replay: Replay) -> None:
    rows = [record(READ, 0, 8)] * 2000
    limit = limited(resource.RLIMIT_FSIZE, 64 << 10)
    ran = replay(rows, engine="null", pace="fast", preexec_fn=limit)
    ran.refused("a.done", "the completions pass the largest file", "80064 bytes needed")


@pytest.mark.root
def test_what_can_only_be_read_is_said_before_and_when_it_is_confirmed(
    replay: Replay, tmp_path: Path
) -> None:
    rows = [record(READ, 0, 8), *(record(WRITE, 8 * n, 8) for n in range(5))]
    with loop(image(tmp_path / "image"), "--read-only") as device:
        for words in ((), ("--dry-run",)):
            ran = replay(rows, *words, target=device)
            assert notes(ran)["read_only"]["requests"] == 5
            ran = replay(rows, *words, target=device, write_to=token_of(device))
            ran.refused(str(device), "it is read-only")


@pytest.mark.root
@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_what_is_no_whole_block_is_counted_and_its_discards_fail(
    replay: Replay, tmp_path: Path, engine: str
) -> None:
    # GIVEN a disk with blocks of 4 KiB and requests of sectors
    random = np.random.default_rng(7)
    rows = [
        record(kind, int(sector), int(length))
        for kind in (READ, WRITE, DISCARD, WRITE_ZEROES)
        for sector, length in zip(
            random.integers(0, 1000, 60), random.choice([3, 8, 16], 60), strict=True
        )
    ]
    rows += [record(kind, 8 * n, 8) for n in range(20) for kind in (WRITE, DISCARD, WRITE_ZEROES)]
    odd = [row[4] for row in rows if row[1] % 8 or row[3] % 8]
    with loop(image(tmp_path / "image"), "--sector-size", "4096") as device:
        options = {"target": device, "write_to": token_of(device), "engine": engine}
        ran = replay(rows, depth=1, pace="fast", **options)
    # THEN reads and writes are buffered, and of the others exactly those that were counted fail
    ranges = sum(kind in (DISCARD, WRITE_ZEROES) for kind in odd)
    assert notes(ran)["unaligned"]["requests"] == len(odd) - ranges > 0
    assert notes(ran)["unaligned"]["needed"] == 4096
    assert notes(ran)["unaligned_range"]["requests"] == ranges == ran.counts["failed"] > 0
    assert set(ran.errors) == {"EINVAL"}


@pytest.mark.root
def test_what_a_file_system_cannot_do_is_counted(replay: Replay, small_disk: Path) -> None:
    # GIVEN a tmpfs, which has no zero range, and no DAX
    rows = [record(WRITE_ZEROES, 8 * n, 8) for n in range(9)] + [record(READ, 0, 8)]
    ran = replay(rows, target=small_disk / "t")
    assert notes(ran)["no_write_zeroes"]["requests"] == 9
    for words in ((), ("--dry-run",)):
        ran = replay(rows, *words, target=small_disk / "t", engine="dax")
        assert "no_map_sync" in notes(ran)


@pytest.mark.plain
def test_limits_of_memory_and_files_are_said(tmp_path: Path, target: Path) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)] * 3)
    line = command(plan, target=target)
    ran = play(plan, line, preexec_fn=limited(resource.RLIMIT_NOFILE, 30))
    assert notes(ran)["open_files_limit"]["available"] == 30


@pytest.mark.plain
@pytest.mark.parametrize(
    ("kind", "code"),
    [(resource.RLIMIT_AS, "address_space_limit"), (resource.RLIMIT_DATA, "data_limit")],
)
def test_too_little_memory_for_threads_is_said(
    tmp_path: Path, target: Path, kind: int, code: str
) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)] * 3)
    words: dict[str, Any] = {"target": target, "engine": "threads", "threads": 1024}
    # GIVEN 1,024 threads of 256 KiB in 128 MiB
    few: dict[str, Any] = {"preexec_fn": limited(kind, 128 * MIB)}
    # THEN a dry run says it, and a run that cannot start, too
    ran = play(plan, command(plan, "--dry-run", **words), **few)
    assert 256 * MIB < notes(ran)[code]["needed"] < 384 * MIB
    ran = play(plan, command(plan, **words), **few)
    ran.refused("cannot start", "MiB needed", "ulimit -", lines=2)
    # AND where nothing is said, it runs
    ran = play(plan, command(plan, **words), preexec_fn=limited(kind, 400 * MIB))
    assert (ran.code, notes(ran)) == (0, {})


@pytest.mark.root
def test_too_few_threads_for_the_user_are_said() -> None:
    # GIVEN a plain user who may have so many threads
    few, enough = (
        {"preexec_fn": limited(resource.RLIMIT_NPROC, count), **as_user(OTHER)}
        for count in (30, 500)
    )
    must_reach(program_path(), OTHER)
    with other_folder() as place:
        plan = write_plan(place / "a.plan", [record(READ, 0, 8)] * 3)
        words: dict[str, Any] = {"target": place / "t", "engine": "threads", "threads": 64}
        for options in ("--dry-run",), ():
            ran = play(plan, command(plan, *options, **words), **few)
            # THEN it is said how many are needed, the program's own among them, and are left
            if options:
                assert notes(ran)["threads_limit"]["needed"] == 68
                assert 0 < notes(ran)["threads_limit"]["available"] < 30
            else:
                ran.refused("cannot start the threads engine", "68 needed", "ulimit -u", lines=2)
        ran = play(plan, command(plan, **words), **enough)
        assert (ran.code, notes(ran)) == (0, {})


@pytest.mark.root
def test_a_plan_longer_than_any_file_is_refused(replay: Replay, tmp_path: Path) -> None:
    # GIVEN a file system without extents, whose files end at 16 GiB
    disk = image(tmp_path / "disk", mib=64)
    subprocess.run(["mkfs.ext4", "-q", "-b", "1024", "-O", "^extents,^64bit", disk], check=True)
    with loop(disk) as device, mounted(device, tmp_path / "fs") as place:
        for words in ((), ("--dry-run",)):
            for end_gib, is_refused in ((16, False), (32, True)):
                ran = replay(
                    [record(WRITE, end_gib * 2**21 - 2**17, 8)], *words, target=place / "t"
                )
                # THEN a dry run says so as a run does
                if is_refused:
                    ran.refused(str(place / "t"), "takes no file as long as the plan needs")
                else:
                    assert ran.code == 0, ran.messages


@pytest.mark.root
def test_buffers_that_cannot_be_locked_are_said(tmp_path: Path, target: Path) -> None:
    # GIVEN a process that may lock 64 KiB, without the privilege to lock more
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)] * 3)
    line = ["setpriv", "--bounding-set=-ipc_lock", *command(plan, target=target, depth=8)]
    ran = play(plan, line, preexec_fn=limited(resource.RLIMIT_MEMLOCK, 64 << 10))
    if ran.summary["engine"]["used"] != "io_uring":
        pytest.skip("this kernel refuses io_uring")
    # THEN the note agrees with what the kernel did
    assert not ran.summary["engine"]["features"]["registered_buffers"]
    assert notes(ran)["locked_memory_limit"]["available"] == 64 << 10


def test_a_plan_that_fits_has_no_notes(replay: Replay, target: Path) -> None:
    ran = replay(mixed(1, 50), target=target)
    assert notes(ran) == {}


@pytest.mark.root
def test_the_command_prints_what_does_not_fit_and_what_failed(tmp_path: Path, full: Path) -> None:
    # GIVEN a trace of 2 MiB for a file system in which 1 MiB is free
    rows = [{"queue_ns": n, "sector": 64 * n} for n in range(512)]
    folder, target = trace(tmp_path / "trace", rows).path, full / "t"
    for words in ((), ("--dry-run",)):
        refused = invoke("replay", folder, "--target", target, *words)
        assert refused.exit_code == 1
        assert "2.0 MiB needed, 1.0 MiB there" in str(refused.exception)
    # WHEN it runs all the same
    output = invoke("replay", folder, "--target", target, "--no-space-check").output
    # THEN the first lines say how many requests failed, and why; a warning, what was known before
    head = output.splitlines()[:3]
    assert head[2] == "256 requests failed: no space left on device (ENOSPC)"
    assert "warning: target default: its file system has too little free space" in output


@pytest.mark.root
def test_results_that_do_not_fit_beside_the_trace_are_refused(full: Path) -> None:
    # GIVEN a trace of 5,000 requests on a disk that has no space for their completions
    folder = trace(full / "trace", [{"queue_ns": n, "sector": 8 * n} for n in range(5000)]).path
    free = os.statvfs(full).f_bavail * BLOCK
    with (full / "more").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, free - 450_000)
    for more in (), ("--dry-run",):
        refused = invoke("replay", folder, "--engine", "null", "--pace", "fast", *more)
        assert "are needed" in str(refused.exception)


@pytest.mark.root
def test_a_dry_run_looks_where_the_target_would_be_made(full: Path) -> None:
    # GIVEN a trace of 4 MiB of writes on a disk that has space for its results alone
    rows = [{"queue_ns": n, "sector": 2048 * n, "length_bytes": MIB} for n in range(4)]
    folder = trace(full / "trace", rows).path
    before = sorted(full.rglob("*"))
    # THEN a dry run is refused as a run is, and leaves nothing
    for more in ("--dry-run",), ():
        refused = invoke("replay", folder, "--pace", "fast", *more)
        assert "too little free space" in str(refused.exception)
        assert sorted(set(full.rglob("*")) - {folder / "replays"}) == before


@pytest.mark.root
def test_results_of_file_operations_that_do_not_fit_are_refused(full: Path, tmp_path: Path) -> None:
    # GIVEN file operations on a disk that has no space for what is recorded of them
    looks = [{"operation": "stat", "file_id": 0} for _ in range(5000)]
    folder = captured.trace(full / "trace", [{"path": "/f", "size_bytes": 1}], looks).path
    with (full / "more").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, os.statvfs(full).f_bavail * BLOCK - 450_000)
    refused = invoke("replay", folder, "--files", tmp_path)
    # THEN it says so before it runs them
    assert "are needed" in str(refused.exception)
    assert not any(tmp_path.glob("tracekit-files*"))

"""What a control group lets a run have too little of is said before the first request."""

import resource
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.replay.disk import small_file_system
from tests.replay.groups import limited_group
from tests.replay.processes import limited, replay_command
from tests.replay.program import command, play, record, write_plan
from tests.replay.test_preflight import notes
from tests.replay.trace import trace
from tracekit.plans.block_plan import READ, WRITE

pytestmark = pytest.mark.plain  # sanitizers have threads and memory of their own
MIB = 1 << 20
KIB = 1 << 10


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "a.plan", [record(READ, 0, 8), record(WRITE, 8, 8)])


@pytest.mark.root
@pytest.mark.parametrize("below", ["", "inner"])
def test_too_few_threads_for_the_group_are_said(plan: Path, target: Path, below: str) -> None:
    words: dict[str, Any] = {"target": target, "engine": "threads", "threads": 64}
    # GIVEN a group, or one above the run's own, that may have 30 threads
    with limited_group("pids", "pids.max", 30, below=below) as (file, enter):
        # THEN a dry run says how many are needed and left, of how many, and what sets that
        ran = play(plan, command(plan, "--dry-run", **words), preexec_fn=enter)
        found = notes(ran)["group_threads_limit"]
        assert (ran.code, found["needed"]) == (0, 68)
        assert 0 < found["available"] < 30
        assert f"of 30 by {file}" in found["message"]
        # AND a run that cannot start says the same
        ran = play(plan, command(plan, **words), preexec_fn=enter)
        ran.refused("cannot start the threads engine", "68 needed", str(file), lines=2)
        # AND where nothing is said, it runs
        file.write_text("500")
        ran = play(plan, command(plan, **words), preexec_fn=enter)
        assert (ran.code, notes(ran)) == (0, {})


@pytest.mark.root
@pytest.mark.parametrize("below", ["", "inner"])
@pytest.mark.parametrize(("threads", "few", "enough"), [(0, 6, 24), (512, 16, 64)])
def test_too_little_memory_for_the_group_is_refused(
    plan: Path, tmp_path: Path, threads: int, few: int, enough: int, below: str
) -> None:
    words: dict[str, Any] = {"pace": "fast", "engine": "io_uring"}
    if threads:
        words |= {"engine": "threads", "threads": threads}
    # GIVEN a group, or one above the run's own, with so little memory that the kernel kills the run
    with limited_group("memory", "memory.limit_in_bytes", few * MIB, below=below) as (file, enter):
        lost = plan.with_name("lost.plan")
        lost.write_bytes(plan.read_bytes())
        line = command(lost, "--no-space-check", target=tmp_path / "lost", **words)
        assert play(lost, line, preexec_fn=enter).code == -signal.SIGKILL
        for part in tmp_path.glob("*.part"):
            part.unlink()
        words["target"] = tmp_path / "t"
        # THEN it is refused before, dry and for real, with what is needed, is there, and sets it
        for options in (), ("--dry-run",):
            ran = play(plan, command(plan, *options, **words), preexec_fn=enter)
            ran.refused("control group", "MiB needed", f"of {few}.0 MiB by {file}", "kill the run")
        # AND with enough it runs
        file.write_text(str(enough * MIB))
        ran = play(plan, command(plan, **words), preexec_fn=enter)
        assert (ran.code, notes(ran)) == (0, {})


@pytest.mark.root
def test_files_that_the_kernel_keeps_in_memory_are_not_missing(
    plan: Path, tmp_path: Path, target: Path
) -> None:
    # GIVEN a group of 64 MiB that is full of a file that was written
    with limited_group("memory", "memory.limit_in_bytes", 64 * MIB) as (file, enter):
        script = f'head -c 128M /dev/zero > {tmp_path / "big"}; exec "$@"'
        line = ["sh", "-c", script, "sh", *command(plan, "--dry-run", target=target)]
        ran = play(plan, line, preexec_fn=enter)
        used = int((file.parent / "memory.max_usage_in_bytes").read_text())
    # THEN the kernel can take that back, and nothing is said
    assert used > 60 * MIB
    assert (ran.code, notes(ran)) == (0, {})


@pytest.mark.root
def test_a_target_in_memory_needs_the_memory_of_the_group(tmp_path: Path) -> None:
    # GIVEN writes of 48 MiB to a file that is made in memory, in a group of 32 MiB
    rows = [record(WRITE, 2048 * n, 2048) for n in range(48)]
    plan = write_plan(tmp_path / "a.plan", rows)
    with (
        small_file_system(tmp_path / "memory", mib=64) as place,
        limited_group("memory", "memory.limit_in_bytes", 32 * MIB) as (file, enter),
    ):
        for dry in ("--dry-run",), ():
            ran = play(plan, command(plan, *dry, target=place / "t"), preexec_fn=enter)
            # THEN it is refused with what sets the limit, and runs where that is large enough
            ran.refused("48.0 MiB needed", f"of 32.0 MiB by {file}")
        file.write_text(str(96 * MIB))
        ran = play(plan, command(plan, target=place / "t", pace="fast"), preexec_fn=enter)
        assert (ran.code, ran.target["fit"]) == (0, [])


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_small_stack_is_refused(plan: Path, target: Path, dry: tuple[str, ...]) -> None:
    line = command(plan, *dry, target=target)
    ran = play(plan, line, preexec_fn=limited(resource.RLIMIT_STACK, 100 * KIB))
    ran.refused("stack", "262144 bytes needed", "102400 by RLIMIT_STACK", "ulimit -s 256")
    # A soft limit is raised as far as that needs, and what is just enough is enough.
    for soft, hard in (100 * KIB, resource.RLIM_INFINITY), (256 * KIB, 256 * KIB):
        pair = (soft, hard)
        ran = play(plan, line, preexec_fn=partial(resource.setrlimit, resource.RLIMIT_STACK, pair))
        assert ran.code == 0, ran.messages


def test_a_limit_of_the_process_is_named_with_its_value(plan: Path, target: Path) -> None:
    line = command(plan, "--dry-run", target=target, engine="threads", threads=1024)
    ran = play(plan, line, preexec_fn=limited(resource.RLIMIT_AS, 128 * MIB))
    assert "of 128.0 MiB by RLIMIT_AS" in notes(ran)["address_space_limit"]["message"]


@pytest.mark.root
def test_the_command_says_it_before_it_replays(tmp_path: Path) -> None:
    # GIVEN a trace, and a group with too few threads for 64 workers
    folder = trace(tmp_path / "trace", [{"queue_ns": n, "sector": 8 * n} for n in range(10)])
    words = ("--dry-run", "--engine", "threads", "--threads", "64")
    with limited_group("pids", "pids.max", 30) as (file, enter):
        line = replay_command(folder, *words)
        done = subprocess.run(line, capture_output=True, text=True, check=True, preexec_fn=enter)
    assert f"of 30 by {file}" in " ".join(done.stdout.split())

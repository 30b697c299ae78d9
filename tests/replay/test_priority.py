"""Priorities of I/O: what the kernel gets with each request, and what is refused."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.replay.disk import image, loop, needs_root, token_of
from tests.replay.program import FLUSH, READ, WRITE, record, run, write_plan
from tests.replay.refusal import refused
from tests.replay.test_kernel import TRACING
from tracekit._native import program_path

EVENT = re.compile(r"block_rq_issue: (\d+),(\d+) \w+ \d+ \(.*?\) (\d+) \+ \d+ (\w+),\d+,(\d)")


def issued(devices: list[Path], command: list[str]) -> list[tuple[str, int, str]]:
    """Run a command; return (device, sector, priority) of what these devices were given."""
    place = TRACING / "instances" / f"tracekit-priority-{os.getpid()}"
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"needs tracefs instances: {error}")
    event = place / "events/block/block_rq_issue"
    try:
        if "ioprio" not in (event / "format").read_text():
            pytest.skip("this kernel's events have no priority")
        for option in ("bin", "raw", "hex"):
            (place / "options" / option).write_text("0")
        (event / "enable").write_text("1")
        subprocess.run(command, check=True, capture_output=True)
        (event / "enable").write_text("0")
        names = {
            f"{os.major(d.stat().st_rdev)},{os.minor(d.stat().st_rdev)}": d.name for d in devices
        }
        found = []
        for line in (place / "trace").read_text().splitlines():
            match = EVENT.search(line)
            if match and f"{match[1]},{match[2]}" in names:
                name = names[f"{match[1]},{match[2]}"]
                found.append((name, int(match[3]), f"{match[4]}:{match[5]}"))
        return found
    finally:
        place.rmdir()


@needs_root
@pytest.mark.root
@pytest.mark.xdist_group("kernel")
@pytest.mark.parametrize("engine", ["threads", "io_uring"])
def test_the_kernel_gets_each_targets_own_priority(tmp_path: Path, engine: str) -> None:
    # GIVEN requests of two targets in turn, one with a priority of its own
    rows = [record(n // 2 % 2, 8 * n, 8, target=n % 2, at_ns=n * 1000) for n in range(40)]
    plan = write_plan(tmp_path / "a.plan", rows, labels=("fs", "journal"), needed_sectors=2048)
    with loop(image(tmp_path / "a")) as first, loop(image(tmp_path / "b")) as second:
        command = [str(program_path()), str(plan), "--engine", engine, "--threads", "2"]
        command += ["--target", f"fs={first}", "--target", f"journal={second}", "--direct", "on"]
        command += ["--write-to", token_of(first), "--write-to", token_of(second)]
        command += ["--priority", "journal=rt:2", "--priority", "be:6", "--quiet"]
        # WHEN they run
        seen = issued([first, second], command)
        # THEN every request has that of its target
        at = {(name, sector): priority for name, sector, priority in seen}
        for row in rows:
            name, wanted = ((first.name, "be:6"), (second.name, "rt:2"))[row[6]]
            assert at[name, row[1]] == wanted


@pytest.mark.parametrize("engine", ["threads", "io_uring"])
def test_the_summary_names_them_and_nothing_else_changes(tmp_path: Path, engine: str) -> None:
    rows = [record(WRITE, 0, 8), record(READ, 0, 8), record(FLUSH)]
    plan = write_plan(tmp_path / "a.plan", rows)
    arguments = ("--target", str(tmp_path / "t"), "--engine", engine)
    for asked, told in (("idle", "idle"), ("be", "be:4"), ("be:0", "be:0")):
        ran = run(plan, *arguments, "--priority", asked)
        assert ran.code == 0, ran.messages
        assert ran.summary["targets"][0]["priority"] == told
        assert ran.summary["counts"]["done"] == 3
    assert run(plan, *arguments).summary["targets"][0]["priority"] == "none"


@pytest.mark.parametrize("asked", ["", "high", "rt:8", "be:-1", "idle:3", "be:", "default=", "r"])
def test_what_is_no_priority_is_refused(tmp_path: Path, asked: str) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])
    ran = run(plan, "--target", str(tmp_path / "t"), "--priority", asked)
    refused(ran, "--priority", "not [LABEL=]rt[:0-7], be[:0-7] or idle")


def test_a_label_without_requests_and_an_engine_without_priorities_are_refused(
    tmp_path: Path,
) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])
    target = ("--target", str(tmp_path / "t"))
    refused(run(plan, *target, "--priority", "swap=be"), "no requests for it")
    ran = run(plan, *target, "--engine", "dax", "--priority", "be")
    assert ran.code == 2
    assert "--priority needs --engine io_uring or threads" in ran.messages


@needs_root
@pytest.mark.root
def test_a_class_that_the_kernel_does_not_grant_is_refused(tmp_path: Path) -> None:
    # GIVEN a program without the right to it
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])
    summary = tmp_path / "summary"
    limits = ["setpriv", "--bounding-set", "-sys_nice,-sys_admin"]
    command = [str(program_path()), str(plan), "--target", str(tmp_path / "t")]
    command += ["--summary", str(summary), "--priority"]
    for asked, code in (("rt", 1), ("be:1", 0)):
        ran = subprocess.run(
            [*limits, *command, asked], capture_output=True, text=True, check=False
        )
        # THEN that one is refused, and the others are not
        assert ran.returncode == code, ran.stderr
        assert ("needs root or CAP_SYS_NICE" in ran.stderr) == (code == 1)
    assert json.loads(summary.read_text())["targets"][0]["priority"] == "be:1"

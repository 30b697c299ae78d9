"""Where a sweep runs: what --target may say, and what a guest says when a run fails."""

import json
import os
from pathlib import Path

import pytest

from tests.sweep.command import tracekit
from tracekit.errors import TracekitError, UsageError
from tracekit.lab.machine import Disk, Part
from tracekit.lab.session import Ended
from tracekit.plans.file_plan import Medium
from tracekit.sweep import grid
from tracekit.sweep.run import _outcome


def test_targets_are_directories_and_file_systems_of_guests(tmp_path: Path) -> None:
    # GIVEN a directory and guests, named and not
    texts = [
        f"here={tmp_path}",
        "lab:dax=1GiB",
        "pm=lab:pmem=64MiB",
        "lab:fs=1G",
        "d=lab:fs=1G:5ms:1",
    ]
    found = grid.split_targets(texts, is_exact=True)
    # THEN each has its name, and the guests what they are made of
    assert [target.name for target in found] == ["here", *texts[1:2], "pm", "lab:fs=1G", "d"]
    assert [target.guest for target in found] == [
        None,
        grid.Guest(None, 1024, is_dax=True, is_exact=True),
        grid.Guest(None, 64, is_dax=False, is_exact=True),
        grid.Guest(Disk((Part("fs", 1024, 0),)), 0, is_dax=False, is_exact=True),
        grid.Guest(Disk((Part("fs", 1024, 5_000_000, 1),)), 0, is_dax=False, is_exact=True),
    ]
    assert found[0] == grid.Target("here", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lab:", "no such thing"),
        ("lab:ssd=1G", "lab:ssd=1G: there is no such thing"),
        ("x=lab:swap=1G", "there is no such thing"),
        ("lab:dax", "not a size"),
        ("lab:dax=1KiB", "less than a MiB"),
        ("lab:dax=64GiB", "does not fit"),
        ("lab:pmem=1GiB:1ns:2ns", "only DAX has times"),
        ("lab:dax=1GiB:1ns", "only DAX has times"),
        ("lab:dax=1GiB:1ns:2", "'2' is not a time"),
        ("lab:dax=1GiB:2ms:1ns", "more than a millisecond"),
        ("lab:fs=1G:fast", "--target lab:fs=1G:fast: .*'fast' is not a time"),
        ("lab:fs=1G:5ms:0", "a depth of '0'"),
        ("lab:fs=1KiB", "from 16 MiB"),
    ],
)
def test_what_is_no_target_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        grid.split_targets([text])


def test_a_slower_medium_is_another_run_with_another_plan() -> None:
    # GIVEN DAX on DRAM, and with what slower memory adds
    dram, slow = grid.split_targets(["a=lab:dax=64MiB", "b=lab:dax=64MiB:100ns:450ns"])
    assert slow.guest is not None
    assert slow.guest.medium == Medium(100, 450)
    assert (dram.is_dax, slow.is_dax) == (True, True)
    # THEN runs of the same name are told apart, and those of DRAM are named as ever
    same = (dram, grid.Target("a", slow.directory, slow.guest))
    runs = [
        run.run_id
        for target in same
        for run in grid.plan_runs(["varmail"], [target], vary={}, timing=grid.Timing(), repeats=1)
    ]
    assert len(set(runs)) == 2
    assert repr(dram.guest) == ("Guest(disk=None, memory_mib=64, is_dax=True, is_exact=False)")


def test_memory_of_this_machine_stands_for_dax(target: Path) -> None:
    # GIVEN a directory in memory, as one of DAX, and with what slower memory adds
    texts = [f"plain={target}", f"memory:{target}", f"pcm=memory:{target}:100ns:450ns"]
    plain, dram, pcm = grid.split_targets(texts)
    assert (plain.is_dax, dram.is_dax, pcm.is_dax) == (False, True, True)
    assert (plain.medium, dram.medium, pcm.medium) == (None, None, Medium(100, 450))
    assert (dram.name, pcm.name, pcm.directory) == (texts[1], "pcm", target)
    assert pcm.memory == grid.Memory(stands_for_dax=True, medium=Medium(100, 450))
    # THEN none of them is taken for another one that was run before, under the same name
    names = {
        grid.plan_runs(
            ["varmail"],
            [grid.Target("t", each.directory, memory=each.memory)],
            vary={},
            timing=grid.Timing(),
            repeats=1,
        )[0].run_id
        for each in (plain, dram, pcm)
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory:/nonexistent", "memory:/nonexistent: /nonexistent does not exist"),
        ("memory:HERE:100ns", "two times are needed"),
        ("memory:HERE:100ns:2", "'2' is not a time"),
        ("memory:HERE:2ms:1ns", "more than a millisecond"),
        ("x=memory:/proc", "/proc is on proc, which is no memory"),
    ],
)
def test_what_is_no_memory_is_named(target: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        grid.split_targets([text.replace("HERE", str(target))])


def test_a_mount_says_whether_it_is_memory(tmp_path: Path) -> None:
    device = os.stat(tmp_path).st_dev
    table = tmp_path / "mountinfo"
    for name, expected in (("tmpfs", True), ("ramfs", True), ("ext4", False)):
        table.write_text(
            "30 1 250:7 / /elsewhere rw shared:2 - tmpfs none rw\n"
            f"31 1 {os.major(device)}:{os.minor(device)} / / rw - {name} none rw\n"
        )
        assert grid.is_memory(tmp_path, mounts=table) == expected
        assert grid.file_system(tmp_path, mounts=table) == name


def test_exact_time_needs_a_guest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--exact: no target is in the lab"):
        grid.split_targets([str(tmp_path)], is_exact=True)


def test_runs_of_another_guest_are_other_runs(tmp_path: Path) -> None:
    # GIVEN four targets of one name: a directory, and guests that differ
    texts = [f"t={tmp_path}", "t=lab:fs=1G:5ms", "t=lab:fs=1G:5ms:1", "t=lab:dax=1G"]
    targets = [grid.split_targets([text])[0] for text in texts]
    targets.append(grid.split_targets(["t=lab:dax=1G"], is_exact=True)[0])
    # THEN none is taken for another one that was run before
    names = {
        grid.plan_runs(["varmail"], [target], vary={}, timing=grid.Timing(), repeats=1)[0].run_id
        for target in targets
    }
    assert len(names) == 5


def ended(folder: Path, status: int) -> Ended:
    (folder / "files").mkdir()
    (folder / "stderr").write_text("tracekit-replay: 3 MiB are free, 9 are needed\n")
    (folder / "files/summary.json").write_text(json.dumps({"outcome": "full"}))
    return Ended(folder, status, "tcg", 1.0)


@pytest.mark.parametrize(("status", "kind"), [(1, TracekitError), (2, UsageError)])
def test_a_refusal_in_the_guest_is_told(
    tmp_path: Path, status: int, kind: type[TracekitError]
) -> None:
    with pytest.raises(kind, match=r"^in the guest: 3 MiB are free, 9 are needed$"):
        _outcome(ended(tmp_path, status))


def test_a_full_file_system_in_the_guest_keeps_what_was_done(tmp_path: Path) -> None:
    found = _outcome(ended(tmp_path, 3))
    assert (found.summary["outcome"], found.is_partial) == ("full", True)


def test_a_directory_is_for_personalities_not_for_work_profiles(tmp_path: Path) -> None:
    # WHEN a work profile is given the directory that a personality would run in
    place = tmp_path / "here"
    place.mkdir()
    told = tracekit("bench", "paging", "--target", place, "-o", tmp_path / "out", code=2).stderr
    # THEN it is told what to name, and nothing was made
    assert f"{place} is a directory" in told
    assert f"such as {place / 'bench.target'}" in told
    assert [path.name for path in tmp_path.iterdir()] == ["here"]

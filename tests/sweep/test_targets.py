"""Targets and conditions of a sweep."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from tests.sweep.command import tracekit
from tests.traces import json_of, written
from tracekit.errors import TracekitError, UsageError
from tracekit.lab.machine import Disk, Part
from tracekit.lab.session import Ended
from tracekit.plans.file_plan import Medium
from tracekit.report.sections.files import one_varied, step_times
from tracekit.sweep import grid, run
from tracekit.sweep.run import RunRecord, _outcome, run_settings
from tracekit.sweep.summary import setting_name, varied_settings

SERIAL = Medium("100ns:450ns", 100, 450, read_line_ps=100_000, write_line_ps=450_000)


def run_id(target: grid.Target) -> str:
    (one,) = grid.plan_runs(["varmail"], [target], vary={}, timing=grid.Timing(), repeats=1)
    return one.run_id


def test_targets_are_directories_and_file_systems_of_guests(tmp_path: Path) -> None:
    texts = ["lab:dax=1GiB", "pm=lab:pmem=64MiB", "lab:fs=1G", "d=lab:fs=1G:5ms:1"]
    texts = [f"here={tmp_path}", *texts]
    found = grid.split_targets(texts, is_exact=True)
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
        ("lab:pmem=1GiB:1ns:2ns", "only DAX has a kind of memory"),
        ("lab:dax=1GiB:1ns", "only DAX has a kind of memory: optane"),
        ("lab:dax=1GiB:1ns:2", "'2' is not a time"),
        ("lab:dax=1GiB:2ms:1ns", "more than a millisecond"),
        ("lab:fs=1G:fast", "--target lab:fs=1G:fast: .*'fast' is not a time"),
        ("lab:fs=1G:5ms:0", "a depth of '0'"),
        ("lab:fs=1KiB", "from 16 MiB"),
        ("memory:/nonexistent", "memory:/nonexistent: /nonexistent does not exist"),
        ("memory:HERE:100ns", "'100ns' is no kind of memory: .*, or two times"),
        ("memory:HERE:optane", "'optane' is no kind of memory: optane-pmem-100, .*, or two times"),
        ("memory:HERE:100ns:2", "'2' is not a time"),
        ("memory:HERE:2ms:1ns", "more than a millisecond"),
        ("x=memory:/proc", "/proc is on proc, which is no memory"),
    ],
)
def test_what_is_no_target_is_named(target: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        grid.split_targets([text.replace("HERE", str(target))])


def test_a_slower_medium_is_another_run_with_another_plan() -> None:
    # GIVEN DAX on DRAM, and with what slower memory adds
    dram, slow = grid.split_targets(["a=lab:dax=64MiB", "b=lab:dax=64MiB:100ns:450ns"])
    assert slow.guest is not None
    assert slow.guest.medium == SERIAL
    assert (dram.is_dax, slow.is_dax) == (True, True)
    # THEN runs of the same name are told apart, and those of DRAM are named as ever
    assert run_id(dram) != run_id(grid.Target("a", slow.directory, slow.guest))
    assert repr(dram.guest) == ("Guest(disk=None, memory_mib=64, is_dax=True, is_exact=False)")


def test_memory_of_this_machine_stands_for_dax(target: Path) -> None:
    # GIVEN a directory in memory, as one of DAX, and with what slower memory adds
    texts = [f"plain={target}", f"memory:{target}", f"pcm=memory:{target}:100ns:450ns"]
    plain, dram, pcm = grid.split_targets(texts)
    assert (plain.is_dax, dram.is_dax, pcm.is_dax) == (False, True, True)
    assert (plain.medium, dram.medium, pcm.medium) == (None, None, SERIAL)
    assert (dram.name, pcm.name, pcm.directory) == (texts[1], "pcm", target)
    assert pcm.memory == grid.Memory(stands_for_dax=True, medium=SERIAL)
    # THEN none of them is taken for another one that was run before, under the same name
    targets = [grid.Target("t", each.directory, memory=each.memory) for each in (plain, dram, pcm)]
    assert len(set(map(run_id, targets))) == 3


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
    assert len(set(map(run_id, targets))) == 5


def ended(folder: Path, status: int) -> Ended:
    (folder / "files").mkdir()
    (folder / "stderr").write_text("tracekit-replay: 3 MiB are free, 9 are needed\n")
    (folder / "files/summary.json").write_text(json.dumps({"outcome": "full"}))
    return Ended(folder, status, "tcg", 1.0, 0)


@pytest.mark.parametrize(("status", "kind"), [(1, TracekitError), (2, UsageError)])
def test_a_refusal_in_the_guest(tmp_path: Path, status: int, kind: type[TracekitError]) -> None:
    with pytest.raises(kind, match=r"^in the guest: 3 MiB are free, 9 are needed$"):
        _outcome(ended(tmp_path, status))


def test_a_full_file_system_in_the_guest_keeps_what_was_done(tmp_path: Path) -> None:
    found = _outcome(ended(tmp_path, 3))
    assert (found.summary["outcome"], found.is_partial) == ("full", True)


def test_a_directory_is_for_personalities_not_for_work_profiles(tmp_path: Path) -> None:
    place = tmp_path / "here"
    place.mkdir()
    told = tracekit("bench", "paging", "--target", place, "-o", tmp_path / "out", code=2).stderr
    assert f"{place} is a directory" in told
    assert f"such as {place / 'bench.target'}" in told
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


LOGGER = """
about = "appends"
[parameters]
threads = 2
files = 4
record = 100
[[files]]
name = "logs"
count = "$files"
mean_size = "1KiB"
[[operation]]
do = "open"
files = "logs"
[[operation]]
do = "append"
size = "$record"
times = {times}
[[operation]]
do = "close"
"""
QUICK = ("--duration", "50ms", "--no-report", "--json")


def result(cache: str, *, seed: int = 0, personality: str = "mail", **more: object) -> RunRecord:
    timing = {"cache": cache, "seed": seed, "duration_ns": 10**9, "warm_up_ns": 0}
    given = {
        "run_id": "", "personality": personality, "target": "here", "directory": "/", "run": 1,
        "threads": 2, "settings": {"threads": 2}, "timing_asked": timing, "summary": {},
    }  # fmt: skip
    return msgspec.convert(given | more, RunRecord)


def test_only_what_differs_within_a_personality_is_reported() -> None:
    runs = [
        result("sync", definition="a"),
        result("cold"),  # of a version that wrote no definition
        result("cold", seed=3, definition="a"),
        result("keep", personality="zip", definition="b"),
    ]
    assert run_settings(runs) == [
        {"threads": 2, "--cache": "sync", "--seed": 0},
        {"threads": 2, "--cache": "cold", "--seed": 0},
        {"threads": 2, "--cache": "cold", "--seed": 3},
        {"threads": 2},
    ]


@pytest.fixture
def logger(tmp_path: Path) -> list[str | Path]:
    """Return the command of a sweep of a personality that appends."""
    file = written(tmp_path / "logger.toml", LOGGER.format(times=1))
    return ["sweep", file, "-o", tmp_path / "out", *QUICK]


def test_conditions_are_own_points(tmp_path: Path, target: Path, logger: list[str | Path]) -> None:
    # GIVEN a folder with two repeats, and then runs with cold caches and of another definition
    command = [*logger, "--target", f"here={target}"]
    tracekit(*command, "--repeat", "2")
    tracekit(*command, "--repeat", "1", "--duration", "60ms")
    (tmp_path / "logger.toml").write_text(LOGGER.format(times=5))
    told = tracekit(*command, "--repeat", "1")
    # THEN only the repeats are one point
    points = [row for row in json.loads(told.stdout)["points"] if row["step"] == "all"]
    assert sorted(row["run_count"] for row in points) == [1, 1, 2]
    # AND their names are what they differ in
    varied = varied_settings(row["settings"] for row in points)
    assert varied == ["--duration", "definition"]
    assert len({setting_name(row, varied) for row in points}) == 3


def test_results_of_another_definition_do_not_narrow_an_interval(
    tmp_path: Path, target: Path, logger: list[str | Path]
) -> None:
    # GIVEN six repeats that agree, and two of a changed definition that do not
    command = [*logger, "--target", f"here={target}"]
    tracekit(*command, "--repeat", "6")
    old = set(tmp_path.glob("out/files/runs/*.json"))
    (tmp_path / "logger.toml").write_text(LOGGER.format(times=5))
    tracekit(*command, "--repeat", "2")
    for file in tmp_path.glob("out/files/runs/*.json"):
        told = json_of(file)
        first, *others = told["summary"]["steps"]
        first["done"] = 1000 if file in old or told["run"] == 1 else 1200
        for step in others:
            step["done"] = 0
        told["summary"]["timing"]["elapsed_ns"] = 10**9
        file.write_text(json.dumps(told))
    # THEN these two are as far apart as they are
    rule = ("--repeat", "2", "--until", "precision=20%,repeats=3")
    assert json.loads(tracekit(*command, *rule).stdout)["made"] == 1


def test_a_name_is_one_place(tmp_path: Path, target: Path, logger: list[str | Path]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    tracekit(*logger, "--repeat", "1", "--target", f"here={target}")
    ended = tracekit(*logger, "--repeat", "1", "--target", f"here={other}", code=2)
    assert f"--target here={other}: in this folder here is {target}" in ended.stderr


def test_memory_of_other_times_is_another_place(target: Path, logger: list[str | Path]) -> None:
    slow = f"m=memory:{target}:100ns:450ns"
    tracekit(*logger, "--repeat", "1", "--target", slow)
    tracekit(*logger, "--repeat", "2", "--target", slow)
    ended = tracekit(*logger, "--repeat", "2", "--target", f"m=memory:{target}", code=2)
    assert f"in this folder m is memory:{target}:100ns:450ns" in ended.stderr


def test_where_a_run_is_is_read_before_it_and_of_this_machine_alone(
    tmp_path: Path, target: Path, logger: list[str | Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a guest's run, which is played here: THEN it has no mount of this machine
    plain = run._run_plan

    def play(one: Any) -> Any:
        here = replace(one.run.target, directory=target, guest=None)
        return plain(replace(one, run=replace(one.run, target=here)))

    monkeypatch.setattr(run, "_run_plan", play)
    tracekit(*logger, "--repeat", "1", "--target", "vm=lab:fs=1GiB")
    (file,) = tmp_path.glob("out/files/runs/*.json")
    assert "place" not in json_of(file)

    # WHEN a directory goes away once its run was measured: THEN that is kept, the next is missing
    def play_and_remove(one: Any) -> Any:
        found = plain(one)
        one.run.target.directory.rmdir()
        return found

    monkeypatch.setattr(run, "_run_plan", play_and_remove)
    gone = tmp_path / "gone"
    gone.mkdir()
    ended = tracekit(*logger, "--repeat", "2", "--target", f"gone={gone}", code=3)
    assert f"number 2: {gone}: No such file or directory" in ended.stderr
    (kept,) = [
        one
        for one in map(json_of, tmp_path.glob("out/files/runs/*.json"))
        if one["target"] == "gone"
    ]
    assert kept["place"]["file_system"]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("record=nan", "--vary record: nan is no size"),
        ("recrod=5", "no personality has the parameter 'recrod'"),
        ("threads=0", "--vary threads: 0 is no number from 1 to 4096"),
    ],
)
def test_a_wrong_setting(target: Path, logger: list[str | Path], setting: str, says: str) -> None:
    ended = tracekit(*logger, "--target", target, "--vary", setting, code=2)
    assert says in ended.stderr


def test_an_unused_parameter_is_named(
    tmp_path: Path, target: Path, logger: list[str | Path]
) -> None:
    text = LOGGER.format(times=1).replace("record = 100", "record = 100\nbogus = 1")
    (tmp_path / "logger.toml").write_text(text)
    ended = tracekit(*logger, "--target", target, code=1)
    assert "[parameters], key 'bogus': nothing uses it" in ended.stderr


def test_a_curve_is_of_one_condition_and_the_table_of_all() -> None:
    rows = [
        (threads, cache, step, share)
        for threads in (1, 2)
        for cache in ("cold", "sync")
        for step, share in (("all", 1.0), ("open", 0.2), ("append", 0.8))
    ]
    table = pd.DataFrame(rows, columns=["threads", "cache", "step", "time_ratio"]).assign(
        personality="mail",
        target="ssd",
        files=9,
        io_bytes=None,
        settings=lambda t: [
            json.dumps({"--cache": cache, "threads": threads})
            for threads, cache in zip(t["threads"], t["cache"], strict=True)
        ],
        kind=lambda t: t["threads"].astype(str) + " " + t["cache"],
        **dict.fromkeys(("run_count", "mean_ns", "p99_ns", "steps_per_second"), 1),
        **dict.fromkeys(("deviation_per_second", "failed"), 0),
    )
    whole = table[table["step"] == "all"]
    curve = one_varied(whole, "threads")
    assert ["sync" in text for text in curve["settings"]] == [True, True]
    times = step_times(table)
    assert list(times["step"]) == ["append", "open"] * 4
    assert times["kind"].iloc[0] == "mail on ssd, --cache cold, threads 1"

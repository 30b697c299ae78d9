"""Runs under other conditions are no repeats of each other, and a name is one place."""

import json
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from tests.sweep.command import tracekit
from tracekit.report.sections.files import one_varied, step_times
from tracekit.sweep.run import RunRecord, run_settings
from tracekit.sweep.summary import setting_name, varied_settings

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


def test_only_what_differs_within_a_personality_is_told() -> None:
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


def test_conditions_and_definitions_are_points_of_their_own(tmp_path: Path, target: Path) -> None:
    # GIVEN a folder with two repeats, and then runs with cold caches and of another definition
    out, file = tmp_path / "out", tmp_path / "logger.toml"
    command: list[str | Path] = ["sweep", file, "--target", f"here={target}", "-o", out, *QUICK]
    file.write_text(LOGGER.format(times=1))
    tracekit(*command, "--repeat", "2")
    tracekit(*command, "--repeat", "1", "--duration", "60ms")
    file.write_text(LOGGER.format(times=5))
    told = tracekit(*command, "--repeat", "1")
    # WHEN the points are told, THEN only the repeats are one
    points = [row for row in json.loads(told.stdout)["points"] if row["step"] == "all"]
    assert sorted(row["run_count"] for row in points) == [1, 1, 2]
    # AND their names are what they differ in
    varied = varied_settings(row["settings"] for row in points)
    assert varied == ["--duration", "definition"]
    assert len({setting_name(row, varied) for row in points}) == 3


def test_a_name_is_one_place(tmp_path: Path, target: Path) -> None:
    out, file, other = tmp_path / "out", tmp_path / "logger.toml", tmp_path / "other"
    other.mkdir()
    file.write_text(LOGGER.format(times=1))
    command: list[str | Path] = ["sweep", file, "-o", out, *QUICK, "--repeat", "1"]
    tracekit(*command, "--target", f"here={target}")
    ended = tracekit(*command, "--target", f"here={other}", code=2)
    assert f"--target here={other}: in this folder here is {target}" in ended.stderr


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("record=nan", "--vary record: nan is no size"),
        ("recrod=5", "no personality has the parameter 'recrod'"),
        ("threads=0", "--vary threads: 0 is no number from 1 to 4096"),
    ],
)
def test_a_setting_that_is_wrong_is_named(
    tmp_path: Path, target: Path, setting: str, says: str
) -> None:
    file = tmp_path / "logger.toml"
    file.write_text(LOGGER.format(times=1))
    command: list[str | Path] = ["sweep", file, "-o", tmp_path / "out", *QUICK, "--target", target]
    ended = tracekit(*command, "--vary", setting, code=2)
    assert says in ended.stderr


def test_a_parameter_that_nothing_uses_is_named(tmp_path: Path, target: Path) -> None:
    file = tmp_path / "logger.toml"
    file.write_text(LOGGER.format(times=1).replace("record = 100", "record = 100\nbogus = 1"))
    command: list[str | Path] = ["sweep", file, "-o", tmp_path / "out", *QUICK, "--target", target]
    ended = tracekit(*command, code=1)
    assert "[parameters], key 'bogus': nothing uses it" in ended.stderr


def test_a_curve_is_of_one_condition_and_the_table_of_all() -> None:
    rows = [
        (threads, cache, step, share)
        for threads in (1, 2)
        for cache in ("cold", "sync")
        for step, share in (("all", 1.0), ("open", 0.2), ("append", 0.8))
    ]
    table = pd.DataFrame(
        [
            {
                "personality": "mail",
                "target": "ssd",
                "threads": threads,
                "files": 9,
                "io_bytes": None,
                "settings": f'{{"--cache": "{cache}", "threads": {threads}}}',
                "step": step,
                "time_ratio": share,
                "kind": f"{threads} {cache}",
                **dict.fromkeys(("run_count", "mean_ns", "p99_ns", "steps_per_second"), 1),
                **dict.fromkeys(("deviation_per_second", "failed"), 0),
            }
            for threads, cache, step, share in rows
        ]
    )
    whole = table[table["step"] == "all"]
    curve = one_varied(whole, "threads")
    assert ["sync" in text for text in curve["settings"]] == [True, True]
    times = step_times(table)
    assert list(times["step"]) == ["append", "open"] * 4
    assert times["kind"].iloc[0] == "mail on ssd, --cache cold, threads 1"


def test_memory_of_other_times_is_another_place(tmp_path: Path, target: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "logger.toml"
    file.write_text(LOGGER.format(times=1))
    command: list[str | Path] = ["sweep", file, "-o", out, *QUICK]
    slow = f"m=memory:{target}:100ns:450ns"
    tracekit(*command, "--repeat", "1", "--target", slow)
    tracekit(*command, "--repeat", "2", "--target", slow)
    ended = tracekit(*command, "--repeat", "2", "--target", f"m=memory:{target}", code=2)
    assert f"in this folder m is memory:{target}:100ns:450ns" in ended.stderr

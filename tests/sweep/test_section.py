"""The report's section of a sweep: which points, which curves, and what is said of them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection

from tests.command_line import succeed
from tests.report.folder import plain
from tracekit.report.charts import WIDE, series
from tracekit.report.sections.files import (
    MOST_BARS,
    describe_runs,
    draw_rate_over_files,
    named_runs,
    one_varied,
    step_colour,
    usual_settings,
)
from tracekit.sweep.grid import Target, plan_runs


def point(personality: str, target: str, rate: float, **settings: int) -> dict[str, object]:
    return {
        "personality": personality,
        "target": target,
        "threads": settings["threads"],
        "files": settings.get("files", 100),
        "io_bytes": settings.get("io_size", 4096),
        "settings": json.dumps(settings, sort_keys=True),
        "step": "all",
        "run_count": 5,
        "copy_count": 0,
        "outlier_count": 0,
        "unsteady_count": 0,
        "failed": 0,
        "steps_per_second": rate,
    }


POINTS = named_runs(
    pd.DataFrame(
        [
            point("varmail", "ssd", 10.0, threads=1, io_size=512),
            point("varmail", "ssd", 20.0, threads=4, io_size=512),
            point("varmail", "ssd", 40.0, threads=4, io_size=4096),
            point("varmail", "dax", 100.0, threads=4, io_size=4096),
            point("varmail", "dax", 50.0, threads=8, io_size=4096),
            point("zip", "ssd", 5.0, threads=1, io_size=4096),
        ]
    )
)


def test_a_point_is_named_by_what_differs() -> None:
    assert plain(POINTS["kind"].tolist()) == [
        "varmail on ssd, 512 B a call, threads 1",
        "varmail on ssd, 512 B a call, threads 4",
        "varmail on ssd, 4 KiB a call, threads 4",
        "varmail on dax, 4 KiB a call, threads 4",
        "varmail on dax, 4 KiB a call, threads 8",
        "zip on ssd, 4 KiB a call, threads 1",
    ]
    # AND a personality has one colour
    assert POINTS["colour"].nunique() == 2


def test_usual_settings_are_the_most_frequent_ones_the_largest_of_a_tie() -> None:
    shown = usual_settings(POINTS)
    assert shown["steps_per_second"].tolist() == [40.0, 50.0, 5.0]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("io_bytes", {"varmail on ssd": [20.0, 40.0]}),  # of 4 threads, the most frequent
        ("threads", {"varmail on ssd": [10.0, 20.0], "varmail on dax": [100.0, 50.0]}),
        ("files", {}),
    ],
)
def test_a_curve_holds_all_else(column: str, expected: dict[str, list[float]]) -> None:
    found = one_varied(POINTS, column)
    curves = {
        str(kind): part.sort_values(column)["steps_per_second"].tolist()
        for kind, part in found.groupby("kind")
    }
    assert curves == expected


def test_personalities_have_colours_and_targets_lines() -> None:
    # GIVEN two personalities on five targets, one more than there are lines
    rows = [
        point(personality, f"t{number}", 10.0, threads=threads)
        for personality in ("varmail", "zip")
        for number in range(5)
        for threads in (1, 2)
    ]
    found = one_varied(named_runs(pd.DataFrame(rows)), "threads")
    looks = {
        str(kind): (part["colour"].iloc[0], part["line"].iloc[0])
        for kind, part in found.groupby("kind")
    }
    # THEN no two curves look alike, and the fifth target has colours of its own
    assert len(set(looks.values())) == 10
    lines = ("solid", "dashed", "dotted", "dashdot")
    for number, line in enumerate(lines):
        assert looks[f"varmail on t{number}"] == (series()[0], line)
        assert looks[f"zip on t{number}"] == (series()[1], line)
    assert looks["varmail on t4"] == (series()[2], "solid")
    assert looks["zip on t4"] == (series()[3], "solid")


def test_a_point_of_a_curve_has_the_spread_of_its_repeats() -> None:
    rows = [
        point("varmail", "ssd", 20.0, threads=1)
        | {"rate_low_per_second": 15.0, "rate_high_per_second": 30.0}
        | {"files": files, "line": "dashed", "colour": "blue", "kind": "varmail on ssd"}
        for files in (100, 10)
    ]  # fmt: skip
    axes = draw_rate_over_files(pd.DataFrame(rows), WIDE).axes[0]
    (spread,) = axes.collections
    assert isinstance(spread, LineCollection)
    ends = [[(float(x), float(y)) for x, y in line] for line in spread.get_segments()]
    assert ends == [[(10, 15), (10, 30)], [(100, 15), (100, 30)]]
    (curve,) = axes.lines
    assert (curve.get_linestyle(), np.asarray(curve.get_ydata()).tolist()) == ("--", [20, 20])


def test_targets_are_compared_under_the_same_settings() -> None:
    ratio = {"personality": "varmail", "threads": 4, "files": 100, "io_bytes": 4096}
    ratio |= {"target": "dax", "other": "ssd", "settings": json.dumps({"threads": 4})}
    sure = {"ratio": 2.5, "ratio_low": 2.0, "ratio_high": 3.0, "corrected_p_value": 0.012}
    once = {"ratio": 2.5, "ratio_low": None, "ratio_high": None, "corrected_p_value": None}
    ratios = pd.DataFrame([ratio | sure | {"verdict": "differs"}] * 2 + [ratio | once])
    first, *lines = plain(describe_runs(POINTS, ratios))
    assert first.startswith("30 runs of 6 settings.")
    name = "varmail (4 threads, 100 files, 4 KiB a call), dax by ssd: 2.5 times the steps"
    assert lines == [
        *[f"{name} (2 to 3 with 95 % confidence); differs (p 0.012, Holm of 2 comparisons)."] * 2,
        f"{name}, not decided: one of the targets has one run; repeat more: --repeat.",
    ]


def test_sentences_that_are_too_many_are_counted() -> None:
    ratio = {"personality": "varmail", "threads": 4, "files": 100, "io_bytes": 4096}
    ratio |= {"target": "dax", "other": "ssd", "settings": "{}", "ratio": 2.5, "ratio_low": None}
    ratios = pd.DataFrame([ratio | {"corrected_p_value": None}] * (MOST_BARS + 1))
    points = [
        point("varmail", "ssd", 10.0, threads=threads) | {"outlier_count": 1}
        for threads in range(1, MOST_BARS + 4)
    ]
    _, *lines = plain(describe_runs(pd.DataFrame(points), ratios))
    assert len(lines) == 2 * (MOST_BARS + 1)
    assert lines[MOST_BARS] == "1 more comparison in the table target_ratios."
    assert lines[-1] == "3 more doubts in the table file_points."


def test_a_label_of_a_users_own_has_a_colour() -> None:
    assert step_colour("commit") == "silver"
    assert step_colour("fsync") == "flush"


def test_the_page_has_figures_and_the_command(tmp_path: Path) -> None:
    place, out = tmp_path / "target", tmp_path / "out"
    place.mkdir()
    words = ["sweep", "webproxy", "--target", f"here={place}", "-o", str(out), "--repeat", "1"]
    words += ["--files", "40", "--threads", "1,2", "--duration", "100ms", "--cache", "keep"]
    succeed(*words)
    page = (out / "report.html").read_text()
    for name in ("file-rates", "file-breakdown", "file-threads"):
        assert name in page
    assert "file-io-bytes" not in page  # one size only
    assert "tracekit sweep webproxy --target" in page


def test_runs_of_one_setting_have_ids_of_their_own(tmp_path: Path) -> None:
    from tracekit.sweep.grid import Axis, Timing

    targets = (Target("a", tmp_path), Target("b", tmp_path))
    vary = {"threads": Axis(("1", "2"), "--threads"), "files": Axis(("100",), "--files")}
    runs = plan_runs(["varmail", "zip"], targets, vary=vary, timing=Timing(), repeats=3)
    assert len({run.run_id for run in runs}) == len(runs) == 2 * 2 * 2 * 3
    again = plan_runs(["varmail", "zip"], targets, vary=vary, timing=Timing(), repeats=3)
    assert [run.run_id for run in runs] == [run.run_id for run in again]
    other = plan_runs(["varmail"], targets, vary=vary, timing=Timing(seed=1), repeats=3)
    assert not {run.run_id for run in runs} & {run.run_id for run in other}

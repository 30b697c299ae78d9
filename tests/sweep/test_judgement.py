"""Repeats of a sweep: order and seeds, steady state, intervals, errors, and its section."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from numpy.typing import NDArray
from scipy import stats

from tests.command_line import succeed
from tests.report.folder import plain
from tests.sweep.command import QUICK, SMALL, rows, tracekit
from tests.traces import json_of
from tracekit.repeats import holm
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
from tracekit.sweep.grid import Axis, Target, Timing, plan_runs
from tracekit.sweep.judgement import batch_means, compare, mser, outliers, steady_state
from tracekit.sweep.summary import doubts

RECORDED = np.array(json.loads(Path(__file__).with_name("recorded_rates.json").read_text()), float)
"""Steps a second of 40 runs of one setting on one target, in the order in which they ran."""


def timeline(rates: Iterable[float]) -> list[dict[str, int]]:
    """Return counts every 10 ms, of which these are the shape, and the end of the run."""
    counts = np.cumsum(np.asarray(list(rates))).astype(int).tolist()
    found = [{"end_ns": 10_000_000 * n, "operations": count} for n, count in enumerate(counts, 1)]
    return [*found, found[-1] | {"end_ns": found[-1]["end_ns"] + 1}]


def autoregressive(
    count: int, draws: np.random.Generator, *, correlation: float
) -> NDArray[np.float64]:
    """Return a series about 1000 whose neighbours are correlated."""
    noise = draws.normal(0, 10, count + 100)
    for place in range(1, len(noise)):
        noise[place] += correlation * noise[place - 1]
    return 1000 + noise[100:]


def test_each_repeat_has_a_seed_and_the_order_is_drawn(tmp_path: Path) -> None:
    targets = (Target("a", tmp_path), Target("b", tmp_path), Target("c", tmp_path))
    vary = {"threads": Axis(("1", "2", "4"), "--threads")}

    def planned(seed: int, repeats: int) -> list[tuple[int, int, str, int]]:
        timing = Timing(seed=seed)
        runs = plan_runs(["varmail"], targets, vary=vary, timing=timing, repeats=repeats)
        return [(r.number, r.personality.threads, r.target.name, r.seed) for r in runs]

    runs = planned(7, 20)
    # THEN a repeat has each point once, the targets of a setting side by side, and a seed
    blocks = [runs[first : first + 9] for first in range(0, len(runs), 9)]
    for number, block in enumerate(blocks, 1):
        assert {(n, seed) for n, _, _, seed in block} == {(number, 6 + number)}
        assert len({(threads, name) for _, threads, name, _ in block}) == 9
        assert [len({t for _, t, _, _ in block[i : i + 3]}) for i in (0, 3, 6)] == [1, 1, 1]
    # AND no target is first more often than chance lets it: 60 draws of three
    first = [block[place][2] for block in blocks for place in (0, 3, 6)]
    assert stats.chisquare([first.count(name) for name in "abc"]).pvalue > 0.001
    # AND the order is that of the seed, also with more repeats
    assert planned(7, 30)[: len(runs)] == runs != planned(8, 20)


def test_warm_up_ends_where_it_does() -> None:
    draws = np.random.default_rng(3)
    flat = autoregressive(200, draws, correlation=0.3)
    climb = np.concatenate([np.linspace(100, 1000, 50), flat[50:]])
    # The cut of MSER-5 by its definition: the least squared error of the mean of what is left.
    means = climb.reshape(-1, 5).mean(axis=1)
    errors = [np.sum((means[d:] - means[d:].mean()) ** 2) / (40 - d) ** 2 for d in range(36)]
    assert mser(means) == int(np.argmin(errors))
    found = steady_state(timeline(climb), 1000.0)
    assert found.steady_from_ns is not None
    assert 0.40e9 <= found.steady_from_ns <= 0.55e9
    # AND what grows to its end was never steady, and what is too short does not say
    assert steady_state(timeline(np.linspace(100, 1000, 200)), 550.0).steady_from_ns is None
    assert steady_state(timeline(flat[:39]), 1000.0).steady_from_ns is None


def test_an_interval_is_around_the_rate_that_it_is_printed_with() -> None:
    draws = np.random.default_rng(5)
    flat = autoregressive(200, draws, correlation=0.3)
    climb = np.concatenate([np.linspace(100, 1000, 50), flat[50:]])
    # GIVEN a run that climbs for a quarter of its time: THEN it has a steady part, no interval
    found = steady_state(timeline(climb), float(climb.mean()))
    assert found.steady_from_ns
    assert (found.batch_low_per_second, found.batch_high_per_second) == (None, None)
    # AND of runs that do not climb nearly all have one, also where a little of them is cut
    cuts, without, runs = 0, 0, 200
    for _ in range(runs):
        rates = autoregressive(200, draws, correlation=0.3)
        rate = float(rates.mean())
        found = steady_state(timeline(rates), rate)
        low, high = found.batch_low_per_second, found.batch_high_per_second
        without += found.steady_from_ns is not None and low is None
        cuts += bool(found.steady_from_ns and low is not None)
        assert low is None or high is None or low <= rate <= high
    assert without <= 0.03 * runs
    assert cuts >= 0.2 * runs


def test_the_point_of_one_run_says_why_it_has_no_interval() -> None:
    row = {"step": "all", "personality": "mail", "target": "a", "threads": 2, "files": None}
    row |= {"io_bytes": None, "run_count": 1, "copy_count": 0, "unsteady_count": 0}
    row |= {"outlier_count": 0, "rate_low_per_second": None}
    (line,) = doubts([row])
    assert "its one run was at another rate once steady (MSER-5), so that it has no" in line
    assert doubts([row | {"rate_low_per_second": 1.0}]) == []


def test_batch_means_hold_the_mean_as_often_as_they_say() -> None:
    # GIVEN 1,000 runs of 200 intervals whose neighbours are correlated by a half
    draws = np.random.default_rng(1)
    intervals = [batch_means(autoregressive(200, draws, correlation=0.5)) for _ in range(1000)]
    held = sum(one.low <= 1000 <= one.high for one in intervals if one.low and one.high)
    # THEN nine in ten intervals hold it, where those of independent intervals would hold 72 %
    assert 0.90 <= held / 1000 <= 0.97


def test_what_stands_out_is_marked() -> None:
    assert outliers([100, 101, 99, 100.5, 300]) == [False, False, False, False, True]
    assert outliers([100, 101, 300]) == [False] * 3
    assert outliers([100, 100, 100, 100, 0]) == [False] * 5


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_the_same_configuration_twice_seldom_differs(repeats: int) -> None:
    # GIVEN rates of one configuration that were recorded, dealt out as those of two targets
    draws = np.random.default_rng(repeats)
    differs, pairs = 0, 2000
    for _ in range(pairs):
        mine, other = draws.choice(RECORDED, (2, repeats))
        paired = compare(*(dict(enumerate(group)) for group in (mine, other)))
        shifted = compare(dict(enumerate(mine)), dict(enumerate(other, 1)))
        # THEN p-values are scipy's of logarithms, of pairs and of two groups
        assert (paired.is_paired, shifted.is_paired) == (True, False)
        logs = np.log(mine), np.log(other)
        assert paired.p_value == pytest.approx(stats.ttest_rel(*logs).pvalue, abs=1e-9)
        welch = stats.ttest_ind(*logs, equal_var=False).pvalue
        assert shifted.p_value == pytest.approx(welch, abs=1e-9)
        assert paired.p_value is not None
        differs += paired.p_value < 0.05
    # AND at most 5 % of them differ, but for the draw of 2,000
    assert stats.binomtest(differs, pairs, 0.05, alternative="greater").pvalue > 0.01


def test_one_family_of_comparisons_in_twenty_has_a_false_one() -> None:
    draws = np.random.default_rng(9)
    families, wrong = 400, 0
    for _ in range(families):
        groups = draws.choice(RECORDED, (10, 2, 5))
        found = [compare(*(dict(enumerate(g)) for g in pair)).p_value for pair in groups]
        wrong += min(holm([p for p in found if p is not None])) < 0.05
    assert stats.binomtest(wrong, families, 0.05, alternative="greater").pvalue > 0.01


def test_a_repeat_of_one_plan_in_counted_time_is_no_repeat(out: Path, target: Path) -> None:
    # GIVEN three runs, of which two are said to be of one plan in a guest that counts time
    first = ("sweep", "varmail", "--target", f"a={target}", "-o", out, *SMALL, *QUICK)
    command = (*first, "--repeat", "3")
    tracekit(*command)
    for file in sorted(out.glob("files/runs/*.json")):
        told = json_of(file)
        told["lab"] = {"exact": True}
        told["plan_digest"] = "same" if told["run"] < 3 else "other"
        file.write_text(json.dumps(told))
    # THEN the second one is in no mean and no interval, and that is said
    ended = tracekit(*command)
    copies = {row["run"]: row["is_copy"] for row in rows(out)}
    assert copies == {1: False, 2: True, 3: False}
    assert "1 of 3 runs repeat the plan of another one, with --exact the same run" in ended.stdout
    (point,) = (
        one
        for one in json.loads(tracekit(*command, "--json").stdout)["points"]
        if one["step"] == "all"
    )
    kept = [r["steps_per_second"] for r in rows(out) if r["step"] == "all" and not r["is_copy"]]
    assert (point["run_count"], point["copy_count"]) == (2, 1)
    low, high = stats.t.interval(0.95, 1, np.mean(kept), stats.sem(kept))
    assert point["rate_low_per_second"] == pytest.approx(max(low, 0))
    assert point["rate_high_per_second"] == pytest.approx(high)


def test_a_copy_makes_no_rate_stand_out_nor_hides_one(out: Path, target: Path) -> None:
    # GIVEN five plans in a guest that counts time, the last one, far off, six times more
    command = ("sweep", "varmail", "--target", f"a={target}", "-o", out, *SMALL, *QUICK)
    tracekit(*command, "--repeat", "5")
    file = max(out.glob("files/runs/*.json"), key=lambda file: json_of(file)["run"])
    for number in range(6, 12):
        name = f"{file.stem[:-1]}{number}"
        file.with_stem(name).write_text(json.dumps(json_of(file) | {"run": number, "run_id": name}))
    for one in out.glob("files/runs/*.json"):
        told = json_of(one)
        told["lab"] = {"exact": True}
        first, *others = told["summary"]["steps"]
        first["done"] = 3000 if told["run"] >= 5 else 1000 + told["run"]
        for step in others:
            step["done"] = 0
        told["summary"]["timing"]["elapsed_ns"] = 10**9
        one.write_text(json.dumps(told))
    tracekit(*command, "--repeat", "5")
    whole = [row for row in rows(out) if row["step"] == "all"]
    assert sum(row["is_copy"] for row in whole) == 6
    assert [row["run"] for row in whole if row["is_outlier"]] == [5]


def test_repeats_go_on_until_the_interval_is_narrow(out: Path, target: Path) -> None:
    command = ("sweep", "varmail", "--target", f"a={target}", "-o", out, *SMALL, *QUICK)
    rule = ("--repeat", "2", "--until", "precision=0.001%,repeats=4")
    # GIVEN a precision that no machine has: THEN there are as many repeats as may be
    told = json.loads(tracekit(*command, *rule, "--json").stdout)
    assert (told["made"], told["kept"]) == (4, 0)
    stored = [json_of(file) for file in out.glob("files/runs/*.json")]
    # AND each has its seed, plan, place in the order, and the state of the machine
    assert {(one["run"], one["seed"]) for one in stored} == {(1, 0), (2, 1), (3, 2), (4, 3)}
    assert len({one["plan_digest"] for one in stored}) == 4
    assert sorted(one["turn"]["position"] for one in stored) == [1, 2, 3, 4]
    assert len({one["turn"]["series"] for one in stored}) == 1
    for one in stored:
        assert one["machine"]["kernel"]
        assert one["machine"]["steal_ratio"] is not None
        assert one["place"]["file_system"]
        assert "rw" in one["place"]["mount_options"]
    # AND with one that these have, none more
    wide = ("--repeat", "2", "--until", "precision=99.9%,repeats=50")
    assert json.loads(tracekit(*command, *wide, "--json").stdout)["made"] < 46
    refused = tracekit(*command, "--until", "precision=0%", code=2)
    assert "--until precision=0%: not precision=N%" in refused.stderr


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
        *[f"{name} (2 to 3 with 95% confidence); differs (p 0.012, Holm of 2 comparisons)."] * 2,
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

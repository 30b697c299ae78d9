"""Correlations by definition, groups of events, and where throughput is found."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from tracekit.counters import Rule, correlated, statistics_of
from tracekit.errors import InputError, UsageError
from tracekit.perf_stat import GROUPS, SOFTWARE, arguments, group_of, parse_groups

Z95 = statistics.NormalDist().inv_cdf(0.975)


def pearson(xs: list[float], ys: list[float]) -> float:
    """Return r by its definition."""
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    both = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    spread = math.fsum((x - mean_x) ** 2 for x in xs) * math.fsum((y - mean_y) ** 2 for y in ys)
    return both / math.sqrt(spread)


PAIRS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**6)), min_size=4, max_size=30)


@settings(deadline=None)
@given(PAIRS)
def test_a_correlation_is_that_of_its_definition(pairs: list[tuple[int, int]]) -> None:
    xs, ys = ([float(pair[k]) for pair in pairs] for k in (0, 1))
    assume(len(set(xs)) > 1)
    assume(len(set(ys)) > 1)
    found = correlated(xs, ys)
    r, low, high, p_value = (math.nan if one is None else one for one in found)
    assert r == pytest.approx(pearson(xs, ys), abs=1e-6)
    assert 0 <= p_value <= 1
    assert -1 <= low <= high <= 1
    if abs(r) < 0.999:
        # Fisher: atanh(r) is normal with standard deviation 1 / sqrt(n - 3)
        half = Z95 / math.sqrt(len(xs) - 3)
        assert low == pytest.approx(math.tanh(math.atanh(r) - half), abs=1e-6)
        assert high == pytest.approx(math.tanh(math.atanh(r) + half), abs=1e-6)


def test_an_example_by_hand() -> None:
    # GIVEN 1, 2, 3, 4 and 2, 1, 4, 3: r = 3 / 5; z = 0.6931, half its interval 1.96
    r, low, high, _ = correlated([1, 2, 3, 4], [2, 1, 4, 3])
    assert r == pytest.approx(0.6)
    assert low == pytest.approx(math.tanh(0.693147 - 1.959964), abs=1e-6)
    assert high == pytest.approx(math.tanh(0.693147 + 1.959964), abs=1e-6)


@pytest.mark.parametrize(
    ("counts", "rates"),
    [([], []), ([1, 2], [1, 2]), ([5, 5, 5, 5], [1, 2, 3, 4]), ([1, 2, 3, 4], [7, 7, 7, 7])],
)
def test_what_has_no_correlation_has_none(counts: list[float], rates: list[float]) -> None:
    assert correlated(counts, rates) == (None, None, None, None)


def test_three_runs_have_no_interval_and_a_line_has_a_point() -> None:
    r, low, high, _ = correlated([1, 2, 4], [1, 3, 4])
    assert r == pytest.approx(0.92857, abs=1e-5)
    assert (low, high) == (None, None)
    r, low, high, _ = correlated([1, 2, 3, 4], [4, 3, 2, 1])
    assert [r, low, high] == pytest.approx([-1, -1, -1])


def rows(event: str, counts: list[float | None], rates: list[float]) -> list[dict[str, Any]]:
    return [
        {"event": event, "count": count, "running_ratio": 0.5 + n / 10, "throughput": rate}
        for n, (count, rate) in enumerate(zip(counts, rates, strict=True))
    ]


def test_events_are_ranked_by_what_is_sure_of_them() -> None:
    rates = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    found = statistics_of(
        [
            *rows("noise", [3, 1, 4, 1, 5, 2], rates),
            *rows("against", [60, 51, 40, 29, 20, 11], rates),
            *rows("with", [1, 2, 2, 4, 6, 6], rates),
            *rows("same", [7, 7, 7, 7, 7, 7], rates),
            *rows("half", [1, None, 3, None, None, None], rates),
            *rows("never", [None] * 6, rates),
        ]
    )
    assert {one.event: one.rank for one in found} == {
        "noise": 3, "against": 1, "with": 2, "same": None, "half": None,
    }  # fmt: skip
    told = {one.event: one for one in found}
    assert (told["half"].runs, told["half"].mean, told["half"].correlation) == (2, 2.0, None)
    assert told["half"].deviation == pytest.approx(math.sqrt(2))
    assert told["noise"].surely == 0
    assert told["against"].least_running_ratio == 0.5


def test_one_run_has_no_deviation() -> None:
    (one,) = statistics_of(rows("a", [3], [1.0]))
    assert (one.mean, one.deviation, one.correlation, one.rank) == (3.0, None, None, None)


def test_the_events_are_those_of_the_study() -> None:
    names = {name for group in GROUPS for name in group}
    levels = {"L1-dcache": 3, "LLC": 3, "dTLB": 3, "iTLB": 1}
    for level, kinds in levels.items():
        for kind in ("load", "store", "prefetch")[:kinds]:
            plural = f"{kind}{'es' if kind.endswith('h') else 's'}"
            assert {f"{level}-{plural}", f"{level}-{kind}-misses"} <= names
    assert "page-faults" in names
    assert names >= SOFTWARE


def test_groups_have_what_can_be_counted() -> None:
    groups = (("a", "b", "c"), ("d", "e"), ("f",))
    assert arguments(groups, {"a", "c", "d", "f"}) == ["-e", "{a,c}:W", "-e", "d", "-e", "f"]
    assert parse_groups("a,b c") == (("a", "b"), ("c",))
    assert parse_groups("") is GROUPS
    assert (group_of(groups, "b"), group_of(groups, "f")) == ("a,b,c", "")
    wrong = {"a,a": "twice", " ": "names no event", "a}b": "no name of an event"}
    for text, message in wrong.items():
        with pytest.raises(UsageError, match=message):
            parse_groups(text)


def test_throughput_of_output_is_the_last_that_matches() -> None:
    rule = Rule(r"([0-9.,]+) ops/s")
    assert rule.of_run("1.5 ops/s\nthen 12,000.5 ops/s", 1) == 12000.5
    with pytest.raises(InputError, match="is nowhere in the command's output"):
        rule.of_run("nothing", 1)
    with pytest.raises(InputError, match="is not a rate"):
        Rule("([a-z]+)").of_run("abc", 1)


def test_throughput_of_a_summary(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps({"timing": {"requests_per_second": 12.5}, "a": {"b": 3}}))
    assert Rule(summary=file).of_run("", 1) == 12.5
    assert Rule(summary=file, key="a.b").of_run("", 1) == 3
    with pytest.raises(InputError, match=r"s\.json has no a\.c") as caught:
        Rule(summary=file, key="a.c").of_run("", 1)
    assert "timing, a" in caught.value.hint
    for text, message in (
        ("[1]", "has no rate"), ("{", "not JSON"), ('{"bytes_per_second": -1}', "not a rate"),
        ('{"bytes_per_second": NaN}', "not a rate"), ('{"bytes_per_second": true}', "not a rate"),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            Rule(summary=file).of_run("", 1)
    file.unlink()
    with pytest.raises(InputError, match="the run has not written it"):
        Rule(summary=file).of_run("", 1)


def test_without_a_rule_it_is_runs_a_second() -> None:
    assert Rule().of_run("", 250_000_000) == 4.0


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"pattern": "("}, "--throughput '\\('"),
        ({"pattern": "ops"}, "has 0 groups"),
        ({"pattern": "(a)(b)"}, "has 2 groups"),
        ({"pattern": "(a)", "summary": Path("x")}, "exclude each other"),
        ({"key": "a"}, "--key needs"),
    ],
)
def test_rules_that_cannot_be(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Rule(**rule)


def test_noise_is_seldom_telling_and_a_cause_is() -> None:
    # GIVEN 200 workloads of 8 runs with 27 events that have nothing to do with their throughput
    draws = np.random.default_rng(4)
    telling = 0
    for _ in range(200):
        rates = draws.normal(100, 10, 8).tolist()
        counts = {f"ev{number}": draws.normal(1000, 50, 8).tolist() for number in range(27)}
        found = statistics_of(rows_of(counts, rates))
        telling += any(one.is_telling for one in found)
        # THEN corrected p-values and ranks' correlations are scipy's
        p_values = [one.p_value or 0.0 for one in found]
        told = [one.corrected_p_value for one in found]
        assert told == pytest.approx(stats.false_discovery_control(p_values).tolist())
        first = stats.spearmanr(counts["ev0"], rates).statistic
        assert found[0].spearman == pytest.approx(first)
    # AND one in twenty of these has a telling event, where without correction three in four had
    assert stats.binomtest(telling, 200, 0.05, alternative="greater").pvalue > 0.01
    # AND what makes the throughput is found among them
    counts["cause"] = [1e6 / rate for rate in rates]
    assert {one.event for one in statistics_of(rows_of(counts, rates)) if one.is_telling} == {
        "cause"
    }


def rows_of(counts: dict[str, list[float]], rates: list[float]) -> list[dict[str, Any]]:
    return [
        {"event": event, "count": value, "throughput": rate, "running_ratio": 1.0}
        for event, values in counts.items()
        for value, rate in zip(values, rates, strict=True)
    ]

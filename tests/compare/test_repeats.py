"""The statistics of repeats against other ways to the same numbers, and what they find."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.command_line import invoke, refused, succeed
from tests.compare.simulation import CASES, Case, rates
from tests.compare.test_compare import ROWS, add_replay, found_rows
from tests.replay.trace import trace
from tests.traces import json_of
from tracekit.compare import SHOWN
from tracekit.repeats import (
    detectable_ratio,
    holm,
    in_turn,
    paired_ratio,
    ratio_of,
    repeats_needed,
)
from tracekit.store import TraceFolder, write_json

TABLES = 500
MOST = 0.05 + 3 * math.sqrt(0.05 * 0.95 / TABLES)
"""Three standard errors of the simulation above 5 %."""


def times(seed: int, count: int, *, spread: float = 0.05) -> np.ndarray:
    made: np.ndarray = 1e9 * np.exp(spread * np.random.default_rng(seed).standard_normal(count))
    return made


@pytest.mark.parametrize("seed", range(5))
def test_intervals_and_p_values_are_those_of_scipy(seed: int) -> None:
    one, other = times(seed, 7), 1.03 * times(seed + 100, 7)
    for found, known in (
        (paired_ratio(one.tolist(), other.tolist()), stats.ttest_rel(np.log(one), np.log(other))),
        (
            ratio_of(one.tolist(), other[:4].tolist()),
            stats.ttest_ind(np.log(one), np.log(other[:4]), equal_var=False),
        ),
    ):
        assert found is not None
        ends = known.confidence_interval(0.95)
        assert found.p_value == pytest.approx(known.pvalue)
        assert found.freedom == pytest.approx(known.df)
        assert [found.low, found.high] == pytest.approx([math.exp(ends.low), math.exp(ends.high)])


@pytest.mark.parametrize("p_values", [[0.01, 0.04, 0.03, 0.005], [0.02] * 3, [0.9, 0.001], [0.3]])
def test_holm_rejects_what_every_subset_with_it_rejects(p_values: list[float]) -> None:
    # GIVEN all subsets of the hypotheses, each tested by Bonferroni (a closed test)
    numbers = range(len(p_values))
    subsets = [subset for size in numbers for subset in itertools.combinations(numbers, size + 1)]
    worst = [
        max(
            min(1.0, len(subset) * min(p_values[one] for one in subset))
            for subset in subsets
            if number in subset
        )
        for number in numbers
    ]
    assert holm(p_values) == pytest.approx(worst)


@pytest.mark.parametrize("is_paired", [True, False])
def test_a_detectable_difference_is_found_four_times_of_five(is_paired: bool) -> None:
    # GIVEN the spread of a sample, as if it were that of all repeats
    one, other = times(1, 8).tolist(), times(2, 8).tolist()
    found = (paired_ratio if is_paired else ratio_of)(one, other)
    assert found is not None
    for tests in (1, 6):
        # THEN scipy's noncentral t gives the power for it
        difference = detectable_ratio(found, tests=tests)
        threshold = stats.t.isf(0.05 / tests / 2, found.freedom)
        distance = math.log1p(difference) / found.error
        power = stats.nct.sf(threshold, found.freedom, distance)
        assert power == pytest.approx(0.8, abs=1e-4)
        # and so many repeats are needed as their own detectable difference is just below it
        needed = repeats_needed(found, difference, tests=tests)
        assert needed is not None
        if is_paired:
            assert needed == 8
        smaller = repeats_needed(found, difference / 10, tests=tests)
        assert smaller is not None
        assert smaller > 50 * needed


def test_what_never_spreads_needs_no_repeats_and_what_spreads_widely_too_many() -> None:
    still = paired_ratio([5.0] * 4, [5.0] * 4)
    assert still is not None
    assert (still.p_value, repeats_needed(still, 0.01, tests=6)) == (1.0, 3)
    wild = ratio_of([1.0, 1e9, 1e18], [2.0, 1e9, 1e19])
    assert wild is not None
    assert repeats_needed(wild, 0.01, tests=6) is None


def test_configurations_take_turns_so_that_no_drift_is_in_one_of_them() -> None:
    assert ["".join("AB"[place] for place in order) for order in in_turn(2, 4)] == [
        *("AB", "BA", "BA", "AB")
    ]
    # THEN over four repeats even a drift that grows evenly is as much in each
    order = np.concatenate(in_turn(2, 4))
    for power in (1, 2):
        drift = np.arange(8.0) ** power
        assert drift[order == 0].sum() == drift[order == 1].sum()
    # and each of three runs as often, an even drift being about as much in each
    order = np.concatenate(in_turn(3, 6))
    places = [np.flatnonzero(order == one) for one in range(3)]
    assert [len(one) for one in places] == [6] * 3
    assert {one.mean() for one in places} == {8.5}


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("nothing")])
def test_at_most_a_twentieth_of_the_tables_find_what_is_not_there(name: str) -> None:
    case = CASES[name]
    found = rates(case, TABLES)
    # THEN the correction is what it takes: a row alone is below 5 % too often
    assert found["raw"] > 0.1
    if case.takes_turns or not case.drift:
        assert found["any"] <= MOST
    else:
        # What ran one after the other and drifts is beyond statistics: compare warns of it.
        assert found["any"] > 0.3


@pytest.mark.parametrize(
    ("case", "least"),
    [(Case(effect=0.1), 0.999), (Case(effect=0.03, drift=0.04, repeats=12), 0.95)],
)
def test_what_differs_is_found(case: Case, least: float) -> None:
    assert rates(case, 200)["rows"] >= least


def test_two_repeats_cannot_tell() -> None:
    assert rates(Case(repeats=2, effect=0.5), 50)["cannot"] == 1


def write_series(folder: TraceFolder, seed: int, *, effect: float, pairs: int = 6) -> None:
    """Write the replays of two configurations that took turns while the machine got slower."""
    random = np.random.default_rng(seed)
    for position, side in enumerate(np.concatenate(in_turn(2, pairs)).tolist()):
        factor = (1 + 0.04 * position / (2 * pairs - 1)) * (1 + side * effect)
        took = {
            request: round(1e6 * factor * math.exp(0.01 * random.standard_normal()))
            for request in (0, 1, 3)
        }
        name = f"{'ab'[side]}.{position // 2 + 1}"
        add_replay(folder, name, took, round(1e9 * factor))
        place = folder.path / "replays" / name / "summary.json"
        turn = {"series": str(seed), "pair": position // 2 + 1, "position": position + 1}
        write_json(place, {**json_of(place), "turn": turn})


@pytest.mark.parametrize("effect", [0.0, 0.1])
def test_replays_that_took_turns_are_compared_in_pairs(tmp_path: Path, effect: float) -> None:
    folder = trace(tmp_path / "t", ROWS)
    write_series(folder, 3, effect=effect)
    done = succeed("compare", folder.path, "a", "b")
    rows = [row for key, row in found_rows(folder).items() if key[0] == "b"]
    # THEN all rows have six pairs, and none or all differ
    assert {row["pairs"] for row in rows} == {6}
    verdicts = {row["verdict"] for row in rows if row["measure"] in SHOWN}
    assert verdicts == {"different" if effect else "none found"}
    # (corrected as two families: of elapsed time and two means, and of the percentiles of both)
    for size in (3, 4):
        family = [row for row in rows if (row["measure"] in SHOWN) == (size == 3)]
        assert len(family) == size
        assert min(row["p_corrected"] for row in family) == pytest.approx(
            min(1, size * min(row["p_value"] for row in family))
        )
    for row in rows:
        assert row["p_corrected"] >= row["p_value"]
        assert row["ratio_low"] < 1 + effect < row["ratio_high"]
    assert all(row["verdict"] is None for key, row in found_rows(folder).items() if key[0] == "a")
    assert "6 pairs find a difference of" in done.stdout
    assert "corrected  verdict" in done.stdout
    assert json_of(folder.path / "comparison.json")["warnings"] == []
    # and pairs of which one half is missing are left out, and said to be
    (folder.path / "replays/b.4/completions.parquet").unlink()
    assert "1 repeats are in no pair" in succeed("compare", folder.path, "a", "b").stderr


def test_groups_that_ran_one_after_the_other_are_doubted(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", ROWS)
    state = {"kernel": "6.1", "processors": 2, "before": {"unix_ns": 1}, "after": {"unix_ns": 2}}
    for name, load, kernel in (("a", 0.1, "6.1"), ("b", 7.5, "6.2")):
        for number in (1, 2, 3):
            add_replay(folder, f"{name}.{number}", {0: 5 + number, 1: 9}, 1000 + number)
            place = folder.path / "replays" / f"{name}.{number}" / "summary.json"
            machine = {**state, "kernel": kernel, "before": {"unix_ns": 1, "load": load}}
            write_json(place, {**json_of(place), "machine": machine})
    done = succeed("compare", folder.path, "a", "b")
    assert "b and a did not take turns: a drift of the machine looks like a diff" in done.stderr
    assert (
        "b and a ran in different states of the machine: kernel 6.2 against 6.1; tasks a processor"
        " before 3.8 against 0.1" in done.stderr
    )
    once = succeed("compare", folder.path, "a.1", "b").stderr
    assert "a.1 ran once: what differs may be chance" in once


def test_runs_take_turns_and_are_compared(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", ROWS)
    runs = ("--run", "one: --engine null --pace fast", "--run", "two:--engine null --pace closed")
    succeed("compare", folder.path, *runs, "--repeat", "3")
    content = {
        path.parent.name: json_of(path) for path in folder.path.glob("replays/*/summary.json")
    }
    # THEN each has its place in one series, and its own options
    order = sorted(content, key=lambda name: content[name]["turn"]["position"])
    assert order == ["one.1", "two.1", "two.2", "one.2", "two.3", "one.3"]
    assert [content[name]["turn"]["pair"] for name in order] == [1, 1, 2, 2, 3, 3]
    assert len({one["turn"]["series"] for one in content.values()}) == 1
    assert [content[f"{name}.3"]["pace"] for name in ("one", "two")] == ["fast", "closed"]
    rows = found_rows(folder)
    assert rows["two", "elapsed", "all", "all"]["pairs"] == 3
    # and replay does the same, with what is common to all
    asked = content["two.1"]["asked"]
    assert asked[:4] == ["--repeat", "3", "--run", "one: --engine null --pace fast"]
    refused(invoke("replay", folder.path, *asked), "one.1 exists already")
    succeed("replay", folder.path, *asked, "--force", "--limit", "2")
    again = json_of(folder.path / "replays/two.3/summary.json")
    assert (again["counts"]["planned"], again["pace"]) == (2, "closed")


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        (("one",), "not 'NAME: OPTIONS'"),
        (("one:", "one:"), "not 'NAME: OPTIONS' with a name of its own"),
        (("one: --engine null",), "there are two or more"),
        (("one: --sideways",), "--run one: No such option: --sideways"),
        (("one: --pace 'fast",), "--run one: No closing quotation"),
        (("one: --name other",), "--name is not for runs that take turns"),
    ],
)
def test_runs_that_are_refused(tmp_path: Path, runs: tuple[str, ...], message: str) -> None:
    folder = trace(tmp_path / "t", ROWS)
    words = [word for one in runs for word in ("--run", one)]
    refused(invoke("compare", folder.path, *words), message)
    assert not (folder.path / "replays").exists()

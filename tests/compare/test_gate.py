"""`tracekit compare --gate`: better, worse or the same, against intervals of scipy."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind
from typer.testing import Result

import tracekit as tk
from tests.command_line import invoke, refused
from tests.compare.test_compare import add_replay
from tests.replay.trace import trace
from tests.traces import rows_of
from tracekit.errors import InputError
from tracekit.gate import cells_of, judge, repeats_of
from tracekit.metadata import TraceWarning
from tracekit.store import TraceFolder
from tracekit.units import SECTOR_BYTES

REQUESTS = 3000


def made(place: Path, *, seed: int, slower: float = 1.0, blocks: int = 500) -> Path:
    """Make a trace of one-block reads and writes that take 200 us times `slower`."""
    random = np.random.default_rng(seed)
    queue_ns = np.cumsum(random.exponential(1e6, REQUESTS)).astype(int)
    took_ns = random.lognormal(np.log(2e5 * slower), 0.2, REQUESTS).astype(int)
    rows = [
        {"queue_ns": int(at), "issue_ns": int(at), "complete_ns": int(at + took), "role": "fs",
         "operation": ("read", "write")[number % 2], "sector": 2048 + int(block) * 8}
        for number, (at, took, block) in enumerate(
            zip(queue_ns, took_ns, random.integers(0, blocks, REQUESTS), strict=True)
        )
    ]  # fmt: skip
    return Path(tk.open(trace(place, rows).path).classify(role=["sda=fs"]).trace.path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gate")
    for number in (1, 2, 3, 4):
        made(folder / f"before.{number}", seed=number)
        made(folder / f"slow.{number}", seed=10 + number, slower=1.5)
        made(folder / f"alike.{number}", seed=20 + number)
    return folder


def code(done: Result) -> int:
    """Return what the command line would exit with."""
    return getattr(done.exception, "exit_code", done.exit_code)


def p99s(place: Path, name: str, operation: str) -> list[float]:
    found = []
    for number in (1, 2, 3, 4):
        rows = rows_of(place / f"{name}.{number}/requests.parquet")
        times = [r["complete_ns"] - r["queue_ns"] for r in rows if r["operation"] == operation]
        found.append(float(np.quantile(times, 0.99, method="inverted_cdf")))
    return found


@pytest.mark.parametrize(
    ("after", "verdict", "expected_code"), [("slow", "worse", 4), ("alike", "same", 0)]
)
def test_the_interval_of_the_repeats_decides(
    place: Path, after: str, verdict: str, expected_code: int
) -> None:
    # WHEN traces are gated whose times are half as long again, or as they were
    done = invoke("compare", place / "before", place / after, "--gate", "p99=20%", "--json")
    assert code(done) == expected_code
    rows = json.loads(done.stdout)["rows"]
    assert [(row["operation"], row["verdict"]) for row in rows] == [
        ("read", verdict), ("write", verdict)
    ]  # fmt: skip
    # THEN the interval is Welch's, of logarithms
    for row in rows:
        groups = [np.log(p99s(place, name, row["operation"])) for name in (after, "before")]
        expected = np.exp([*ttest_ind(*groups, equal_var=False).confidence_interval(0.95)])
        # Percentiles are those of a bucket, less than 1 % too large.
        assert [row["change_low"] + 1, row["change_high"] + 1] == pytest.approx(expected, rel=0.02)
    # AND a faster one is better
    turned = tk.compare(place / after, place / "before", gate="p99=20%")
    assert turned.verdict == {"worse": "better", "same": "same"}[verdict]


def test_measures_of_the_whole_are_those_of_the_table(place: Path) -> None:
    found = tk.compare(place / "before", place / "slow").summary["rows"]
    rows = {row["measure"]: row for row in found if row["role"] == "all"}
    all_of = [rows_of(place / f"before.{number}/requests.parquet") for number in (1, 2, 3, 4)]
    touched = [len({row["sector"] for row in one}) * 8 * SECTOR_BYTES for one in all_of]
    assert rows["footprint"]["before"] == pytest.approx(np.mean(touched))
    assert rows["bytes"]["before"] == REQUESTS * 8 * SECTOR_BYTES
    assert rows["requests"]["verdict"] == rows["footprint"]["verdict"] == "same"


def test_what_ran_once_is_told_by_a_margin_only(place: Path) -> None:
    pair = place / "before.1", place / "alike.1"
    done = invoke("compare", *pair, "--gate", "p99")
    assert (code(done), "nobody can tell a difference from chance" in done.stdout) == (5, True)
    done = invoke("compare", *pair, "--gate", "p99=50%")
    assert (code(done), "by its margin alone" in done.stdout) == (0, True)
    assert code(invoke("compare", place / "before.1", place / "slow.1", "--gate", "p99=20%")) == 4


def test_a_gate_asks_for_what_both_have(place: Path, tmp_path: Path) -> None:
    pair = str(place / "before"), str(place / "alike")
    refused(
        invoke("compare", *pair, "--gate", "gain"), "has no recommendation yet", error=InputError
    )
    refused(invoke("compare", *pair, "--gate", "p98"), "--gate p98: not MEASURE")
    refused(invoke("compare", *pair, "--gate", "p99,p99=1%"), "named twice")
    refused(invoke("compare", pair[0], pair[0]), "compared with itself")
    refused(invoke("compare", pair[0], f"{pair[0]}.1"), "compared with itself")
    refused(invoke("compare", *pair, "--gate", ""), "no measure is named")
    refused(invoke("compare", pair[0], str(tmp_path / "none")), "no trace folder of this name")
    # AND recommendations of other capacities cannot be compared
    for name, size in (("before.1", "512KiB"), ("alike.1", "1MiB")):
        tk.open(place / name).recommend(nvm="ssd-optane", capacity=size)
    refused(
        invoke("compare", str(place / "before.1"), str(place / "alike.1"), "--gate", "gain"),
        "1 MiB of ssd-optane",
        error=InputError,
    )


def row(
    name: str,
    measure: str,
    ratio: float = 1.0,
    band: tuple[float, float] | None = None,
    **more: Any,
) -> dict[str, Any]:
    low, high = band or (None, None)
    return {"name": name, "measure": measure, "role": "all", "operation": "all", "repeats": 3,
            "request_count": 10**4, "time_ns": 0.5 * ratio, "ratio": ratio,
            "ratio_low": low, "ratio_high": high, **more}  # fmt: skip


@pytest.mark.parametrize(
    ("measure", "band", "verdict"),
    [
        ("p99", (1.051, 1.2), "worse"),
        ("p99", (1.049, 1.2), "cannot tell"),
        ("p99", (0.96, 1.049), "same"),
        ("p99", (0.7, 0.95), "better"),
        ("iops", (0.7, 0.95), "worse"),
        ("iops", (1.06, 1.2), "better"),
        ("iops", (0.9, 1.2), "cannot tell"),
        # Half of the time is left: a tenth more of it is five points of gain less.
        ("gain", (1.101, 1.2), "worse"),
        ("gain", (1.09, 1.2), "cannot tell"),
        ("gain", (0.8, 0.89), "better"),
        ("gain", (0.91, 1.09), "same"),
    ],
)
def test_the_whole_interval_is_on_one_side(
    measure: str, band: tuple[float, float], verdict: str
) -> None:
    rows = [row("a", measure), row("b", measure, sum(band) / 2, band)]
    found = judge(rows, {measure: 0.05}, names=("a", "b"))
    assert (found.verdict, [one.verdict for one in found.rows]) == (verdict, [verdict])


def test_a_gain_is_told_in_points() -> None:
    rows = [row("a", "gain"), row("b", "gain", 1.2, (1.1, 1.3))]
    (found,) = judge(rows, {"gain": None}, names=("a", "b")).rows
    assert (found.before, found.after, found.margin) == pytest.approx((0.5, 0.4, 0.03))
    changes = (found.change, found.change_low, found.change_high)
    assert changes == pytest.approx((-0.1, -0.15, -0.05))
    assert found.verdict == "worse"


def test_what_rounds_to_nothing_has_no_sign() -> None:
    rows = [row("a", "gain"), row("b", "gain", 1.0001, (0.9999, 1.0003))]
    (found,) = judge(rows, {"gain": None}, names=("a", "b")).rows
    assert found.change is not None
    assert found.change < 0
    assert cells_of(found)[3:5] == ["+0.0 points", "+0.0 points to +0.0 points"]


SAME = row("b", "elapsed", 1.0, (0.99, 1.01))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        # A measure of too few requests, one that one side lacks, and a role that one side lacks.
        ([row("a", "p99", request_count=500), row("b", "p99", request_count=500)], "too few"),
        ([row("a", "p99")], "not judged: p99."),
        ([row("a", "p99"), row("b", "p99", 1.0, (0.99, 1.01)),
          row("b", "p99", role="swap", operation="read")], "not judged: p99 swap read."),
    ],
)  # fmt: skip
def test_what_is_not_judged_does_not_pass(more: list[dict[str, Any]], told: str) -> None:
    found = judge([row("a", "elapsed"), SAME, *more], {"elapsed": None, "p99": None},
                  names=("a", "b"))  # fmt: skip
    assert found.verdict == "cannot tell"
    assert told in " ".join(found.headline)


def test_two_repeats_decide_nothing_and_other_work_is_told() -> None:
    few = [row("a", "elapsed", repeats=2), row("b", "elapsed", 2.0, (1.9, 2.1), repeats=2)]
    assert judge(few, {"elapsed": None}, names=("a", "b")).verdict == "cannot tell"
    other = [row("a", "elapsed"), {**row("b", "elapsed"), "ratio": None, "time_ns": 3.0}]
    found = judge(other, {"elapsed": None}, names=("a", "b"))
    assert (found.verdict, "Not comparable" in found.headline[1]) == ("cannot tell", True)


def test_replays_are_gated_and_few_requests_say_nothing(tmp_path: Path) -> None:
    # GIVEN three replays each of two names, the second twice as long
    rows = [{"queue_ns": 10 * n, "role": "fs", "operation": "read"} for n in range(150)]
    folder = trace(tmp_path / "trace", rows)
    for name, factor in (("a", 1), ("b", 2)):
        for number in (1, 2, 3):
            took = dict.fromkeys(range(150), factor * (100 + number))
            add_replay(folder, f"{name}.{number}", took, factor * (10_000 + number))
    # THEN the run's length and the mean are worse, and of 150 requests there is no p99
    done = invoke("compare", folder.path, "a", "b", "--gate", "elapsed,avg,p99", "--markdown")
    assert code(done) == 4
    assert "**b against a: worse**" in done.stdout
    verdicts = {line.split(" | ")[0]: line.split(" | ")[-1] for line in done.stdout.splitlines()}
    assert verdicts["| elapsed"] == verdicts["| avg fs read"] == "worse |"
    assert verdicts["| p99 fs read"] == "too few requests |"
    refused(invoke("compare", folder.path, "a", "b", "--gate", "gain"), "--gate gain: not MEASURE")
    refused(invoke("compare", folder.path, "a", "b", "--markdown"), "name its --gate")


def test_the_worst_of_several_names_is_the_exit_code(tmp_path: Path) -> None:
    # GIVEN a name that ran once, and behind it one that is worse
    rows = [{"queue_ns": 10 * n, "role": "fs", "operation": "read"} for n in range(150)]
    folder = trace(tmp_path / "trace", rows)
    for name, factor in (("a.1", 1), ("a.2", 1), ("a.3", 1), ("once", 1), ("b.1", 2), ("b.2", 2),
                         ("b.3", 2)):  # fmt: skip
        add_replay(folder, name, dict.fromkeys(range(150), 100 * factor), factor * 10_000)
    assert code(invoke("compare", folder.path, "a", "once", "b", "--gate", "elapsed")) == 4


def test_an_unreadable_folder_beside_hides_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a folder of somebody else beside the traces
    isfile = os.path.isfile

    def look(path: Path) -> bool:
        assert "private" not in str(path)  # it would be refused
        return isfile(path)

    monkeypatch.setattr(os.path, "isfile", look)
    (place / "private").mkdir(exist_ok=True)
    assert [one.name for one in repeats_of(place / "before")] == [
        f"before.{number}" for number in (1, 2, 3, 4)
    ]


def test_a_doubt_is_told_with_its_own_numbers(place: Path, tmp_path: Path) -> None:
    # GIVEN three traces of which two have the same doubt, and one another number of it
    for name, count in (("a.1", 5), ("a.2", 5), ("b", 7)):
        shutil.copytree(place / "before.1", tmp_path / name)
        doubt = TraceWarning(code="no_role", message=f"requests without: {count}", advice="-")
        TraceFolder(tmp_path / name).save_info(warnings=[doubt])
    assert tk.compare(tmp_path / "a", tmp_path / "b").warnings == (
        "a.1, a.2: requests without: 5", "b: requests without: 7"
    )  # fmt: skip

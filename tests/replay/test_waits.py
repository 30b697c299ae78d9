"""What a request waited for in the trace: the last completion before it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.replay.trace import trace
from tracekit.plans import block_plan
from tracekit.replay import compiler
from tracekit.replay.compiler import PlanOptions, PlanReport, Waits, compile_plan
from tracekit.replay.source import ROWS


def expected(
    time_ns: list[int], complete_ns: list[int | None], after_max: int = 1 << 20
) -> list[int | None]:
    """Say when the completion was that each request came after, by looking at all of them."""
    found = []
    for number, now in enumerate(time_ns):
        near = range(max(0, number - after_max), number)
        ends = [complete_ns[other] for other in near]
        seen = [e for o, e in zip(near, ends, strict=True) if e is not None and time_ns[o] <= e]
        found.append(max((end for end in seen if end < now), default=None))
    return found


def random_trace(seed: int, count: int) -> tuple[list[int], list[int | None]]:
    random = np.random.default_rng(seed)
    time_ns = np.sort(random.integers(0, 5 * count, count))
    service = random.exponential(40, count).astype(int)
    ends: list[int | None] = [
        None if random.random() < 0.1 else int(now + took - (3 if random.random() < 0.05 else 0))
        for now, took in zip(time_ns, service, strict=True)
    ]
    return time_ns.tolist(), ends


def rows_of(time_ns: list[int], complete_ns: list[int | None]) -> Any:
    rows = np.zeros(len(time_ns), ROWS)
    rows["time_ns"] = time_ns
    rows["complete_ns"] = [-1 if end is None else end for end in complete_ns]
    return rows


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_it_is_the_last_completion_before(seed: int, batch: int) -> None:
    time_ns, complete_ns = random_trace(seed, 300)
    rows = rows_of(time_ns, complete_ns)
    found, after = Waits(), []
    for first in range(0, 300, batch):
        steps, think = found.add(rows[first : first + batch])
        after += list(zip(steps.tolist(), think.tolist(), strict=True))
    for number, wanted in enumerate(expected(time_ns, complete_ns)):
        steps, think = after[number]
        if wanted is None:
            assert (steps, think) == (0, 0)
        else:
            assert complete_ns[number - steps] == wanted
            assert think == time_ns[number] - wanted
    broken = [e is None or e < t for t, e in zip(time_ns, complete_ns, strict=True)]
    assert found.without_completion == sum(broken)


@pytest.mark.parametrize("seed", range(3))
def test_one_that_is_too_far_back_is_not_waited_for(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "AFTER_MAX", 4)
    time_ns, complete_ns = random_trace(seed, 200)
    steps, think = Waits().add(rows_of(time_ns, complete_ns))
    assert steps.max() <= 4
    for number, wanted in enumerate(expected(time_ns, complete_ns, 4)):
        assert think[number] == (0 if wanted is None else time_ns[number] - wanted)


def compiled(tmp_path: Path, rows: list[dict[str, Any]], level: str) -> tuple[Any, PlanReport]:
    report = compile_plan(
        trace(tmp_path / "t", rows), tmp_path / "plan.bin", options=PlanOptions(level)
    )
    data = (tmp_path / "plan.bin").read_bytes()[block_plan.HEADER.itemsize :]
    return np.frombuffer(
        data[: report.requests * block_plan.RECORD.itemsize], block_plan.RECORD
    ), report


@pytest.mark.parametrize(("level", "think"), [("queued", [0, 0, 80]), ("issued", [0, 0, 90])])
def test_a_plan_says_it(tmp_path: Path, level: str, think: list[int]) -> None:
    # GIVEN a discard that the plan leaves out, because it is empty, between the requests
    rows: list[dict[str, Any]] = [
        {"queue_ns": 0, "issue_ns": 5, "complete_ns": 100},
        {"queue_ns": 50, "issue_ns": 55, "complete_ns": None},
        {"queue_ns": 60, "issue_ns": 65, "complete_ns": 120, "operation": "discard",
         "length_bytes": 0},
        {"queue_ns": 180, "issue_ns": 190, "complete_ns": 300},
    ]  # fmt: skip
    records, report = compiled(tmp_path, rows, level)
    # THEN the last waits for the first, two records before it
    assert records["after"].tolist() == [0, 0, 2]
    assert records["think_ns"].tolist() == think
    assert report.without_completion == 1

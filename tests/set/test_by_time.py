"""Sharing by time: beside every schedule that there is, its bound, and hand-made peaks."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit as tk
from tests.command_line import succeed
from tracekit.model.shared_by_time import Load, Schedule, share_by_time
from tracekit.model.shared_nvm import Tenant

S = 10**9
points = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 30)), min_size=1, max_size=2)
volumes = st.lists(
    st.tuples(points, st.lists(st.integers(0, 5), min_size=3, max_size=3)), min_size=1, max_size=3
)
costs = st.sampled_from([0.0, 0.1, 1.0, 1e6])


def loads_of(
    made: list[tuple[list[tuple[int, int]], list[int]]], cost: float, duration_ns: int = 7 * S
) -> list[Load]:
    found = []
    for number, (own, weights) in enumerate(made):
        total = sum(weights)
        shares = np.array(weights, float) / total if total else np.zeros(len(weights))
        seconds = tuple((size, saved * S) for size, saved in own)
        found.append(Load(Tenant(f"v{number}", 100 * S, duration_ns, seconds), shares, cost))
    return found


def every_schedule(loads: list[Load], capacity: int) -> tuple[float, float]:
    """Return the most that a schedule, and that one division for all the time, saves."""
    curves = [dict([(0, 0.0), *((s, ns / S) for s, ns in one.tenant.points)]) for one in loads]
    for curve, load in zip(curves, loads, strict=True):  # of two points of a size the better one
        for size, saved in load.tenant.points:
            curve[size] = max(curve[size], saved / S)
    states = [one for one in itertools.product(*curves) if sum(one) <= capacity]
    windows = len(loads[0].shares)

    def value(state: tuple[int, ...], window: int) -> float:
        saved = (
            float(load.shares[window]) * curve[size]
            for load, curve, size in zip(loads, curves, state, strict=True)
        )
        return sum(saved)

    def cost(one: tuple[int, ...], other: tuple[int, ...]) -> float:
        return sum(
            load.moving_s_a_byte * abs(a - b) for load, a, b in zip(loads, one, other, strict=True)
        )

    best = {state: value(state, 0) for state in states}
    for window in range(1, windows):
        best = {
            state: value(state, window)
            + max(before - cost(origin, state) for origin, before in best.items())
            for state in states
        }
    fixed = max(sum(value(state, window) for window in range(windows)) for state in states)
    return max(best.values()), fixed


def net(found: Schedule) -> float:
    return found.saved_s - found.moving_s


@settings(deadline=None)
@given(volumes, st.integers(0, 15), costs)
def test_a_schedule_lies_between_one_division_and_the_best_of_all(
    made: list[tuple[list[tuple[int, int]], list[int]]], capacity: int, cost: float
) -> None:
    loads = loads_of(made, cost)
    best, fixed = every_schedule(loads, capacity)
    found = share_by_time(loads, capacity)
    assert found.divided_s == pytest.approx(fixed, abs=1e-6)
    assert fixed - 1e-6 <= net(found) <= best + 1e-6
    assert best <= found.bound_s + 1e-6
    assert (found.sizes.sum(axis=1) <= capacity).all()
    if cost == 0:
        assert net(found) == pytest.approx(best, abs=1e-6)
    if cost == 1e6:
        assert net(found) == pytest.approx(fixed, abs=1e-6)
        assert found.moved_bytes == 0


def test_peaks_at_different_times_share_what_does_not_suffice_for_both() -> None:
    # GIVEN two volumes that need 100 bytes each, one by day and one by night
    made = [([(100, 60)], [1, 1, 0, 0]), ([(100, 60)], [0, 0, 1, 1])]
    # WHEN there are 100 bytes, THEN each has them in its time, and 100 bytes are moved in and out
    found = share_by_time(loads_of(made, 0.01), 100)
    assert found.sizes.tolist() == [[100, 0], [100, 0], [0, 100], [0, 100]]
    assert (found.divided_s, found.saved_s, found.bound_s) == (60, 120, 120)
    assert (found.moved_bytes, found.moving_s) == (100, 2)
    # AND where moving takes longer than it saves, nothing is moved
    still = share_by_time(loads_of(made, 0.31), 100)
    assert (still.saved_s, still.moving_s) == (60, 0)


PROFILE = """
name = "half a day"
target_size = "2MiB"
[arrival]
process = "constant"
mean = "8s"
[[phase]]
duration = "12h"
rate = {first}
[[phase]]
duration = "12h"
rate = {second}
[[request]]
share = 1.0
operation = "read"
access = "random"
size = "4KiB"
"""


def test_a_set_of_day_and_night_shares_by_time(tmp_path: Path) -> None:
    # GIVEN two volumes of 2 MiB, busy in the first and in the second half of a day
    for name, first, second in (("day", 1.0, 0.01), ("night", 0.01, 1.0)):
        file = tmp_path / f"{name}.toml"
        file.write_text(PROFILE.format(first=first, second=second))
        tk.generate(str(file), tmp_path / name, duration="24h")
    found = tk.add_to_set(tmp_path / "set", tmp_path / "day", tmp_path / "night")
    found.classify().check()
    words = ("recommend", found.path, "--base", "hdd-7200", "--nvm", "ssd-optane")
    before = succeed(*words, "--capacity", "2MiB").stdout
    assert "tracekit analyze SET" in before
    # WHEN they share 2 MiB, THEN nearly all goes to each in its half of the day
    found.analyze(only="activity").check()
    done = succeed(*words, "--capacity", "2MiB", "--json")
    by_time = json.loads(done.stdout)["placement"]["by_time"]
    assert 0.5 < by_time["divided_ratio"] < 0.7  # the hotter blocks take more than half
    assert by_time["shared_ratio"] > by_time["divided_ratio"] + 0.2
    assert by_time["bound_ratio"] >= by_time["shared_ratio"]
    assert 1 << 20 < by_time["moved_bytes"] <= 2 << 20
    assert by_time["moved_volumes"] == 2
    assert by_time["at_once_bytes"] < by_time["peaks_bytes"]
    assert not by_time["is_aligned"]
    headline = json.loads(done.stdout)["placement"]["headline"]
    assert any(
        line.startswith("By time: over the time of the set, divided: ") and "moving" in line
        for line in headline
    )

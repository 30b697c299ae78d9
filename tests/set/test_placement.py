"""One NVM for all volumes of a set: beside brute force, its bound, and `simulate purchase`."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tests.traces import write_folder
from tracekit.errors import PartialError, UsageError
from tracekit.model import shared_nvm
from tracekit.model.shared_nvm import Division, Tenant, divide

NVM = "ssd-optane"
curves = st.lists(
    st.lists(st.tuples(st.integers(1, 30), st.integers(-5, 50)), max_size=5), min_size=1, max_size=5
)


def tenants_of(points: list[list[tuple[int, int]]]) -> list[Tenant]:
    return [Tenant(f"t{n}", 1000, 3600 * (n + 1), tuple(own)) for n, own in enumerate(points)]


def greedily(tenants: list[Tenant], capacity: int) -> Division:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_nvm, "MOST_EXACT", 0)
        return divide(tenants, capacity)


@given(curves, st.integers(0, 60))
def test_a_division_lies_between_brute_force_and_what_one_trace_alone_saves(
    points: list[list[tuple[int, int]]], capacity: int
) -> None:
    tenants = tenants_of(points)
    # GIVEN what each set of points saves in an hour, of those that fit
    best = max(
        sum(saved / (n + 1) for n, (_, saved) in enumerate(chosen))
        for chosen in itertools.product(*([(0, 0), *own] for own in points))
        if sum(size for size, _ in chosen) <= capacity
    )
    exact, greedy = divide(tenants, capacity), greedily(tenants, capacity)
    # THEN the exact division saves the most of all, and none more than the bound
    assert exact.saved_s_an_hour == pytest.approx(best)
    assert exact.bound_s_an_hour == greedy.bound_s_an_hour >= best * (1 - 1e-9)
    # AND steps by marginal gain fit, and save no less than the bound without its largest step
    assert sum(one.capacity_bytes for one in greedy.shares) <= capacity
    largest = max(
        (step.saved for step in shared_nvm._steps([t.curve() for t in tenants])), default=0
    )
    assert greedy.bound_s_an_hour - largest <= greedy.saved_s_an_hour * (1 + 1e-9) + 1e-9
    assert greedy.saved_s_an_hour <= best * (1 + 1e-9)


def test_a_thousand_traces_are_divided_close_to_the_bound() -> None:
    # GIVEN 1000 curves of 60 points that are not concave, of very different sizes
    chance = np.random.default_rng(5)
    tenants = []
    for n in range(1000):
        sizes = np.cumsum(chance.integers(1, 10**9 // (n + 1), 60)).tolist()
        saved = np.cumsum(chance.integers(0, 10**8 // (n + 1), 60)).tolist()
        tenants.append(Tenant(f"t{n}", 10**10, 10**12, tuple(zip(sizes, saved, strict=True))))
    found = divide(tenants, 64 << 30)
    assert sum(one.capacity_bytes for one in found.shares) <= 64 << 30
    assert 0.9999 < found.saved_s_an_hour / found.bound_s_an_hour <= 1


def test_a_set_shares_what_purchase_shares(tmp_path: Path) -> None:
    names = ("web-server", "paging", "log-structured")
    traces = [tk.generate(name, tmp_path / name, requests=800) for name in names]
    found = tk.add_to_set(tmp_path / "set", *(trace.path for trace in traces))
    found.classify().check()
    done = succeed("recommend", found.path, "--nvm", NVM, "--capacity", "1MiB", "--json")
    content = json.loads(done.stdout)["placement"]
    kept = json.loads((found.path / "placement.json").read_text())
    assert kept == content
    assert content["is_exact"]
    # GIVEN the same traces with `simulate purchase`, WHEN they share as much of the same device
    first, *others = (found[name] for name in names)
    bought = first.simulate.purchase(
        capacity="1MiB", nvm=NVM, share=[str(one.path) for one in others]
    )
    # THEN each has the same share of it
    wanted = {one["trace"]: one["capacity_bytes"] for one in bought.summary["shares"]}
    assert {one["trace"]: one["capacity_bytes"] for one in content["shares"]} == wanted
    # AND roles add up to it, and the numbers to the sums
    for one in content["shares"]:
        assert sum(one["role_bytes"].values()) <= one["capacity_bytes"]
    saved = sum(one["saved_s_an_hour"] for one in content["shares"])
    assert saved == pytest.approx(content["budget"]["saved_s_an_hour"])
    assert content["doubled"]["saved_ratio"] >= content["budget"]["saved_ratio"] > 0


def test_a_volume_without_a_duration_is_left_out_of_the_division(tmp_path: Path) -> None:
    load = tk.generate("paging", tmp_path / "load", requests=200)
    lone = write_folder(tmp_path / "lone", [{"sector": 8, "queue_ns": 0}])
    found = tk.add_to_set(tmp_path / "set", load.path, lone.path)
    found.classify().check()
    result = invoke("recommend", found.path)
    refused(result, "1 of 2 volumes left out: lone", error=PartialError)
    assert "1 volume: " in result.stdout
    assert "left out: lone: " in result.stderr
    assert "its duration is not known" in result.stderr


def test_what_is_of_one_trace_is_refused_for_a_set(tmp_path: Path) -> None:
    trace = tk.generate("paging", tmp_path / "one", requests=100)
    found = tk.add_to_set(tmp_path / "set", trace.path)
    for words in (("--capacity", "1MiB,2MiB"), ("--queueing", "open"), ("--script", "x.sh")):
        refused(invoke("recommend", found.path, *words), words[0], error=UsageError)

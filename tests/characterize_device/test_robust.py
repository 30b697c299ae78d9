"""Statistics of runs whose requests depend on each other, steady state, and what is refused."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import signal, stats

from tests.characterize_device.test_parts import SIZE_BYTES, device
from tracekit.device.fit import (
    Fitted,
    fit,
    mean_fault,
    measured_cells,
    memory_copy_mib_s,
    rate_fault,
    write_profile,
)
from tracekit.device.robust import Series, correlation_time, steady_state
from tracekit.device.steps import ALL, Amounts, Latencies, steps
from tracekit.devices import REQUIRED

COUNT = 20_000


def autocorrelated(share: float, seed: int, *, count: int = COUNT) -> Any:
    """Return a series in which each value keeps this share of the one before."""
    noise = np.random.default_rng(seed).normal(size=count + 2000)
    return signal.lfilter([1.0], [1.0, -share], noise)[2000:]


def series(values: Any, *, pieces: int = 7) -> Series:
    found = Series()
    for part in np.array_split(np.asarray(values), pieces):
        found.add(part)
    return found


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 0.97])
def test_the_error_of_a_dependent_run_is_the_spread_of_many_such_runs(share: float) -> None:
    # GIVEN 60 runs of the same process: the spread of their means is the error of one
    runs = [autocorrelated(share, seed) * 1000 + 100_000 for seed in range(60)]
    real = float(np.std([run.mean() for run in runs], ddof=1))
    # THEN the median of the errors that single runs give is that, within the spread of a spread
    low, high = (math.sqrt(stats.chi2.ppf(p, 59) / 59) for p in (0.0005, 0.9995))
    found = float(np.median([series(run).error or 0 for run in runs]))
    assert low * 0.9 < found / real < high * 1.1
    # AND the time of correlation is the process's: (1 + share) / (1 - share)
    known = (1 + share) / (1 - share)
    assert np.median([correlation_time(run) for run in runs]) == pytest.approx(known, rel=0.2)
    if share == 0.9:
        # AND independent samples would claim a quarter of it
        assert found > 3.5 * float(runs[0].std()) / math.sqrt(COUNT)


def test_a_series_is_the_same_however_it_comes_and_stays_small() -> None:
    values = np.random.default_rng(1).integers(1000, 2000, 100_003)
    found = [series(values, pieces=pieces) for pieces in (1, 13, 997)]
    assert max(len(one.means) for one in found) <= 1 << 14
    assert len({one.error for one in found}) == 1
    assert found[0].robust_mean == pytest.approx(values.mean(), rel=0.01)
    assert series(np.zeros(0, np.int64)).robust_mean is None


@pytest.mark.parametrize(
    ("spoil", "kept"),
    [
        # three pauses of a second in 20,000 requests of 100 us: the mean doubles
        (lambda v: np.put(v, [3000, 9000, 15000], 10**9), 100_000),
        # what happens to every tenth request all the time belongs to the device
        (lambda v: np.put(v, range(0, COUNT, 10), 10**6), 190_000),
    ],
)  # fmt: skip
def test_the_robust_mean_keeps_what_lasts_and_not_what_pauses(
    spoil: Callable[[Any], None], kept: float
) -> None:
    values = np.full(COUNT, 100_000, np.int64)
    spoil(values)
    assert series(values).robust_mean == pytest.approx(kept)


@pytest.mark.parametrize(
    ("rates", "is_reached"),
    [
        ([100, 100, 100, 100], False),  # four rounds are not five
        ([500, 300, 100, 105, 95, 102, 98], True),
        ([90, 95, 100, 105, 110], False),  # within 20 %, but it rises by 20 %
        ([111, 100, 89, 100, 100], False),  # no slope to speak of, but a range of 22 %
        ([95, 97, 99, 101, 103], True),  # a rise of 8 %
        ([0, 0, 0, 0, 0], False),
    ],
)
def test_steady_is_what_the_pts_says(rates: list[float], is_reached: bool) -> None:
    found = steady_state(rates)
    assert found.is_reached == is_reached
    if len(rates) >= 5 and any(rates):
        window = np.array(rates[-5:])
        fitted = stats.linregress(range(5), window)
        assert found.slope_ratio == pytest.approx(abs(fitted.slope) * 4 / window.mean())


def result(times_ns: Any) -> dict[str, Any]:
    """Return the result of a step of random reads that took these times."""
    one = Latencies()
    one.add(np.asarray(times_ns, np.int64))
    (step,) = (s for s in steps(Amounts(), SIZE_BYTES) if s.kind == "random_read")
    return {"step": vars(step), "operations": {"read": one.as_dict(), ALL: one.as_dict()}}


def test_a_mean_that_is_eight_times_the_median_is_refused() -> None:
    # GIVEN a machine that pauses in every tenth request for 70 times as long
    times = np.where(np.arange(5000) % 10 == 0, 7_100_000, 100_000)
    assert "random reads is 8.0 times their median, 100 us" in (mean_fault(result(times)) or "")
    # AND a few pauses in the whole run, a device of two speeds, and a few requests, are not
    pauses = np.full(5000, 100_000)
    pauses[[500, 3000]] = 2 * 10**9
    for fine in (pauses, np.where(np.arange(5000) % 3 == 0, 300_000, 100_000), times[:100]):
        assert mean_fault(result(fine)) is None


def test_a_rate_above_that_of_memory_is_refused() -> None:
    results = device(read_ns=10_000, write_ns=10_000, read_rate=2e9, write_rate=1e9, lanes=1)
    fitted = fit(results)
    assert rate_fault(fitted, results, copy_mib_s=8000) is None
    fast = [Fitted("write_mib_s", 37_992.9, None)]
    operation, fault = rate_fault(fast, results, copy_mib_s=8000) or ("", "")
    assert operation == "write"
    assert "writes at 37,993 MiB/s: memory itself is copied at 8,000 MiB/s" in fault
    # AND one of which the longest request shows next to nothing
    slow = device(read_ns=10**9, write_ns=10**9, read_rate=1e10, write_rate=1e10, lanes=1)
    assert "that cannot be told" in (rate_fault(fit(slow), slow, copy_mib_s=8000) or ("", ""))[1]
    assert 500 < memory_copy_mib_s() < 500_000


def test_the_cells_of_a_profile_are_those_that_were_measured(tmp_path: Any) -> None:
    results = device(read_ns=50_000, write_ns=20_000, read_rate=1e9, write_rate=1e9, lanes=4)
    assert measured_cells(results) == []  # of ten requests each
    for made in results:
        for operation in made["operations"].values():
            operation["requests"] = operation["histogram"][0][1] = 1000
    cells = measured_cells(results)
    shares = {(c["operation"], c["length_bytes"], c["depth"], c["write_ratio"]) for c in cells}
    assert len(shares) == len(cells)
    # THEN both operations of each mix, for all depths of 4 KiB and three of the longer ones
    assert len(cells) == 2 * 5 * (9 + 3 + 3)
    values = {one.parameter: one.value for one in fit(results) if one.is_in_profile}
    values["price_per_gb"] = 1.0
    profile = write_profile(
        tmp_path / "p.toml", "p", values=values, about="p", tables={"distributions": cells}
    )
    assert {c.place for c in profile.distributions} == shares
    kept = next(c for c in profile.distributions if c.place == ("read", 4096, 16, 0.0))
    assert kept.quantiles_us[0] == (0.0, 54.1)


def test_a_profile_without_a_setup_can_be_read_back(tmp_path: Path) -> None:
    # GIVEN latencies that are all transfer, to the last digit, and what is a little shorter
    rng = random.Random(0)  # noqa: S311 - a repeatable choice
    for number in range(200):
        values = dict.fromkeys(REQUIRED, 1.0)
        for operation in ("read", "write"):
            rate = 10 ** rng.uniform(0, 6)
            values[f"{operation}_mib_s"] = rate
            values[f"{operation}_latency_us"] = 4096 / (1 << 20) / rate * 1e6
        more_us = rng.choice([0.0, 0.001, 1.0])
        for operation in ("read", "write"):
            values[f"{operation}_latency_us"] += more_us
        values["sequential_setup_us"] = more_us
        # THEN rounding to six digits puts nothing out of order
        found = write_profile(tmp_path / f"{number}.toml", "p", values=values, about="p")
        assert found.read_setup_us >= 0 <= found.write_setup_us
        assert math.isclose(found.read_latency_us, values["read_latency_us"], rel_tol=2e-5)

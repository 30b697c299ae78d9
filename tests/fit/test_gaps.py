"""Which distribution gaps have: parameters that are known are found again."""

import math

import numpy as np
import pytest
from scipy import stats

from tracekit.arrow import Floats
from tracekit.workload import fit_arrivals
from tracekit.workload.model import QUANTILES, Distribution, mean

COUNT = 40_000
RANDOM = np.random.default_rng(5)
KNOWN = {
    "exponential": (stats.expon(scale=1e6), {"mean": 1e6}),
    "gamma": (stats.gamma(0.5, scale=2e6), {"mean": 1e6, "shape": 0.5}),
    "weibull": (stats.weibull_min(2.5, scale=1e6), {"mean": 1e6 * math.gamma(1.4), "shape": 2.5}),
    "lognormal": (stats.lognorm(0.8, scale=1e6), {"mean": 1e6 * math.exp(0.32), "sigma": 0.8}),
}


def bursts() -> Floats:
    """Return gaps of which one in ten is a pause a hundred times as long."""
    is_pause = RANDOM.random(COUNT) < 0.1
    return np.where(is_pause, RANDOM.exponential(1e7, COUNT), RANDOM.exponential(1e5, COUNT))


@pytest.mark.parametrize("process", KNOWN)
def test_the_likeliest_is_the_one_it_was_drawn_from(process: str) -> None:
    drawn, values = KNOWN[process]
    gaps = np.sort(drawn.rvs(COUNT, random_state=np.random.default_rng(1)))
    best = fit_arrivals.fits(gaps)[0]
    # THEN process and parameters are found, and the distance is that of scipy's own test
    assert best.process == process
    assert best.values == pytest.approx(values, rel=0.03)
    assert best.distance(gaps) == pytest.approx(stats.kstest(best.cdf(gaps), "uniform").statistic)
    # AND the likelihood is that of scipy's density
    assert best.log_likelihood == pytest.approx(density(process, best.values, gaps), rel=1e-6)


def density(process: str, values: dict[str, float], gaps: Floats) -> float:
    """Return scipy's logarithm of the likelihood."""
    mean_ns = values["mean"]
    drawn = {
        "exponential": lambda: stats.expon.logpdf(gaps, scale=mean_ns),
        "gamma": lambda: stats.gamma.logpdf(gaps, values["shape"], scale=mean_ns / values["shape"]),
        "weibull": lambda: stats.weibull_min.logpdf(
            gaps, values["shape"], scale=mean_ns / math.gamma(1 + 1 / values["shape"])
        ),
        "lognormal": lambda: stats.lognorm.logpdf(
            gaps, values["sigma"], scale=mean_ns * math.exp(-(values["sigma"] ** 2) / 2)
        ),
    }
    return float(np.sum(drawn[process]()))


def test_bursts_are_found() -> None:
    best = fit_arrivals.fits(np.sort(bursts()))[0]
    assert best.process == "on-off"
    assert best.values == pytest.approx({"mean": 1e5, "off": 1e7, "requests": 10}, rel=0.05)
    assert best.mean_ns == pytest.approx(0.9 * 1e5 + 0.1 * 1e7, rel=0.03)


def test_equal_gaps_are_constant() -> None:
    (only,) = fit_arrivals.fits(np.full(10, 5e5))
    assert (only.process, only.values) == ("constant", {"mean": 5e5})


def test_quantiles_keep_the_mean() -> None:
    gaps = np.sort(bursts())
    shares, values = fit_arrivals.quantiles(gaps)
    found = Distribution(QUANTILES, values=tuple(values), up_to=tuple(shares))
    assert mean(found) == pytest.approx(gaps.mean(), rel=1e-4)
    assert (shares[0], shares[-1]) == (0, 1)
    assert values == sorted(values)


def test_correlation_and_dispersion_by_hand() -> None:
    # GIVEN gaps that rise and fall in turn: ranks go from low to high and back
    assert fit_arrivals.correlation(np.array([1.0, 9.0] * 50)) == pytest.approx(-1, abs=0.02)
    assert fit_arrivals.correlation(np.array([1.0, 2.0])) == 0
    # AND windows of 10 ns with 3, 0 and 1 requests: variance 14/9, mean 4/3
    assert fit_arrivals.dispersion(np.array([0.0, 1, 2, 25]), 10) == pytest.approx(14 / 9 / (4 / 3))


def test_phases_take_the_rate_out() -> None:
    # GIVEN exponential gaps that are ten times as long in the second half
    slow = np.repeat([1e5, 1e6], [20_000, 2_000])
    drawn = np.random.default_rng(2).exponential(1, len(slow))
    times = np.array(np.cumsum(drawn * slow), dtype=np.float64)
    found = fit_arrivals.fit_arrival(times, float(times[-1]))
    # THEN the phases have the rates, and what is left is exponential again
    assert len(found.phases) == fit_arrivals.MOST_PHASES
    rates = [rate for _, rate in found.phases]
    assert np.mean(rates[:20]) / np.mean(rates[-20:]) == pytest.approx(10, rel=0.1)
    assert found.keys["process"] in ("exponential", "gamma", "weibull")
    assert found.keys.get("shape", 1) == pytest.approx(1, abs=0.05)


def test_a_few_requests_at_the_end_come_at_the_end() -> None:
    # GIVEN five requests in the last millisecond of a second
    times = np.array([999.0e6, 999.1e6, 999.2e6, 999.3e6, 999.4e6])
    found = fit_arrivals.fit_arrival(times, 1e9)
    rates = [rate for _, rate in found.phases]
    assert rates[-1] == fit_arrivals.MOST_PHASES
    assert not any(rates[:-1])
    # AND of a stream of two, a pause of nearly a second and a short one, the rate is kept
    keys = fit_arrivals.fit_arrival(np.array([999e6, 999.1e6]), 1e9, measured=True).keys
    values = tuple(value * 1e3 for value in keys["values_us"])
    found_mean = mean(Distribution(QUANTILES, values=values, up_to=tuple(keys["shares"])))
    assert found_mean == pytest.approx(5e8, rel=0.01)


def test_measured_gaps_can_be_asked_for() -> None:
    times = np.cumsum(np.random.default_rng(3).exponential(1e6, 5000))
    assert fit_arrivals.fit_arrival(times, float(times[-1])).keys["process"] != "measured"
    assert (
        fit_arrivals.fit_arrival(times, float(times[-1]), measured=True).keys["process"]
        == "measured"
    )

"""The sentences of a verification."""

from typing import Any

from tracekit.replay.verify import says

RESULT: dict[str, Any] = {
    "predicted": {"base_ns": 100_000_000, "placed_ns": 80_000_000, "gain_ratio": 0.2},
    "measured": {
        "base_ns": 50_000_000,
        "placed_ns": 60_000_000,
        "gain_ratio": -0.2,
        "gain_low_ratio": -0.25,
        "gain_high_ratio": 0.05,
        "repeats": 3,
    },
    "base_error_ratio": -0.5,
    "placed_error_ratio": -0.25,
    "gain_error_ratio": -0.4,
    "tolerance_ratio": 0.05,
    "is_held": False,
    "answer": {"capacity_bytes": 1 << 20},
    "requests": 10,
    "trace_requests": 10,
    "engine": "auto",
    "nvm_profile": "dax-pcm",
    "cut_requests": 0,
}


def test_a_placement_that_costs_time_is_told_as_such() -> None:
    assert says(RESULT) == [
        "The prediction did not hold: with 1 MiB of dax-pcm the replay of all 10 requests took"
        " 20.0% more time (25.0% more to 5.0% less in 3 repeats), the model says 20.0% less for"
        " them; 40.0 points apart, 5.0 points are allowed.",
        "On the base device alone: 50 ms, predicted 100 ms (-50.0%); as placed: 60 ms, predicted"
        " 80 ms (-25.0%).",
    ]

"""What is said of the recommendation in each part of the trace."""

from tests.recommend.traces import answer_with
from tracekit.model.sensitivity import Trial, headline


def test_a_window_that_loses_is_said_to_take_longer() -> None:
    # GIVEN windows in which the recommended shares cost a tenth, and save a quarter
    answer = answer_with(capacity_bytes=4096, placement="swap", gain_ratio=0.2)
    rows = [
        Trial(kind="window", requests=9, holds=gain > 0, placement="swap", kept_gain_ratio=gain,
              gain_ratio=0.3, window=number, start_ns=number * 2000)
        for number, gain in ((1, -0.1), (4, 0.25))
    ]  # fmt: skip
    # WHEN they are told, THEN no time is saved that is lost
    assert (
        "In 1 of 2 windows it is the best answer; it takes 10.0% more time than the base device"
        " alone in the worst of them (window 1, from the start) and saves 25.0% of the time in the"
        " best (window 4, from 8 us)."
    ) in headline(answer, rows)

"""What a log of a long run says: a line a minute, and of a short one nothing."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tracekit import progress
from tracekit.progress import quiet, row_progress, stage_progress, step_progress

Begin = Callable[[], AbstractContextManager[Any]]


def until_said(capsys: pytest.CaptureFixture[str], text: str) -> str:
    """Wait until stderr has a text, ten seconds at most, and return all of it."""
    found, end_s = "", time.monotonic() + 10
    while text not in found and time.monotonic() < end_s:
        time.sleep(0.01)
        found += capsys.readouterr().err
    return found


@pytest.mark.parametrize(
    ("begin", "work", "line"),
    [
        (lambda: step_progress("prove"), ("fill\x1b[2J", 3, 9), "prove: fill\\x1b[2J, 3 of 9"),
        (lambda: row_progress("recommend"), (1500,), "recommend: 1,500 rows"),
        (stage_progress, ("parse",), "now: parse"),
    ],
)
def test_a_log_says_how_far_a_long_step_is(
    begin: Begin, work: tuple[Any, ...], line: str, *,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    # GIVEN a stderr that is no terminal
    assert not sys.stderr.isatty()
    monkeypatch.setattr(progress, "LINE_INTERVAL_S", 0.02)
    # WHEN one step lasts longer than a line's interval THEN it is named, with nothing else after it
    with begin() as on_step:
        on_step(*work)
        assert {*until_said(capsys, line + "\n").splitlines()} == {line}
    capsys.readouterr()
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_short_run_and_one_of_many_say_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with step_progress("prove") as on_step:
        on_step("fill", 3, 9)
    monkeypatch.setattr(progress, "LINE_INTERVAL_S", 0.01)
    with quiet(), step_progress("one of many") as on_step:
        on_step("fill", 3, 9)
        time.sleep(0.1)
    assert capsys.readouterr().err == ""

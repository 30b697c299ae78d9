"""What a user reads: one session of commands, refusals among them, compared as a whole."""

from pathlib import Path

import pytest

from tests.golden.session import RECORDED, Step, comparable, played, steps


@pytest.mark.slow
def test_every_command_prints_what_is_recorded(tmp_path: Path) -> None:
    # GIVEN the session as recorded; if a sentence changes on purpose: python -m tests.golden
    recorded = steps(RECORDED.read_text())
    # WHEN its commands are typed again, THEN they print the same
    for step, now in zip(recorded, played(tmp_path), strict=True):
        assert now.output == step.output, step.command


def test_only_measured_numbers_are_passed_over() -> None:
    def seen(command: str, output: str) -> list[str]:
        return comparable(Step(command, output))

    replay, other = "tracekit replay out/x", "tracekit parse x"
    assert seen(replay, "p50  3.5 us") == seen(replay, "p50 1,234 ns")
    assert seen(replay, "p50  3.5 us") != seen(replay, "p99 3.5 us")
    assert seen(other, "25 tables, 0.3 s") == seen(other, "25 tables, 1.2 s")
    assert seen(other, "48,698  requests") == ["48,698 requests"]
    assert seen(other, "48,698 requests") != seen(other, "48,699 requests")

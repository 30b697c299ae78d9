"""A sample of the campaign: `python -m tests.replay.campaign` tries every case, by every name."""

from pathlib import Path

import pytest

from tests.replay.campaign import NODES, Case, Player, cases, try_node
from tests.replay.disk import needs_root
from tests.replay.program import WRITES, write_plan
from tracekit._native import program_path

pytestmark = [needs_root, pytest.mark.root]
EVERY = 13
"""Of so many cases one is tried: a number that shares no factor with those of users and layers."""
SAMPLE = list(cases())[::EVERY]


def test_the_sample_has_all_nodes_and_what_is_free() -> None:
    assert {case.node for case in SAMPLE} == NODES.keys()
    assert len({case.user for case in SAMPLE}) >= 8
    assert any(case.is_free for case in SAMPLE)


@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_nothing_is_written_that_somebody_else_uses(tmp_path: Path, case: Case) -> None:
    plan = write_plan(tmp_path / "a.plan", WRITES[:1])
    player = Player(plan, tmp_path / "summary.json", (str(program_path()),))
    ((_, runs, problems),) = try_node(NODES[case.node], [case], player)
    assert problems == []
    assert runs >= 5

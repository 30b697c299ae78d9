"""A sample of the campaign: `python -m tests.replay.campaign` tries every case, by every name."""

from pathlib import Path

import pytest

from tests.replay.campaign import NODES, USERS, Case, Player, cases, try_node
from tests.replay.program import WRITES, write_plan
from tracekit._native import program_path

pytestmark = pytest.mark.root
BLIND = ("registered blindly", "sent")
"""Beside these nothing at all is written, by tests on other workers neither: test_stand_ins.py."""
STEP = 42
"""Of each user the case is taken that stands so many places after that of the one before."""
OTHER_NAMES = (
    Case("overlay", "file-below", "second loop"),
    *(
        Case("loop below overlay", "file", user)
        for user in ("second loop", "written", "registered")
    ),
)
"""A file on an overlay is seen by its other name in four places."""


def sample() -> list[Case]:
    of_users = [
        [case for case in cases() if case.user == user] for user in USERS if user not in BLIND
    ]
    return [some[STEP * n % len(some)] for n, some in enumerate(of_users)]


def test_the_sample_has_all_nodes_and_what_is_free() -> None:
    assert {case.node for case in sample()} == NODES.keys()
    assert any(case.is_free for case in sample())


@pytest.mark.parametrize("case", [*sample(), *OTHER_NAMES], ids=str)
def test_nothing_is_written_that_somebody_else_uses(tmp_path: Path, case: Case) -> None:
    plan = write_plan(tmp_path / "a.plan", WRITES[:1])
    player = Player(plan, tmp_path / "summary.json", (str(program_path()),))
    ((_, runs, problems),) = try_node(NODES[case.node], [case], player)
    assert problems == []
    assert runs >= 5

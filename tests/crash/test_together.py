"""Several commands at once on one folder; `make crash` runs 200 rounds of two and eight."""

import pytest

from tests.crash.cases import Bases
from tests.crash.together import SCENES, Together, rounds
from tests.crash.watched import Commands

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crash")]


@pytest.mark.parametrize("scene", SCENES)
def test_commands_at_once(commands: Commands, bases: Bases, scene: str) -> None:
    assert rounds(Together(commands, bases), scene, [4]).wrong == []

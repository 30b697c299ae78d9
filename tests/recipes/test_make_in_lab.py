"""The recipes of the samples made in the VM lab still work: the first moments of each."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guests import skip_unless_guests_run
from tests.recipes.make_in_lab import RECIPES, make

pytestmark = pytest.mark.slow
SHORT: dict[str, dict[str, Any]] = {
    "browser": {
        "command": ("sh", "visit.sh", "1"),
        "prepare": "python3 pages.py build $LAB_FS/site 1 2",
    },
    "gnuplot": {"command": ("gnuplot-nox", "-e", "points=100", "surface.gp")},
    "sysbench": {"command": ("sh", "transact.sh", "100", "2"), "prepare": "sh fill.sh 100"},
    "video": {"prepare": "sh film.sh 1"},
}


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_short_run_gives_a_whole_capture(name: str, tmp_path: Path) -> None:
    skip_unless_guests_run()
    # WHEN a smaller form of the recipe is run in a guest with the recipe's packages
    recipe = replace(RECIPES[name], **SHORT[name])
    make(name, tmp_path / name, recipe=recipe)
    # THEN there is a capture of a disk with three roles, and nothing was lost
    layout = json.loads((tmp_path / name / "layout.json").read_text())
    assert [part["role"] for part in layout["partitions"]] == ["fs", "journal", "swap"]
    assert layout["capture"]["command"] == list(recipe.command)
    assert layout["loss"] == {"overrun": 0, "dropped": 0}

"""A small set of the committed script, with all results that its page shows."""

import shutil
from pathlib import Path

import pytest

import tracekit as tk
from tests.bench.make_set import loads, make_volume
from tests.shared import made_once

VOLUMES = 6


@pytest.fixture
def whole_set(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> tk.Set:
    """Return a set of six volumes of Zipf sizes, classified, analysed, grouped, with a division."""

    def make(place: Path) -> None:
        for load in loads(VOLUMES, requests=600):
            make_volume(load, into=place)
        found = tk.add_to_set(place)
        found.classify().check()
        found.analyze().check()
        found.groups().check()
        found.recommend(base="hdd-7200", nvm="ssd-optane").check()

    place = tmp_path / "work" / "set"
    shutil.copytree(made_once(tmp_path_factory, "whole_set", make), place)
    return tk.open_set(place)

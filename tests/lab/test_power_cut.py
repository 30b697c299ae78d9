"""The power of a guest's disk is cut while a folder on it is replaced: it is the old or the new."""

import json
import shutil
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.lab.guests import run_script, share_tracekit, with_packages
from tests.parse.captures import capture

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-power-cut")]


def test_a_cut_leaves_the_old_folder_or_the_new_one(place: Path) -> None:
    # GIVEN a guest that parses two captures in turn into one folder
    share = place / "share"
    share_tracekit(share, "power_cuts.py")
    capture(share / "small")
    shutil.copytree(ROOT / "sample-traces/video", share / "large")
    # WHEN its disk loses the power at any time of a command
    options = ("--disk", "fs=256MiB", "--memory", "1536MiB", *with_packages(["libstdc++6"]))
    run_script(place, "python3 power_cuts.py", *options)
    rounds = json.loads((place / "stdout").read_text())["rounds"]
    # THEN the disk has one of both folders, whole, and the other file of the user's
    assert [one for one in rounds if len(one["found"]) != 1 or one["thesis"] != "mine"] == []
    # AND a command that had ended is not undone; some were cut before their end, some were not
    ended = [one for one in rounds if one["ended"]]
    assert [one for one in ended if one["found"] != [one["made"]]] == []
    assert 0 < len(ended) < len(rounds)

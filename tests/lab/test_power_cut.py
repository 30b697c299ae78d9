"""The power of a guest's disk is cut while a folder on it is replaced: it is the old or the new."""

import json
import shutil
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.lab.guests import lab, share_tracekit, skip_unless_guests_run
from tests.parse.captures import capture

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-power-cut")]


def test_a_cut_leaves_the_old_folder_or_the_new_one(tmp_path: Path) -> None:
    skip_unless_guests_run()
    # GIVEN a guest that parses two captures in turn into one folder
    share = tmp_path / "share"
    share.mkdir()
    share_tracekit(share, "power_cuts.py")
    capture(share / "small")
    shutil.copytree(ROOT / "sample-traces/video", share / "large")
    # WHEN its disk loses the power at any time of a command
    words = ("--disk", "fs=256MiB", "--share", str(share), "--package", "libstdc++6")
    done = lab("run", *words, "--memory", "1536MiB", "--", "python3", "power_cuts.py")
    assert done.returncode == 0, done.stderr + done.stdout
    rounds = json.loads(done.stdout)["rounds"]
    # THEN the disk has one of both folders, whole, and the other file of the user's
    assert [one for one in rounds if len(one["found"]) != 1 or one["thesis"] != "mine"] == []
    # AND a command that had ended is not undone; some were cut before their end, some were not
    ended = [one for one in rounds if one["ended"]]
    assert [one for one in ended if one["found"] != [one["made"]]] == []
    assert 0 < len(ended) < len(rounds)

"""The power of a guest is cut at each command of a recommendation's script."""

import json
import shutil
from pathlib import Path

import pytest

from tests.lab.guests import lab, skip_unless_guests_run
from tests.recommend.test_carry_out import journal_script

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-carry-out")]
IN_GUEST = Path(__file__).parent / "in_guest/carry.py"


def test_the_power_may_go_at_any_command(tmp_path: Path) -> None:
    skip_unless_guests_run()
    # GIVEN the script that moves a journal to persistent memory
    share = tmp_path / "share"
    share.mkdir()
    journal_script(share, "fs", Path("/mnt/fs"))
    shutil.rmtree(share / "trace")
    shutil.copy(IN_GUEST, share)
    # WHEN the power is cut at each of its commands, there and back
    disks = ("--pmem", "64MiB", "--disk", "fs=96MiB", "--share", str(share))
    ran = lab("run", *disks, "--timeout", "1200", "--", "python3", "carry.py")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    # THEN the file system can be mounted with all its files, and the next run ends the work
    assert found == {"wrong": [], "cuts": {"apply": 6, "undo": 5}}

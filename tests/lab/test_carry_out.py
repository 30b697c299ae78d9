"""The script of a recommendation, carried out in a guest: its gain, and the power cut in it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.command_line import succeed
from tests.lab.guests import lab, skip_unless_guests_run
from tests.traces import json_of, written

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-carry-out")]
IN_GUEST = Path(__file__).parent / "in_guest/carry.py"
DISKS = ("--disk", "fs=96MiB:5ms:1", "--disk", "swap=64MiB:37us")
PROFILES = """
[disk]
read_latency_us = 5050.0
write_latency_us = 5050.0
read_mib_s = 4000.0
write_mib_s = 4000.0
flush_us = 20.0
fua_us = 0.0
price_per_gb = 1.0

[memory]
read_latency_us = 70.0
write_latency_us = 70.0
read_mib_s = 4000.0
write_mib_s = 4000.0
flush_us = 20.0
fua_us = 0.0
price_per_gb = 24.0
"""


def recommended(capture: Path, folder: Path) -> Path:
    """Recommend whole roles for a capture in 64 MiB, and return the trace folder with carry.sh."""
    succeed("parse", capture, "-o", folder)
    succeed("classify", folder)
    profiles = written(folder.parent / "profiles.toml", PROFILES)
    words = ("--base", "disk", "--nvm", "memory", "--profiles", profiles, "--capacity", "64MiB")
    share = folder.parent / "share"
    succeed("recommend", folder, *words, "--unit", "role", "--script", share / "carry.sh")
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Capture a load in a guest, and recommend; return where share/ and trace/ are."""
    skip_unless_guests_run()
    folder = tmp_path_factory.mktemp("carry")
    (folder / "share").mkdir()
    shutil.copy(IN_GUEST, folder / "share")
    ran = lab(
        *("capture", *DISKS, "--share", str(folder / "share")),
        *("-o", str(folder / "capture"), "--", "python3", "carry.py", "load"),
    )
    assert ran.returncode == 0, ran.stderr
    recommended(folder / "capture", folder / "trace")
    return folder


def test_what_is_carried_out_gains_what_was_predicted(place: Path) -> None:
    # GIVEN a recommendation for the captured stack, which is to move its journal
    units = json_of(place / "trace/recommendation.json")["units"]
    assert [one["name"] for one in units["placed"]] == ["journal"]
    # WHEN the script is run on such a stack, and the load again
    words = (*DISKS, "--share", str(place / "share"))
    ran = lab("run", *words, "--json", "--", "python3", "carry.py", "measure")
    assert ran.returncode == 0, ran.stderr
    took = json.loads(json.loads(ran.stdout)["stdout"])
    # THEN the gain is the predicted one, and goes when it is undone
    gain = 1 - took["with_s"] / took["before_s"]
    assert gain == pytest.approx(units["gain_ratio"], abs=0.1)
    assert took["after_s"] == pytest.approx(took["before_s"], rel=0.1)


def test_the_power_may_go_at_any_command(place: Path) -> None:
    # GIVEN persistent memory for the journal
    disks = ("--pmem", "64MiB", "--disk", "fs=96MiB", "--share", str(place / "share"))
    # WHEN the power is cut at each command of the script
    ran = lab("run", *disks, "--json", "--", "python3", "carry.py", "cut")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(json.loads(ran.stdout)["stdout"])
    # THEN the file system can be mounted with all its files, and the next run ends the work
    assert found == {"wrong": [], "cuts": {"apply": 6, "undo": 5}}

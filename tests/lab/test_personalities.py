"""A mail server on ext4 with DAX and on ext4 on a disk: study C's finding about fsync."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guests import lab, skip_unless_guests_run
from tracekit.workload.file_plan import write_personality
from tracekit.workload.personality import open_personality

pytestmark = pytest.mark.slow
FEW = {"files": "500", "threads": "4"}
SCRIPT = """
tracekit-replay mail.plan $%s --repeat 0 --duration-ns 1000000000 --cache sync \\
  --summary $LAB_OUT/summary.json
"""
PLACES = {"LAB_DAX": ("--pmem", "256MiB"), "LAB_FS": ("--disk", "fs=256MiB:5ms")}
EXT4 = "0xef53"


def run_in_guest(place: Path, folder: str) -> dict[str, Any]:
    """Return the summary of the plan in `share`, run in the folder that the guest knows by name."""
    out = place / folder
    ran = lab(
        *("run", "--exact", *PLACES[folder], "--share", str(place / "share"), "-o", str(out)),
        *("--", "sh", "-c", SCRIPT % folder),
    )
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads((out / "files/summary.json").read_text())
    return told


def share_of(summary: dict[str, Any], name: str) -> float:
    """Return a step's share of the time of all steps."""
    times = {step["name"]: step["latency"]["mean_ns"] * step["done"] for step in summary["steps"]}
    return float(times[name] / sum(times.values()))


def test_a_mail_server_gains_by_dax_where_fsync_was_the_most_of_its_time(tmp_path: Path) -> None:
    skip_unless_guests_run()
    # GIVEN varmail with few files
    share = tmp_path / "share"
    share.mkdir()
    write_personality(open_personality("varmail", FEW), share / "mail.plan", turns=500)
    # WHEN it runs on ext4-DAX on persistent memory, and on ext4 on a disk of 5 ms
    told = {folder: run_in_guest(tmp_path, folder) for folder in PLACES}
    for summary in told.values():
        assert (summary["outcome"], summary["counts"]["failed"]) == ("finished", 0)
        assert summary["directory"]["file_system_magic"] == EXT4
    # THEN fsync is most of the disk's time, and the memory does more
    shares = {folder: share_of(one, "fsync") for folder, one in told.items()}
    rates = {folder: one["timing"]["steps_per_second"] for folder, one in told.items()}
    assert shares["LAB_FS"] > max(0.5, shares["LAB_DAX"])
    assert rates["LAB_DAX"] > 2 * rates["LAB_FS"]

"""A mail server on ext4 with DAX and on ext4 on a disk: study C's finding about fsync."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guests import run_script
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


def share_of(summary: dict[str, Any], name: str) -> float:
    """Return a step's share of the time of all steps."""
    times = {step["name"]: step["latency"]["mean_ns"] * step["done"] for step in summary["steps"]}
    return float(times[name] / sum(times.values()))


def test_a_mail_server_gains_by_dax_where_fsync_was_the_most_of_its_time(place: Path) -> None:
    # GIVEN varmail with few files
    write_personality(open_personality("varmail", FEW), place / "share/mail.plan")
    # WHEN it runs on ext4-DAX on persistent memory, and on ext4 on a disk of 5 ms
    told: dict[str, dict[str, Any]] = {}
    for folder, options in PLACES.items():
        files = run_script(place, SCRIPT % folder, "--exact", *options, out=folder)
        told[folder] = json.loads((files / "summary.json").read_text())
    for summary in told.values():
        assert (summary["outcome"], summary["counts"]["failed"]) == ("finished", 0)
        assert summary["directory"]["file_system_magic"] == EXT4
    # THEN fsync is most of the disk's time, and the memory does more
    shares = {folder: share_of(one, "fsync") for folder, one in told.items()}
    rates = {folder: one["timing"]["steps_per_second"] for folder, one in told.items()}
    assert shares["LAB_FS"] > max(0.5, shares["LAB_DAX"])
    assert rates["LAB_DAX"] > 2 * rates["LAB_FS"]

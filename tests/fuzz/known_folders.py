"""Hostile folders that once did harm, each with the command that it did it with."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.hostile import OUTSIDE, write_completions
from tests.fuzz.whole_folder import DEVICE

NULL = ("--engine", "null", "--pace", "fast")
REPORT = ("report", "trace")
SQL = ("sql", "trace", "select count(*) from requests")


def names_the_file_that_was_made(folder: Path) -> None:
    made = folder.parent / OUTSIDE / "made.img"
    inode = [made.stat().st_dev, made.stat().st_ino]
    state = {"asked": {}, "made": {"path": str(made), "inode": inode}, "resumed": 0, "results": []}
    (folder / "device/device.json").unlink()
    (folder / "device/state.json").write_text(json.dumps(state))


def has_its_device_elsewhere(folder: Path) -> None:
    shutil.rmtree(folder / "device")
    (folder / "device").symlink_to(f"../{OUTSIDE}")


def names_completions_elsewhere(folder: Path) -> None:
    left = killed(folder)
    note: dict[str, Any] = {
        "plan": "plan.bin",
        "records": f"../../../{OUTSIDE}/completions.bin",
        "compiled": {},
    }
    note |= {"first": 0, "from_ns": 0, "is_timed": True}
    (left / "unfinished.json").write_text(json.dumps(note))


def has_a_torn_note(folder: Path) -> None:
    left = killed(folder)
    write_completions(left / "completions.bin")
    (left / "unfinished.json").write_bytes(bytes(1 << 16))


def killed(folder: Path) -> Path:
    """Make what a killed replay leaves."""
    left = folder / "replays/.latest.tracekit-1-00000000"
    left.mkdir()
    shutil.copyfile(folder / "replays/base/plan.bin", left / "plan.bin")
    return left


def has_a_pipe_for_requests(folder: Path) -> None:
    (folder / "requests.parquet").unlink()
    os.mkfifo(folder / "requests.parquet")


def has_its_findings_elsewhere(folder: Path) -> None:
    shutil.rmtree(folder / "findings")
    (folder / "findings").symlink_to(f"../{OUTSIDE}")


def has_a_finding_named_requests(folder: Path) -> None:
    shutil.copyfile(folder / "findings/totals.parquet", folder / "findings/requests.parquet")


def has_a_finding_that_colours(folder: Path) -> None:
    shutil.copyfile(folder / "findings/totals.parquet", folder / "findings/\x1b[31mred.parquet")


def has_a_summary_elsewhere(folder: Path) -> None:
    (folder / "replays/latest/summary.json").unlink()
    (folder / "replays/latest/summary.json").symlink_to(f"../../../{OUTSIDE}/state.json")


CASES: dict[str, tuple[tuple[str, ...], Callable[[Path], None]]] = {
    one.__name__: (words, one)
    for words, one in (
        (("characterize-device", "-o", "trace", "--force", *DEVICE), names_the_file_that_was_made),
        (("characterize-device", "-o", "trace", "--force", *DEVICE), has_its_device_elsewhere),
        (("replay", "trace", *NULL), names_completions_elsewhere),
        (("replay", "trace", *NULL), has_a_torn_note),
        (SQL, has_a_pipe_for_requests),
        (("analyze", "trace"), has_its_findings_elsewhere),
        (SQL, has_a_finding_named_requests),
        (SQL, has_a_finding_that_colours),
        (REPORT, has_a_summary_elsewhere),
    )
}

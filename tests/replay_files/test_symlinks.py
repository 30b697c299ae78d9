"""Symbolic links: a capture of a command that uses them, replayed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit.capture import files
from tracekit.replay.words import describe_files

SCRIPT = """
echo hello > real
ln -s real link
cat link > copy
echo more >> link
mv link moved
rm moved
mkdir folder
ln -s folder alias
echo x > alias/file
"""


def tracekit(*words: str, folder: Path) -> str:
    command = [sys.executable, "-m", "tracekit", *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def test_what_is_done_through_links_is_replayed_and_links_are_left_out(tmp_path: Path) -> None:
    if reason := files.probe():
        pytest.skip(reason)
    # GIVEN a capture of a command that writes and reads through links, and renames and removes one
    work, target = tmp_path / "work", tmp_path / "target"
    work.mkdir()
    target.mkdir()
    trace = str(tmp_path / "trace")
    command = ("--", "sh", "-c", SCRIPT)
    tracekit("capture", "--files", "--below", ".", "-o", trace, *command, folder=work)
    # WHEN it is replayed
    told = tracekit("replay", trace, "--files", str(target), folder=tmp_path)
    # THEN what was done to the link itself is left out and counted, and all the rest went as it did
    assert ", 0 not as in the trace," in told
    assert "no plain file" in told.splitlines()[-1]
    # AND the trace says that the links were made
    info = json.loads((tmp_path / "trace/trace.json").read_text())
    assert sum(info["counts"]["left_out"].values()) == 2


def test_an_operation_that_never_succeeded_has_no_mean() -> None:
    # GIVEN a summary of a rename that failed
    summary = {
        "counts": {"operations": 1, "failed": 1, "bytes": 0},
        "timing": {"elapsed_ns": 1_000_000_000},
        "compiled": {"skipped": {}},
        "operations": [{"name": "rename", "done": 0, "latency": None}],
        "warnings": [],
    }
    # THEN it is described without a number that nothing gave
    assert describe_files(summary).splitlines()[1] == f"  {'rename':<16}{0:>10}"

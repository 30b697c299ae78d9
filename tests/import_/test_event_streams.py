"""Events as they come: binary captures by a pipe, and texts whose times are no clock's."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.import_.test_event_texts import RECORDED, table
from tracekit.errors import InputError
from tracekit.readers.blktrace import parse
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions
from tracekit.store import TraceFolder


def test_a_pipe_of_a_binary_capture(tmp_path: Path) -> None:
    # GIVEN a compressed capture of blktrace on standard input, and in a named pipe
    binary = Path(shutil.copy(RECORDED / "loop.blktrace.0.xz", tmp_path))
    expected, _ = parse([binary], tmp_path / "parsed")
    command = [sys.executable, "-m", "tracekit", "import", "-", "-o", str(tmp_path / "made")]
    with binary.open("rb") as file:
        subprocess.run(command, stdin=file, capture_output=True, check=True)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(binary.read_bytes()))
    writer.start()
    other = import_trace(pipe, tmp_path / "other")
    writer.join()
    # WHEN they are imported THEN the requests are those of the file, from its beginning
    for folder in (TraceFolder(tmp_path / "made"), other):
        assert table(folder).equals(table(expected))
        assert folder.content["source"]["format"] == "blktrace v7"


def test_times_that_are_differences_are_refused(tmp_path: Path) -> None:
    # GIVEN what perf script prints with --deltatime
    chance = random.Random(4)  # noqa: S311 - a fixed sequence, no secret
    events = ("block_rq_issue: 8,0 W 4096 () {} + 8 [x]", "block_rq_complete: 8,0 W () {} + 8 [0]")
    lines = [
        f"x 1 [000] 0.{chance.randrange(900):06}: block:{events[n % 2].format(n // 2 * 8)}\n"
        for n in range(400)
    ]
    path = tmp_path / "text"
    path.write_text("".join(lines))
    # WHEN it is imported THEN that is told, and only --force-units goes on
    with pytest.raises(InputError, match="of 400 events stand behind a later one") as refused:
        import_trace(path, tmp_path / "made")
    assert "--deltatime" in (refused.value.hint or "")
    made = import_trace(path, tmp_path / "made", options=ImportOptions(forces_units=True))
    assert made.content["loss"]["reordered_records"] > 200

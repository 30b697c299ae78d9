"""Names in captures that are kept in pieces, and in those that were killed."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.capture import machine
from tests.capture.machine import TRACER, skip_unless_it_can_trace, tracer_turn
from tests.recipes.three_roles import loop_disk, mounted, run
from tests.traces import rows_of
from tracekit.readers.blktrace import parse

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("kernel")]
WRITES = """
import os, sys, time
file, pause = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT), float(sys.argv[2])
import mmap
page = mmap.mmap(-1, 4096)
for number in range(40):
    os.pwrite(file, page, 4096 * number)
    time.sleep(pause)
"""
FILE_BYTES = 40 * 4096


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield a disk with a file, and where it is mounted."""
    skip_unless_it_can_trace()
    with loop_disk(tmp_path / "disk.img", 64 << 20) as device:
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0", device)
        with mounted(device, tmp_path / "point") as point, tracer_turn():
            (point / "data").write_bytes(bytes(FILE_BYTES))
            run("sync", "-f", str(point))
            yield device, point


def writer(point: Path, *, pause_s: float = 0.0) -> list[str]:
    return [sys.executable, "-c", WRITES, str(point / "data"), str(pause_s)]


def is_queued(record: machine.Record) -> bool:
    return record.action == 1 and not record.category & machine.NOTIFY


def map_of(capture: Path, folder: Path) -> tuple[dict[str, Any], dict[Any, set[str]]]:
    """Return what layout.json says of names, and the states of the pieces of each path."""
    trace, _ = parse([capture], folder / f"parsed-{capture.name}")
    states: dict[Any, set[str]] = {}
    for row in rows_of(trace.table("file_extents")):
        states.setdefault(row["path"], set()).add(row["state"])
    summary = json.loads((capture / "layout.json").read_text())["capture"]["names"]
    return summary, states


def test_each_piece_has_the_names(disk: tuple[str, Path], tmp_path: Path) -> None:
    # GIVEN a capture that is cut while a file is written
    device, point = disk
    output, words = tmp_path / "trace", ("--rotate", "700ms", "--", *writer(point, pause_s=0.05))
    machine.run_capture(device, *TRACER, "-o", output, *words)
    pieces = [*sorted(tmp_path.glob("trace-*")), output]
    assert len(pieces) >= 3
    # THEN each piece has a map with the file
    for piece in pieces:
        data = b"".join(file.read_bytes() for file in piece.glob("*.blktrace.*"))
        if any(is_queued(record) for record in machine.records_of(data)):
            summary, states = map_of(piece, tmp_path)
            assert (summary["files"], summary.get("is_cut", False)) == (1, False)
            assert states[str(point / "data")] == {"same"}


def test_the_last_minutes_have_the_names(disk: tuple[str, Path], tmp_path: Path) -> None:
    # GIVEN a capture that keeps the last minute, and a mark when its writes are done
    device, point = disk
    mark, output = tmp_path / "mark", tmp_path / "trace"
    words = ["--last", "1min", "--", "sh", "-c", f'"$@"; echo >{mark}; sleep 2', "sh"]
    running = machine.start_capture(device, *TRACER, "-o", output, *words, *writer(point))
    machine.wait_for(mark.exists)
    # WHEN it is asked for that
    running.send_signal(signal.SIGUSR1)
    assert " records in " in running.communicate(timeout=machine.TIMEOUT_S)[1]
    # THEN the piece and the capture have the file
    for piece in (tmp_path / "trace-0001", output):
        assert map_of(piece, tmp_path)[1][str(point / "data")] == {"same"}


@pytest.mark.parametrize("is_mounted", [True, False])
def test_a_recovered_capture_has_the_names_of_what_is_mounted(
    disk: tuple[str, Path], tmp_path: Path, *, is_mounted: bool
) -> None:
    # GIVEN a capture that was killed after the writes
    device, point = disk
    mark, output = tmp_path / "mark", tmp_path / "trace"
    words = ["--", "sh", "-c", f'"$@"; echo >{mark}; sleep 1', "sh", *writer(point)]
    running = machine.start_capture(device, *TRACER, "-o", output, *words)
    machine.wait_for(mark.exists)
    running.kill()
    running.communicate()
    # WHEN it is recovered, with the file system mounted or not
    if not is_mounted:
        run("umount", str(point))
    try:
        done = machine.run_capture("--recover", tmp_path / "trace.unfinished")
    finally:
        if not is_mounted:
            run("mount", device, str(point))
    # THEN the file has its name, or is counted as not known, which is said
    summary, states = map_of(output, tmp_path)
    name = Path(device).name
    said = f"names of files on {name} are not known: it is not mounted on {point} now"
    assert (said in done.stdout, summary.get("is_cut", False)) == (not is_mounted, not is_mounted)
    if is_mounted:
        assert states[str(point / "data")] == {"same"}
    else:
        assert (states, summary["files"]) == ({None: {"unseen"}}, 0)


def test_a_file_system_that_the_command_takes_away(disk: tuple[str, Path], tmp_path: Path) -> None:
    # GIVEN a folder below the mount, with a file of the file system above
    device, point = disk
    run("umount", str(point))
    (point / "below").write_bytes(bytes(4096))
    run("mount", device, str(point))
    # WHEN the command unmounts what it wrote
    output, script = tmp_path / "trace", f'"$@" && umount {point}'
    try:
        words = ("--", "sh", "-c", script, "sh", *writer(point))
        done = machine.run_capture(device, *TRACER, "-o", output, *words)
    finally:
        (point / "below").unlink()
        run("mount", device, str(point))
    # THEN no file has a name, least of all the one of the file system above
    assert "it is not mounted" in done.stderr
    assert map_of(output, tmp_path)[1] == {None: {"unseen"}}

"""Names of captured requests, against what the application itself says that it wrote where."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tracekit as tk
from tests.capture import machine
from tests.capture.machine import TRACER, run_capture, skip_unless_it_can_trace, tracer_turn
from tests.command_line import invoke, refused, succeed
from tests.recipes.three_roles import loop_disk, mounted, run
from tests.simulate.placement_models import Request, write_trace
from tests.traces import disk, rows_of
from tracekit.capture.layout import find_disk, read_layout
from tracekit.errors import InputError
from tracekit.readers.blktrace import parse
from tracekit.stack.devices import Node, Stack
from tracekit.stack.file_map import join_walks, table_of
from tracekit.stack.file_walk import FileSystem, walk
from tracekit.stack.mounts import read_mounts
from tracekit.stack.offline_map import is_mounted
from tracekit.store import write_table

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("kernel")]
SIZE_BYTES = 320 << 20  # the least that mkfs.xfs takes is 300 MiB
MAKE = {"ext4": ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0"), "xfs": ("mkfs.xfs", "-q")}
WRITER = """
import os, sys
folder = sys.argv[1]
os.unlink(f"{folder}/deleted")
os.rename(f"{folder}/before", f"{folder}/after")
files = {name: os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_DIRECT) for name in
         ("kept", "made", "after")}
import mmap
page = mmap.mmap(-1, 4096)
for number in range(40):
    for place, name in enumerate(files):
        os.pwrite(files[name], page, 4096 * ((number * 7 + place) % 40))
for name in files:
    os.fsync(files[name])
"""


@pytest.fixture(params=["ext4", "xfs"])
def point(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield a disk, and where it is mounted."""
    skip_unless_it_can_trace()
    kind: str = request.param
    if shutil.which(MAKE[kind][0]) is None or kind not in Path("/proc/filesystems").read_text():
        pytest.skip(f"needs {MAKE[kind][0]} and a kernel with {kind}")
    with loop_disk(tmp_path / "disk.img", SIZE_BYTES) as device:
        run(*MAKE[kind], device)
        with mounted(device, tmp_path / "point") as folder, tracer_turn():
            yield device, folder


def captured(device: str, folder: Path, work: Path, *command: str | Path) -> tk.Trace:
    words = ("-o", work / "capture", "--source", "tracefs-blk", "--", *command, folder)
    run_capture(device, *words)
    trace = tk.parse(work / "capture", work / "trace")
    trace.classify()
    return trace


def places_of(file: Path) -> dict[int, int]:
    """Return the sector of the device at which each 4 KiB of a file lies, by filefrag."""
    text = run("filefrag", "-v", "-b512", str(file))
    rows = re.findall(r"^ +\d+: +(\d+)\.\. +(\d+): +(\d+)\.\.", text, re.MULTILINE)
    return {
        place: int(start) + place - int(first)
        for first, last, start in rows
        for place in range(int(first), int(last) + 1, 8)
    }


def named(trace: tk.Trace) -> list[dict[str, Any]]:
    statement = (
        "select sector, length_bytes, path, file_sector, state from requests"
        " join files_of_requests using (request_id) where operation = 'write'"
    )
    found: list[dict[str, Any]] = trace.sql(statement).to_arrow_table().to_pylist()
    return found


def test_requests_have_the_names_of_the_files_that_were_written(
    point: tuple[str, Path], tmp_path: Path
) -> None:
    # GIVEN files, of which one is deleted, one renamed, one written and one made while captured
    device, folder = point
    for name in ("kept", "deleted", "before", "quiet"):
        (folder / name).write_bytes(bytes(4096 * 40))
    run("sync", "-f", str(folder))
    script = tmp_path / "writer.py"
    script.write_text(WRITER)
    trace = captured(device, folder, tmp_path, sys.executable, script)
    # THEN each write of a known place is of its file and of its place in it, by filefrag
    rows = named(trace)
    for name in ("kept", "made"):
        sectors = {sector: place for place, sector in places_of(folder / name).items()}
        mine = [row for row in rows if row["sector"] in sectors]
        assert len(mine) >= 40
        for row in mine:
            assert row["path"] == str(folder / name)
            assert row["file_sector"] == sectors[row["sector"]]
    # AND that of the renamed file is not known, nor is anything else named
    other = set(places_of(folder / "after").values())
    assert {row["state"] for row in rows if row["sector"] in other} == {"renamed"}
    assert {row["path"] for row in rows} <= {None, str(folder / "kept"), str(folder / "made")}
    states = {row["state"] for row in rows_of(trace.folder.table("file_extents"))}
    assert states >= {"same", "new", "renamed", "deleted"}


def places_in(trace: tk.Trace) -> list[tuple[Any, ...]]:
    keys = ("path", "first_sector", "sectors", "file_sector")
    rows = rows_of(trace.folder.table("file_extents"))
    return [tuple(row[key] for key in keys) for row in rows if row["path"] is not None]


def file_system(device: str, folder: Path) -> FileSystem:
    numbers = Path(f"/sys/class/block/{Path(device).name}/dev").read_text().strip()
    return FileSystem(Path(device).name, numbers.replace(":", ","), (str(folder),))


def mapped(device: str, folder: Path, work: Path) -> tk.Trace:
    """Return a trace of one request, with the map of what is mounted."""
    name = Path(device).name
    layout = read_layout([find_disk(device)], read_mounts())
    parts, devices = layout["partitions"], [disk(name, SIZE_BYTES // 512)]
    write_trace(work / "trace", [Request("fs", 8, device=name)], layout=parts, devices=devices)
    systems = [file_system(device, folder)]
    stack, found = Stack([Node(name, "7,0", SIZE_BYTES // 512)]), walk(systems, limit_s=60.0)
    rows = join_walks(found, found, systems=systems)
    table = table_of(stack, systems, rows=rows, paths=found.paths(), disks=[name])
    write_table(work / "trace/file_extents.parquet", table)
    return tk.open(work / "trace")


def test_an_image_has_the_names_that_the_mounted_file_system_has(
    point: tuple[str, Path], tmp_path: Path
) -> None:
    # GIVEN a capture, and what is known of the files while they are mounted
    device, folder = point
    (folder / "some where").mkdir()
    for number in range(20):
        (folder / "some where" / f"file {number}").write_bytes(bytes(4096 * (number + 1)))
    run("sync", "-f", str(folder))
    if absent := [tool for tool in ("debugfs", "xfs_db") if shutil.which(tool) is None]:
        pytest.skip(f"needs {absent[0]}")
    trace = mapped(device, folder, tmp_path)
    before = places_in(trace)
    # WHEN the device is read by the file system's own tool, with nothing left in its log
    run("fsfreeze", "--freeze", str(folder))
    try:
        found = [trace.classify(names=one) for one in (tmp_path / "disk.img", device)]
    finally:
        run("fsfreeze", "--unfreeze", str(folder))
    # THEN it has the same files in the same places
    assert before == places_in(trace)
    assert len({row[0] for row in before}) == 20
    # AND it is reported that more may be in memory, of the device and of its image
    assert [any("is mounted" in str(said) for said in one.warnings) for one in found] == [True] * 2
    # AND the image of another disk is refused
    other = tmp_path / "other"
    other.touch()
    os.truncate(other, SIZE_BYTES)
    assert not is_mounted(other)
    refused(
        invoke("classify", trace.folder.path, "--names", other),
        "holds no file system",
        error=InputError,
    )
    run(*MAKE["ext4"], "-F", str(other))
    refused(
        invoke("classify", trace.folder.path, "--names", other),
        "layout has 0 times",
        error=InputError,
    )


def test_a_walk_is_cut_at_its_limits(point: tuple[str, Path]) -> None:
    device, folder = point
    for number in range(200):
        (folder / f"file{number}").write_bytes(bytes(4096))
    run("sync", "-f", str(folder))
    systems = [file_system(device, folder)]
    found = walk(systems, limit_s=60.0)
    assert (len(found), found.is_cut) == (200, False)
    assert set(found.paths().to_pylist()) == {f"{folder}/file{number}" for number in range(200)}
    # THEN at a number of files, or at once without time, it ends and says so
    found = walk(systems, limit_s=60.0, most_files=50)
    assert (len(found), found.is_cut) == (50, True)
    assert walk(systems, limit_s=-1.0).is_cut


def test_names_can_be_left_out(point: tuple[str, Path], tmp_path: Path) -> None:
    device, folder = point
    output = tmp_path / "capture"
    words = (
        "--source",
        "tracefs-blk",
        "--names",
        "0s",
        "--",
        "sh",
        "-c",
        f"sync -f {folder}; touch {folder}/x; sync -f {folder}",
    )
    run_capture(device, "-o", output, *words)
    assert not (output / "file_extents.parquet").exists()
    assert "names" not in json.loads((output / "layout.json").read_text())["capture"]


DATABASE = """
import os, sqlite3, sys
mode, folder = sys.argv[1:3]
database = sqlite3.connect(f"{folder}/data.db", isolation_level=None)
database.execute(f"pragma journal_mode={mode}")
database.execute("create table if not exists t (a integer primary key, b text)")
for number in range(150):
    database.execute("insert or replace into t values (?, ?)", (number * 7919 % 500, "x" * 2000))
os._exit(0)
"""


@pytest.mark.parametrize("mode", ["wal", "persist", "delete"])
def test_a_database_against_its_own_calls(
    point: tuple[str, Path], tmp_path: Path, mode: str
) -> None:
    # GIVEN a database of SQLite, captured under strace, which lists the files that it wrote
    device, folder = point
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    script, calls = tmp_path / "database.py", tmp_path / "calls"
    script.write_text(DATABASE)
    subprocess.run([sys.executable, script, mode, folder], check=True)
    run("sync", "-f", str(folder))
    tracing = ("strace", "-f", "-y", "-o", calls, "-e", "trace=pwrite64,write,ftruncate,unlink")
    trace = captured(device, folder, tmp_path, *tracing, sys.executable, script, mode)
    # THEN every name is of a file that the application wrote
    written = set(
        re.findall(rf"p?write(?:64)?\(\d+<({re.escape(str(folder))}/[^>]*)>", calls.read_text())
    )
    found = {row["path"] for row in named(trace) if row["path"]}
    assert found <= written
    # AND the log is known for one, if it is there at the end
    logs = {
        row["path"]: row["log"] for row in rows_of(trace.folder.table("file_extents")) if row["log"]
    }
    name = {"wal": "data.db-wal", "persist": "data.db-journal"}.get(mode)
    if name:
        assert logs.get(str(folder / name)) == "sqlite"
        assert str(folder / name) in found
    succeed("analyze", trace.folder.path)


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
def written_disk(tmp_path: Path) -> Iterator[tuple[str, Path]]:
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


def test_each_piece_has_the_names(written_disk: tuple[str, Path], tmp_path: Path) -> None:
    # GIVEN a capture that is cut while a file is written
    device, point = written_disk
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


def test_the_last_minutes_have_the_names(written_disk: tuple[str, Path], tmp_path: Path) -> None:
    # GIVEN a capture that keeps the last minute, and a mark when its writes are done
    device, point = written_disk
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
    written_disk: tuple[str, Path], tmp_path: Path, *, is_mounted: bool
) -> None:
    # GIVEN a capture that was killed after the writes
    device, point = written_disk
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


def test_a_file_system_that_the_command_takes_away(
    written_disk: tuple[str, Path], tmp_path: Path
) -> None:
    # GIVEN a folder below the mount, with a file of the file system above
    device, point = written_disk
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

"""A replay whose requests have all ended keeps its results, whatever ends its command then."""

import errno
import gc
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, succeed
from tests.replay.disk import fill, small_file_system
from tests.replay.kills import COUNT, OPERATIONS, WORDS, make_trace, program_of, run
from tests.replay.processes import await_true, limited, replay_command
from tests.replay_files import captured
from tracekit.errors import StoppedError, TracekitError
from tracekit.replay import completions
from tracekit.store import TraceFolder, write_batches

Act = Callable[[], None]


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def once() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def twice() -> None:
    once()
    once()


def late(monkeypatch: pytest.MonkeyPatch, act: Act) -> None:
    """Let something happen while the table is written."""

    def write(*args: Any, **words: Any) -> int:
        act()
        return write_batches(*args, **words)

    monkeypatch.setattr(completions, "write_batches", write)


def await_some(folder: TraceFolder) -> None:
    """Wait until the program has written some of its records."""

    def has_some() -> bool:
        parts = folder.path.glob("replays/.a.*/completions.bin.*.part")
        return any(part.stat().st_size > 1000 for part in parts)

    await_true(has_some)


def words_of(kind: str, folder: TraceFolder, place: Path) -> list[Any]:
    place.mkdir(exist_ok=True)
    own = [word.format(place=place) for word in WORDS[kind]]
    return ["replay", folder.path, *own, "--name", "a", "--pace", "fast"]


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    return make_trace(tmp_path / "trace", "null")


@pytest.fixture
def of_files(tmp_path: Path) -> TraceFolder:
    return make_trace(tmp_path / "files", "files")


def rows(folder: TraceFolder, table: str) -> int:
    return int(pq.read_metadata(folder.path / "replays" / table).num_rows)


def names(folder: TraceFolder) -> list[str]:
    return sorted(path.name for path in (folder.path / "replays").iterdir())


def test_a_signal_waits_until_the_results_have_their_name(
    folder: TraceFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late(monkeypatch, once)
    done = invoke(*words_of("null", folder, tmp_path / "place"))
    assert isinstance(done.exception, StoppedError)
    assert done.exception.exit_code == 128 + signal.SIGTERM
    assert f"its results are whole, in {folder.path}/replays/a" in str(done.exception)
    assert (names(folder), rows(folder, "a/completions.parquet")) == (["a"], COUNT)


def test_a_part_is_not_called_whole_when_a_second_signal_comes(
    folder: TraceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a replay that is interrupted amid the run, and once more while its table is written
    def stop_program() -> None:
        await_some(folder)
        os.kill(os.getpid(), signal.SIGINT)

    late(monkeypatch, once)
    thread = threading.Thread(target=stop_program)
    thread.start()
    line: list[str | Path] = ["replay", folder.path, *WORDS["null"]]
    done = invoke(*line, "--name", "a")
    thread.join()
    # THEN its message has what its table has, and how to go on with the rest
    kept = rows(folder, "a/completions.parquet")
    assert isinstance(done.exception, StoppedError)
    assert 0 < kept < COUNT
    assert f"interrupted after {kept:,} of {COUNT:,} requests: they are kept" in str(done.exception)
    assert "--resume a" in done.exception.hint
    monkeypatch.undo()
    succeed(*line, "--name", "b", "--resume", "a")
    assert rows(folder, "b/completions.parquet") == COUNT - kept


@pytest.mark.parametrize("act", [full, twice])
def test_what_could_not_be_converted_is_completed_without_a_request(
    folder: TraceFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Act
) -> None:
    # GIVEN a replay whose table cannot be written, or that is stopped twice then
    line = words_of("null", folder, tmp_path / "place")
    with monkeypatch.context() as patch:
        late(patch, act)
        done = invoke(*line)
    assert isinstance(done.exception, TracekitError)
    code = 1 if act is full else 128 + signal.SIGTERM
    assert done.exception.exit_code == code
    assert f"all of it is kept in {folder.path}/replays/a.unfinished" in str(done.exception)
    assert "--resume a" in done.exception.hint
    program = json.loads((folder.path / "replays/a.unfinished/program.json").read_text())
    # WHEN it is resumed, THEN it has its name, and the times are those of the run
    succeed(*line, "--resume", "a")
    summary = json.loads((folder.path / "replays/a/summary.json").read_text())
    assert (names(folder), rows(folder, "a/completions.parquet")) == (["a"], COUNT)
    assert summary["timing"] == program["timing"]
    assert summary["name"] == "a"
    kept = {path.name for path in (folder.path / "replays/a").iterdir()}
    assert kept == {"plan.bin", "completions.parquet", "summary.json"}


@pytest.mark.parametrize("act", [full, twice])
def test_file_operations_that_could_not_be_converted_are_by_the_next_replay(
    of_files: TraceFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Act
) -> None:
    line = words_of("files", of_files, tmp_path / "place")
    with monkeypatch.context() as patch:
        late(patch, act)
        done = invoke(*line)
    assert "all of it is kept in" in str(done.exception)
    assert not (of_files.path / "replays/a.unfinished/file_completions.parquet").exists()
    succeed(*line)
    assert names(of_files) == ["a", "a.unfinished"]
    for name in names(of_files):
        assert rows(of_files, f"{name}/file_completions.parquet") == OPERATIONS
        assert (of_files.path / f"replays/{name}/file_summary.json").is_file()


def test_a_part_that_was_stopped_twice_is_a_table_beside_the_rest(
    folder: TraceFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a replay whose program is interrupted, and that is stopped twice at its table
    def interrupt() -> None:
        await_some(folder)
        os.kill(await_true(lambda: program_of(os.getpid())), signal.SIGINT)

    with monkeypatch.context() as patch:
        late(patch, twice)
        thread = threading.Thread(target=interrupt)
        thread.start()
        done = invoke("replay", folder.path, *WORDS["null"], "--name", "a")
        thread.join()
    assert isinstance(done.exception, StoppedError)
    assert "go on with --resume a.unfinished" in done.exception.hint
    # WHEN the rest is replayed, THEN both tables together have each request once
    line = words_of("null", folder, tmp_path / "place")
    succeed(*line, "--resume", "a.unfinished", "--name", "rest")
    tables = ("a.unfinished/unfinished.parquet", "rest/completions.parquet")
    ids = [pq.read_table(folder.path / "replays" / one)["request_id"] for one in tables]
    assert sorted(number for one in ids for number in one.to_pylist()) == list(range(COUNT))
    assert 0 < len(ids[0]) < COUNT


@pytest.mark.root
def test_a_disk_that_is_full_at_the_end_loses_no_run(
    folder: TraceFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_file_system(tmp_path / "small") as place:
        small = TraceFolder(shutil.copytree(folder.path, place / "trace"))
        line, ballast = words_of("null", small, tmp_path / "place"), place / "ballast"

        # GIVEN a disk that is full from the moment on at which the table is written
        with monkeypatch.context() as patch:
            late(patch, lambda: fill(ballast))
            said = str(invoke(*line).exception)
        gc.collect()  # files of the disk, which frames of the error hold
        assert "No space left on device; the run itself has ended" in said
        # WHEN there is space again, THEN the run is completed
        ballast.unlink()
        succeed(*line, "--resume", "a")
        assert (names(small), rows(small, "a/completions.parquet")) == (["a"], COUNT)


@pytest.mark.root
def test_files_that_ended_on_a_full_file_system_are_not_called_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a file that grows for a second, on a file system that something else fills meanwhile
    opened = {"operation": "create", "file_id": 0, "handle": 1, "flags": "read|write"}
    writes = [
        {
            "operation": "write",
            "file_id": 0,
            "handle": 1,
            "offset": at << 16,
            "length_bytes": 1 << 16,
        }
        | {"start_ns": at * 50_000_000}
        for at in range(1, 21)
    ]
    files = captured.trace(tmp_path / "t", [{"path": "/d/f", "size_bytes": 0}], [opened, *writes])
    with small_file_system(tmp_path / "small") as place:

        def fill_late() -> None:
            await_true(lambda: any(file.stat().st_size for file in place.rglob("f")))
            fill(place / "ballast")

        # WHEN it is stopped while its table is written
        late(monkeypatch, once)
        thread = threading.Thread(target=fill_late)
        thread.start()
        done = invoke("replay", files.path, "--files", place, "--name", "a", "--pace", "trace")
        thread.join()
    # THEN the message has what the table has
    kept = rows(files, "a/file_completions.parquet")
    assert 1 < kept < 21
    said = str(done.exception)
    assert f"ended on a full file system after {kept:,} operations: they are kept" in said
    assert "whole" not in said


def test_a_limit_of_the_size_of_files_is_named(folder: TraceFolder) -> None:
    # GIVEN a process whose files may have 64 KiB, which is less than the plan has
    ran = subprocess.run(
        replay_command(folder, *WORDS["null"], "--name", "a"),
        preexec_fn=limited(resource.RLIMIT_FSIZE, 1 << 16),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, names(folder)) == (1, [])
    assert "plan.bin: File too large" in ran.stderr
    assert "raise the limit of a file's size (ulimit -f)" in ran.stderr


KILLED = """
import os, signal, sys
from tracekit.replay import {module}
from tracekit import cli
def die(*args, **words): os.kill(os.getpid(), signal.SIGKILL)
{module}.{name} = die
sys.argv = ["tracekit", *sys.argv[1:]]
cli.main()
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("completions", "write_batches"),
        ("partial_results", "content_of"),
        ("partial_results.StartedRun", "remove_natives"),
        ("run.store", "sync_tree"),
        ("run.store", "rename_new"),
    ],
)
def test_a_kill_at_each_step_after_the_run_loses_nothing(
    folder: TraceFolder, tmp_path: Path, module: str, name: str
) -> None:
    # GIVEN a command that is killed while its table or summary is written, or after it
    line = words_of("null", folder, tmp_path / "place")
    first = module.split(".", 1)[0]
    script = KILLED.format(module=module, name=name).replace(
        f"import {module}\n", f"import {first}\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", script, *map(str, line)], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    # WHEN it is resumed, THEN all is there by its name, and nothing else
    succeed(*line, "--resume", "a")
    assert (names(folder), rows(folder, "a/completions.parquet")) == (["a"], COUNT)
    kept = {path.name for path in (folder.path / "replays/a").iterdir()}
    assert kept == {"plan.bin", "completions.parquet", "summary.json"}


def test_kills_at_any_time_lose_nothing(tmp_path: Path) -> None:
    campaign = run(3, ["closed"], 7, tmp_path)
    assert campaign.wrong == []
    assert campaign.tried == 3

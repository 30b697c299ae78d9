"""Outputs of a replay: written whole and kept, whatever ends its command once all has ended."""

import errno
import gc
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, succeed
from tests.replay.disk import fill, small_file_system
from tests.replay.kills import COUNT, OPERATIONS, WORDS, make_trace, program_of, run
from tests.replay.processes import await_true, limited, replay_command
from tests.replay.program import Word, content, expected_content, record, write_plan
from tests.replay_files import captured
from tests.replay_files import program as files
from tracekit._native import program_path
from tracekit.errors import StoppedError, TracekitError, UsageError
from tracekit.plans.block_plan import READ, WRITE
from tracekit.replay import completions
from tracekit.store import TraceFolder, beside, write_batches

PLACES = ("plan", "target", "hard link", "symbolic link", "new target", "each other", "new twin")
PRECIOUS = b"precious" * 512
Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])


@pytest.fixture
def writing(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "a.plan", [record(WRITE, 0, 8)])


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def replay(plan: Path, *words: Word) -> Ended:
    """Run the program in the folder of the plan, without outputs but for those that are named."""
    command = [program_path(), plan, *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=plan.parent, timeout=60
    )


def state_of(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return which file each name is, its size and when it was written."""
    found = {path.name: path.lstat() for path in folder.iterdir()}
    return {name: (one.st_ino, one.st_size, one.st_mtime_ns) for name, one in found.items()}


@pytest.mark.parametrize("output", ["--completions", "--summary"])
@pytest.mark.parametrize("place", PLACES)
def test_an_output_that_is_something_else_is_refused(plan: Path, output: str, place: str) -> None:
    # GIVEN a plan, and a target with content that is only read
    folder, target = plan.parent, plan.with_name("t")
    target.write_bytes(PRECIOUS)
    (folder / "hard").hardlink_to(target)
    (folder / "soft").symlink_to(target)
    (folder / "here").symlink_to(folder)
    other = "--summary" if output == "--completions" else "--completions"
    words: dict[str, list[Word]] = {
        "plan": [output, "./a.plan", "--target", target],
        "target": [output, target, "--target", "t"],
        "hard link": [output, "hard", "--target", target],
        "symbolic link": [output, "soft", "--target", target],
        "new target": [output, "here/new", "--target", "new"],
        "each other": [output, "t", other, target, "--target", "elsewhere"],
        "new twin": [output, "here/same", other, folder / "same", "--target", target],
    }
    before = state_of(folder)
    # WHEN completions or summary would go to one of these
    ran = replay(plan, *words[place])
    # THEN that is one line, and nothing was made or replaced
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert " cannot go to " in ran.stderr, ran.stderr
    assert state_of(folder) == before
    assert target.read_bytes() == PRECIOUS


@pytest.mark.parametrize("output", ["--results", "--summary"])
def test_a_file_plan_is_not_replaced(tmp_path: Path, output: str) -> None:
    plan = files.write_plan(tmp_path / "plan", [[files.do("sync")]])
    data = plan.read_bytes()
    ran = replay(plan, tmp_path, output, plan)
    assert ran.returncode == 1
    assert "that is the plan" in ran.stderr
    assert plan.read_bytes() == data


@pytest.mark.parametrize("output", ["--completions", "--summary"])
def test_an_output_in_no_folder_is_found_out_before_the_run(writing: Path, output: str) -> None:
    ran = replay(writing, "--target", "t", output, "no/such", "--keep")
    assert ran.returncode == 1
    assert "to no/such: No such file or directory" in ran.stderr
    assert not writing.with_name("t").exists()


def test_both_outputs_may_go_where_nothing_is_kept(plan: Path) -> None:
    ran = replay(plan, "--engine", "null", "--summary", "/dev/null")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.root
def test_a_summary_that_has_no_room_is_not_lost(tmp_path: Path, writing: Path) -> None:
    # GIVEN a full file system for the summary, and an old one there
    with small_file_system(tmp_path / "full") as full:
        (full / "s.json").write_text("old")
        with (full / "filling").open("wb", buffering=0) as filling, suppress(OSError):
            while True:
                filling.write(bytes(4096))
        # WHEN a run ends
        ran = replay(writing, "--target", "t", "--keep", "--summary", full / "s.json")
        # THEN the summary is on stdout, the old one is there still, and the data is written
        assert ran.returncode == 1
        assert "No space left on device; it is on stdout instead" in ran.stderr
        assert json.loads(ran.stdout)["counts"]["done"] == 1
        assert sorted(os.listdir(full)) == ["filling", "s.json"]
        assert (full / "s.json").read_text() == "old"
    assert (content(tmp_path / "t") == expected_content([record(WRITE, 0, 8)], 4096)).all()


def read_while(pipe: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)


def test_a_summary_goes_through_a_pipe(plan: Path, pipe: Path) -> None:
    with read_while(pipe) as reader:
        ended = replay(plan, "--engine", "null", "--summary", pipe)
        text, _ = reader.communicate(timeout=20)
    assert ended.returncode == 0
    assert json.loads(text)["outcome"] == "finished"
    assert pipe.is_fifo()


def test_completions_are_a_file_or_nothing(plan: Path, pipe: Path) -> None:
    ended = replay(plan, "--engine", "null", "--completions", pipe)
    assert ended.returncode == 1
    assert f"cannot write completions to {pipe}" in ended.stderr
    assert pipe.is_fifo()
    assert sorted(path.name for path in plan.parent.iterdir()) == ["a.plan", "pipe"]


def test_what_is_written_whole_goes_through_a_pipe(pipe: Path) -> None:
    with read_while(pipe) as reader:
        with beside(pipe) as part:
            part.write_text("whole")
        text, _ = reader.communicate(timeout=20)
    assert text == "whole"
    assert pipe.is_fifo()
    assert [path.name for path in pipe.parent.iterdir()] == ["pipe"]


def test_nothing_reaches_the_pipe_when_it_fails(pipe: Path) -> None:
    with suppress(ZeroDivisionError), beside(pipe) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert pipe.is_fifo()


def test_a_device_that_takes_all_stays_a_device() -> None:
    if not Path("/dev/null").is_char_device():
        pytest.skip("this machine has no /dev/null")
    with beside(Path("/dev/null")) as part:
        part.write_text("gone")
    assert Path("/dev/null").is_char_device()


def test_a_disk_is_refused(tmp_path: Path) -> None:
    node = tmp_path / "disk"
    try:
        # No device has this number, so not even a mistake could write anywhere.
        os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(240, 77))
    except PermissionError:
        pytest.skip("only root can make a device node")
    with pytest.raises(UsageError, match="is a disk"), beside(node):
        pass


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
    assert ran.returncode == 1
    assert not (folder.path / "replays").exists()
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

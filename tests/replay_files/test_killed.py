"""SIGKILL of the file program, of the command, and of both: what completed is a table."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, refused, succeed
from tests.replay.processes import await_in, await_true, is_gone, replay_command
from tests.replay.trace import trace as blocks
from tests.replay_files.captured import Row, trace
from tests.replay_files.program import OWN, RESULT, command, do, table, write_plan
from tests.replay_files.test_captured import directory
from tracekit._native.players import read_results
from tracekit.errors import UsageError
from tracekit.plans.file_plan import Medium, Setting
from tracekit.store import TraceFolder

GAP_NS = 5_000_000
COUNT = 10_000


@pytest.fixture(params=["tmpfs", "ext4"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Yield a directory that holds a file of the user's."""
    with directory(request.param, tmp_path) as there:
        (there / "thesis").write_text("mine")
        yield there
        assert (there / "thesis").read_text() == "mine"


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    """Write a trace of 50 s in which every file operation but the first is a stat."""
    files: list[Row] = [
        {"path": "/d/old", "size_bytes": 3},
        {"path": "/d/new", "evidence": "absent"},
    ]
    operations: list[Row] = [{"operation": "create", "file_id": 1, "handle": 1}]
    operations += [{"operation": "stat", "file_id": 0} for _ in range(COUNT - 1)]
    for number, operation in enumerate(operations):
        operation["start_ns"] = number * GAP_NS
    return trace(tmp_path / "trace", files, operations)


def started(folder: TraceFolder, target: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a replay; return the command and its program's PID when it has done 50 operations."""
    words = replay_command(folder, "--files", str(target))
    running = subprocess.Popen(words, stderr=subprocess.PIPE)

    def part() -> Path | None:
        found = folder.path.glob("replays/.latest.*/results.bin.*.part")
        return next((p for p in found if p.stat().st_size > 64 + 50 * RESULT.itemsize), None)

    written: Path = await_true(part)
    return running, int(written.suffixes[-2].removeprefix("."))


def kept(folder: TraceFolder, error: str) -> list[int]:
    """Return the ids of what a killed replay completed, after a look at what is told of it."""
    left = folder.path / "replays/latest.unfinished"
    told = json.loads((left / "unfinished.json").read_text())
    table = pq.read_table(left / "file_completions.parquet")
    assert (told["outcome"], told["next"]) == ("unfinished", None)
    assert error in told["error"]
    assert told["completions"] == len(table)
    assert table["is_expected"].to_pylist() == [True] * len(table)
    ids: list[int] = table["operation_id"].to_pylist()
    return ids


def fast_again(folder: TraceFolder, target: Path) -> dict[str, Any]:
    """Replay as fast as possible, and return the summary."""
    words = ("--files", target, "--pace", "fast", "--json")
    told: dict[str, Any] = json.loads(succeed("replay", folder.path, *words).stdout)
    assert told["counts"]["operations"] == COUNT
    assert [path.name for path in target.iterdir() if path.name != "lost+found"] == ["thesis"]
    return told


def test_the_program_is_killed(folder: TraceFolder, place: Path) -> None:
    # GIVEN a replay whose program is killed
    running, program = started(folder, place)
    os.kill(program, signal.SIGKILL)
    _, words = running.communicate(timeout=20)
    # THEN the command says so, keeps what completed, and names what is left and where
    assert running.returncode == 1
    ids = kept(folder, "killed by SIGKILL")
    assert ids == list(range(len(ids)))
    assert len(ids) >= 50
    assert f"{len(ids):,} completions kept in" in words.decode()
    assert str(place / OWN) in words.decode()
    assert os.listdir(folder.path / "replays") == ["latest.unfinished"]
    # AND the table is one of the trace
    asked = "select count(*) as n from file_completions where replay = 'latest.unfinished'"
    assert f"{len(ids)}" in invoke("sql", folder.path, asked, "--json").output
    succeed("report", folder.path)
    assert "latest.unfinished" in (folder.path / "report.html").read_text()
    # AND the next replay removes what was left, and says so
    told = fast_again(folder, place)
    assert told["directory"]["replaced"] == "killed run"
    assert told["messages"] == [
        f"tracekit-replay: removed {place / OWN}, which a killed run had left"
    ]


def test_the_command_is_killed(folder: TraceFolder, place: Path) -> None:
    # GIVEN a replay whose command is killed
    running, program = started(folder, place)
    running.kill()
    running.communicate(timeout=20)
    # THEN the program ends as well and leaves the directory as it was
    await_true(lambda: is_gone(program))
    assert not (place / OWN).exists()
    # AND the next replay finds what was done, tells it, and it is no replay to go on with
    warnings = fast_again(folder, place)["warnings"]
    ids = kept(folder, "tracekit was killed")
    assert len(ids) >= 50
    assert ids == list(range(len(ids)))
    assert [one["code"] for one in warnings] == ["rescued"]
    assert str(folder.path / "replays/latest.unfinished") in warnings[0]["message"]


def test_both_are_killed(folder: TraceFolder, place: Path) -> None:
    running, program = started(folder, place)
    os.kill(running.pid, signal.SIGSTOP)  # it must not see that its program ended
    os.kill(program, signal.SIGKILL)
    running.kill()
    running.communicate(timeout=20)
    await_true(lambda: is_gone(program))
    told = fast_again(folder, place)
    assert told["directory"]["replaced"] == "killed run"
    assert len(kept(folder, "tracekit was killed")) >= 50


def test_a_block_replay_of_the_name_keeps_it_and_does_not_go_on_with_it(
    tmp_path: Path, folder: TraceFolder, target: Path
) -> None:
    # GIVEN what a killed replay of file operations left
    running, program = started(folder, target)
    running.kill()
    running.communicate(timeout=20)
    await_true(lambda: is_gone(program))
    # WHEN a block replay of the same name is to go on with it
    requests = blocks(tmp_path / "blocks", [{}]).path / "requests.parquet"
    requests.rename(folder.path / "requests.parquet")
    words = ("--engine", "null", "--name", "more", "--resume", "latest")
    # THEN that is refused, and nothing is lost
    refused(invoke("replay", folder.path, *words), "file operations")
    assert len(kept(folder, "tracekit was killed")) >= 50


def test_results_do_not_wait_for_a_full_block(tmp_path: Path) -> None:
    # GIVEN a thread that does ten operations and then has nothing to do for a minute, one that
    # waits for it, and one that does an operation each 20 ms
    early = [do("stat", "old", start_ns=number) for number in range(10)]
    waits = [do("stat", "old"), do("stat", "old", after=10, start_ns=1)]
    slow = [do("stat", "old", start_ns=number * 20_000_000) for number in range(3000)]
    threads = [[*early, do("stat", "old", start_ns=60 * 10**9)], waits, slow]
    plan = write_plan(tmp_path / "plan", threads, files=table("old"))
    child = subprocess.Popen(command(plan, tmp_path, pace="trace"))
    (part,) = await_true(lambda: list(tmp_path.glob("*.part")))

    def threads_in_it() -> bool:
        found = [rows for rows in read_results(part) if len(rows)]
        return bool(found) and set(np.concatenate(found)["thread"]) == {0, 1, 2}

    await_true(threads_in_it)
    time.sleep(0.5)
    # WHEN it is killed, THEN all but what completed in the last 0.1 s is there
    child.kill()
    child.wait(10)
    rows = np.concatenate(list(read_results(part)))
    counts = [int(np.sum(rows["thread"] == number)) for number in range(3)]
    assert counts[:2] == [10, 1]
    assert counts[2] >= (500 - 100) / 20


def test_what_was_cut_off_is_left_out(tmp_path: Path) -> None:
    # GIVEN a file of a program that was killed while it wrote: one record is cut off where a page
    # ended, one was never written, and the last one ends with the file
    rows = np.ones(6, RESULT)
    rows["operation_id"] = np.arange(6)
    data = bytearray(rows.tobytes())
    data[2 * 48 + 16 : 4 * 48] = bytes(32 + 48)
    part = tmp_path / "part"
    part.write_bytes(b"TKFDON\r\n".ljust(64, b"\0") + data[: 5 * 48 + 40])
    (found,) = read_results(part)
    assert found["operation_id"].tolist() == [0, 1, 4]


def test_the_command_replaces_kept_files_by_force_only(tmp_path: Path, target: Path) -> None:
    files: list[Row] = [{"path": "/a", "size_bytes": 3}]
    folder = trace(tmp_path / "trace", files, [{"operation": "stat", "file_id": 0}])
    words = ("replay", folder.path, "--files", target)
    succeed(*words, "--keep")
    done = invoke(*words)
    refused(done, str(target / OWN))
    assert isinstance(done.exception, UsageError)
    assert "--force" in done.exception.hint
    assert (target / OWN / "run/a").exists()
    succeed(*words, "--force")
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_is_interrupted_while_files_are_made(
    tmp_path: Path, target: Path, number: signal.Signals
) -> None:
    # GIVEN a trace of many files, being made for a replay
    files: list[Row] = [{"path": f"/d/f{n}", "size_bytes": 5000} for n in range(20_000)]
    folder = trace(tmp_path / "trace", files, [{"operation": "stat", "file_id": 0}])
    words = replay_command(folder, "--files", str(target))
    running = subprocess.Popen(words, stderr=subprocess.PIPE)
    await_in(running, (target / OWN / "run/d/f0").exists)
    # WHEN it is interrupted, THEN it says that nothing was replayed, and nothing is left
    running.send_signal(number)
    _, said = running.communicate()
    assert (running.returncode, b"nothing was replayed" in said) == (3, True)
    assert list(target.iterdir()) == []
    assert not (folder.path / "replays").exists()


def test_the_command_is_interrupted(folder: TraceFolder, target: Path) -> None:
    # GIVEN a whole replay, and one of the same name that is interrupted
    words = ("replay", folder.path, "--files", target)
    succeed(*words, "--pace", "fast")
    running, _ = started(folder, target)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=20)
    # THEN it says that it is not complete, and where what it did is: not under the name
    part = folder.path / "replays/latest.unfinished"
    assert (running.returncode, b"not complete: interrupted" in said) == (3, True)
    assert f"what was done is in {part}" in " ".join(said.decode().split())
    assert "replay again" in said.decode()
    done = json.loads((part / "file_summary.json").read_text())
    ids = kept(folder, "interrupted after")
    assert 50 < len(ids) == done["counts"]["operations"] < COUNT
    assert list(target.iterdir()) == []
    # AND the whole one is as it was; the next one of the name leaves what there is of the other
    whole = folder.path / "replays/latest/file_completions.parquet"
    assert len(pq.read_table(whole)) == COUNT
    succeed(*words, "--pace", "fast")
    assert kept(folder, "interrupted after") == ids
    assert (part / "file_summary.json").exists()
    assert {path.name for path in part.iterdir()} == {
        "file_completions.parquet",
        "file_summary.json",
        "plan.bin",
        "unfinished.json",
    }


@pytest.mark.parametrize(("more", "outcome"), [(0, "finished"), (1, "interrupted")])
def test_a_signal_amid_the_last_operation_has_interrupted_nothing(
    tmp_path: Path, more: int, outcome: str
) -> None:
    # GIVEN a plan whose last operation, or the last but one, takes a second
    write = do("write", "new", handle=0, length=64 * 1000)
    operations = [do("create", "new", handle=0), write, *[do("stat", "new")] * more]
    plan = write_plan(
        tmp_path / "plan",
        [operations],
        setting=Setting(medium=Medium("slow", 0, 1_000_000, write_line_ps=10**9)),
    )
    running = subprocess.Popen(command(plan, tmp_path))
    # WHEN a signal comes amid it, THEN the run is whole only if there was nothing more to do
    await_true((tmp_path / OWN / "run/new").exists)
    running.send_signal(signal.SIGTERM)
    code = running.wait(20)
    told = json.loads(plan.with_suffix(".json").read_text())
    assert (code, told["outcome"]) == (3 * more, outcome)
    assert told["counts"]["operations"] == 2

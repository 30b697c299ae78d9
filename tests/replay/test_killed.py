"""What a replay shows while it runs, and what is left when it is interrupted, killed or full."""

import json
import os
import pty
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, refused, succeed
from tests.replay.disk import small_file_system
from tests.replay.processes import await_true, is_gone, replay_command
from tests.replay.program import record, write_plan
from tests.replay.trace import trace
from tracekit.errors import InputError
from tracekit.plans import block_plan
from tracekit.plans.block_plan import READ
from tracekit.replay import completions, partial_results
from tracekit.replay.completions import read_records
from tracekit.replay.partial_results import Ids, Reached, ended_in_file, reached
from tracekit.store import TraceFolder

COUNT = 10_000
FAST = ("--engine", "null", "--pace", "fast")


def steady(place: Path, count: int, gap_ns: int) -> TraceFolder:
    return trace(place, [{"queue_ns": n * gap_ns, "sector": 8, "role": "fs"} for n in range(count)])


@contextmanager
def started(place: Path) -> Iterator[tuple[TraceFolder, subprocess.Popen[str], int]]:
    """Yield a replay of 100 s that has done some requests: trace, command, PID of its program."""
    folder = steady(place, COUNT, 10_000_000)

    def part() -> Path | None:
        found = folder.path.glob("replays/.latest.*/completions.bin.*.part")
        return next((path for path in found if path.stat().st_size > 1000), None)

    with subprocess.Popen(
        replay_command(folder, "--engine", "null"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        written: Path = await_true(part)
        yield folder, running, int(written.suffixes[-2].removeprefix("."))


def ids_of(table: Path) -> list[int]:
    ids: list[int] = pq.read_table(table)["request_id"].to_pylist()
    return ids


def test_only_one_line_of_progress_is_shown_at_a_time(tmp_path: Path) -> None:
    # GIVEN a replay of 1.2 s, on a terminal
    folder = steady(tmp_path / "trace", 1200, 1_000_000)
    ours, theirs = pty.openpty()
    words = replay_command(folder, "--engine", "null")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=theirs) as child:
        os.close(theirs)
        shown = b"".join(read_all(ours))
    assert child.returncode == 0
    # THEN the plan's line is gone for good when the requests' line appears
    assert b"requests (" in shown
    assert b"plan" in shown[: shown.index(b"requests (")]
    last = shown.rindex(b"requests (")
    assert b"plan" not in shown[shown.index(b"requests (") : last]


def read_all(terminal: int) -> Iterator[bytes]:
    """Yield what is written to a terminal until its other side is closed."""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux tells the end
            break
        yield part
    os.close(terminal)


def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    # WHEN Ctrl-C is typed: the signal goes to the whole group
    with started(tmp_path / "trace") as (folder, child, _):
        os.killpg(child.pid, signal.SIGINT)
        out, messages = child.communicate(timeout=20)
    # THEN the results are there, and the exit code says that they are a part
    assert child.returncode == 3, messages
    assert "interrupted" in out
    told = json.loads((folder.path / "replays/latest/summary.json").read_text())
    ids = ids_of(folder.path / "replays/latest/completions.parquet")
    assert 0 < told["counts"]["done"] == len(ids) < COUNT


def test_what_a_killed_program_completed_is_kept_and_another_goes_on(tmp_path: Path) -> None:
    with started(tmp_path / "trace") as (folder, running, program):
        os.kill(program, signal.SIGKILL)
        said = " ".join(running.communicate()[1].split())
    # THEN that is told, and what completed is a table beside the finished replays
    replays = folder.path / "replays"
    kept = replays / "latest.unfinished"
    about = json.loads((kept / "unfinished.json").read_text())
    assert running.returncode == 1
    assert "tracekit-replay was killed by SIGKILL" in about["error"]
    assert f"{about['completions']} completions kept in {kept}" in said
    assert "go on with --resume latest.unfinished" in said
    done = ids_of(kept / "unfinished.parquet")
    assert sorted(done) == list(range(len(done)))
    assert len(done) == about["completions"] == about["next"] > 10
    assert [path.name for path in replays.iterdir()] == [kept.name]
    # WHEN the rest runs under another name, THEN each request was completed once in both together
    succeed("replay", folder.path, *FAST, "--resume", "latest", "--name", "rest")
    rest = ids_of(replays / "rest/completions.parquet")
    assert sorted(rest) == list(range(about["next"], COUNT))
    # AND what was kept is not replaced by another run of its name
    again = invoke("replay", folder.path, *FAST, "--resume", "latest.unfinished")
    refused(again, "its own results would be replaced")


@pytest.mark.parametrize("name", ["latest", "latest.unfinished"])
def test_an_interrupted_run_that_is_killed_before_it_has_its_name_is_gone_on_with(
    tmp_path: Path, name: str
) -> None:
    # GIVEN a replay that Ctrl-C ended in order, whose command was killed just before the rename
    with started(tmp_path / "trace") as (folder, child, _):
        os.killpg(child.pid, signal.SIGINT)
        child.communicate(timeout=20)
    replays = folder.path / "replays"
    # A resume of `latest` finds it, and what has been set aside has its own name.
    hidden = f".latest.tracekit-{child.pid}-0a1b2c3d"
    left = replays / (hidden if name == "latest" else name)
    (replays / "latest").rename(left)
    (left / partial_results.MARK).write_text('{"replaces": false}')
    # WHEN another one goes on with it
    succeed("replay", folder.path, *FAST, "--resume", name, "--name", "rest")
    # THEN the part has its name, and the rest is done, once
    part, rest = (ids_of(replays / one / "completions.parquet") for one in ("latest", "rest"))
    assert len(part) > 10
    assert sorted(part + rest) == list(range(COUNT))
    assert sorted(path.name for path in replays.iterdir()) == ["latest", "rest"]


@pytest.fixture(scope="module")
def killed_trace(tmp_path_factory: pytest.TempPathFactory) -> TraceFolder:
    """Kill the command in the middle of a replay and wait until its program has ended."""
    with started(tmp_path_factory.mktemp("killed") / "trace") as (folder, running, program):
        running.kill()
    await_true(lambda: is_gone(program))
    return folder


@pytest.fixture
def folder(tmp_path: Path, killed_trace: TraceFolder) -> Path:
    """Return a copy of it."""
    return shutil.copytree(killed_trace.path, tmp_path / "trace")


def test_what_a_killed_command_left_is_found_and_gone_on_with(folder: Path) -> None:
    # GIVEN a replay whose command was killed: its program has ended, nothing goes on
    # WHEN another one goes on with it
    done = succeed("replay", folder, *FAST, "--json", "--name", "rest", "--resume", "latest")
    # THEN what completed is a table, and each request is in one of both
    replays = folder / "replays"
    kept = replays / "latest.unfinished"
    first, second = kept / "unfinished.parquet", replays / "rest/completions.parquet"
    assert len(ids_of(first)) > 10
    assert sorted(ids_of(first) + ids_of(second)) == list(range(COUNT))
    about = json.loads((kept / "unfinished.json").read_text())
    assert (about["error"], about["next"]) == ("tracekit was killed", len(ids_of(first)))
    # AND it was told where it is
    warned = [one["message"] for one in json.loads(done.stdout)["warnings"]]
    assert f"an earlier replay was killed; what it completed is in {kept}" in warned
    assert sorted(path.name for path in replays.iterdir()) == ["latest.unfinished", "rest"]


def test_a_new_replay_of_the_name_throws_nothing_away(folder: Path) -> None:
    succeed("replay", folder, *FAST)
    assert len(ids_of(folder / "replays/latest.unfinished/unfinished.parquet")) > 10
    assert len(ids_of(folder / "replays/latest/completions.parquet")) == COUNT


def test_a_second_kill_of_a_name_keeps_what_the_first_left(tmp_path: Path, folder: Path) -> None:
    # GIVEN a replay of a name that is not replaced, killed a second time after more requests
    left, replays = left_in(folder), folder / "replays"
    note = json.loads((left / "unfinished.json").read_text()) | {"replaces": False}
    (left / "unfinished.json").write_text(json.dumps(note))
    named, again = replays / left.name.replace("latest", "a"), tmp_path / "again"
    shutil.copytree(left, again)
    left.rename(named)
    succeed("replay", folder, *FAST, "--limit", "1", "--name", "a")
    shutil.rmtree(replays / "a")
    again.rename(named)
    # WHEN the second of them is gone on with
    done = succeed("replay", folder, *FAST, "--resume", "a", "--name", "rest")
    # THEN both parts are there, each by a name of its own
    places = [replays / one for one in ("a.unfinished", "a.unfinished-2")]
    tables = [ids_of(place / "unfinished.parquet") for place in places]
    assert len(tables[0]) == len(tables[1]) > 10
    assert str(places[1]) in " ".join(done.output.split())
    rest = ids_of(replays / "rest/completions.parquet")
    assert sorted(tables[0] + rest) == list(range(COUNT))
    # AND the second is gone on with by its name
    succeed("replay", folder, *FAST, "--resume", "a.unfinished-2", "--name", "rest-2")
    assert ids_of(replays / "rest-2/completions.parquet") == rest


def left_in(folder: Path) -> Path:
    """Return the hidden folder that the killed replay left."""
    (left,) = (folder / "replays").glob(".latest.*")
    return left


def test_a_killed_run_does_not_say_where_its_files_are(tmp_path: Path, folder: Path) -> None:
    # GIVEN a folder whose note names completions and a plan outside, as somebody else wrote it
    precious = write_records(tmp_path / "precious", [0, 1])
    content = precious.read_bytes()
    note = json.loads((left_in(folder) / "unfinished.json").read_text())
    note |= {"plan": "../../../precious", "records": "../../../precious"}
    (left_in(folder) / "unfinished.json").write_text(json.dumps(note))
    # WHEN its name is replayed again
    succeed("replay", folder, *FAST)
    # THEN what was outside is there, and what is inside was taken
    assert precious.read_bytes() == content
    assert len(ids_of(folder / "replays/latest.unfinished/unfinished.parquet")) > 10


def test_a_torn_note_loses_only_how_far_it_came(folder: Path) -> None:
    # GIVEN a note that a power loss left as zeros
    (left_in(folder) / "unfinished.json").write_bytes(bytes(1 << 16))
    # WHEN its name is replayed again
    succeed("replay", folder, *FAST)
    # THEN what completed is kept, and what is lost is said there and when it is to be gone on with
    kept = folder / "replays/latest.unfinished"
    assert len(ids_of(kept / "unfinished.parquet")) > 10
    about = json.loads((kept / "unfinished.json").read_text())
    assert "tracekit was killed, and what it was doing is lost" in about["error"]
    again = invoke("replay", folder, *FAST, "--resume", "latest.unfinished", "--name", "rest")
    refused(again, "--resume latest.unfinished: how far it came is lost")


@pytest.mark.parametrize("name", ["plan.bin", "records"])
@pytest.mark.parametrize("kind", ["zeros", "cut", "link", "pipe", "gone"])
def test_what_cannot_be_read_is_an_unfinished_copy(
    tmp_path: Path, folder: Path, name: str, kind: str
) -> None:
    # GIVEN a killed replay whose plan or completions are damaged, or no files
    left = left_in(folder)
    file = left / name if name == "plan.bin" else next(left.glob("completions.bin*"))
    whole = file.read_bytes()
    file.unlink()
    if kind == "zeros":
        file.write_bytes(bytes(len(whole)))
    elif kind == "cut":
        file.write_bytes(whole[:40])
    elif kind == "link":
        (tmp_path / "whole").write_bytes(whole)
        file.symlink_to(tmp_path / "whole")
    elif kind == "pipe":
        os.mkfifo(file)
    # WHEN its name is replayed again
    done = succeed("replay", folder, *FAST, "--json")
    # THEN it works, nothing is kept, and what a link names stays
    assert "rescued" not in [one["code"] for one in json.loads(done.stdout)["warnings"]]
    assert [path.name for path in (folder / "replays").iterdir()] == ["latest"]
    assert kind != "link" or (tmp_path / "whole").read_bytes() == whole


@pytest.mark.parametrize("name", ["../latest", "/latest", "..", ".latest", ""])
def test_a_path_is_no_name_of_a_replay(tmp_path: Path, name: str) -> None:
    folder = steady(tmp_path / "trace", 3, 10)
    refused(invoke("replay", folder.path, *FAST, "--resume", name), "--resume", "not a plain name")


@pytest.mark.root
def test_what_completed_is_kept_on_a_disk_that_became_full(tmp_path: Path) -> None:
    # GIVEN a trace on a disk of 4 MiB, of which plan and completions would take more
    count = 50_000
    made = steady(tmp_path / "trace", count, 1000)
    with small_file_system(tmp_path / "small") as place:
        for name in ("requests.parquet", "trace.json"):
            shutil.copy(made.path / name, place)
        # WHEN it is replayed
        done = invoke("replay", place, *FAST, "--no-space-check")
        # THEN what completed before the disk was full is there, and can be read and gone on with
        kept = place / "replays/latest.unfinished"
        assert done.exit_code == 1
        assert f"kept in {kept}" in str(done.exception)
        about = json.loads((kept / "unfinished.json").read_text())
        assert "No space left on device" in about["error"]
        if about["completions"] is None:
            parts = read_records(kept / "completions.bin")
            ids = [int(n) for part in parts for n in part["request_id"]]
        else:
            ids = ids_of(kept / "unfinished.parquet")
        assert 1000 < len(ids) < count
        assert sorted(ids)[: about["next"]] == list(range(about["next"]))


def reached_by(plan: Path, records: Path, *, begin: int, from_ns: int = 0) -> Reached:
    return reached(plan, ended_in_file(records), begin=begin, from_ns=from_ns)


def write_plan_of(path: Path, ids: list[int]) -> Path:
    """Write a plan of one request each 10 ns, with these ids."""
    write_plan(path, [record(READ, 0, 8, at_ns=10 * n) for n in range(len(ids))])
    rows = np.memmap(path, block_plan.RECORD, "r+", block_plan.HEADER.itemsize, (len(ids),))
    rows["request_id"] = ids
    rows.flush()
    return path


def write_records(path: Path, ids: list[int], *, more: bytes = b"") -> Path:
    """Write what the program leaves when it is killed."""
    header = np.zeros(1, completions.HEADER)
    header["magic"], header["record_bytes"] = completions.MAGIC, completions.RECORD.itemsize
    rows = np.zeros(len(ids), completions.RECORD)
    rows["request_id"] = ids
    path.write_bytes(header.tobytes() + rows.tobytes() + more)
    return path


def expected(planned: list[int], ended: list[int], begin: int) -> tuple[int, list[int]]:
    left, first, done = Counter(ended), len(planned), []
    for number in range(begin, len(planned)):
        if not left[planned[number]]:
            first = min(first, number)
        else:
            left[planned[number]] -= 1
            done += [number] if number > first else []
    return first, done


@pytest.mark.parametrize("seed", range(40))
def test_the_first_request_that_was_not_completed(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a plan whose requests may have several pieces, and completions in a mixed order
    chance = np.random.default_rng(seed)
    planned = np.repeat(chance.permutation(300), chance.integers(1, 4, 300)).tolist()
    begin = int(chance.integers(0, 100))
    places = np.arange(begin, len(planned))
    mixed = places[np.argsort(places + chance.integers(0, 50, len(places)))]
    ended = [planned[place] for place in mixed[: chance.integers(0, len(places) + 1)]]
    plan = write_plan_of(tmp_path / "plan", planned)
    records = write_records(tmp_path / "records", ended, more=b"cut off")
    # WHEN they are read a few at a time
    monkeypatch.setattr(completions, "CHUNK_RECORDS", int(chance.integers(1, 40)))
    found = reached_by(plan, records, begin=begin)
    # THEN it is the one that a plain loop finds, and the same from its time on
    first, done = expected(planned, ended, begin)
    assert (found.next, found.done.tolist()) == (first, done)
    assert reached_by(plan, records, begin=0, from_ns=10 * begin).next == first
    # AND a run that went on, and completed nothing, came as far
    none: Iterator[Ids] = iter([])
    again = reached(plan, none, begin=found.next, done=found.done)
    assert (again.next, again.done.tolist()) == (first, done)


def test_a_request_that_never_ended_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_results, "MOST_AHEAD", 100)
    monkeypatch.setattr(completions, "CHUNK_RECORDS", 10)
    plan = write_plan_of(tmp_path / "plan", list(range(1000)))
    records = write_records(tmp_path / "records", [0, *range(2, 500)])
    assert reached_by(plan, records, begin=0).next == 1


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    plan = write_plan_of(tmp_path / "plan", [0])
    (tmp_path / "records").write_bytes(bytes(200))
    with pytest.raises(InputError, match="no file of completions"):
        reached_by(plan, tmp_path / "records", begin=0)

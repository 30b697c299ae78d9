"""`tracekit replay`, from a trace folder to its results."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from typer.testing import CliRunner

from tests.replay.trace import trace
from tracekit.cli import app
from tracekit.errors import TracekitError
from tracekit.store import TraceFolder
from tracekit.tables import COMPLETIONS

ROWS: list[dict[str, Any]] = [
    {"queue_ns": 0, "sector": 2048, "role": "fs"},
    {"queue_ns": 50_000, "sector": 200_000, "role": "journal", "is_preflush": True, "is_fua": True},
    {"queue_ns": 60_000, "operation": "flush", "length_bytes": 0, "role": "journal"},
    {"queue_ns": 900_000, "sector": 2056, "role": "fs", "operation": "read"},
]


def tracekit(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracekit", "replay", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_replay_keeps_plan_completions_and_summary(tmp_path: Path) -> None:
    # GIVEN a trace
    folder = trace(tmp_path / "trace", ROWS)
    # WHEN it is replayed without any option
    done = tracekit(folder.path, "--json")
    # THEN the results are in replays/latest, and the file made for the run is gone
    assert done.returncode == 0, done.stderr
    place = folder.path / "replays" / "latest"
    assert sorted(path.name for path in place.iterdir()) == [
        "completions.parquet",
        "plan.bin",
        "summary.json",
    ]
    assert json.loads(done.stdout) == json.loads((place / "summary.json").read_text())
    table = pq.read_table(place / "completions.parquet")
    assert table.schema.names == COMPLETIONS.names
    assert sorted(table["request_id"].to_pylist()) == [0, 1, 2, 3]
    rows = sorted(table.to_pylist(), key=lambda row: row["request_id"])
    assert [row["intended_ns"] for row in rows] == [0, 50_000, 60_000, 900_000]
    assert {row["status"] for row in rows} == {"done"}
    assert [path.name for path in (folder.path / "replays").iterdir()] == ["latest"]


def test_each_role_goes_to_its_own_target(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    journal, rest = tmp_path / "journal", tmp_path / "rest"
    targets = ("--target", f"journal={journal}", "--target", rest)
    done = tracekit(folder.path, *targets, "--keep", "--json", "--pace", "fast")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [(target["label"], target["path"]) for target in told["targets"]] == [
        ("journal", str(journal)),
        ("default", str(rest)),
    ]
    assert journal.stat().st_size == 4096
    assert any(journal.read_bytes())
    table = pq.read_table(folder.path / "replays/latest/completions.parquet")
    assert table["intended_ns"].null_count == 4


def test_the_words_say_what_ran_and_where(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    target = tmp_path / "precious"
    target.write_bytes(bytes(200_008 * 512))
    done = tracekit(folder.path, "--target", target)
    assert done.returncode == 0, done.stderr
    assert "4 requests as queued" in done.stdout
    assert f"default: existing file {target}" in done.stdout
    assert f"reads only; to write there: --write-to {target}" in done.stdout
    assert "warning: 2 requests were skipped read only" in done.stdout
    assert not any(target.read_bytes())


def test_a_named_replay_is_not_replaced_unless_forced(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    arguments = (folder.path, "--engine", "null", "--name", "first")
    assert tracekit(*arguments).returncode == 0
    again = tracekit(*arguments)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert tracekit(*arguments, "--force").returncode == 0


def test_refusals_leave_nothing(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    cases = [
        (("--speed", "0"), 2, "--speed does not take '0'"),
        (("--depth", "0"), 2, "--depth does not take '0'"),
        (("--name", "../x"), 2, "not a plain name"),
        (("--limit", "0"), 2, "not a number of requests"),
        (("--target", "jurnal=/x"), 2, "there is no role 'jurnal'"),
        (("--target", "swap=/x"), 2, "no requests of role 'swap'"),
        (("--engine", "null", "--target", "/x"), 2, "the null engine takes no --target"),
        (("--target", tmp_path / "no" / "x"), 1, "No such file or directory"),
        (("--target", tmp_path), 1, "neither a regular file nor a block device"),
    ]
    for arguments, code, message in cases:
        done = CliRunner().invoke(app, ["replay", str(folder.path), *map(str, arguments)])
        assert isinstance(done.exception, TracekitError), (arguments, done.exception)
        assert done.exception.exit_code == code
        assert message in str(done.exception)
        assert done.stdout == ""
        assert list((folder.path).glob("replays/*")) == []


def test_words_that_are_none_are_told_the_others(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    for option, word in (("--engine", "warp"), ("--pace", "slow"), ("--level", "wanted")):
        done = CliRunner().invoke(app, ["replay", str(folder.path), option, word])
        assert done.exit_code == 2
        assert f"'{word}' is not one of" in done.stderr
        assert list((folder.path).glob("replays/*")) == []


def test_the_trace_itself_is_no_target_even_if_confirmed(tmp_path: Path) -> None:
    # GIVEN a trace, and other names of its table
    folder = trace(tmp_path / "trace", ROWS)
    table = folder.table("requests")
    before = table.read_bytes()
    os.link(table, tmp_path / "hard")
    (tmp_path / "soft").symlink_to(table)
    for target in (table, tmp_path / "hard", tmp_path / "soft"):
        # WHEN a confirmed replay shall write there
        done = tracekit(
            folder.path, "--target", target, "--write-to", table, "--out-of-range", "wrap"
        )
        # THEN it is refused and the table is as it was
        assert done.returncode == 2
        assert f"{target}: this is a file of the trace" in done.stderr
        assert table.read_bytes() == before


def test_two_targets_in_one_place_are_refused(tmp_path: Path) -> None:
    # GIVEN two names of one file that is not there yet
    folder = trace(tmp_path / "trace", ROWS)
    (tmp_path / "b").symlink_to("a")
    # WHEN two roles shall go there
    done = tracekit(
        folder.path, "--target", f"fs={tmp_path}/a", "--target", f"journal={tmp_path}/b"
    )
    # THEN it is refused, and no file was made
    assert done.returncode == 2
    assert f"journal={tmp_path}/b: the same place as --target fs={tmp_path}/a" in done.stderr
    assert not (tmp_path / "a").exists()


def test_a_dry_run_keeps_nothing(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    done = tracekit(folder.path, "--dry-run", "--target", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert "dry run: no request was made" in done.stdout
    assert not (tmp_path / "new").exists()
    assert not (folder.path / "replays").exists()


def test_a_dry_run_tells_what_would_be_done(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    (tmp_path / "small").write_bytes(bytes(2 << 20))
    small = ("--target", tmp_path / "small", "--out-of-range", "wrap")
    done = tracekit(folder.path, "--dry-run", *small)
    assert done.returncode == 0, done.stderr
    # ROWS: a read and two writes of 4 KiB, a flush; one write lies behind 2 MiB
    assert "planned: 1 reads of 4 KiB, 2 writes of 8 KiB, 1 flushes\n" in done.stdout
    assert "beyond its end: 1 requests, wrapped\n" in done.stdout
    fitting = tracekit(folder.path, "--dry-run", "--engine", "null")
    assert "beyond" not in fitting.stdout
    assert "planned: 1 reads of 4 KiB" in fitting.stdout


def test_a_missed_budget_ends_no_other_repeat(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    ways = ("--engine", "null", "--repeat", "3", "--name", "often", "--budget", "max=0ns")
    done = tracekit(folder.path, *ways)
    assert done.returncode == 4
    assert "often.1 missed its timing budget: max" in done.stderr
    names = sorted(path.name for path in (folder.path / "replays").iterdir())
    assert names == ["often.1", "often.2", "often.3"]


def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    # GIVEN a trace of a minute
    rows = [{"queue_ns": number * 10_000_000, "sector": 0} for number in range(6000)]
    folder = trace(tmp_path / "trace", rows)
    # WHEN Ctrl-C is typed: the signal goes to the whole group
    command = [sys.executable, "-m", "tracekit", "replay", str(folder.path), "--engine", "null"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        _wait_for_run(folder.path)
        os.killpg(child.pid, signal.SIGINT)
        out, messages = child.communicate(timeout=20)
    # THEN the results are there, and the exit code says that they are a part
    assert child.returncode == 3, messages
    assert "interrupted" in out
    told = json.loads((folder.path / "replays/latest/summary.json").read_text())
    table = pq.read_table(folder.path / "replays/latest/completions.parquet")
    assert 0 < told["counts"]["done"] == table.num_rows < 6000


def _wait_for_run(folder: Path) -> None:
    """Wait until the program writes completions, and a moment longer."""
    for _ in range(200):
        if list(folder.glob("replays/.latest.*/completions.bin.*.part")):
            break
        time.sleep(0.05)
    time.sleep(0.5)


def test_the_words_tell_a_file_that_is_kept_from_one_that_is_removed(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    target = tmp_path / "t"
    removed = tracekit(folder.path, "--target", target, "--pace", "fast")
    assert f"default: file made for the run and removed {target}" in removed.stdout
    kept = tracekit(folder.path, "--target", target, "--pace", "fast", "--keep")
    assert f"default: file made for the run {target}" in kept.stdout
    assert target.exists()


def killed(place: Path) -> tuple[TraceFolder, int, str]:
    """Kill the program of a replay of 100 s and return trace, exit code and what was said."""
    rows = [{"queue_ns": n * 10_000_000, "sector": 8, "role": "fs"} for n in range(10_000)]
    folder = trace(place, rows)
    command = [sys.executable, "-m", "tracekit", "replay", str(folder.path), "--engine", "null"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        records = _wait_for_records(folder.path / "replays")
        time.sleep(0.5)
        os.kill(int(records.suffixes[-2].removeprefix(".")), signal.SIGKILL)
        said = running.communicate()[1]
    return folder, running.returncode, " ".join(said.split())


def test_what_a_killed_program_completed_is_kept_and_told(tmp_path: Path) -> None:
    folder, code, said = killed(tmp_path / "trace")
    # THEN that is told, and what completed is a table beside the finished replays
    kept = folder.path / "replays/latest.unfinished"
    about = json.loads((kept / "unfinished.json").read_text())
    assert code == 1
    assert "tracekit-replay was killed by SIGKILL" in about["error"]
    assert f"{about['completions']} completions kept in {kept}" in said
    ids = pq.read_table(kept / "unfinished.parquet")["request_id"].to_pylist()
    assert sorted(ids) == list(range(len(ids)))
    assert len(ids) == about["completions"] == about["next"] > 10
    assert [path.name for path in (folder.path / "replays").iterdir()] == [kept.name]


def test_another_replay_goes_on_behind_a_killed_one(tmp_path: Path) -> None:
    folder, _, said = killed(tmp_path / "trace")
    assert "go on with --resume latest.unfinished" in said
    replays = folder.path / "replays"
    reached = json.loads((replays / "latest.unfinished/unfinished.json").read_text())["next"]
    # WHEN the rest runs under another name, as fast as possible
    fast = ("--engine", "null", "--pace", "fast", "--resume")
    rest = tracekit(folder.path, *fast, "latest", "--name", "rest")
    # THEN each request was completed once in both together
    assert rest.returncode == 0, rest.stderr
    ids = pq.read_table(replays / "rest/completions.parquet")["request_id"].to_pylist()
    assert sorted(ids) == list(range(reached, 10_000))
    # AND what was kept is not replaced by another run of its name
    again = tracekit(folder.path, *fast, "latest.unfinished")
    assert again.returncode == 2
    assert "its own results would be replaced" in again.stderr


def _wait_for_records(replays: Path) -> Path:
    end_s = time.monotonic() + 20
    while time.monotonic() < end_s:
        if found := list(replays.glob(".*/completions.bin.*.part")):
            return found[0]
        time.sleep(0.02)
    raise AssertionError("the program has not started")

"""What is left when `tracekit` itself is killed, or has no room for its results."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import CliRunner

from tests.replay.disk import needs_root, small_file_system
from tests.replay.trace import trace
from tracekit.cli import app
from tracekit.replay.completions import read_records
from tracekit.store import TraceFolder


def ids_of(table: Path) -> list[int]:
    ids: list[int] = pq.read_table(table)["request_id"].to_pylist()
    return ids


def killed(place: Path) -> TraceFolder:
    """Kill the command in the middle of a replay of 100 s and wait until its program has ended."""
    rows = [{"queue_ns": n * 10_000_000, "sector": 8, "role": "fs"} for n in range(10_000)]
    folder = trace(place, rows)
    command = [sys.executable, "-m", "tracekit", "replay", str(folder.path), "--engine", "null"]
    with subprocess.Popen(command) as running:
        program = 0
        for _ in range(400):
            parts = list(folder.path.glob("replays/.latest.*/completions.bin.*.part"))
            if parts and parts[0].stat().st_size > 1000:
                program = int(parts[0].suffixes[-2].removeprefix("."))
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
    assert program
    for _ in range(400):
        if not Path(f"/proc/{program}").exists():
            break
        time.sleep(0.05)
    else:
        os.kill(program, signal.SIGKILL)
        raise AssertionError("the program went on without the command that started it")
    return folder


def test_what_a_killed_command_left_is_found_and_gone_on_with(tmp_path: Path) -> None:
    # GIVEN a replay whose command was killed: its program has ended, nothing goes on
    folder = killed(tmp_path / "trace")
    # WHEN another one goes on with it
    rest = ["replay", str(folder.path), "--engine", "null", "--pace", "fast", "--json"]
    done = CliRunner().invoke(app, [*rest, "--name", "rest", "--resume", "latest"])
    # THEN what completed is a table, and each request is in one of both
    assert done.exit_code == 0, done.output
    replays = folder.path / "replays"
    kept = replays / "latest.unfinished"
    first, second = (
        ids_of(kept / "unfinished.parquet"),
        ids_of(replays / "rest/completions.parquet"),
    )
    assert len(first) > 10
    assert sorted(first + second) == list(range(10_000))
    about = json.loads((kept / "unfinished.json").read_text())
    assert (about["error"], about["next"]) == ("tracekit was killed", len(first))
    # and it was told where it is
    warned = [w["message"] for w in json.loads(done.stdout)["warnings"]]
    assert f"an earlier replay was killed; what it completed is in {kept}" in warned
    assert sorted(path.name for path in replays.iterdir()) == ["latest.unfinished", "rest"]


def test_a_new_replay_of_the_name_throws_nothing_away(tmp_path: Path) -> None:
    folder = killed(tmp_path / "trace")
    again = ["replay", str(folder.path), "--engine", "null", "--pace", "fast"]
    assert CliRunner().invoke(app, again).exit_code == 0
    assert len(ids_of(folder.path / "replays/latest.unfinished/unfinished.parquet")) > 10
    assert len(ids_of(folder.path / "replays/latest/completions.parquet")) == 10_000


@needs_root
def test_what_completed_is_kept_on_a_disk_that_became_full(tmp_path: Path) -> None:
    # GIVEN a trace on a disk of 4 MiB, of which plan and completions would take more
    count = 50_000
    rows = [{"queue_ns": n * 1000, "sector": 8, "role": "fs"} for n in range(count)]
    made = trace(tmp_path / "trace", rows)
    with small_file_system(tmp_path / "small") as place:
        for name in ("requests.parquet", "trace.json"):
            (place / name).write_bytes((made.path / name).read_bytes())
        # WHEN it is replayed
        run = ["replay", str(place), "--engine", "null", "--pace", "fast"]
        done = CliRunner().invoke(app, run)
        # THEN what completed before the disk was full is there, and can be read and gone on with
        assert done.exit_code == 1
        kept = place / "replays/latest.unfinished"
        assert f"kept in {kept}" in str(done.exception)
        about = json.loads((kept / "unfinished.json").read_text())
        assert "No space left on device" in about["error"]
        rows_kept = (
            ids_of(kept / "unfinished.parquet")
            if about["completions"] is not None
            else [
                int(n)
                for part in read_records(kept / "completions.bin")
                for n in part["request_id"]
            ]
        )
        assert 1000 < len(rows_kept) < count
        assert sorted(rows_kept)[: about["next"]] == list(range(about["next"]))

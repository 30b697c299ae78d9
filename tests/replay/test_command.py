"""`tracekit replay`, from a trace folder to its results."""

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from tests.command_line import invoke, succeed
from tests.replay.trace import ROWS, trace
from tracekit.errors import BudgetError, TracekitError
from tracekit.store import TraceFolder
from tracekit.tables import COMPLETIONS


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    return trace(tmp_path / "trace", ROWS)


def replays(folder: TraceFolder) -> list[str]:
    """Return the names of what the folder has of replays."""
    return sorted(path.name for path in folder.path.glob("replays/*"))


def refused(done: Result, message: str, code: int = 2) -> None:
    assert isinstance(done.exception, TracekitError), done.output
    assert done.exception.exit_code == code
    assert message in str(done.exception)
    assert done.stdout == ""


def test_a_replay_keeps_plan_completions_and_summary(folder: TraceFolder) -> None:
    # WHEN a trace is replayed without any option
    told = json.loads(succeed("replay", folder.path, "--json").stdout)
    # THEN the results are in replays/latest, and the temporary file is gone
    place = folder.path / "replays" / "latest"
    names = sorted(path.name for path in place.iterdir())
    assert names == ["completions.parquet", "plan.bin", "summary.json"]
    assert told == json.loads((place / "summary.json").read_text())
    table = pq.read_table(place / "completions.parquet")
    assert table.schema.names == COMPLETIONS.names
    rows = sorted(table.to_pylist(), key=lambda row: row["request_id"])
    assert [row["request_id"] for row in rows] == [0, 1, 2, 3]
    assert [row["intended_ns"] for row in rows] == [0, 50_000, 60_000, 900_000]
    assert {row["status"] for row in rows} == {"done"}
    assert replays(folder) == ["latest"]


def test_each_role_goes_to_its_own_target(tmp_path: Path, folder: TraceFolder) -> None:
    journal, rest = tmp_path / "journal", tmp_path / "rest"
    words = ("--target", f"journal={journal}", "--target", rest, "--keep", "--pace", "fast")
    told = json.loads(succeed("replay", folder.path, *words, "--json").stdout)
    assert [(target["label"], target["path"]) for target in told["targets"]] == [
        ("journal", str(journal)),
        ("default", str(rest)),
    ]
    assert journal.stat().st_size == 4096
    assert any(journal.read_bytes())
    table = pq.read_table(folder.path / "replays/latest/completions.parquet")
    assert table["intended_ns"].null_count == 4


def test_the_words_say_what_ran_and_where(tmp_path: Path, folder: TraceFolder) -> None:
    target = tmp_path / "precious"
    target.write_bytes(bytes(200_008 * 512))
    shown = succeed("replay", folder.path, "--target", target).stdout
    assert "4 requests as queued" in shown
    assert f"default: existing file {target}" in shown
    assert f"reads only; to write there: --write-to {target}" in shown
    assert "warning: 2 requests were skipped read only" in shown
    assert not any(target.read_bytes())
    # AND a file that is kept from one that is removed
    new = ("--target", tmp_path / "t", "--pace", "fast")
    shown = succeed("replay", folder.path, *new).stdout
    assert f"default: temporary file {tmp_path / 't'}" in shown
    shown = succeed("replay", folder.path, *new, "--keep").stdout
    assert f"default: new file {tmp_path / 't'}" in shown
    assert (tmp_path / "t").exists()


def test_a_named_replay_is_not_replaced_unless_forced(folder: TraceFolder) -> None:
    words = ("replay", folder.path, "--engine", "null", "--name", "first")
    succeed(*words)
    refused(invoke(*words), "exists already")
    succeed(*words, "--force")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--speed 0", 2, "--speed does not take '0'"),
        ("--depth 0", 2, "--depth does not take '0'"),
        ("--name ../x", 2, "not a plain name"),
        ("--limit 0", 2, "not a number of requests"),
        ("--target jurnal=/x", 2, "there is no role 'jurnal'"),
        ("--target swap=/x", 2, "no requests of role 'swap'"),
        ("--engine null --target /x", 2, "the null engine takes no --target"),
        ("--target {tmp}/no/x", 2, "/no: there is no such file or folder"),
        ("--target {tmp}", 1, "neither a regular file nor a block device"),
    ],
)
def test_refusals_leave_nothing(
    tmp_path: Path, folder: TraceFolder, words: str, code: int, message: str
) -> None:
    done = invoke("replay", folder.path, *words.format(tmp=tmp_path).split())
    refused(done, message, code)
    assert replays(folder) == []


@pytest.mark.parametrize("words", ["--engine warp", "--pace slow", "--late never", "--level all"])
def test_a_word_that_is_none_is_rejected_by_the_parser(folder: TraceFolder, words: str) -> None:
    option, word = words.split()
    done = invoke("replay", folder.path, option, word)
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.stderr
    assert f"'{word}' is not one of" in done.stderr
    assert replays(folder) == []


def test_the_trace_itself_is_no_target_even_if_confirmed(
    tmp_path: Path, folder: TraceFolder
) -> None:
    # GIVEN other names of the trace's table
    table = folder.table("requests")
    before = table.read_bytes()
    os.link(table, tmp_path / "hard")
    (tmp_path / "soft").symlink_to(table)
    for target in (table, tmp_path / "hard", tmp_path / "soft"):
        # WHEN a confirmed replay shall write there, THEN the table is as it was
        words = ("--target", target, "--write-to", table, "--out-of-range", "wrap")
        refused(invoke("replay", folder.path, *words), f"{target}: this is a file of the trace")
        assert table.read_bytes() == before


def test_two_targets_in_one_place_are_refused(tmp_path: Path, folder: TraceFolder) -> None:
    # GIVEN two names of one file that is not there yet, WHEN two roles shall go there
    (tmp_path / "b").symlink_to("a")
    words = (f"--target=fs={tmp_path}/a", f"--target=journal={tmp_path}/b")
    # THEN it is refused, and no file was made
    message = f"journal={tmp_path}/b: the same place as --target fs={tmp_path}/a"
    refused(invoke("replay", folder.path, *words), message)
    assert not (tmp_path / "a").exists()


def test_a_dry_run_tells_what_would_be_done_and_keeps_nothing(
    tmp_path: Path, folder: TraceFolder
) -> None:
    shown = succeed("replay", folder.path, "--dry-run", "--target", tmp_path / "new").stdout
    assert "dry run: no request was made" in shown
    assert not (tmp_path / "new").exists()
    (tmp_path / "small").write_bytes(bytes(2 << 20))
    small = ("--target", tmp_path / "small", "--out-of-range", "wrap")
    shown = succeed("replay", folder.path, "--dry-run", *small).stdout
    # ROWS: a read and two writes of 4 KiB, a flush; one write lies behind 2 MiB
    assert "planned: 1 reads of 4 KiB, 2 writes of 8 KiB, 1 flushes\n" in shown
    assert "beyond its end: 1 requests, wrapped\n" in shown
    fitting = succeed("replay", folder.path, "--dry-run", "--engine", "null").stdout
    assert "beyond" not in fitting
    assert "planned: 1 reads of 4 KiB" in fitting
    assert replays(folder) == []


def test_a_missed_budget_ends_no_other_repeat(folder: TraceFolder) -> None:
    words = "--engine null --repeat 3 --name often --budget max=0ns"
    done = invoke("replay", folder.path, *words.split())
    assert isinstance(done.exception, BudgetError)
    assert "often.1 missed its timing budget: max" in str(done.exception)
    assert replays(folder) == ["often.1", "often.2", "often.3"]

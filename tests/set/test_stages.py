"""Stages of every volume of a set: as of each trace by itself, what is done passed over."""

import json
import os
import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tests.shared import made_once
from tracekit import origin
from tracekit.errors import PartialError, TracekitError
from tracekit.fleet import stages
from tracekit.fleet.catalogue import TraceSet

NAMES = ("web-server", "paging", "log-structured")


@pytest.fixture
def made(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> tk.Set:
    def make(place: Path) -> None:
        for number, name in enumerate(NAMES):
            tk.generate(name, place / name, requests=500 * (number + 1))
        tk.add_to_set(place / "set", *(place / name for name in NAMES))

    shutil.copytree(made_once(tmp_path_factory, "sets", make), tmp_path / "all")
    return tk.open_set(tmp_path / "all" / "set")


def findings(trace: tk.Trace) -> dict[str, pa.Table]:
    return {name: pq.read_table(trace.folder.table(f"findings/{name}")) for name in trace.findings}


def test_each_volume_has_what_the_trace_by_itself_has(made: tk.Set) -> None:
    # GIVEN a set, WHEN all its volumes are classified and analysed by processes
    assert "classify: 3 volumes done" in succeed("classify", made.path).stdout
    words = ("--only", "skew", "--only", "access_times")
    assert "analyze: 3 volumes done" in succeed("analyze", made.path, *words).stdout
    # THEN the tables are those of a run on each trace alone
    for name, volume in made.items():
        alone = tk.open(made.path.parent / name)
        alone.classify()
        alone.analyze(only=["skew", "access_times"])
        for table in ("blocks", "volumes", "intervals", "working_set"):
            of_set, expected = (pq.read_table(one.folder.table(table)) for one in (volume, alone))
            assert of_set.equals(expected)
        found, wanted = findings(volume), findings(alone)
        assert found.keys() == wanted.keys()
        assert all(found[table].equals(wanted[table]) for table in wanted)


def test_what_is_up_to_date_is_passed_over(made: tk.Set) -> None:
    def of(found: tk.SetRun) -> tuple[int, int]:
        return found.summary["done"], found.summary["up_to_date"]

    assert of(made.classify()) == (3, 0)
    assert of(made.analyze(only="totals")) == (3, 0)
    # GIVEN one volume with other roles, and one without the result of the last stage
    volume = made["paging"]
    volume.classify(role=f"{volume.info.devices[0].device}=other")
    (made.path / "web-server" / "findings" / "totals.parquet").unlink()
    # THEN only what these need is done again, and other options are another result
    assert of(made.analyze(only="totals")) == (2, 1)
    assert of(made.classify()) == (1, 2)
    assert of(made.classify(memory="64MiB")) == (0, 3)
    assert of(made.classify(hot=0.7)) == (3, 0)


def test_what_another_version_made_is_made_again(
    made: tk.Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(found: tk.SetRun) -> tuple[int, int]:
        return found.summary["done"], found.summary["up_to_date"]

    def all_stages() -> list[tuple[int, int]]:
        found = (made.classify(), made.analyze(only="totals"), made.recommend())
        return [of(one) for one in found]

    assert all_stages() == [(3, 0)] * 3
    assert all_stages() == [(0, 3)] * 3
    # WHEN the program has another version, THEN no result counts as up to date
    monkeypatch.setattr(origin, "__version__", "999.0")
    assert [of(one) for one in (made.classify(), made.analyze(only="totals"))] == [(3, 0)] * 2
    monkeypatch.undo()
    # AND a finding without a column that its query has now is made again
    finding = made["paging"].folder.table("findings/totals")
    table = pq.read_table(finding)
    pq.write_table(table.drop_columns(["preflush_count"]), finding)
    assert of(made.analyze(only="totals")) == (1, 2)
    # AND results that say nothing of a version are of an earlier one
    file = made.path / "paging" / "recommendation.json"
    made.recommend()
    content = json.loads(file.read_text())
    del content["made_from"]["tracekit"]
    file.write_text(json.dumps(content))
    assert of(made.recommend()) == (1, 2)


def test_a_damaged_volume_is_left_out_and_the_others_go_on(made: tk.Set) -> None:
    (made.path / "paging" / "requests.parquet").write_bytes(b"PAR1 no more")
    shutil.rmtree(made.path / "log-structured")
    result = invoke("classify", made.path)
    refused(result, "2 of 3 volumes left out: log-structured and others", error=PartialError)
    assert "left out: paging: " in result.stderr
    assert made["web-server"].folder.has("blocks")
    # WHEN no volume is left, THEN nothing was done
    (made.path / "web-server" / "trace.json").unlink()
    failed = invoke("classify", made.path, "--json")
    assert type(failed.exception) is TracekitError
    assert [one["volume"] for one in json.loads(failed.stdout)["left_out"]] == sorted(NAMES)


def killed_by_paging(path: stages.Source) -> None:
    """Stand for a stage whose process the kernel kills, as for want of memory."""
    assert isinstance(path, Path)
    if path.name == "paging":
        os.kill(os.getpid(), signal.SIGKILL)
    (path / "worked").touch()


def test_a_killed_process_costs_the_volume_that_it_worked_on(
    made: tk.Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "process_count", lambda _volumes: 2)
    outcome = stages.run_each(TraceSet(made.path), killed_by_paging, is_done=lambda _folder: False)
    assert sorted(outcome.done) == ["log-structured", "web-server"]
    assert "was killed" in str(outcome.errors.pop("paging"))
    assert not outcome.errors
    assert {file.parent.name for file in made.path.glob("*/worked")} == {*outcome.done}

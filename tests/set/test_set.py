"""Trace sets: made by import, beside an import of each volume by itself; the catalogue."""

import itertools
import json
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tests.traces import write_folder
from tracekit.errors import InputError, PartialError, UsageError

NAMES = ("vol-1", "a/b", "..", "x y")


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """A text of four volumes of 3, 30, 300 and 3000 requests, in one order of time."""
    own = [(NAMES[n % 4], n) for n in range(4 * 3000) if n < (12, 120, 1200, 12000)[n % 4]]
    lines = [
        f"{name},{'RW'[n % 3 > 0]},{n * 7 % 1000 * 4096},{4096 * (n % 4 + 1)},{10**15 + n * 999}"
        for name, n in own
    ]
    file = tmp_path / "volumes.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture
def made(csv: Path) -> tk.Set:
    succeed("import", csv, "--split-by", "volume", "--format", "alibaba", "-o", csv.parent / "set")
    return tk.open_set(csv.parent / "set")


def test_volumes_are_those_of_an_import_of_each_by_itself(csv: Path, made: tk.Set) -> None:
    assert {*made} == {"vol-1", "a%2Fb", "%2E.", "x y"}
    lines = csv.read_text().splitlines()
    for device in NAMES:
        # GIVEN the lines of one volume, WHEN they are imported by themselves
        own = csv.with_name("own.csv")
        own.write_text("".join(f"{line}\n" for line in lines if line.startswith(f"{device},")))
        alone = tk.read(own, format="alibaba")
        (volume,) = (one for one in made.values() if one.info.devices[0].device == device)
        # THEN the volume has the same requests, by the clock of the whole
        found, expected = (pq.read_table(one.folder.table("requests")) for one in (volume, alone))
        assert alone.info.clock.base_ns is not None
        assert volume.info.clock.base_ns == 10**18
        later = alone.info.clock.base_ns - 10**18
        for name in expected.column_names:
            shift = later if name == "queue_ns" else 0
            rows = expected[name].to_pylist()
            assert found[name].to_pylist() == ([row + shift for row in rows] if shift else rows)
        assert volume.info.counts["operations"] == alone.info.counts["operations"]
        assert volume.info.completeness == alone.info.completeness
        assert volume.info.clock.duration_ns == max(line_ns(line) for line in lines) - 10**18


def line_ns(line: str) -> int:
    return int(line.rpartition(",")[2]) * 1000


def test_many_volumes_take_few_open_files(tmp_path: Path) -> None:
    # GIVEN 300 volumes, and a process that may have 60 files open
    rows = (f"v{n % 300},R,{n * 4096},4096,{10**15 + n}\n" for n in range(900))
    (tmp_path / "many.csv").write_text("".join(rows))
    words = ["import", "many.csv", "--split-by", "volume", "--format", "alibaba", "-o", "set"]
    subprocess.run(
        [sys.executable, "-m", "tracekit", *words],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60)),
    )
    found = tk.open_set(tmp_path / "set")
    assert [row["requests"] for row in found.volumes] == [3] * 300


def test_the_catalogue_is_made_anew_of_the_volumes(made: tk.Set) -> None:
    file = made.path / "set.json"
    before = file.read_bytes()
    file.unlink()
    refused(invoke("set", "list", made.path), "set.json", error=InputError)
    succeed("set", "add", made.path)
    assert file.read_bytes() == before


def test_what_is_missing_or_damaged_is_named(made: tk.Set) -> None:
    (made.path / "x y" / "trace.json").write_text("{")
    (made.path / "vol-1").rename(made.path.with_name("moved"))
    for words in ("list", "info"):
        result = invoke("set", words, made.path)
        assert isinstance(result.exception, PartialError)
        assert result.exception.exit_code == 3
        assert "x y" in result.stderr
        assert "vol-1" in result.stderr
    # WHEN the catalogue is made anew, THEN the missing one leaves it, the damaged one is named
    refused(invoke("set", "add", made.path), "x y", error=PartialError)
    assert {*tk.open_set(made.path)} == {"a%2Fb", "%2E.", "x y"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "../vol-1"}, "name cannot be '../vol-1'"),
        ({"requests": -1}, "requests cannot be -1"),
        ({"name": "x y"}, "'x y' comes twice"),
        ({"name": ".hidden"}, "name cannot be '.hidden'"),
    ],
)
def test_a_damaged_catalogue_is_refused(
    made: tk.Set, change: dict[str, object], words: str
) -> None:
    file = made.path / "set.json"
    content = json.loads(file.read_text())
    content["volumes"][0].update(change)
    file.write_text(json.dumps(content))
    refused(invoke("set", "info", made.path), str(file), words, error=InputError)


def test_traces_are_added_and_stay_as_they_are(tmp_path: Path) -> None:
    one, other = (write_folder(tmp_path / name, [{"sector": 8}] * 3) for name in "ab")
    found = tk.add_to_set(tmp_path / "set", one.path, other.path)
    assert [*found] == ["a", "b"]
    # WHEN a volume is classified, THEN the trace that it is of is not
    found["a"].classify()
    assert not one.has("blocks")
    assert [row["stages"] for row in tk.open_set(found.path).volumes] == [["classify"], []]
    # AND a name that is taken, or what is no trace, is left out while others come in
    (tmp_path / "c").mkdir()
    third = write_folder(tmp_path / "d", [{}])
    with pytest.raises(PartialError, match="2 left out") as caught:
        tk.add_to_set(found.path, one.path, tmp_path / "c", third.path)
    assert "has a volume a already" in str(caught.value)
    assert [*tk.open_set(found.path)] == ["a", "b", "d"]


def test_a_set_without_volumes_is_shown(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text('{"schema": 1, "volumes": []}')
    for word in ("list", "info"):
        succeed("set", word, tmp_path)


def test_what_is_no_set_of_volumes_is_refused(tmp_path: Path, made: tk.Set) -> None:
    refused(invoke("set", "add", made.path / "x y", made.path / "vol-1"), "is a trace folder")
    refused(invoke("set", "add", tmp_path / "none"), "no trace folders")
    refused(invoke("sql", made.path, "select 1"), "is not a trace folder", error=InputError)
    csv = tmp_path / "volumes.csv"
    again = ("import", csv, "--split-by", "volume", "--format", "alibaba")
    refused(invoke(*again, "-o", made.path), "exists already")
    resumed = invoke(*again, "-o", tmp_path / "new", "--resume")
    assert isinstance(resumed.exception, UsageError)
    assert "without --split-by, which can be resumed" in resumed.exception.hint
    assert not [*itertools.chain(tmp_path.glob("new*"), tmp_path.glob(".new*"))]

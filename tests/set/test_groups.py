"""Groups of volumes: kinds that were made are found again, by an index computed by definition."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tests.traces import write_folder
from tracekit.errors import InputError, PartialError
from tracekit.fleet.catalogue import TraceSet
from tracekit.fleet.groups import find_groups, silhouette
from tracekit.store import write_table

KINDS = {  # requests a second, burstiness, working set, writes, random, updates, skew of both
    "log": (50.0, 3.0, 1e8, 0.95, 0.05, 0.9, None, 0.9),
    "database": (800.0, 8.0, 5e10, 0.4, 0.8, 0.5, 0.8, 0.7),
    "archive": (0.5, 90.0, 2e12, 0.02, 0.3, 0.0, 0.2, None),
}
TOTALS = (
    *("average_per_s", "burstiness", "working_set_bytes", "write_ratio", "random_ratio"),
    "update_coverage_ratio",
)


def write_volume(place: Path, kind: str, chance: np.random.Generator) -> Path:
    """Write a trace folder with the findings of a volume of a kind, a tenth from the kind's."""
    *values, reads, writes = (
        None if one is None else one * chance.uniform(0.9, 1.1) for one in KINDS[kind]
    )
    folder = write_folder(place, [{}] * 3, counts={"requests": 3})
    (place / "findings").mkdir()
    row = {
        "device": "sda",
        "read_count": 9,
        "write_count": 9,
        **dict(zip(TOTALS, values, strict=True)),
    }
    other = {**row, "device": "sdb", "read_count": 1, "average_per_s": 1e6}
    write_table(folder.table("findings/volume_totals"), pa.Table.from_pylist([other, row]))
    skew = [
        {"device": "sda", "operation": name, "top_10_ratio": value}
        for name, value in (("read", reads), ("write", writes))
    ]
    write_table(folder.table("findings/skew"), pa.Table.from_pylist(skew))
    return place


@pytest.fixture
def made(tmp_path: Path) -> tk.Set:
    chance = np.random.default_rng(2)
    places = [
        write_volume(tmp_path / f"{kind}-{number}", kind, chance)
        for number in range(5)
        for kind in KINDS
    ]
    return tk.add_to_set(tmp_path / "set", *places)


def test_kinds_are_found_again(made: tk.Set) -> None:
    found = find_groups(TraceSet(made.path)).groups
    kinds = [{name.partition("-")[0] for name in one.volumes} for one in found]
    assert sorted(map(sorted, kinds)) == [["archive"], ["database"], ["log"]]
    for one, kind in zip(found, kinds, strict=True):
        (name,) = kind
        assert len(one.volumes) == 5
        assert one.typical in one.volumes
        assert one.requests == 15
        assert one.medians["average_per_s"] == pytest.approx(KINDS[name][0], rel=0.11)
    (archive,) = (one for one in found if one.typical.startswith("archive"))
    assert {"quiet", "bursty"} & {*archive.traits}
    shown = succeed("set", "groups", made.path).stdout
    assert all(one.typical in shown for one in found)


def test_volumes_without_findings_are_named_and_left_out(made: tk.Set, tmp_path: Path) -> None:
    one = write_folder(tmp_path / "new", [{}])
    tk.add_to_set(made.path, one.path)
    result = invoke("set", "groups", made.path)
    refused(result, "1 of 16 volumes left out: new", error=PartialError)
    assert "left out: new: " in result.stderr
    alone = tk.add_to_set(tmp_path / "other", one.path)
    refused(invoke("set", "groups", alone.path), "no volume is analysed", error=InputError)


def test_one_volume_is_one_group(made: tk.Set, tmp_path: Path) -> None:
    alone = tk.add_to_set(tmp_path / "other", made.path / "log-1")
    found = find_groups(TraceSet(alone.path))
    assert [one.volumes for one in found.groups] == [["log-1"]]
    assert found.silhouette is None


def test_the_silhouette_is_that_of_its_definition() -> None:
    chance = np.random.default_rng(1)
    points, labels = chance.normal(size=(30, 3)), np.append(chance.integers(0, 3, 29), 3)
    expected = []
    for one, own in zip(points, labels, strict=True):
        far = {
            label: [float(np.linalg.norm(one - two)) for two in points[labels == label]]
            for label in range(4)
        }
        inner = sum(far[own]) / max(len(far[own]) - 1, 1)
        nearest = min(sum(far[k]) / len(far[k]) for k in far if k != own)
        expected.append((nearest - inner) / max(nearest, inner) if len(far[own]) > 1 else 0.0)
    assert silhouette(points, labels) == pytest.approx(np.mean(expected))

"""Devices and parts of devices that have a target of their own."""

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command_line import succeed
from tests.replay.trace import compiled, trace
from tracekit.errors import UsageError
from tracekit.replay.routes import Part, parts_of
from tracekit.store import TraceFolder, write_json

LABELS = ("sdb", "sda@1000+500", "sda@4000+500", "journal")


def rows(seed: int) -> list[dict[str, Any]]:
    """Return requests on two devices: in, across and outside of the parts, flushes too."""
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    found = []
    for at in range(400):
        device = rng.choice(["sda", "sda", "sdb"])
        operation = rng.choice(["read", "write", "flush"])
        length = 0 if operation == "flush" else 512 * rng.randint(1, 64)
        found.append(
            {"queue_ns": at * 1000, "device": device, "operation": operation,
             "sector": 0 if operation == "flush" else rng.randrange(5000), "length_bytes": length,
             "role": rng.choice(["fs", "journal"])}
        )  # fmt: skip
    return found


def two_devices(place: Path, seed: int) -> TraceFolder:
    """Write a trace of both."""
    folder = trace(place, rows(seed))
    write_json(place / "trace.json", {**folder.content, "devices": [{"device": "sdb"}]})
    return TraceFolder(place)


def label_of(row: dict[str, Any]) -> str:
    """Say where a request belongs, from the words of the help."""
    is_flush = row["operation"] == "flush"
    if row["device"] == "sdb":
        return "sdb"
    if not is_flush and 1000 <= row["sector"] < 1500:
        return "sda@1000+500"
    if not is_flush and 4000 <= row["sector"] < 4500:
        return "sda@4000+500"
    return "journal" if row["role"] == "journal" else "default"


@pytest.mark.parametrize("seed", range(5))
def test_each_request_goes_where_it_begins(tmp_path: Path, seed: int) -> None:
    made = rows(seed)
    records, report = compiled(two_devices(tmp_path / "trace", seed), own_labels=LABELS)
    labels = [target["label"] for target in report.targets]
    firsts = {"sdb": 0, "sda@1000+500": 1000, "sda@4000+500": 4000}
    # THEN one timeline has all of them, each on its target, at its distance to the part's start
    assert records["intended_ns"].tolist() == [row["queue_ns"] for row in made]
    for row, record in zip(made, records, strict=True):
        label = labels[record["target"]]
        assert label == label_of(row)
        if label in firsts and row["operation"] != "flush":
            assert record["sector"] == row["sector"] - firsts[label]


def test_the_command_replays_them_on_targets_of_their_own(tmp_path: Path) -> None:
    folder = two_devices(tmp_path / "trace", 9)
    words = [f"--target={label}={tmp_path / str(n)}" for n, label in enumerate(LABELS)]
    succeed("replay", folder.path, "--pace", "fast", *words)
    found = pq.read_table(folder.path / "replays/latest/completions.parquet").to_pylist()
    assert {row["status"] for row in found} == {"done"}
    assert len({row["target"] for row in found}) == 5
    emulated = "--engine emulated --device hdd-15k --device sda@1000+500=dax-pcm"
    succeed("replay", folder.path, "--pace", "fast", "--limit", "50", *emulated.split())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("sdc",), "there is no role 'sdc', and no such device"),
        (("sda@x+8",), "there is no role 'sda@x[+]8', and no such device"),
        (("sda@8",), "no such device"),
        (("sda@8+0",), "is empty"),
        (("sda@0+100", "sda@99+1"), "sda@0[+]100 and sda@99[+]1 overlap"),
        (("sda", "sda@99+1"), "overlap"),
        (("sda@1234567890123+12345678901234",), "no name for a target"),
    ],
)
def test_what_names_nothing_is_refused(labels: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parts_of(labels, ["sda", "sdb"])


def test_neighbours_do_not_overlap() -> None:
    assert parts_of(("fs", "sda@0+8", "sda@8+8", "sdb"), ["sda", "sdb"]) == (
        Part("sda@0+8", "sda", 0, 8),
        Part("sda@8+8", "sda", 8, 16),
        Part("sdb", "sdb"),
    )

"""What the kernel counted of a device beside what the replay sent to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.replay.disk import image, loop, needs_root
from tests.replay.program import DISCARD, FLUSH, READ, WRITE, record, run, write_plan
from tracekit.replay.compiler import PlanReport
from tracekit.replay.run_warnings import find_warnings
from tracekit.replay.summary import summary_of
from tracekit.replay.words import describe

pytestmark = needs_root
COUNT = 64
NOTHING = PlanReport(
    requests=COUNT, duration_ns=0, level="queued", operations={}, skipped={}, guessed_times=0,
    rounded=0, without_completion=0, cut_requests=0, pieces=0, targets=[], extents=[]
)  # fmt: skip


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[Path]:
    with loop(image(tmp_path / "image")) as device:
        yield device


@contextmanager
def queue_with(disk: Path, name: str, value: str) -> Iterator[None]:
    """Set something of the device's queue, which would outlive the loop device."""
    place = Path("/sys/block") / disk.name / "queue" / name
    before = place.read_text()
    place.write_text(value)
    try:
        yield
    finally:
        place.write_text(before)


def replay(tmp_path: Path, disk: Path, records: list[tuple[int, ...]]) -> dict[str, Any]:
    """Run the records as fast as possible and return the summary."""
    number = Path("/sys/block", disk.name, "dev").read_text().strip()
    sectors = Path("/sys/block", disk.name, "size").read_text().strip()
    # What udev does with a new device is over when the second run begins: it is counted as well.
    for _ in range(2):
        ran = run(
            write_plan(tmp_path / "a.plan", records),
            *("--target", str(disk), "--write-to", f"{number}:{sectors}", "--pace", "fast"),
        )
    assert ran.summary["outcome"] == "finished", ran.messages
    return ran.summary


def test_the_device_gets_each_request_once(tmp_path: Path, disk: Path) -> None:
    kinds = {READ: 8, WRITE: 16, FLUSH: 0, DISCARD: 64}
    records = [record(kind, 64 * n, kinds[kind]) for n in range(COUNT) for kind in kinds]
    with queue_with(disk, "nomerges", "2"):
        counted = replay(tmp_path, disk, records)["targets"][0]["counted"]
    expected = {
        "reads": {"done": COUNT, "merged": 0, "bytes": COUNT * 4096},
        # What only flushes is a write for the kernel.
        "writes": {"done": 2 * COUNT, "merged": 0, "bytes": COUNT * 8192},
        "discards": {"done": COUNT, "merged": 0, "bytes": COUNT * 32768},
    }
    assert {kind: counted[kind] for kind in expected} == expected
    # Flushes that wait at one time become one for the device.
    assert 0 < counted["flushes"]["done"] <= COUNT


def test_what_was_merged_is_told(tmp_path: Path, disk: Path) -> None:
    # GIVEN reads that touch each other, all due at one time
    with queue_with(disk, "nomerges", "0"):
        summary = replay(tmp_path, disk, [record(READ, 8 * n, 8) for n in range(COUNT)])
    # THEN each was done or merged into one that was
    reads = summary["targets"][0]["counted"]["reads"]
    assert reads["done"] + reads["merged"] == COUNT
    assert reads["bytes"] == COUNT * 4096
    assert reads["merged"] > 0
    assert f"{reads['merged']} were merged" in describe({**summary, "devices": [], "warnings": []})
    # AND as issued it is a warning, since the trace's device got them one by one
    for level, codes in (("issued", ["merged"]), ("queued", [])):
        summary["plan"]["level"] = level
        run = summary_of({**summary, "compiled": asdict(NOTHING)}, tmp_path / "summary.json")
        found = [warning.code for warning in find_warnings(run)]
        assert [code for code in found if code == "merged"] == codes


def test_a_device_that_is_not_counted_is_left_out(tmp_path: Path, disk: Path) -> None:
    with queue_with(disk, "iostats", "0"):
        summary = replay(tmp_path, disk, [record(READ, 0, 8)])
    assert "counted" not in summary["targets"][0]


def test_a_file_has_no_counters(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(bytes(4096))
    ran = run(
        write_plan(tmp_path / "a.plan", [record(READ, 0, 8)]), "--target", str(tmp_path / "t")
    )
    assert "counted" not in ran.summary["targets"][0]

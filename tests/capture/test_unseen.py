"""Completions that a source does not see, as many as the kernel's counters have more."""

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests import parsed as traces
from tests.capture.machine import Disk, read_layout, setting, skip_unless_it_works
from tests.capture.test_sources import PROBES, kept_in, recording
from tracekit.capture import disk_counters
from tracekit.capture.layout import find_disk
from tracekit.capture.session import NAMES, CaptureOptions, capture
from tracekit.layout import DiskCounters
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder

pytestmark = pytest.mark.root
READS = 240
AT_ONCE = 6
TURNS = 3


def reads(disk: Disk) -> list[str]:
    """Return a command of READS direct reads of the swap partition, which nobody else uses.

    They come with pauses, in which processors go idle: completions run in the idle task then.
    """
    what = f"if={disk.device}p3 of=/dev/null bs=4k iflag=direct status=none"
    turn = f"sleep 0.01; dd {what} count={AT_ONCE} skip=$turn"
    return ["sh", "-c", f"for turn in $(seq {READS // AT_ONCE}); do {turn}; done"]


def mixed(disk: Disk) -> str:
    """Return a script of all kinds: first reads after a mount, merges, a journal, discards."""
    point, part = disk.point, f"{disk.device}p1"
    file = f"--name=job --filename={point}/job --size=2M --overwrite=1 --number_ios=200"
    flow = "--rw=randrw --bsrange=4k-16k --direct=1 --fsync=16 --output=/dev/null"
    steps = (
        *(f"umount {point}", f"mount {part} {point}", f"fio {file} {flow}"),
        *(f"dd if=/dev/zero of={point}/big bs=64k count=32 conv=fsync status=none",),
        *(f"rm {point}/big {point}/job", "sync", f"fstrim {point}"),
        *(f"dd if={part} of=/dev/null bs=128k count=40 status=none",),
    )
    return "; ".join(steps)


def unseen_of(folder: TraceFolder) -> dict[str, Any]:
    found: dict[str, Any] = folder.content["loss"]["unseen"]
    assert found["not_measured"] == []
    return found


@pytest.mark.parametrize("source", NAMES)
def test_recorded_and_unseen_completions_are_all_that_was_read(
    disk: Disk, tmp_path: Path, source: str
) -> None:
    skip_unless_it_works(source, disk)
    # WHEN direct reads, so many, are captured (again, where somebody else read from the disk too)
    for turn in range(TURNS):
        disk.capture(tmp_path / f"trace-{turn}", "--source", source, command=reads(disk))
        folder, _ = parse([tmp_path / f"trace-{turn}"], tmp_path / f"parsed-{turn}")
        rows = {row["kind"]: row for row in unseen_of(folder)["disks"]}
        row = rows["read"]
        if row["counted"] == READS:
            break
    # THEN the kernel counted these, and the missing ones of the record are reported
    assert row["counted"] == READS
    assert row["recorded"] + row["at_least"] <= READS <= row["recorded"] + row["at_most"]
    assert (
        sum(one["at_least"] for one in rows.values())
        <= folder.content["loss"]["unmatched"]["queue"]
    )
    is_warned = "unseen_completions" in traces.warnings(folder)
    assert is_warned == any(one["at_least"] for one in rows.values())
    # AND the tracer sees all of them
    if source == "tracefs-blk":
        assert (row["recorded"], row["at_most"]) == (READS, 0)


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
@pytest.mark.parametrize("source", ["perf", "bpf"])
def test_a_program_misses_what_the_tracer_has_more(disk: Disk, tmp_path: Path, source: str) -> None:
    if reason := PROBES[source]():
        pytest.skip(f"{source} does not record block events here: {reason}")
    # WHEN requests of all kinds are recorded by both at once
    with recording(source, disk, tmp_path / "text") as running:
        options = CaptureOptions(command=("sh", "-c", mixed(disk)), source="tracefs-blk")
        captured = capture([disk.device], tmp_path / "blk", options=options)
        found = running.stop()
    assert captured.kept.overrun == 0
    found.write(kept_in(disk, tmp_path / "text", source))
    shutil.copy(tmp_path / "blk" / "layout.json", tmp_path / "text")
    # THEN the tracer has all that the kernel counted, of each kind
    ours, theirs = (
        unseen_of(parse([tmp_path / name], tmp_path / f"parsed-{name}")[0])
        for name in ("blk", "text")
    )
    assert {row["kind"] for row in ours["disks"]} == {"read", "write", "discard", "flush"}
    assert ours["at_least"] == 0, ours
    # AND the program misses as many as it says, by kind
    by_kind = {row["kind"]: row for row in ours["disks"]}
    for row in theirs["disks"]:
        of_tracer = by_kind[row["kind"]]
        missing = of_tracer["recorded"] - row["recorded"]
        assert row["at_least"] - of_tracer["at_most"] <= missing <= row["at_most"], row


def test_a_disk_without_accounting_is_not_measured(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a disk of which the kernel counts nothing
    switch = Path(f"/sys/block/{disk.name}/queue/iostats")
    with setting(switch, "0", switch.read_text()):
        disk.capture(tmp_path / "trace", command=disk.writer(5))
    # THEN layout and trace say that it is not measured, and why
    (entry,) = read_layout(tmp_path / "trace")["counters"]
    assert entry == {"device": disk.name, "why_not": disk_counters.WHY_OFF}
    folder, _ = parse([tmp_path / "trace"], tmp_path / "parsed")
    assert folder.content["loss"]["unseen"]["not_measured"] == [
        {"device": disk.name, "why": disk_counters.WHY_OFF}
    ]


def await_counted(disk: Path) -> None:
    """Wait until nothing is in flight: the kernel wakes who waits, and counts after that."""
    while int((disk / "stat").read_text().split()[8]) > 0:
        time.sleep(0.001)


def test_the_counters_are_those_of_the_disk(disk: Disk) -> None:
    await_counted(find_disk(disk.device))
    # GIVEN a reading, three direct reads, and another
    folders = [find_disk(disk.device)]
    begin = disk_counters.read_all(folders)
    read = f"if={disk.device}p3 of=/dev/null bs=4k count=3 iflag=direct status=none"
    subprocess.run(["dd", *read.split()], check=True)
    await_counted(folders[0])
    now_ns = time.monotonic_ns()
    (entry,) = disk_counters.counters_of(folders, begin=begin, end=disk_counters.read_all(folders))
    # THEN they differ by these, and the times are those of the clock of the records
    counts = [end.completed["read"] for end in (entry.begin, entry.end) if end]
    assert counts[1] - counts[0] == 3
    assert entry.begin is not None
    assert entry.end is not None
    assert entry.begin.after_ns <= now_ns <= entry.end.before_ns


def test_a_disk_that_went_away_has_no_counters(tmp_path: Path) -> None:
    gone = [tmp_path / "disk"]
    readings = disk_counters.read_all(gone)
    assert disk_counters.counters_of(gone, begin=readings, end=readings) == [
        DiskCounters(device="disk", why_not=disk_counters.WHY_GONE)
    ]


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
@pytest.mark.parametrize("source", NAMES)
def test_ios_that_were_queued_again_are_one_request(
    disk: Disk, tmp_path: Path, source: str
) -> None:
    skip_unless_it_works(source, disk)
    # GIVEN more reads at once than the disk has requests, by io_uring, which does not wait for one
    job = f"--name=job --filename={disk.device}p3 --readonly --ioengine=io_uring --rw=randread"
    flow = "--iodepth=256 --numjobs=4 --direct=1 --number_ios=2000 --norandommap --group_reporting"
    output = f"--output-format=json --output={tmp_path}/fio.json"
    command = ["fio", *f"{job} {flow} {output}".split()]
    # WHEN they are captured THEN there are as many requests as fio and the kernel counted
    disk.capture(tmp_path / "trace", "--source", source, command=command)
    folder, _ = parse([tmp_path / "trace"], tmp_path / "parsed")
    if "unseen_completions" in traces.warnings(folder):
        pytest.skip(f"{source} lost records")
    done = json.loads((tmp_path / "fio.json").read_text())["jobs"][0]["read"]["total_ios"]
    rows = traces.requests(folder).to_pylist()
    # (some of them by the kernel's own threads for io_uring)
    ours = [row for row in rows if str(row["process"]).startswith(("fio", "iou-wrk"))]
    assert sum(row["length_bytes"] == 4096 for row in ours) == done == 8000
    (row,) = (one for one in unseen_of(folder)["disks"] if one["kind"] == "read")
    assert row["counted"] == row["recorded"]
    # AND the others are counted apart
    assert folder.info.count("refused") > 0

"""What a capture counts is what the kernel counts: bytes, and completions that it did not see."""

import json
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import parsed as traces
from tests.capture import machine
from tests.capture.machine import Disk, read_layout, setting, skip_unless_it_works
from tests.capture.test_sources import PROBES, kept_in, recording
from tests.recipes.three_roles import mounted
from tests.replay.disk import image, loop
from tracekit.capture import disk_counters
from tracekit.capture.layout import find_disk
from tracekit.capture.session import NAMES, CaptureOptions, capture
from tracekit.layout import DiskCounters
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder
from tracekit.units import SECTOR_BYTES

pytestmark = pytest.mark.root
PLACES = {"read": 2, "write": 6, "discard": 13}
"""Sectors, by their place in the file `stat`."""
SOURCES = ("tracefs-blk", "bpf")
DIRTY = """
for turn in 1 2 3 4 5 6; do
  dd if=/dev/urandom of={point}/new$turn bs=64k count=40 status=none
  cat {point}/old$turn >/dev/null; rm {point}/old$turn
  sleep 0.25
done
"""
"""Delayed writes, of which a worker of the kernel queues some while others are still to come."""
EXPIRE = {"dirty_expire_centisecs": "20", "dirty_writeback_centisecs": "20"}


@pytest.fixture
def quick_writeback() -> Iterator[None]:
    """Let the kernel write what is dirty after 0.2 s, where it waits for half a minute."""
    machine.skip_unless_it_can_trace()
    folder = Path("/proc/sys/vm")
    before = {name: (folder / name).read_text() for name in EXPIRE}
    try:
        for name, value in EXPIRE.items():
            (folder / name).write_text(value)
        yield
    finally:
        for name, value in before.items():
            (folder / name).write_text(value)


@pytest.fixture
def own_disk(tmp_path: Path, quick_writeback: None) -> Iterator[Disk]:
    """Yield a disk with a file system of its own and nothing else."""
    del quick_writeback
    with machine.tracer_turn(), loop(image(tmp_path / "image", mib=128)) as path:
        device = str(path)
        make = ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device]
        subprocess.run(make, check=True)
        with mounted(device, tmp_path / "fs") as point:
            subprocess.run(["mount", "-o", "remount,discard", point], check=True)
            for turn in range(1, 7):
                (point / f"old{turn}").write_bytes(bytes(1 << 20))
            subprocess.run(["sync", "-f", point], check=True)
            time.sleep(1)  # what is written late, as the super block
            yield Disk(device, point)


def captured(captures: Sequence[Path], folder: Path) -> tuple[Counter[str], int]:
    """Return the bytes by operation of a capture but the tool's own, and requests of workers.

    Pieces are parsed as one: a request that is in flight where one ends is in two.
    """
    pieces = [one for one in captures if machine.read_layout(one)["capture"]["records"]]
    trace, _ = parse(pieces, folder / "parsed")
    loss = trace.content["loss"]
    assert (loss["dropped"], loss["lost_records"], loss["sequence_gaps"]) == (0, 0, 0)
    found: Counter[str] = Counter()
    workers = 0
    for row in traces.requests(trace).to_pylist():
        if row["operation"] in PLACES and row["process"] != "tracekit":
            found[row["operation"]] += row["length_bytes"]
            workers += str(row["process"]).startswith("kworker")
    return found, workers


def script(disk: Disk, folder: Path, *, end: str = "") -> list[str]:
    """Return a command of delayed writes that keeps what the kernel counts before and after it."""
    stat = f"cat /sys/block/{disk.name}/stat"
    # Discards follow the commit that frees their blocks.
    last = f"sync -f {disk.point}; sleep 1; {stat} >{folder}/after"
    text = f"echo 3 >/proc/sys/vm/drop_caches; {stat} >{folder}/before\n{DIRTY}\n{last}\n{end}"
    return ["sh", "-c", text.format(point=disk.point)]


def by_kernel(folder: Path) -> Counter[str]:
    """Return the bytes that the kernel counted for the command."""
    before, after = ((folder / name).read_text().split() for name in ("before", "after"))
    return Counter(
        {name: (int(after[at]) - int(before[at])) * SECTOR_BYTES for name, at in PLACES.items()}
    )


@pytest.mark.parametrize("source", SOURCES)
def test_delayed_writes(own_disk: Disk, tmp_path: Path, source: str) -> None:
    machine.skip_unless_it_works(source, own_disk)
    command = script(own_disk, tmp_path)
    own_disk.capture(tmp_path / "trace", "--source", source, command=command)
    found, workers = captured([tmp_path / "trace"], tmp_path)
    assert found == by_kernel(tmp_path)
    assert workers > 0
    assert min(found.values()) > 1 << 20


PIECES = {"size": ("--rotate", "10KiB"), "time": ("--rotate", "300ms"), "last": ("--last", "1h")}


@pytest.mark.parametrize("options", PIECES.values(), ids=PIECES)
def test_pieces(own_disk: Disk, tmp_path: Path, options: tuple[str, ...]) -> None:
    command = script(own_disk, tmp_path)
    own_disk.capture(tmp_path / "trace", *options, command=command)
    pieces = [*sorted(tmp_path.glob("trace-*")), tmp_path / "trace"]
    found, workers = captured(pieces, tmp_path)
    assert found == by_kernel(tmp_path)
    assert workers > 0
    assert options[0] == "--last" or len(pieces) > 1


@pytest.mark.parametrize("source", SOURCES)
def test_a_killed_capture(own_disk: Disk, tmp_path: Path, source: str) -> None:
    machine.skip_unless_it_works(source, own_disk)
    # GIVEN a capture that is killed after its command's writes, with the command still there
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    options = ("--source", source, "-o", tmp_path / "trace", "--")
    command = script(own_disk, tmp_path, end=wait)
    running = machine.start_capture(own_disk.device, *options, *command)
    machine.wait_for((tmp_path / "after").exists)
    machine.wait_for((tmp_path / "after").read_text)
    running.send_signal(signal.SIGKILL)
    running.wait()
    (tmp_path / "go").touch()
    running.communicate()
    # WHEN it is recovered
    machine.run_capture("--recover", tmp_path / "trace.unfinished")
    # THEN all bytes until then are there
    found, workers = captured([tmp_path / "trace"], tmp_path)
    expected = by_kernel(tmp_path)
    assert {name: found[name] >= size for name, size in expected.items()} == dict.fromkeys(
        expected, True
    )
    assert workers > 0


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

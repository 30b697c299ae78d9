"""All bytes that the kernel counts on a disk are in the capture: /sys/block/*/stat is the truth."""

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import parsed as traces
from tests.capture import machine
from tests.capture.machine import Disk
from tests.recipes.three_roles import mounted
from tests.replay.disk import image, loop
from tracekit.readers.blktrace import parse
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
    machine.skip_unless_it_can_trace()
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

"""`tracekit capture --source blktrace` in a guest, whose kernel grants the relay files."""

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.lab.guests import run_script, share_tracekit, with_packages
from tracekit.capture.recording import survey
from tracekit.readers.blktrace import parse

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-blktrace")]
Ran = tuple[dict[str, Any], Path]


@pytest.fixture(scope="module")
def ran(place: Path) -> Ran:
    """Return what the guest's captures told, and the folder of what they kept."""
    share_tracekit(place / "share", "captures.py")
    disks = ("--disk", "fs=256MiB", "--disk", "swap=32MiB:50us")
    options = (*disks, "--memory", "1536MiB", *with_packages(["libstdc++6"]))
    files = run_script(place, "python3 captures.py", *options)
    return json.loads((place / "stdout").read_text()), files


def test_blktrace_is_taken_and_nothing_is_lost(ran: Ran, tmp_path: Path) -> None:
    # GIVEN a capture of 300 direct writes with the source that was found best
    found, files = ran[0]["whole"], ran[1]
    assert (found["status"], found["stderr"]) == (0, "")
    result = json.loads(found["stdout"])
    assert result["source"] == "blktrace"
    assert result["files"] == ["whole.blktrace.0", "whole.blktrace.1"]
    lost = [result[name] for name in ("dropped", "overrun", "foreign_bytes", "own_requests")]
    assert lost == [0, 0, 0, 0]
    # WHEN it is parsed
    folder, _ = parse([files / "whole"], tmp_path / "trace")
    # THEN each write of the kernel's own counter is there, with the name of who wrote it
    rows = pq.read_table(folder.table("requests")).to_pylist()
    written = [row for row in rows if row["process"] == "dd" and row["operation"] == "write"]
    assert len(written) == 300
    issued = [row for row in rows if row["operation"] == "write" and row["merged_into"] is None]
    assert 300 <= len(issued) <= found["kernel_writes"]
    assert folder.content["loss"]["sequence_gaps"] == folder.content["loss"]["dropped"] == 0
    # AND the layout says what was captured, and of what
    layout = json.loads((files / "whole/layout.json").read_text())
    assert layout["capture"]["source"] == "blktrace"
    assert [part["role"] for part in layout["partitions"]] == ["fs", "journal"]


@pytest.mark.parametrize("source", ["blktrace", "tracefs-blk"])
def test_delayed_writes_are_of_the_control_group_that_wrote(
    ran: Ran, tmp_path: Path, source: str
) -> None:
    # GIVEN two control groups whose data the kernel wrote back, one of which was removed then
    found, files = ran[0]["delayed"][source], ran[1]
    assert (found["status"], found["stderr"]) == (0, "")
    folder, _ = parse([files / f"{source}-groups"], tmp_path / "trace")
    rows = pq.read_table(folder.table("requests")).to_pylist()
    written: Counter[str] = Counter()
    for row in rows:
        if row["operation"] == "write" and row["cgroup"] not in (None, "/"):
            assert row["process"].startswith("kworker") or row["process"] == "sync"
            written[row["cgroup"]] += row["length_bytes"]
    # THEN each has as many bytes as the kernel's own count, and at least its data
    stays, goes = f"/{source}-stays", f"/{source}-goes"
    assert [written[stays], written[goes]] == found["written"]
    assert written[stays] >= 32 << 16
    assert written[goes] >= 64 << 16
    # AND blkparse reads the files
    done = subprocess.run(
        ["blkparse", "-i", str(files / f"{source}-groups/{source}-groups"), "-d", "/dev/null"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.count(" m   N cgroup ") > 0
    assert "Bad" not in done.stderr


def test_two_disks_have_files_of_their_own(ran: Ran, tmp_path: Path) -> None:
    # GIVEN a capture of 30 writes to one disk and of 25 reads from another
    found, files = ran[0]["two_disks"], ran[1]
    assert (found["status"], found["stderr"]) == (0, "")
    result = json.loads(found["stdout"])
    first, second = found["disks"]
    names = [f"two-{disk}.blktrace.{cpu}" for disk in sorted(found["disks"]) for cpu in (0, 1)]
    assert (result["source"], result["files"]) == ("blktrace", names)
    assert result["dropped_by_disk"] == {first: 0, second: 0}
    # THEN each file has the records of its own disk only
    layout = json.loads((files / "two/layout.json").read_text())
    assert [disk["device"] for disk in layout["devices"]] == [first, second]
    numbers = {disk["device"]: disk["major"] << 20 | disk["minor"] for disk in layout["devices"]}
    for disk in (first, second):
        paths = [files / "two" / name for name in names if name.startswith(f"two-{disk}.")]
        assert survey(paths).devices == {numbers[disk]}
    # AND the layout has the parts of both
    assert [part["role"] for part in layout["partitions"]] == ["fs", "journal", "swap"]
    # WHEN it is parsed, THEN each disk has its requests, and none is missing
    folder, _ = parse([files / "two"], tmp_path / "trace")
    rows = pq.read_table(folder.table("requests")).to_pylist()
    made = [(row["device"], row["operation"]) for row in rows if row["process"] == "dd"]
    assert (made.count((first, "write")), made.count((second, "read"))) == (30, 25)
    assert folder.content["loss"]["sequence_gaps"] == folder.content["loss"]["dropped"] == 0


def test_however_it_ends_the_kernel_is_as_before(ran: Ran) -> None:
    found = ran[0]
    signalled = ("SIGINT", "SIGTERM", "two-SIGINT", "two-SIGTERM")
    ended = [found[name] for name in ("whole", *signalled, "two_disks", "killed_with_blktrace")]
    assert [one["is_traced"] for one in ended] == [False] * 7
    assert [one["has_debugfs"] for one in ended] == [True] * 7
    for name in signalled:
        number = signal.Signals[name.removeprefix("two-")]
        assert found[name]["status"] == 128 + number
        assert f"ended early by {number.name}" in found[name]["stderr"]
    # AND a debugfs that was not mounted is not mounted afterwards
    assert found["without_debugfs"]["status"] == 0, found["without_debugfs"]["stderr"]
    assert not found["without_debugfs"]["has_debugfs"]


def test_after_a_kill(ran: Ran) -> None:
    # GIVEN a capture that was killed: blktrace ended its trace
    assert ran[0]["killed"]["was_ended"]
    # GIVEN one of two disks that was killed with its blktrace, so that the kernel went on
    found = ran[0]["killed_with_blktrace"]
    assert found["was_left"]
    # THEN the next capture ends that, says so, and works
    assert found["status"] == 0, found["stderr"]
    assert "gave back the kernel settings of a capture that was killed" in found["stderr"]
    of_two = ["two", "two-SIGINT", "two-SIGTERM"]
    # AND what both had recorded was finished
    ended = ["SIGINT", "SIGTERM", "both", "killed", "lossy", "mounted", "next", "other"]
    assert ran[0]["left"] == [*ended, *of_two, "whole"]


def test_loss_is_counted(ran: Ran, tmp_path: Path) -> None:
    found = ran[0]["lossy"]
    result = json.loads(found["stdout"])
    assert found["status"] == 3
    # Only the disk that was written to lost any.
    first, second = ran[0]["two_disks"]["disks"]
    assert result["dropped_by_disk"] == {first: result["dropped"], second: 0}
    lost = f"{result['dropped']:,}"
    assert f"the kernel lost {lost} records ({lost} of {first})" in found["stderr"]
    assert result["dropped"] > 1000
    folder, _ = parse([ran[1] / "lossy"], tmp_path / "trace")
    assert folder.content["loss"]["dropped"] == result["dropped"]


def test_a_disk_that_another_blktrace_traces(ran: Ran) -> None:
    found = ran[0]["used_by_another"]
    assert found["status"] == 1
    assert "is being traced already" in found["stderr"]
    assert found["is_traced"]

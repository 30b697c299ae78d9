"""Captures of several disks at once: each disk's requests, and what is rejected."""

import io
import json
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import parsed as traces
from tests.capture import machine
from tests.capture.machine import NONE, TRACER, Disk
from tests.capture.test_records import record
from tests.recipes.three_roles import loop_disk
from tracekit.capture.recording import write_cpu_file
from tracekit.capture.session import NAMES
from tracekit.classify import ClassifyOptions, classify
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("kernel")]
Pair = tuple[Disk, Disk]


@pytest.fixture(scope="module")
def made_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Yield a whole disk with an ext4, not mounted, and a whole disk with its journal."""
    machine.skip_unless_it_can_trace()
    folder = tmp_path_factory.mktemp("disks")
    with (
        loop_disk(folder / "fs.img", 32 << 20) as fs,
        loop_disk(folder / "journal.img", 8 << 20) as journal,
    ):
        for options in (("-O", "journal_dev", journal), ("-J", f"device={journal}", fs)):
            subprocess.run(["mkfs.ext4", "-q", "-b", "4096", *options], check=True)
        yield Disk(fs, folder), Disk(journal, folder)


@pytest.fixture
def pair(made_pair: Pair) -> Iterator[Pair]:
    with machine.tracer_turn():
        yield made_pair


def direct(disk: Disk, kind: str, size: int, count: int) -> str:
    """Return a command of `count` direct requests behind the disk's super block."""
    ends = {
        "read": (disk.device, "/dev/null", "iflag"),
        "write": ("/dev/zero", disk.device, "oflag"),
    }
    source, target, flag = ends[kind]
    place = "skip" if kind == "read" else "conv=notrunc seek"
    what = f"if={source} of={target} bs={size} count={count} {flag}=direct {place}=100"
    return f"dd {what} status=none"


def flow(pair: Pair) -> tuple[list[str], Counter[tuple[str, str, int]]]:
    """Return a command that uses both disks at once, and how many requests it makes of which."""
    fs, journal = pair
    kinds = {
        (fs, "read", 4096): 60,
        (journal, "write", 8192): 50,
        (fs, "write", 1024): 40,
        (journal, "read", 512): 30,
    }
    pieces = (direct(*load, count=count) for load, count in kinds.items())
    script = " & ".join(pieces) + " & wait"
    made = {(disk.name, kind, size): count for (disk, kind, size), count in kinds.items()}
    return ["sh", "-c", script], Counter(made)


def requests_of(folder: TraceFolder) -> list[dict[str, Any]]:
    rows = traces.requests(folder).to_pylist()
    return [row for row in rows if row["process"] == "dd"]


@pytest.mark.parametrize("source", NAMES)
def test_requests_by_disk_are_those_that_were_made(pair: Pair, tmp_path: Path, source: str) -> None:
    fs, journal = pair
    machine.skip_unless_it_works(source, *pair)
    # WHEN a command that uses two disks at once is captured
    command, made = flow(pair)
    options = ("-o", tmp_path / "trace", "--source", source, "--json", "--")
    machine.run_capture(fs.device, journal.device, *options, *command)
    # THEN parse finds each disk's requests, and no gap in the numbers
    folder, _ = parse([tmp_path / "trace"], tmp_path / "parsed")
    rows = requests_of(folder)
    found = Counter((row["device"], row["operation"], row["length_bytes"]) for row in rows)
    assert found == made
    assert {entry["device"] for entry in folder.content["devices"]} == {fs.name, journal.name}
    assert (folder.content["loss"]["sequence_gaps"], folder.content["loss"]["dropped"]) == (0, 0)
    # AND classify knows what lies on each
    classify(folder, ClassifyOptions())
    roles = {(row["device"], row["role"]) for row in requests_of(folder)}
    assert roles == {(fs.name, "fs"), (journal.name, "journal")}
    # AND the layout has both, the journal with the disk that it belongs to
    layout = machine.read_layout(tmp_path / "trace")
    assert [entry["device"] for entry in layout["devices"]] == [fs.name, journal.name]
    evidence = {part["device"]: part["evidence"] for part in layout["partitions"]}
    assert evidence[journal.name].startswith(f"external journal of {fs.name}, ")


@pytest.mark.skipif(shutil.which("blkparse") is None, reason="needs blkparse")
def test_blkparse_reads_the_files_of_each_disk(pair: Pair, tmp_path: Path) -> None:
    # WHEN two disks are captured into binary records
    command, made = flow(pair)
    options = ("-o", tmp_path / "trace", *TRACER, "--json", "--")
    done = machine.run_capture(*(disk.device for disk in pair), *options, *command)
    result = json.loads(done.stdout)
    # THEN blkparse finds all records of each in that disk's files, and the names
    entries = 0
    for disk in pair:
        parsed = subprocess.run(
            ["blkparse", "-i", f"trace-{disk.name}", "-f", "%a %C\n"],
            cwd=tmp_path / "trace",
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Skips: 0 forward" in parsed.stdout
        queued = sum(count for (name, _, _), count in made.items() if name == disk.name)
        assert parsed.stdout.count("Q dd\n") == queued
        entries += int(parsed.stdout.rpartition("Events (")[2].split()[1])
        # Messages of this tool, which blkparse counts, say cgroups.
        entries -= parsed.stdout.count(" m   N cgroup ")
    assert entries == result["records"]
    assert all(name.startswith(f"trace-{pair[0].name}.") for name in result["files"][:1])


def test_a_disk_of_two_that_goes_away_is_named(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a loop device that is read, detached and removed while another is written to
    device, script = machine.vanishing_disk(tmp_path)
    script += f"; {shlex.join(disk.writer(10))}"
    # WHEN both are captured
    output = tmp_path / "trace"
    done = machine.run_capture(device, disk.device, *TRACER, "-o", output, "--", "sh", "-c", script)
    # THEN it is the one that is named, the layout has both, and both are recorded
    assert done.stderr.startswith(f"{device} went away during the capture")
    assert done.stderr.count("\n") == 2  # and what was recorded
    names = {entry["device"] for entry in machine.read_layout(output)["devices"]}
    assert names == {Path(device).name, disk.name}
    folder, _ = parse([output], tmp_path / "parsed")
    rows = Counter(row["device"] for row in requests_of(folder))
    assert rows[Path(device).name] == 5
    assert rows[disk.name] >= 10


def test_a_disk_that_is_named_twice(pair: Pair, tmp_path: Path) -> None:
    rest = ("-o", tmp_path / "trace", "--", *NONE)
    fs, journal = (disk.device for disk in pair)
    code, text = machine.rejection(fs, journal, fs, *rest)
    assert (code, f"{fs} is named twice\n" in text) == (2, True)
    link = tmp_path / "disk"
    link.symlink_to(fs)
    code, text = machine.rejection(fs, link, *rest)
    assert (code, f"{link} is named twice, also as {fs}\n" in text) == (2, True)
    assert not (tmp_path / "trace").exists()


def test_output_on_the_second_disk(made_pair: Pair, disk: Disk) -> None:
    output = disk.point / "new" / "trace"
    code, text = machine.rejection(made_pair[0].device, disk.device, "-o", output, "--", *NONE)
    assert (code, f"is on the traced disk {disk.name}" in text) == (2, True)
    assert not output.exists()


def test_a_second_disk_that_is_traced_already(pair: Pair, tmp_path: Path) -> None:
    fs, journal = pair
    with machine.setting(journal.switch, "1", "0"):
        output = ("-o", tmp_path / "trace", *TRACER)
        code, text = machine.rejection(fs.device, journal.device, *output, "--", *NONE)
        assert (code, f"{journal.name} is being traced already" in text) == (1, True)
        assert not fs.is_traced()


def test_words_behind_the_dashes_are_the_command_as_they_are(tmp_path: Path) -> None:
    # GIVEN a command with options of its own and dashes
    script = 'printf "%s|" "$@" >"$0"'
    target = tmp_path / "words"
    command = ("sh", "-c", script, str(target), "--json", "-o", "x", "--", "-y")
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    machine.run_capture("--files", "-o", tmp_path / "trace", "--", *command)
    assert target.read_text() == "--json|-o|x|--|-y|"


def test_records_of_two_disks_in_a_spool_are_parted(tmp_path: Path) -> None:
    # GIVEN records of the disks 7:0 and 7:1 by turns, a loss before one of 7:1, one of 9:9
    spool = tmp_path / "spool"
    numbers = [7 << 20, 7 << 20 | 1, 7 << 20 | 1, 7 << 20, 9 << 20 | 9, 7 << 20 | 1]
    records = [record(10 + place, device=number) for place, number in enumerate(numbers)]
    loss = b"CPU:0 [LOST 3 EVENTS]\n"
    spool.write_bytes(b"".join([*records[:2], loss, *records[2:]]))
    # WHEN one file is written of all but 7:1, one of 7:1
    found = []
    for is_ours in (lambda column: column != numbers[1], lambda column: column == numbers[1]):
        target = io.BytesIO()
        last = write_cpu_file(target, [spool], cpu=0, notes=[], is_ours=is_ours)
        found.append([(one.sequence, one.time_ns) for one in machine.records_of(target.getvalue())])
        assert last == found[-1][-1][0]
    # THEN each has its own numbers, and the gap is in that of the record behind the loss
    assert found == [[(1, 10), (2, 13), (3, 14)], [(1, 11), (5, 12), (6, 15)]]

"""The control group of a request: in the kernel's form, and as the captures of tracekit say it."""

import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.decode.records import NOTIFY, Event, decode, event, memory_file, pack
from tracekit._native.decode import Decoder
from tracekit.capture.cgroups import Marks, hierarchy
from tracekit.capture.recording import write_cpu_file

BIG = (1 << 40) + 7
SAME_KEY = (1 << 40) ^ (1 << 8) | 7
"""Folded to 32 bits it is the same as BIG."""


def message(text: str, number: int, *, cpu: int = 0) -> bytes:
    """Return a message before the event of this number."""
    return Event(0, 2 | NOTIFY, payload=text.encode(), cpu=cpu).pack(number)


def queued(*lines: str) -> list[bytes]:
    return [event(line).pack(number) for number, line in enumerate(lines, start=1)]


def test_the_kernel_names_it_in_each_record() -> None:
    data = pack("1 Q W 0+8 cgroup=42\n2 Q W 8+8\n3 Q R 16+8 cgroup=7\n4 Q R 24+8 cgroup=42")
    assert decode(data).column("cgroup") == ["#42", None, "#7", "#42"]


def test_a_message_is_of_the_queue_events_behind_it() -> None:
    one, two, three, four = queued("1 Q W 0+8", "2 Q W 8+8", "3 Q W 16+8", "4 Q W 24+8")
    said = [one, message("cgroup 42", 2), two, message("cgroup 00007", 3), three]
    decoded = decode(b"".join([*said, message("cgroup 0", 4), four]))
    assert decoded.column("cgroup") == [None, "#42", "#7", None]
    assert decoded.stats.sequence_gaps == 0


def test_a_message_is_of_its_own_cpu() -> None:
    # GIVEN a stream of two CPUs in one file
    lines = ["1 Q W 0+8 seq=1", "2 Q W 8+8 cpu=1 seq=1", "3 Q W 16+8 seq=2"]
    one, two, three = queued(*lines)
    data = message("cgroup 5", 1) + one + message("cgroup 6", 1, cpu=1) + two + three
    decoded = decode(data)
    assert decoded.column("cgroup") == ["#5", "#6", "#5"]
    assert decoded.stats.sequence_gaps == 0


@pytest.mark.parametrize(
    "text", ["cgroup ", "cgroup x", "cgroup 12 ", "cgroups 1", f"cgroup {1 << 64}", "a cgroup 1"]
)
def test_other_messages_say_nothing(text: str) -> None:
    (one,) = queued("1 Q W 0+8")
    assert decode(message(text, 1) + one).column("cgroup") == [None]


def test_ids_have_the_names_that_are_given() -> None:
    # GIVEN ids of which two are the same in 32 bits, and names of all but one
    lines = [f"{at} Q W {8 * at}+8 cgroup={one}" for at, one in enumerate((BIG, SAME_KEY, 9, BIG))]
    data = pack("\n".join(lines))
    with Decoder([memory_file(data)]) as decoder:
        decoder.name_cgroup(BIG, "/big")
        decoder.name_cgroup(SAME_KEY, "/other")
        rows = [row for batch in decoder.batches() for row in batch.to_pylist()]
    assert [row["cgroup"] for row in rows] == ["/big", "/other", "#9", "/big"]


@pytest.mark.parametrize("version", [7, 8])
def test_a_file_of_a_capture_says_the_same_in_messages(tmp_path: Path, version: int) -> None:
    # GIVEN records of the kernel, of two disks, with ids before other payloads
    rng = np.random.default_rng(3)
    lines = []
    for at in range(400):
        device, group = rng.integers(2), (0, 42, 43, BIG)[rng.integers(4)]
        action = ("Q W", "D W", "A W")[rng.integers(3)]
        words = f"{at} {action} {8 * at}+8 dev=7,{device}" + (f" cgroup={group}" if group else "")
        lines.append(words + (" of=259,0:1000" if action == "A W" else ""))
    ours = [event(line) for line in lines if "dev=7,1" in line]
    plain = b"".join(one.pack(n, version=version) for n, one in enumerate(ours, start=1))
    raw = tmp_path / "raw"
    raw.write_bytes(b"".join(event(line).pack(0, version=version) for line in lines))
    # WHEN the records of one disk are written as a capture
    marks, file = Marks(), tmp_path / "file"
    with file.open("wb") as target:
        last = write_cpu_file(
            target, [raw], cpu=0, notes=[], is_ours=lambda one: one == 7 << 20 | 1, marks=marks
        )
    # THEN it decodes to the same rows, no record names a group, and all ids are known
    written, expected = decode(file.read_bytes()), decode(plain)
    assert written.rows == expected.rows
    assert set(written.column("cgroup")) == {None, "#42", "#43", f"#{BIG}"}
    assert (last, written.stats.sequence_gaps) == (len(ours), 0)
    assert marks.seen == {42, 43, BIG}
    without = b"".join(
        replace(one, action=one.action & ~0x100, payload=one.payload[8 * (one.action >> 8 & 1) :])
        .pack(n, version=version)
        for n, one in enumerate(ours, start=1)
    )  # fmt: skip
    head, data, found = (48, 64)[version - 7], file.read_bytes(), b""
    while data:
        end = head + struct.unpack_from("=H", data, (46, 50)[version - 7])[0]
        found += b"" if data[head:end].startswith(b"cgroup ") else data[:end]
        data = data[end:]
    assert found == without


@pytest.mark.skipif(shutil.which("blkparse") is None, reason="needs blkparse")
def test_blkparse_merges_the_files_of_cpus_with_their_messages(tmp_path: Path) -> None:
    # GIVEN files of two CPUs on which three groups take turns, three events at a time
    rng = np.random.default_rng(1)
    files: list[list[Event]] = [[], []]
    expected = {}
    for at in range(900):
        cpu, group = int(rng.integers(2)), (42, 43, 7)[rng.integers(3)]
        line = f"{at // 3 * 10} Q W {8 * at}+8 cpu={cpu} dev=7,1 cgroup={group}"
        files[cpu].append(event(line))
        expected[8 * at] = f"#{group}"
    for cpu, events in enumerate(files):
        raw = tmp_path / f"raw{cpu}"
        raw.write_bytes(b"".join(one.pack(0) for one in events))
        with (tmp_path / f"x.blktrace.{cpu}").open("wb") as target:
            write_cpu_file(target, [raw], cpu=cpu, notes=[])
    # WHEN blkparse makes one stream of them
    command = ["blkparse", "-i", "x", "-d", "merged", "-O"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    # THEN each request has its group still
    decoded = decode((tmp_path / "merged").read_bytes())
    assert {row["sector"]: row["cgroup"] for row in decoded.rows} == expected


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ("/ /sys/fs/cgroup rw - cgroup2 cgroup rw", "/sys/fs/cgroup"),
        (
            "/ /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
            "1 1 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
            "1 1 0:3 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio",
            "/sys/fs/cgroup/blkio",
        ),
        ("/docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw", None),
        ("/ /mnt rw - ext4 /dev/blkio rw,blkio", None),
    ],
)
def test_the_hierarchy_in_which_the_kernel_counts_io(
    tmp_path: Path, mounts: str, expected: str | None
) -> None:
    (tmp_path / "mountinfo").write_text(f"1 1 0:1 {mounts}\n")
    found = hierarchy(tmp_path / "mountinfo")
    assert found == (None if expected is None else Path(expected))

"""From the tracer's spool to blktrace files: numbering, losses, what is no record."""

import io
import struct
from pathlib import Path

import pytest

from tests.capture.machine import records_of
from tests.decode.records import Event
from tracekit.capture import recording
from tracekit.capture.recording import Survey, notify_records, read_blocks, survey, write_cpu_file
from tracekit.capture.spool import cut_zeros

QUEUE_WRITE = 2 << 16 | 1
COMPLETE = 2 << 16 | 8


def record(
    time_ns: int, *, pid: int = 7, cpu: int = 0, action: int = QUEUE_WRITE, device: int = 7 << 20
) -> bytes:
    payload = bytes(time_ns % 3 * 8)
    who = {"pid": pid, "device": device, "cpu": cpu}
    return Event(time_ns, action, 8, 4096, payload=payload, **who).pack(0)


def written(folder: Path, spool: bytes, *, cpu: int = 0) -> list[tuple[int, int]]:
    """Return sequence number and time of each record that is written for a spool."""
    (folder / "spool").write_bytes(spool)
    target = io.BytesIO()
    write_cpu_file(target, [folder / "spool"], cpu=cpu, notes=[])
    return [(one.sequence, one.time_ns) for one in records_of(target.getvalue())]


# By name: a spool, what is written of it (number and time), lost records and foreign bytes.
SPOOLS: dict[str, tuple[bytes, list[tuple[int, int]], int, int]] = {
    "numbered from one": (record(10) + record(11) + record(12), [(1, 10), (2, 11), (3, 12)], 0, 0),
    "a loss leaves a gap of its size": (
        record(10) + b"CPU:0 [LOST 3 EVENTS]\n" + record(11),
        [(1, 10), (5, 11)],
        3,
        0,
    ),
    "a loss of unknown size counts as one": (
        record(10) + b"CPU:12 [LOST EVENTS]\n" + record(11),
        [(1, 10), (3, 11)],
        1,
        0,
    ),
    # A message of somebody else between two records, longer than a header.
    "foreign bytes": (record(10) + b"!" * 100 + record(11), [(1, 10), (2, 11)], 0, 100),
    "a record that is cut off": (record(10) + record(11)[:40], [(1, 10)], 0, 40),
    "empty": (b"", [], 0, 0),
}


@pytest.mark.parametrize("name", SPOOLS)
def test_what_becomes_of_a_spool(tmp_path: Path, name: str) -> None:
    spool, expected, lost, foreign_bytes = SPOOLS[name]
    assert written(tmp_path, spool) == expected
    found = survey([tmp_path / "spool"])
    assert (found.records, found.lost) == (len(expected), lost)
    assert found.foreign_bytes == foreign_bytes
    assert spool or found == Survey()


@pytest.mark.parametrize("block_bytes", [48, 49, 100, 1000])
def test_any_block_size_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    # GIVEN records of three lengths, with a loss and foreign bytes among them
    spool = b"".join(record(time_ns) for time_ns in range(10, 40))
    spool += b"CPU:0 [LOST 2 EVENTS]\n" + b"".join(record(time_ns) for time_ns in range(40, 50))
    whole = written(tmp_path, spool)
    # WHEN they are read in small blocks
    monkeypatch.setattr(recording, "CHUNK_BYTES", block_bytes)
    # THEN nothing changes
    assert written(tmp_path, spool) == whole
    assert whole[-1] == (42, 49)
    assert sum(len(block.starts) for block in read_blocks(tmp_path / "spool")) == 40


@pytest.mark.parametrize("zeros", [0, 1, 4096, 9 << 20])
def test_what_was_allocated_and_not_used_is_cut(tmp_path: Path, zeros: int) -> None:
    # GIVEN records, the last with a payload of zeros, and what a killed process left behind them
    records = record(9) + record(10) + record(11)
    (tmp_path / "spool").write_bytes(records + bytes(zeros))
    cut_zeros(tmp_path / "spool")
    assert (tmp_path / "spool").read_bytes() == records
    # AND what is no zeros stays
    (tmp_path / "spool").write_bytes(records + bytes(zeros) + b"!")
    cut_zeros(tmp_path / "spool")
    assert (tmp_path / "spool").stat().st_size == len(records) + zeros + 1


def test_the_cpu_is_that_of_the_buffer(tmp_path: Path) -> None:
    # GIVEN a record that a task made as it moved from CPU 1 to CPU 2
    (tmp_path / "spool").write_bytes(record(10, cpu=1))
    target = io.BytesIO()
    write_cpu_file(target, [tmp_path / "spool"], cpu=2, notes=[])
    assert [one.cpu for one in records_of(target.getvalue())] == [2]


def test_payloads_are_kept(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    original = record(11, action=15)
    spool.write_bytes(original[:-4] + b"\1\2\3\4")
    target = io.BytesIO()
    write_cpu_file(target, [spool], cpu=0, notes=[])
    assert records_of(target.getvalue())[0].payload == b"\0" * 12 + b"\1\2\3\4"


def test_survey_counts_who_queued_and_leaves_completions_out(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(record(20, pid=7) + record(21, pid=7) + record(22, pid=8))
    (tmp_path / "b").write_bytes(record(10, pid=9, action=COMPLETE))
    found = survey([tmp_path / "a", tmp_path / "b"])
    assert found == Survey(
        records=4,
        first_ns=10,
        last_ns=22,
        devices={7 << 20},
        pids={7, 8},
        queued_by_pid={7: 2, 8: 1},
    )


def test_notes_say_the_wall_clock_and_the_names() -> None:
    # GIVEN a trace that began at 5 ns, at 3.25 s of unix time
    found = Survey(first_ns=5, devices={7 << 20})
    names = {9: "jbd2/loop0p2", 4: "a name that is longer than fifteen"}
    # WHEN its notes are written
    notes = notify_records(found, 7 << 20, processes=names, wall_ns=3_250_000_000)
    target = io.BytesIO()
    write_cpu_file(target, [], cpu=0, notes=notes)
    # THEN they are as blktrace(8) writes them, numbered, at the trace's start
    found_notes = records_of(target.getvalue())
    assert [(note.sequence, note.time_ns, note.pid) for note in found_notes] == [
        (1, 5, 0),
        (2, 5, 4),
        (3, 5, 9),
    ]
    assert [(note.category, note.action) for note in found_notes] == [
        (0x400, 1),
        (0x400, 0),
        (0x400, 0),
    ]
    assert [note.payload for note in found_notes] == [
        struct.pack("=II", 3, 250_000_000),
        b"a name that is \0",
        b"jbd2/loop0p2\0\0\0\0",
    ]


def test_records_of_version_8_are_surveyed(tmp_path: Path) -> None:
    # GIVEN records as Linux 6.19 makes them: 64 bytes, then a payload; a cut one at the end
    spool = b"".join(
        Event(time_ns, action, 8, 4096, pid=pid, payload=b"payload.").pack(0, version=8)
        for time_ns, pid, action in ((10, 7, QUEUE_WRITE), (11, 9, QUEUE_WRITE), (12, 0, COMPLETE))
    )
    (tmp_path / "spool").write_bytes(spool + spool[:50])
    # WHEN they are counted
    found = survey([tmp_path / "spool"])
    # THEN each is, with who queued it
    assert (found.records, found.foreign_bytes, found.queued_by_pid) == (3, 50, {7: 1, 9: 1})
    assert (found.first_ns, found.last_ns, found.pids) == (10, 12, {7, 9})

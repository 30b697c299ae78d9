"""OCTF traces: messages made by the wire rules, joined by hand and by a model of ten lines."""

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from tests import parsed as traces
from tests.command_line import succeed
from tests.import_ import octf
from tests.import_.examples import TEXTS
from tests.import_.importer import Importer
from tests.import_.octf import DISCARD, READ, WRITE, described, done, event, io, message, varint
from tests.parsed import Row
from tracekit._native.readers import is_octf
from tracekit.errors import UsageError
from tracekit.store import TraceFolder

T = 1_000_000
"""Time of the first event, ns."""
FIRST = described(T, 1, device=7, name="sda", sectors=4096)

EVENTS = b"".join(
    [
        FIRST,
        io(T + 10, 2, number=5, op=WRITE, lba=64, sectors=8, device=7, flags=(6, 7, 10)),
        event(T + 11, 3, octf.FILE_META, {2: message({2: 9}), 5: 5}),
        io(T + 12, 4, number=6, op=WRITE, lba=64, sectors=8, device=7),
        io(T + 13, 5, number=7, op=READ, lba=0, sectors=1, device=7, flags=(12,)),
        done(T + 20, 6, number=6, lba=64, device=7),
        done(T + 30, 7, number=5, lba=64, device=7),
        event(T + 31, 8, octf.FILE_NAME, {3: b"a file"}),
        done(T + 40, 9, number=7, lba=0, sectors=1, error=True, device=7),
        io(T + 50, 10, number=8, op=WRITE, lba=999, sectors=0, device=7, flags=(6,)),
        io(T + 60, 11, number=9, op=DISCARD, lba=16, sectors=1024, device=8),
        done(T + 70, 12, number=77, device=7),
    ]
)


def test_requests_are_joined_by_their_number(read: Importer) -> None:
    # GIVEN a described device, two writes of one place, completed in the other order, a failed
    # read, an empty flush, a discard, and a file's events between them
    expected: list[Row] = [
        (0, 20, "sda", 64, 4096, "write"),
        (2, 10, "sda", 64, 4096, "write"),
        (3, 30, "sda", 0, 512, "read"),
        (40, None, "sda", 0, 0, "flush"),
        (50, None, "device-8", 16, 1024 * 512, "discard"),
    ]
    # WHEN it is imported THEN each has its own completion, and the time of the first is 0
    folder = read.gives(EVENTS, "octf", expected)
    # AND flags are those of the events
    flags = ("is_preflush", "is_fua", "is_meta", "is_readahead", "error")
    found = [tuple(row[name] for name in flags) for row in traces.requests(folder).to_pylist()]
    assert found[:3] == [
        (True, True, True, False, 0),
        (False, False, False, False, 0),
        (False, False, False, True, -5),
    ]
    # AND what has no partner is counted, nothing is lost, and the device has its size
    loss = folder.content["loss"]
    assert loss["unmatched"] == {"queue": 2, "complete": 1}
    assert (loss["has_sequence_numbers"], loss["lost_records"]) == (True, 0)
    assert folder.content["counts"]["passed_lines"] == 2
    sizes = {device["device"]: device["size_sectors"] for device in folder.content["devices"]}
    assert sizes == {"sda": 4096, "device-8": None}


def test_without_numbers_the_place_joins_the_oldest_first(read: Importer) -> None:
    # GIVEN requests of one place and of another device without ids, as of version 0
    data = io(T, 1, number=0) + io(T + 1, 2, number=0) + io(T + 2, 3, number=0, device=2)
    data += done(T + 10, 4, number=0) + done(T + 20, 5, number=0)
    data += done(T + 30, 6, number=0, sectors=9) + done(T + 40, 7, number=0, device=2)
    folder = read(data)
    assert [row[1] for row in traces.rows(folder)] == [10, 20, 40]
    assert folder.content["loss"]["unmatched"] == {"queue": 0, "complete": 1}


def test_missing_numbers_are_lost_events(read: Importer) -> None:
    # GIVEN numbers 1, 2, 6 and 9: five are missing between the first and the last
    data = FIRST + io(T, 2, number=1) + io(T + 1, 6, number=2) + io(T + 2, 9, number=3)
    folder = read(data)
    assert folder.content["loss"]["lost_records"] == 5
    expected = {"lost_records", "no_completions", "unmatched_events"}
    assert expected <= traces.warnings(folder).keys()


def made_trace(chance: random.Random, count: int) -> tuple[list[list[bytes]], list[Any]]:
    """Return messages of four cpus, and by a plain sort the rows that they are."""
    events: list[tuple[int, bytes]] = []
    expected = []
    time, sid = T, 1
    for number in range(1, count + 1):
        time += chance.choice((0, 1, 300))
        wait = chance.randrange(1, 5000)
        lba, sectors = chance.randrange(1 << 40), chance.choice((1, 8, 2048))
        op, device = chance.choice((READ, WRITE, DISCARD)), chance.randrange(1, 4)
        fields: Any = {"lba": lba, "sectors": sectors, "device": device, "number": number}
        events.append((time, io(time, sid, op=op, **fields)))
        has_end = chance.random() < 0.9
        if has_end:
            events.append((time + wait, done(time + wait, sid + 1, **fields)))
        sid += 2
        name = ("read", "write", "discard")[op - 1]
        end = time - T + wait if has_end else None
        expected.append((time - T, end, f"device-{device}", lba, sectors * 512, name))
    cpus: list[list[bytes]] = [[], [], [], []]
    for _, data in sorted(events, key=lambda found: found[0]):
        chance.choice(cpus).append(data)
    first = expected[0][0]
    shift = [(q - first, e and e - first, d, s, b, o) for q, e, d, s, b, o in expected]
    return cpus, shift


@pytest.mark.parametrize(("seed", "count"), [(0, 20_000), (1, 2000), (2, 2000), (3, 2000)])
def test_cpus_are_merged_by_time(read: Importer, tmp_path: Path, seed: int, count: int) -> None:
    # GIVEN random requests whose events are spread over four cpus, one file compressed and one more
    # cpu that had no event
    chance = random.Random(seed)  # noqa: S311 - a fixed sequence, no secret
    cpus, expected = made_trace(chance, count)
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / "octf.trace.0").write_bytes(b"")
    (folder / "octf.summary").write_text("{}")
    for number, cpu in enumerate(cpus[:3], 1):
        (folder / f"octf.trace.{number}").write_bytes(b"".join(cpu))
    (folder / "octf.trace.4.gz").write_bytes(gzip.compress(b"".join(cpus[3])))
    # WHEN the folder is imported, THEN the rows are those of a plain sort
    assert read.rows(folder) == expected
    # AND as a list of files in any order too
    files = [path for path in folder.iterdir() if path.name.startswith("octf.trace")]
    chance.shuffle(files)
    assert read.rows(files) == expected


def test_a_window_is_bounded(read: Importer) -> None:
    # GIVEN a request that never completes, and more behind it than the window holds
    count = (1 << 20) + 50
    pair = io(T + 1, 2, number=2) + done(T + 1, 3, number=2)
    folder = read(io(T, 1, number=1) + pair * (count - 2))
    # THEN only it is given up
    ends = traces.requests(folder)["complete_ns"]
    assert (len(ends), ends.null_count) == (count - 1, 1)
    assert "window_full" in traces.warnings(folder)


def test_unknown_fields_are_passed_over(read: Importer) -> None:
    # GIVEN fields of every wire type that no version has, in the event and in its parts
    extra = varint(90 << 3) + varint(1 << 63) + varint(91 << 3 | 1) + bytes(8)
    extra += varint(92 << 3 | 2) + varint(3) + b"abc" + varint(93 << 3 | 5) + bytes(4)
    header = message({1: 4, 2: T}) + extra
    body = extra + message({1: 24, 2: 8, 4: 1, 5: WRITE, 9: 3}) + extra
    made = extra + message({2: body, 1: header}) + extra
    strange = event(T + 1, 5, 19, {1: 1})
    data = io(T - 5, 3, number=2) + varint(len(made)) + made + strange
    # WHEN imported THEN the known fields count, and an event of another kind is reported
    folder = read(data, form="octf")
    assert traces.rows(folder)[1] == (5, None, "device-1", 24, 4096, "write")
    assert "unknown_actions" in traces.warnings(folder)


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        (b"\x00", "byte N: a message of 0 bytes cannot be"),
        (varint(1 << 40) + bytes(20), "a message of 1,099,511,627,776 bytes cannot be"),
        (b"\xff" * 11, "cannot be: 1 to 65,536 can"),
        (b"\x04abcd", "byte N: these 4 bytes are no Event message"),
        (b"\x02\x12\x00", "an Event message of 2 bytes without a header"),
        (event(1 << 63, 3, 2, {}), "time 9223372036854775808 ns is beyond 63 bits"),
        (io(T, 3, number=1, lba=1 << 60), "sector 1152921504606846976 is beyond 2\\^53"),
    ],
)
def test_damage_names_file_place_and_value(read: Importer, piece: bytes, message: str) -> None:
    good = io(T, 2, number=1, lba=1 << 20) + done(T + 1, 3, number=1)
    data = good + piece + io(T + 9, 4, number=2)
    found = read.rejects(data, message.replace("byte N", f"byte {len(good)}"), form="octf")
    assert str(read.source) in found


def test_a_cut_file_is_reported_and_may_be_allowed(read: Importer) -> None:
    # GIVEN 50 requests, the last cut short
    data = b"".join(io(T + n, n + 1, number=n + 1) for n in range(50))[:-3]
    read.rejects(data, r"1 of 1 files are cut short\n  .*/x: byte [\d,]+: ")
    counts = read(data, most_bad_ratio=0.05).content["counts"]
    assert (counts["requests"], counts["bad_lines"]) == (49, 1)


def test_other_files_are_not_taken_for_it() -> None:
    # GIVEN texts of other formats, random bytes, and a message whose event is of no known kind
    chance = random.Random(1)  # noqa: S311 - a fixed sequence, no secret
    assert not any(is_octf(text.encode()) for text, _ in TEXTS.values())
    assert not any(is_octf(chance.randbytes(64)) for _ in range(5000))
    assert not is_octf(event(T, 1, 19, {}))
    assert not is_octf(event(0, 1, 2, {}))
    assert is_octf(FIRST)
    assert is_octf(FIRST + FIRST[:5])
    assert not is_octf(FIRST[:5])


def test_what_cannot_be_imported_is_rejected(read: Importer, tmp_path: Path) -> None:
    message = "OCTF has units and operations of its own"
    read.rejects(FIRST, message, error=UsageError, units=("time=us",))
    read.rejects(FIRST, "there is no request in it")
    (tmp_path / "y").write_text(TEXTS["alibaba"][0])
    message = "there is no line of the format alibaba in "
    read.rejects([tmp_path / "y", read.source], message, error=UsageError)
    read.rejects(b"", "empty")


def test_the_command_takes_several_files(tmp_path: Path) -> None:
    one, two, made = (tmp_path / name for name in ("octf.trace.0", "octf.trace.1", "out"))
    one.write_bytes(FIRST + io(T, 2, number=1, device=7))
    two.write_bytes(done(T + 9, 3, number=1, device=7))
    shown = succeed("import", two, one, "-o", made).output
    assert "1 requests of sda in 0.000 s (octf)" in shown
    assert traces.rows(TraceFolder(made)) == [(0, 9, "sda", 8, 4096, "read")]


def test_the_framework_s_own_semantics(read: Importer) -> None:
    # GIVEN a discard without a place until it is done (kernels before 4.10), a write of metadata
    # as versions before 2 tell it, by its class, and a completion without a place
    discard = event(T + 10, 2, octf.IO, {4: 7, 5: DISCARD, 9: 1})
    metadata = event(T + 20, 3, octf.IO, {1: 64, 2: 8, 3: 1, 4: 7, 5: WRITE, 9: 2})
    direct = event(T + 30, 4, octf.IO, {1: 72, 2: 8, 3: 22, 4: 7, 5: WRITE, 9: 3})
    data = FIRST + discard + metadata + direct + done(T + 40, 5, number=1, lba=512, sectors=256)
    data += event(T + 50, 6, octf.DONE, {4: 7, 5: 2}) + done(T + 60, 7, number=3, lba=72, device=7)
    folder = read(data)
    # THEN the place is that of the completion where it has one
    assert [row[3:] for row in traces.rows(folder)] == [
        (512, 256 * 512, "discard"),
        (64, 4096, "write"),
        (72, 4096, "write"),
    ]
    assert traces.requests(folder)["is_meta"].to_pylist() == [False, True, False]


@pytest.mark.parametrize(
    ("text", "dropped"), [('{"droppedEvents": "7"}', 2), ("{}", 0), ("no json", 0), ("[]", 0)]
)
def test_events_that_the_tracer_dropped_are_counted(
    read: Importer, tmp_path: Path, text: str, dropped: int
) -> None:
    # GIVEN a folder whose summary names 7 dropped events, of which 5 numbers are missing
    (tmp_path / "octf.trace.0").write_bytes(FIRST + io(T, 2, number=1) + io(T, 8, number=2))
    (tmp_path / "octf.summary").write_text(text)
    loss = read(tmp_path).content["loss"]
    assert (loss["lost_records"], loss["dropped"]) == (5, dropped)

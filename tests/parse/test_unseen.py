"""Completions that the kernel counted and the record lacks, by the counters of the capture."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import parsed as traces
from tests.decode.records import pack
from tracekit.errors import InputError
from tracekit.readers.blktrace import parse
from tracekit.readers.importing import import_trace
from tracekit.readers.metadata import LAG_NS
from tracekit.store import TraceFolder

MS = 1_000_000
BEGIN_NS, END_NS = 100 * MS, 900 * MS
"""When the counters were read, each for a microsecond."""
READS = """
    200000000 Q R 8+8
    200001000 D R 8+8
    200002000 C R 8+8
    300000000 Q RA 80+8
    300001000 D RA 80+8
    300002000 C RA 80+8
"""
IN_PARTS = """
    310000000 Q R 1000+16
    310001000 D R 1000+16
    310002000 C R 1000+8
    310003000 C R 1008+8
"""
MERGED = """
    320000000 Q W 2000+8
    320000100 G W 2000+8
    320000200 Q W 2008+8
    320000300 M W 2008+8
    320001000 D W 2000+16
    320002000 C W 2000+16
"""
SPLIT = """
    330000000 Q W 3000+16
    330000100 X W 3000+16 to=3008
    330001000 D W 3000+8
    330001100 D W 3008+8
    330002000 C W 3000+8
    330002100 C W 3008+8
"""
FORCED = """
    340000000 Q FWFS 4000+8
    340000100 G FWFS 4000+8
    340001000 D FN 0+0
    340002000 C FN 0+0
    340002100 D WFS 4000+8
    340003000 C WFS 4000+8
    340004000 C WFS 4000+0
"""
EMPTY_FLUSH = """
    350000000 Q FWS
    350000100 G FWS
    350001000 D FN
    350002000 C FN
    350002100 C WS
"""
DISCARDS = """
    360000000 Q DS 5000+64
    360001000 D DS 5000+64
    360002000 C DS 5000+64
"""
ALL = READS + IN_PARTS + MERGED + SPLIT + FORCED + EMPTY_FLUSH + DISCARDS
COMPLETED = {"read": 3, "write": 1 + 2 + 1 + 1, "discard": 1, "flush": 2}
"""By hand: what the kernel counts of ALL."""


def reading(at_ns: int, completed: dict[str, int]) -> dict[str, Any]:
    return {"before_ns": at_ns, "after_ns": at_ns + 1000, "in_flight": 0, "completed": completed}


def counters(completed: dict[str, int], device: str = "loop0") -> dict[str, Any]:
    """Return the counters of a disk that completed so many requests besides 1,000 of each."""
    before = dict.fromkeys(completed, 1000)
    after = {kind: 1000 + count for kind, count in completed.items()}
    ends = {"begin": reading(BEGIN_NS, before), "end": reading(END_NS, after)}
    return {"device": device, **ends}


def captured(folder: Path, lines: str, *entries: dict[str, Any]) -> Path:
    """Write a capture of the events, put in order of time, with these counters."""
    folder.mkdir()
    events = sorted((line for line in lines.splitlines() if line.strip()), key=time_of)
    (folder / "c.blktrace.0").write_bytes(pack("\n".join(events)))
    devices = [{"device": f"loop{minor}", "major": 7, "minor": minor} for minor in (0, 1)]
    layout = {"layout_version": 1, "devices": devices, "counters": list(entries)}
    (folder / "layout.json").write_text(json.dumps(layout))
    return folder


def time_of(line: str) -> int:
    return int(line.split(maxsplit=1)[0])


def parsed(tmp_path: Path, lines: str, *entries: dict[str, Any]) -> TraceFolder:
    return parse([captured(tmp_path / "capture", lines, *entries)], tmp_path / "trace")[0]


def unseen_of(folder: TraceFolder) -> dict[str, Any]:
    found: dict[str, Any] = folder.content["loss"]["unseen"]
    return found


def test_a_request_counts_once_however_it_completes(tmp_path: Path) -> None:
    # WHEN each sort of request is in the record, and the kernel counted as its rules are
    folder = parsed(tmp_path, ALL, counters(COMPLETED))
    # THEN nothing is unseen, of any kind
    found = unseen_of(folder)
    assert {row["kind"]: row["recorded"] for row in found["disks"]} == COMPLETED
    assert (found["at_least"], found["at_most"], found["not_measured"]) == (0, 0, [])
    assert not traces.warnings(folder).keys() & {"unseen_completions", "unseen_not_measured"}


LOST = {
    "a read": ("C R 8+8", {"read": 1}),
    "a request of two parts, of which the second": ("C R 1008+8", {"read": 1}),
    "a merge target with what was merged into it": ("C W 2000+16", {"write": 1}),
    "a piece of a split I/O": ("C W 3008+8", {"write": 1}),
    "the end of a forced write": ("C WFS 4000+0", {"write": 1}),
    "an empty flush": ("C WS", {"write": 1}),
    "a discard": ("C DS 5000+64", {"discard": 1}),
    "all flushes of the device": ("C FN", {"flush": 2}),
    "all reads": ("C R", {"read": 3}),
}


@pytest.mark.parametrize("name", LOST)
def test_lost_completions_are_reported_by_kind(tmp_path: Path, name: str) -> None:
    # GIVEN a record without some completions
    begin, missing = LOST[name]
    kept = [line for line in ALL.splitlines() if begin not in line]
    # WHEN it is parsed
    folder = parsed(tmp_path, "\n".join(kept), counters(COMPLETED))
    # THEN just these are reported
    found = unseen_of(folder)
    assert {row["kind"]: row["at_least"] for row in found["disks"] if row["at_least"]} == missing
    assert (found["at_least"], found["at_most"]) == (sum(missing.values()),) * 2
    ((kind, count),) = missing.items()
    message = traces.warnings(folder)["unseen_completions"]
    assert f"loop0 {kind} {count} of {COMPLETED[kind]}" in message


def test_a_completion_while_a_reading_was_made_may_be_in_it_or_not(tmp_path: Path) -> None:
    # GIVEN completions: before the first reading, in it, a moment before the last one, behind it
    times = (BEGIN_NS - 2 * LAG_NS, BEGIN_NS + 500, END_NS - LAG_NS // 2, END_NS + 2000)
    lines = [
        f"{at - back} {action} R {sector}+8"
        for sector, at in enumerate(times, 1)
        for back, action in ((200, "Q"), (100, "D"), (0, "C"))
    ]
    # WHEN the kernel counted one more than those that are surely between
    folder = parsed(tmp_path, READS + "\n".join(lines), counters({"read": 4}))
    # THEN the two at the edges make it uncertain which
    (row,) = unseen_of(folder)["disks"]
    assert (row["counted"], row["recorded"]) == (4, 2)
    assert (row["at_least"], row["at_most"]) == (0, 2)
    assert "unseen_completions" not in traces.warnings(folder)


def test_requests_that_were_under_way_when_recording_began_count(tmp_path: Path) -> None:
    # GIVEN a read and the data and the end of a forced write, of which only completions are there
    lines = "150000000 C R 8+8\n160000000 C WFS 4000+8\n161000000 C WFS 4000+0\n" + DISCARDS
    folder = parsed(tmp_path, lines, counters({"read": 1, "write": 1, "discard": 1}))
    # THEN the read is counted, and the write may have two completions
    found = {row["kind"]: row for row in unseen_of(folder)["disks"]}
    assert (found["read"]["at_least"], found["read"]["at_most"]) == (0, 0)
    assert (found["write"]["at_least"], found["write"]["at_most"]) == (0, 0)


REFUSED = "400000000 Q R 8+8\n400002000 C R 8+8 error=-11\n"
UNDER_WAY = """
    399000000 Q R 8+8
    399000100 G R 8+8
    399000200 D R 8+8
    401000000 C R 8+8
"""
"""Another read of the same place."""
WITHOUT_REQUESTS = "410000000 Q R 8+8\n410002000 C R 8+8\n"


@pytest.mark.parametrize(("lines", "counted"), [(READS, 2), (UNDER_WAY, 1), (WITHOUT_REQUESTS, 2)])
def test_an_io_that_failed_before_it_had_a_request_is_not_counted(
    tmp_path: Path, lines: str, counted: int
) -> None:
    # GIVEN a read that was not to wait for a request; of a device without requests all end so
    folder = parsed(tmp_path, lines + REFUSED, counters({"read": counted}))
    # THEN it is no row but counted apart, and the record has as many as the kernel counted
    assert {row["error"] for row in traces.requests(folder).to_pylist()} == {0}
    assert folder.content["counts"]["refused"] == 1
    said = "1 attempts came back with EAGAIN before they had a request"
    assert traces.warnings(folder)["refused_attempts"].startswith(said)
    (row,) = unseen_of(folder)["disks"]
    assert (row["recorded"], row["at_least"], row["at_most"]) == (counted, 0, 0)


def test_an_attempt_whose_queue_event_was_lost_is_not_counted(tmp_path: Path) -> None:
    lines = READS + "400002000 C R 800+8 error=-11\n"
    (row,) = unseen_of(parsed(tmp_path, lines, counters({"read": 2})))["disks"]
    assert (row["recorded"], row["at_least"], row["at_most"]) == (2, 0, 0)


def test_each_disk_has_its_own(tmp_path: Path) -> None:
    # GIVEN two disks, of which the second has no event in the record at all
    entries = counters({"read": 2}), counters({"read": 7, "write": 5}, "loop1")
    found = unseen_of(parsed(tmp_path, READS, *entries))
    least = {(row["device"], row["kind"]): row["at_least"] for row in found["disks"]}
    assert least == {("loop0", "read"): 0, ("loop1", "read"): 7, ("loop1", "write"): 5}


def test_a_disk_that_does_not_count_is_not_measured(tmp_path: Path) -> None:
    # GIVEN a disk whose counters stood still, and one that was not read
    entries = counters({"read": 0}), {"device": "loop1", "why_not": "queue/iostats is 0"}
    folder = parsed(tmp_path, READS, *entries)
    # THEN both are named, and nothing is claimed
    found = unseen_of(folder)
    assert found["disks"] == []
    assert [one["device"] for one in found["not_measured"]] == ["loop0", "loop1"]
    message = traces.warnings(folder)["unseen_not_measured"]
    assert "loop0: read: the record has 2 and the kernel counted 0" in message
    assert "loop1: queue/iostats is 0" in message


def test_counters_that_went_back_tell_nothing(tmp_path: Path) -> None:
    entry = counters({"read": 2})
    entry["end"]["completed"]["read"] = 7
    found = unseen_of(parsed(tmp_path, READS, entry))
    assert found["not_measured"] == [{"device": "loop0", "why": "its count of read went back"}]


def test_times_of_another_clock_tell_nothing(tmp_path: Path) -> None:
    # GIVEN records whose times begin at 0, as blkparse prints them, long before the readings
    lines = "0 Q R 8+8\n1000 D R 8+8\n2000 C R 8+8"
    found = unseen_of(parsed(tmp_path, lines, counters({"read": 1})))
    assert found["disks"] == []
    assert "not those of the capture's clock" in found["not_measured"][0]["why"]


def test_a_capture_without_counters_says_nothing(tmp_path: Path) -> None:
    folder = parsed(tmp_path, READS)
    assert folder.content["loss"]["unseen"] is None
    assert not traces.warnings(folder).keys() & {"unseen_completions", "unseen_not_measured"}


def perf_text(lines: int) -> str:
    """Return so many reads as perf script prints them."""
    events = (
        "{0}000: block:block_bio_queue: 7,0 R {place} + 8 [dd]",
        "{1}000: block:block_rq_issue: 7,0 R 4096 () {place} + 8 [dd]",
        "{2}000: block:block_rq_complete: 7,0 R () {place} + 8 [0]",
    )
    form = "".join(f"dd 42 [001] 0.{event}\n" for event in events)
    begins = [200_000 + 10 * number for number in range(lines)]
    return "".join(
        form.format(at, at + 1, at + 2, place=8 * number) for number, at in enumerate(begins)
    )


@pytest.mark.parametrize("lost", [0, 1, 17])
def test_completions_taken_out_of_a_text_are_counted(tmp_path: Path, lost: int) -> None:
    # GIVEN a capture of 40 reads by perf, of which some completions are taken out
    folder = captured(tmp_path / "capture", READS, counters({"read": 40}))
    (folder / "c.blktrace.0").unlink()
    lines = perf_text(40).splitlines(keepends=True)
    ends = [place for place, line in enumerate(lines) if "rq_complete" in line]
    gone = set(ends[3 : 3 + lost])
    text = "".join(line for place, line in enumerate(lines) if place not in gone)
    (folder / "c.perf.txt").write_text(text)
    # WHEN it is parsed, or imported
    made = parse([folder], tmp_path / "trace")[0], import_trace(folder, tmp_path / "imported")
    # THEN just these are reported, and as many rows have no completion
    for trace in made:
        (row,) = unseen_of(trace)["disks"]
        assert (row["counted"], row["recorded"]) == (40, 40 - lost)
        assert (row["at_least"], row["at_most"]) == (lost, lost)
        assert trace.content["loss"]["unmatched"]["queue"] == lost
        assert ("unseen_completions" in traces.warnings(trace)) == bool(lost)


def test_damage_of_loss_in_trace_json_is_named(tmp_path: Path) -> None:
    # GIVEN a trace whose count of what is unseen was spoilt
    folder = parsed(tmp_path, READS, counters({"read": 2}))
    info = json.loads((folder.path / "trace.json").read_text())
    info["loss"]["unseen"]["at_least"] = -1
    (folder.path / "trace.json").write_text(json.dumps(info))
    with pytest.raises(InputError, match="loss, unseen: at_least cannot be"):
        _ = TraceFolder(folder.path).info

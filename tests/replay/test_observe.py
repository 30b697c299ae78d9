"""What the kernel's tracer saw of a replay, against a trace of its own and brute force."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.replay.disk import token_of
from tests.replay.program import Replay, record, run_first
from tests.replay.test_kernel import disk, kernel_test, traced
from tests.replay.trace import trace
from tests.traces import json_of, rows_of
from tracekit.errors import TracekitError
from tracekit.observe import Observer
from tracekit.plans.block_plan import FLUSH, FUA, PREFLUSH, READ, WRITE
from tracekit.replay.observed import NONE, Asked, Place, Queued, find, percentiles
from tracekit.replay.player import PlayerOptions, Schedule
from tracekit.replay.run import ReplayOptions, replay
from tracekit.replay.summary import Engine, ReplaySummary
from tracekit.replay.words import describe
from tracekit.store import TraceFolder

__all__ = ["disk"]
QUEUED = re.compile(r"(\d+\.\d+): block_bio_queue: [\d,]+ (\w+) (\d+) \+ (\d+) \[(.*)\]")
OWN, OTHER = 10, 20
Rows = list[dict[str, Any]]


def asked_of(rows: list[dict[str, int]]) -> Asked:
    names = [field.name for field in fields(Asked)]
    kept = {"operation": READ, "flags": 0, "sectors": 8, "target": 0}
    full = [{"request_id": n, **kept, **row} for n, row in enumerate(rows)]
    return Asked(**{name: np.array([row[name] for row in full], np.int64) for name in names})


def queued_of(rows: Rows) -> Queued:
    names = [field.name for field in fields(Queued)][2:]
    kept = {"device": 0, "operation": READ, "process": 0, "pid": OWN, "is_merged": False}
    kept |= {"sectors": 8, "split_count": 0, "is_refused": False, "issue_ns": NONE}
    full = [{**kept, "complete_ns": row["queue_ns"] + 50, **row} for row in rows]
    columns = {name: np.array([row[name] for row in full]) for name in names}
    return Queued(["loop0"], ["tracekit-replay", "iou-wrk-10", "dd"], **columns)


def found(
    asked: list[dict[str, int]], rows: Rows, *, engine: str = "io_uring", **place: Any
) -> Any:
    summary = ReplaySummary(engine=Engine(asked=engine, used=engine))
    places = [Place("loop0", **place)]
    return find(asked_of(asked), queued_of(rows), places=places, own={OWN}, summary=summary)


def random_request(rng: np.random.Generator, number: int) -> tuple[dict[str, int], Rows]:
    """Return a request, and the rows of the kernel that are its own, not or in pieces."""
    again, begin_ns = number % 10 == 0, number * 100
    sectors = int(rng.choice([8, 16, 64]))
    operation = int(rng.choice([READ, WRITE]))
    flags = int(rng.choice([0, PREFLUSH, FUA])) if operation == WRITE else 0
    # Those of one place are never in flight together.
    asked = {
        "sector": 8 if again else 64 + 64 * int(rng.integers(5000)) + number * 400_000,
        "sectors": sectors, "operation": operation, "flags": flags, "intended_ns": begin_ns,
        "submit_ns": begin_ns,
        "complete_ns": begin_ns + (900 if again else int(rng.integers(200, 5000))),
    }  # fmt: skip
    queue_ns, rows = begin_ns + int(rng.integers(1, 90)), Rows()
    if flags & PREFLUSH:
        rows.append({"operation": FLUSH, "sector": 0, "sectors": 0, "queue_ns": queue_ns})
    length = sectors // 2 if sectors == 64 else sectors
    for piece, sector in enumerate(range(asked["sector"], asked["sector"] + sectors, length)):
        place = {"operation": operation, "sector": sector, "sectors": length}
        rows.append({**place, "queue_ns": queue_ns + 5 + piece})
    return asked, [{**row, "owner": number} for row in rows]


def test_random_requests_get_exactly_their_rows() -> None:
    # GIVEN requests, some in pieces, some after a flush, some of one place again and again, and
    # the rows of each, among those of others and what the kernel gave back
    rng = np.random.default_rng(7)
    asked, own = zip(*(random_request(rng, number) for number in range(2000)), strict=True)
    others = [{**mine[-1], "owner": -1, "pid": OTHER, "process": 2} for mine in own[::3]]
    refused = [{**mine[-1], "owner": -1, "is_refused": True} for mine in own[::5]]
    rows = [*(row for mine in own for row in mine), *others, *refused]
    result = found(list(asked), [rows[at] for at in rng.permutation(len(rows))])
    # THEN each has what brute force finds: the first queued, the last completed, their number
    for number, mine in enumerate(own):
        assert result.queue_ns[number] == min(row["queue_ns"] for row in mine), asked[number]
        assert result.device_complete_ns[number] == max(row["queue_ns"] for row in mine) + 50
        assert result.piece_count[number] == len(mine)
    expected = {"joined": 2000, "unmatched": 0, "unexplained": 0, "foreign": len(others)}
    expected |= {"refused": len(refused)}
    assert {key: result.counts[key] for key in expected} == expected
    assert result.counts["foreign_processes"] == {"dd": len(others)}


TIMES = {"intended_ns": 100, "submit_ns": 110, "complete_ns": 200}


@pytest.mark.parametrize(
    ("asked", "rows", "place", "expected"),
    [
        # Queued by a thread of the kernel for io_uring; issue is that of the driver.
        ({"sector": 8}, [{"sector": 8, "queue_ns": 120, "pid": 99, "process": 1, "issue_ns": 125}],
         {}, {"joined": 1, "unexplained": 0}),
        # Before it was submitted, or after it was complete: another's.
        ({"sector": 8}, [{"sector": 8, "queue_ns": 105}], {}, {"unmatched": 1, "unexplained": 1}),
        ({"sector": 8}, [{"sector": 8, "queue_ns": 300}], {}, {"unmatched": 1, "unexplained": 0}),
        # Another length, another operation, a part of it only.
        ({"sector": 8}, [{"sector": 8, "sectors": 16, "queue_ns": 120}], {}, {"unmatched": 1}),
        ({"sector": 8}, [{"sector": 8, "operation": WRITE, "queue_ns": 120}], {}, {"unmatched": 1}),
        ({"sector": 8, "sectors": 16}, [{"sector": 8, "queue_ns": 120}], {}, {"unmatched": 1}),
        # A partition, a file in two pieces, one with a hole.
        ({"sector": 8}, [{"sector": 2056, "queue_ns": 120}], {"first_sector": 2048}, {"joined": 1}),
        ({"sector": 0, "sectors": 16},
         [{"sector": 96, "queue_ns": 120}, {"sector": 32, "queue_ns": 121}],
         {"extents": np.array([[0, 96, 8], [8, 32, 8]])}, {"joined": 1, "split": 1}),
        ({"sector": 8}, [{"sector": 8, "queue_ns": 120}],
         {"extents": np.array([[0, 8, 8]])}, {"unmatched": 1}),
        # A flush with and without a cache; what the threads engine adds to FUA.
        ({"sector": 0, "sectors": 0, "operation": FLUSH},
         [{"sector": 0, "sectors": 0, "operation": FLUSH, "queue_ns": 120}], {}, {"joined": 1}),
        ({"sector": 0, "sectors": 0, "operation": FLUSH}, [], {"has_cache": False},
         {"uncached": 1, "unmatched": 0}),
        ({"sector": 0, "sectors": 0, "operation": FLUSH}, [], {}, {"uncached": 0, "unmatched": 1}),
        ({"sector": 8, "operation": WRITE, "flags": FUA},
         [{"sector": 8, "operation": WRITE, "queue_ns": 120},
          {"sector": 0, "sectors": 0, "operation": FLUSH, "queue_ns": 150}],
         {"engine": "threads"}, {"joined": 1, "unexplained": 0}),
    ],
)  # fmt: skip
def test_what_a_request_is_joined_with(
    asked: dict[str, int], rows: Rows, place: dict[str, Any], expected: dict[str, int]
) -> None:
    # The device is known by a row of another's.
    others: Rows = [{"sector": 999, "queue_ns": 0, "pid": OTHER}]
    counts = found([{**TIMES, **asked}], [*others, *rows], **place).counts
    assert {key: counts[key] for key in expected} == expected


def test_completions_of_one_place_are_exchanged_where_the_program_saw_another_order() -> None:
    # GIVEN three writes of one place in flight together, of which the second ended first, as the
    # program saw it; the kernel's events do not say which; and two of another place, one by one
    places = {"sector": 8, "intended_ns": 0}, {"sector": 64, "intended_ns": 0}
    spans = [(0, 0, 300), (0, 10, 100), (0, 20, 400), (1, 0, 100), (1, 200, 300)]
    asked = [{**places[n], "submit_ns": begin, "complete_ns": end} for n, begin, end in spans]
    queued = [{"sector": places[n]["sector"], "queue_ns": begin + 5} for n, begin, _ in spans]

    def ended(*times_ns: int) -> tuple[list[int], int]:
        rows = [{**row, "complete_ns": at} for row, at in zip(queued, times_ns, strict=True)]
        result = found(asked, rows)
        return result.device_complete_ns.tolist(), result.counts["misplaced"]

    # THEN each has the completion before its own, however the kernel's were paired
    for paired in ((290, 95, 390), (95, 390, 290), (390, 290, 95)):
        assert ended(*paired, 90, 290) == ([290, 95, 390, 90, 290], 0)
    # AND what no exchange explains stays as it is: too late, or before the request was queued
    assert ended(290, 95, 410, 90, 290) == ([290, 95, 410, 90, 290], 1)
    assert ended(390, 290, 12, 90, 290) == ([390, 290, 12, 90, 290], 2)
    assert ended(395, 396, 11, 290, 90) == ([395, 396, 11, 290, 90], 3)


def test_order_changes_are_positions() -> None:
    # GIVEN five requests of which the kernel queued the fourth second, and issued all in order
    asked = [{**TIMES, "intended_ns": at, "submit_ns": 0, "sector": 8 * at} for at in range(5)]
    order = [0, 2, 3, 1, 4]
    rows = [{"sector": 8 * at, "queue_ns": 10 + order[at], "issue_ns": 50 + at} for at in range(5)]
    changes = found(asked, rows).counts["order_changes"]
    assert (changes.queue, changes.issue) == (3, 0)


def test_percentiles_are_nearest_ranks() -> None:
    values = np.random.default_rng(1).permutation(1000) - 10
    nearest = percentiles(values)
    assert nearest is not None
    expected = [int(np.quantile(values, q, method="inverted_cdf")) for q in (0.5, 0.9, 0.99, 0.999)]
    assert [nearest.p50, nearest.p90, nearest.p99, nearest.p999] == expected
    assert (nearest.min, nearest.max, nearest.count) == (-10, 989, 1000)


def test_a_lead_comes_before_the_time_and_not_before_the_start(replay: Replay) -> None:
    rows = [record(READ, 8 * n, 8, at_ns=n * 100_000) for n in range(200)]
    ran = replay(rows, engine="null", lead_ns=250_000)
    done = ran.by_id()
    wanted = np.maximum(done["intended_ns"].astype(np.int64) - 250_000, 0)
    assert (done["submit_ns"] >= wanted).all()
    assert (done["submit_ns"] - wanted).min() < 1_000
    # What is late is late by the moment at which the kernel has it.
    clock, error = ran.summary["clock"], ran.summary["issue_error"]
    assert clock["lead_ns"] == 250_000
    late = np.maximum(done["submit_ns"].astype(np.int64) + 250_000 - done["intended_ns"], 0)
    assert error["min_ns"] == late.min()
    assert error["max_ns"] == late.max()
    replay(rows, engine="null", lead_ns=1, pace="fast").refused("--lead-ns needs times", code=2)


def observed(path: Path, rows: Rows, **options: Any) -> dict[str, Any]:
    """Replay rows of a trace under the tracer; return the summary."""
    observer = options.pop("observer", Observer())
    schedule = Schedule(**{name: options.pop(name) for name in ("pace", "lead") if name in options})
    folder = trace(path, rows)
    player = PlayerOptions(schedule=schedule, **options)
    summary, _ = replay(folder, ReplayOptions(player=player), observer=observer)
    return summary


KINDS: Rows = [
    {"operation": "read"}, {"operation": "write"}, {"operation": "write", "is_fua": True},
    {"operation": "write", "is_preflush": True}, {"operation": "discard"},
    {"operation": "write", "length_bytes": 1 << 16},
]  # fmt: skip


@contextmanager
def busy_reader(disk: Path) -> Iterator[None]:
    """Let another process read the device all the while."""
    read = f"dd if={disk} of=/dev/null bs=4k count=1 skip=4000 iflag=direct"
    loop = ["sh", "-c", f"while {read}; do sleep 0.01; done"]
    with subprocess.Popen(loop, stderr=subprocess.DEVNULL) as reader:
        try:
            yield
        finally:
            reader.kill()


def check_rows(table: Rows, planned: Rows, events: dict[int, list[float]], start_ns: int) -> None:
    """Check that each request has its own event, and its times are in order.

    Two tracers look at an event one after the other; all other events of its sector are 100 ms
    away. The flush before a write has no place.
    """
    assert [row["request_id"] for row in table] == list(range(len(planned)))
    for row, plan in zip(table, planned, strict=True):
        has_flush = "is_preflush" in plan
        at_us = (row["queue_ns"] + start_ns) / 1e3
        near = min(abs(at_us - event) for event in events[plan["sector"]])
        assert has_flush or near < 500, row
        names = ("submit_ns", "queue_ns", "issue_ns", "device_complete_ns", "complete_ns")
        times = [row[name] for name in names]
        assert None not in times, row
        assert times == sorted(times), row
        assert row["piece_count"] == 1 + has_flush


@kernel_test
def test_every_request_has_the_time_of_its_own_event(tmp_path: Path, disk: Path) -> None:
    # GIVEN requests of which each has its own sector, while somebody else reads the device
    rows = [{"queue_ns": n * 1_000_000, "sector": 128 * n, **KINDS[n % 6]} for n in range(200)]
    # WHEN they are replayed, with a trace of the test's own of what is queued beside it
    with traced("block_bio_queue", only=disk, clock="mono") as lines, busy_reader(disk):
        summary = observed(tmp_path / "t", rows, target=(str(disk),), write_to=(token_of(disk),))
    events: dict[int, list[float]] = {}
    for one in filter(None, map(QUEUED.search, lines)):
        if one[5] != "dd":
            events.setdefault(int(one[3]), []).append(float(one[1]) * 1e6)
    # THEN each is joined to its own event
    table = rows_of(tmp_path / "t/replays/latest/observed.parquet")
    check_rows(table, rows, events, summary["clock"]["start_ns"])
    seen = summary["observed"]
    none = ("unmatched", "unexplained", "lost_events", "misplaced")
    assert (seen["joined"], [seen[name] for name in none]) == (200, [0, 0, 0, 0])
    for level in ("queue", "issue"):
        order = sorted(range(200), key=lambda at: table[at][f"{level}_ns"])
        assert seen["order_changes"][level] == sum(at != one for at, one in enumerate(order))
    # and the other reader's are nobody's
    assert seen["foreign_processes"]["dd"] > 0
    assert "others queued" in " ".join(one["message"] for one in summary["warnings"])


@kernel_test
def test_the_lead_is_measured_and_kept(tmp_path: Path, disk: Path) -> None:
    # GIVEN a replay that was observed
    rows = [{"queue_ns": n * 500_000, "sector": 8 * n, "operation": "read"} for n in range(100)]
    summary = observed(tmp_path / "t", rows, target=(str(disk),))
    seen = summary["observed"]
    assert summary["lead_from"] == "measured"
    assert seen["lead_ns"] == summary["clock"]["lead_ns"] > 0
    assert summary["clock"]["lead_followed"]["requests"] > 0
    # WHEN another one follows on the same target, and one of another trace
    (tmp_path / "t/replays/latest").rename(tmp_path / "t/replays/first")
    options = ReplayOptions(player=PlayerOptions(target=(str(disk),)))
    again, _ = replay(TraceFolder(tmp_path / "t"), options)
    elsewhere, _ = replay(trace(tmp_path / "u", rows[:1]), options)
    # THEN the first takes the lead from it, the other has none
    assert (again["lead_from"], elsewhere["lead_from"]) == ("first", "none")
    assert again["clock"]["lead_ns"] == seen["queue_lag_ns"]["p50"]
    assert elsewhere["clock"]["lead_ns"] == 0


@kernel_test
def test_a_lead_that_is_far_off_follows_the_kernel(replay: Replay, disk: Path) -> None:
    # GIVEN reads 4 ms apart, and a lead of 2 ms where the kernel takes some microseconds
    rows = [record(READ, 128 * n, 8, at_ns=n * 4_000_000) for n in range(100)]

    def early_ns(**options: Any) -> float:
        with traced("block_bio_queue", only=disk, clock="mono") as lines:
            options |= {"target": disk, "lead_ns": 2_000_000, "preexec_fn": run_first}
            ran = replay(rows, direct="on", **options)
        start_ns = ran.summary["clock"]["start_ns"]
        found = filter(None, map(QUEUED.search, lines))
        at_ns = {int(one[3]) // 128: float(one[1]) * 1e9 - start_ns for one in found}
        followed = ran.summary["clock"].get("lead_followed")
        assert (followed is not None) == ("follow_lead" in options)
        if followed is not None:
            assert followed["requests"] >= 50
            assert 0 < followed["least_ns"] <= followed["most_ns"] < 1_000_000
        return float(np.median([n * 4_000_000 - at_ns[n] for n in range(50, 100)]))

    # THEN the kernel queues the later half too early by these 2 ms, and following it does not
    assert early_ns() > 1_000_000
    assert abs(early_ns(follow_lead=True)) < 200_000
    replay(rows, engine="null", follow_lead=True, pace="fast").refused("needs times", code=2)


@kernel_test
def test_lost_events_are_the_first_thing_said(tmp_path: Path, disk: Path) -> None:
    # GIVEN a tracer with the smallest buffer, and requests as fast as possible
    rows = [{"queue_ns": n, "sector": 8 * (n % 4000), "operation": "read"} for n in range(30_000)]
    observer = Observer(source="perf", buffer_kib=4)
    summary = observed(tmp_path / "t", rows, target=(str(disk),), pace="fast", observer=observer)
    # THEN what it lost is counted, and said before all else
    seen = summary["observed"]
    assert seen["lost_events"] > 0
    assert seen["queue_error_ns"] is None
    assert summary["warnings"][0]["code"] == "lost_events"
    assert describe(summary).startswith(f"the tracer lost {seen['lost_events']:,} events")
    assert summary["counts"]["done"] == 30_000


@kernel_test
def test_a_file_is_seen_where_its_file_system_has_it(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"x" * (4 << 20))
    os.sync()
    rows = [{"queue_ns": n * 500_000, "sector": 8 * n, "operation": "read"} for n in range(300)]
    seen = observed(tmp_path / "t", rows, target=(str(target),))["observed"]
    assert seen["joined"] == 300, seen


def test_without_the_right_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    target = tmp_path / "file"
    target.write_bytes(bytes(1 << 20))
    rows = [{"queue_ns": 0, "operation": "read"}]
    with pytest.raises(TracekitError, match=r"--observe records .* needs root"):
        observed(tmp_path / "t", rows, target=(str(target),))
    monkeypatch.undo()
    with pytest.raises(TracekitError, match="null engine queues nothing"):
        observed(tmp_path / "u", rows, engine="null")
    assert not list((tmp_path / "t/replays").glob("*"))
    assert json_of(tmp_path / "t/trace.json")

"""The measures of volumes against a count by hand, of one volume after the other."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.classify.traces import flush, read, write
from tests.traces import Row, rows_of, write_folder
from tracekit.analyze import ANALYSES, analyze
from tracekit.classify import ClassifyOptions, classify

NAMES = tuple(name for name in ANALYSES if name.startswith("volume/"))
SECOND, HOUR = 10**9, 3600 * 10**9
GAPS_NS = (0, 0, 1, 700, 40_000, SECOND, 25 * SECOND, 70 * SECOND, HOUR, 30 * HOUR)
QUARTERS = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99}
BY_HAND = {
    "single": [write(8, queue_ns=7)],
    "empty": [read(0, length_bytes=0, queue_ns=3), flush(queue_ns=4)],
    "discards": [{**write(0), "operation": "discard"}, {**write(0), "operation": "write_zeroes"}],
    "crossing": [write(4, queue_ns=1), read(0, queue_ns=5), write(8, queue_ns=5)],
    "ties": [write(0, queue_ns=9), write(0, queue_ns=9), read(0, queue_ns=9)],
    "backward": [write(0, queue_ns=9), write(0, queue_ns=None, issue_ns=4), read(0, queue_ns=6)],
    "untimed": [read(0, queue_ns=None), write(0, queue_ns=None), write(600, queue_ns=None)],
    "partly timed": [write(0, queue_ns=None), write(0, queue_ns=50), write(0, queue_ns=60)],
    "unknown": [read(0, operation=None, queue_ns=2), write(0, queue_ns=30), read(256, queue_ns=40)],
    "short": [read(place * 300, queue_ns=place) for place in range(50)],
    "far": [read(0, queue_ns=0), write(257, queue_ns=1), read(513, queue_ns=2)],
}


def volume(seed: int) -> Iterator[Row]:
    generator = random.Random(seed)  # noqa: S311 - no secret
    span, time_ns, is_timed = generator.choice([30, 600, 100_000]), 0, generator.random() < 0.9
    for _ in range(generator.randint(1, 120)):
        time_ns += generator.choice(GAPS_NS[: generator.choice([4, 7, 10])])
        yield {
            "operation": generator.choice(["read", "write", "write", None, "flush", "discard"]),
            "sector": generator.randrange(span),
            "length_bytes": generator.choice([0, 512, 4096, 4096, 5000, 300_000]),
            "queue_ns": time_ns if is_timed and generator.random() < 0.98 else None,
        }


class ByHand:
    """What the measures of one volume must be, from its requests alone."""

    def __init__(self, rows: list[Row]) -> None:
        wanted = [row for row in rows if row["operation"] in ("read", "write", None)]
        self.rows = [row for row in wanted if row["length_bytes"] > 0]
        self.times = [
            row["queue_ns"] if row["queue_ns"] is not None else row.get("issue_ns")
            for row in self.rows
        ]
        self.is_write = [row["operation"] == "write" for row in self.rows]
        self.accesses: dict[int, list[tuple[bool, int | None]]] = defaultdict(list)
        for row, is_write, time_ns in zip(self.rows, self.is_write, self.times, strict=True):
            end = row["sector"] + -(-row["length_bytes"] // 512)
            for block in range(row["sector"] // 8, (end - 1) // 8 + 1):
                self.accesses[block].append((is_write, time_ns))

    def windows(self, length_ns: int) -> dict[int, dict[str, int]]:
        found: dict[int, dict[str, int]] = defaultdict(Counter)
        for row, is_write, time_ns in zip(self.rows, self.is_write, self.times, strict=True):
            if time_ns is not None:
                kind = "write" if is_write else "read"
                found[time_ns // length_ns][f"{kind}_count"] += 1
                found[time_ns // length_ns][f"{kind}_bytes"] += row["length_bytes"]
        return found

    def is_random(self, at: int) -> bool:
        recent = [row["sector"] for row in self.rows[max(0, at - 32) : at]]
        distance = min((abs(self.rows[at]["sector"] - one) * 512 for one in recent), default=0)
        return distance > 128 << 10

    def randomness(self) -> Row:
        far = sum(map(self.is_random, range(len(self.rows))))
        return {"random_count": far, "random_ratio": far / len(self.rows)}

    def totals(self) -> Row:
        windows = self.windows(60 * SECOND)
        counts = {
            number: sum(window[f"{kind}_count"] for kind in ("read", "write"))
            for number, window in windows.items()
        }
        span = range(min(counts), max(counts) + 1) if counts else range(0)
        known = [time_ns for time_ns in self.times if time_ns is not None]
        duration_s = (max(known) - min(known)) / 1e9 if known else 0
        active = {
            kind: len({at // 10 for at in windows if windows[at][f"{kind}_count"]})
            for kind in ("read", "write")
        }
        writes, total = sum(self.is_write), len(self.rows)
        blocks = self.accesses.values()
        updated = sum(sum(is_write for is_write, _ in block) > 1 for block in blocks)
        return {
            "read_count": total - writes,
            "write_count": writes,
            **{f"{kind}_bytes": self.bytes_of(kind == "write") for kind in ("read", "write")},
            "write_ratio": writes / total,
            **self.randomness(),
            "untimed_count": total - len(known),
            "first_ns": min(known, default=None),
            "last_ns": max(known, default=None),
            "window_count": len(span) or None,
            "average_per_s": len(known) / duration_s if duration_s else None,
            "peak_per_s": max(counts.values()) / 60 if counts else None,
            "burstiness": max(counts.values()) / (len(known) / len(span)) if counts else None,
            "period_count": span[-1] // 10 - span[0] // 10 + 1 if counts else None,
            "active_periods": len({number // 10 for number in counts}),
            "read_active_periods": active["read"],
            "write_active_periods": active["write"],
            "working_set_bytes": len(blocks) * 4096,
            "read_set_bytes": sum(any(not one for one, _ in block) for block in blocks) * 4096,
            "write_set_bytes": sum(any(one for one, _ in block) for block in blocks) * 4096,
            "update_set_bytes": updated * 4096,
            "update_coverage_ratio": updated / len(blocks),
        }

    def bytes_of(self, is_write: bool) -> int:
        return sum(
            row["length_bytes"]
            for row, one in zip(self.rows, self.is_write, strict=True)
            if one == is_write
        )

    def intervals(self) -> dict[str, list[int | None]]:
        found: dict[str, list[int | None]] = defaultdict(list)
        for before, time_ns in pairwise(self.times):
            found["arrival"].append(apart(before, time_ns))
        for block in self.accesses.values():
            latest = -1
            for (was_write, before), (is_write, time_ns) in pairwise(block):
                latest = max(latest, before if before is not None else latest)
                kind = f"{'RW'[is_write]}A{'RW'[was_write]}"
                found[kind].append(apart(before if before is None else latest, time_ns))
            writes = [time_ns for is_write, time_ns in block if is_write]
            found["update"] += map(apart, writes, writes[1:])
        return {kind: times for kind, times in sorted(found.items()) if times}

    def access_times(self) -> Iterator[Row]:
        intervals = self.intervals()
        accesses = sum(len(times) for kind, times in intervals.items() if kind[1] == "A")
        for kind, times in intervals.items():
            known = sorted(time_ns for time_ns in times if time_ns is not None)
            yield {
                "kind": kind,
                "interval_count": len(times),
                "access_ratio": len(times) / accesses if kind[1] == "A" else None,
                "untimed_count": len(times) - len(known),
                **{
                    f"time_{name}_ns": end_of(known[math.ceil(ratio * len(known)) - 1])
                    if known
                    else None
                    for name, ratio in QUARTERS.items()
                },
            }

    def skew(self) -> Iterator[Row]:
        for operation in ("read", "write"):
            wanted = operation == "write"
            hits = [sum(one == wanted for one, _ in block) for block in self.accesses.values()]
            hits = sorted(filter(None, hits), reverse=True)
            if hits:
                yield {
                    "operation": operation,
                    "block_count": len(hits),
                    "touch_count": sum(hits),
                    "top_1_ratio": sum(hits[: -(-len(hits) // 100)]) / sum(hits),
                    "top_10_ratio": sum(hits[: -(-len(hits) // 10)]) / sum(hits),
                }

    def activity(self) -> Iterator[Row]:
        for number, window in sorted(self.windows(60 * SECOND).items()):
            yield {"window_number": number, "window_ns": number * 60 * SECOND, **traffic(window)}

    def daily_cycle(self) -> Iterator[Row]:
        hours: dict[int, Counter[str]] = defaultdict(Counter)
        days: Counter[int] = Counter()
        for number, window in self.windows(HOUR).items():
            hours[number % 24].update(window)
            days[number % 24] += 1
        for hour in sorted(hours):
            yield {"hour_number": hour, "day_count": days[hour], **traffic(hours[hour])}


def traffic(window: dict[str, int]) -> Row:
    names = ("read_count", "write_count", "read_bytes", "write_bytes")
    return {name: window.get(name, 0) for name in names}


def apart(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)


def end_of(value: int) -> int:
    """Return the last number of the bucket of which 16 make an octave: that with 5 bits kept."""
    cut = max(0, value.bit_length() - 5)
    return value | ((1 << cut) - 1)


def same(found: Any, wanted: Any) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return (
        math.isclose(found, wanted, rel_tol=1e-12) if isinstance(wanted, float) else found == wanted
    )


def test_measures_are_what_a_count_by_hand_finds(tmp_path: Path) -> None:
    # GIVEN 400 random volumes and some special ones, their requests mixed in the order of time
    volumes = {f"v{seed}": list(volume(seed)) for seed in range(400)} | BY_HAND
    rows = [{**row, "device": name} for name, own in volumes.items() for row in own]
    latest: dict[str, int] = defaultdict(int)
    for row in rows:
        known = row.get("queue_ns")
        latest[row["device"]] = max(latest[row["device"]], known if known is not None else 0)
        row["order"] = latest[row["device"]]
    rows.sort(key=lambda row: row.pop("order"))
    folder = write_folder(tmp_path / "t", rows, inferences=[], warnings=[], devices=[])
    # WHEN they are classified in more than one pass, and analyzed
    result = classify(folder, ClassifyOptions(budget_bytes=1 << 20))
    assert result["hotness"]["scans"] > 1
    analyze(folder, only=NAMES)
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for name in NAMES:
        table = name.partition("/")[2]
        for row in rows_of(folder.table(f"findings/{table}")):
            found[table][row.pop("device")].append(row)
    # THEN each table has of each volume what its own requests come to
    for name, own in volumes.items():
        by_hand = ByHand([{"queue_ns": None, **row} for row in own])
        wanted = {
            "volume_totals": [by_hand.totals()] if by_hand.rows else [],
            **{
                table: list(getattr(by_hand, table)())
                for table in ("activity", "daily_cycle", "access_times", "skew")
            },
        }
        for table, expected in wanted.items():
            assert len(found[table][name]) == len(expected), (name, table)
            for row, right in zip(found[table][name], expected, strict=True):
                wrong = {key for key in row if not same(row[key], right[key])}
                assert not wrong, (name, table, wrong, row, right)
    assert not found["volume_totals"]["empty"] + found["skew"]["discards"]


@pytest.mark.parametrize("name", ["volume_totals", "activity"])
def test_windows_of_another_length(name: str, tmp_path: Path) -> None:
    # GIVEN a trace of 50 ms, far shorter than a minute, with two requests in its second window
    rows = [read(0, queue_ns=time_ms * 10**6, device="sda") for time_ms in (0, 12, 13, 45)]
    folder = write_folder(tmp_path / "t", rows, inferences=[], warnings=[], devices=[])
    classify(folder, ClassifyOptions())
    # WHEN windows are 10 ms long, THEN there are five of them, of which three have requests
    analyze(folder, only=[name], parameters={"window_ms": 10})
    found = rows_of(folder.table(f"findings/{name}"))
    if name == "activity":
        assert [row["window_number"] for row in found] == [0, 1, 4]
    else:
        assert (found[0]["window_count"], found[0]["peak_per_s"]) == (5, 200)
        assert math.isclose(found[0]["burstiness"], 2 / (4 / 5))

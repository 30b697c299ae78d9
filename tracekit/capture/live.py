"""What a capture sees while it records: rates, latencies and losses, for a line and a threshold."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit.capture.recording import HEADER_7, LOST, MAGIC
from tracekit.units import SECTOR_BYTES, format_duration

LINE_S = 1.0
REQUEUED, ISSUED, COMPLETED = 6, 7, 8
"""Actions; a request that is requeued is issued once more."""
MOST_OPEN = 1 << 16
"""Requests whose completion is waited for; older ones are given up."""
REQUESTS, SECTORS = (0, 4), (2, 6)
"""Of reads and writes, by their places in the file `stat`."""
_EVENT = np.dtype([("device", "u4"), ("sector", "u8"), ("time", "u8"), ("is_done", "?")])
Events = NDArray[np.void]


class Watch:
    """Latencies from issue to completion, of the records as they come."""

    def __init__(self, *, keeps_latencies: bool = True) -> None:
        """Keep latencies until `p99_ns` is asked for; without anybody who asks do not."""
        self._keeps_latencies = keeps_latencies
        self._new: list[Events] = []
        self._open = self._early = np.empty(0, _EVENT)
        self._seen_ns = self._lost_ns = 0
        self.latencies_ns: list[NDArray[np.int64]] = []
        self.oldest_ns: int | None = None
        """When the oldest request was issued that is open, or that ended since the call before."""

    def see(self, data: bytes) -> None:
        """Take records of a CPU."""
        # Behind a message of a loss the records may stand at any byte.
        first, *others = LOST.split(data)[::2] if b"LOST" in data else [data]
        self._new.append(_events(first))
        for part in others:
            self._new.append(found := _events(part))
            if len(found):
                self._lost_ns = max(self._lost_ns, int(found["time"][0]))

    def add(self, latencies_ns: NDArray[np.int64]) -> None:
        """Take latencies of records that have both ends."""
        if len(latencies_ns) and self._keeps_latencies:
            self.latencies_ns.append(latencies_ns)

    def pair(self) -> int:
        """Find what was completed by now; return the longest latency, 0 without one."""
        events = np.concatenate([self._open, self._early, *self._new])
        seen_ns = max((int(one["time"].max()) for one in self._new if len(one)), default=0)
        self._new = []
        begun, ended, still_open, early = _paired(events)
        # A completion may come before its issue, of another CPU, and only once.
        self._early = early[early["time"] > self._seen_ns]
        self._seen_ns = max(self._seen_ns, seen_ns)
        # What was open at a loss may have been completed in it.
        self._open = still_open[still_open["time"] >= self._lost_ns]
        if len(self._open) > MOST_OPEN:
            self._open = self._open[np.argsort(self._open["time"])[-MOST_OPEN:]]
        times = np.concatenate([begun["time"], self._open["time"]])
        self.oldest_ns = int(times.min()) if len(times) else None
        spans = (ended["time"] - begun["time"]).astype(np.int64)
        self.add(spans)
        return int(spans.max(initial=0))

    def give_up(self, in_flight: int, *, before_ns: int) -> None:
        """Of what was issued before a time, keep as much as the kernel had in flight then.

        Of the others the completion is not known by its place: that of a zone append has another.
        """
        order = np.argsort(self._open["time"])
        old = int(np.count_nonzero(self._open["time"] < before_ns))
        self._open = self._open[order[max(0, old - in_flight) :]]

    def p99_ns(self) -> int | None:
        """Return the 99th percentile since the last call; None without a completion."""
        found, self.latencies_ns = self.latencies_ns, []
        return int(np.percentile(np.concatenate(found), 99)) if found else None


def _paired(events: Events) -> tuple[Events, Events, Events, Events]:
    """Return issues and their ends, in one order, then issues and ends that have no partner.

    Of several requests of a place the first that was issued ends first.
    """
    events = events[np.lexsort([events[key] for key in ("is_done", "time", "sector", "device")])]
    is_done = events["is_done"]
    is_first = np.ones(len(events), bool)
    is_first[1:] = events["device"][1:] != events["device"][:-1]
    is_first[1:] |= events["sector"][1:] != events["sector"][:-1]
    place = np.cumsum(is_first) - 1
    # Each place counts from far below the one before it, so that it has a lowest count of its own.
    step = np.where(is_done, -1, 1)
    count = np.cumsum(step) - place * (2 * len(events) + 2)
    lowest = np.minimum.accumulate(np.where(is_first, np.minimum(count, count - step), count))
    is_early = is_done & (is_first | (np.diff(lowest, prepend=0) < 0))
    ends = np.bincount(place[is_done & ~is_early], minlength=len(events) + 1)
    issues, at = events[~is_done], place[~is_done]
    is_ended = np.arange(len(at)) - np.searchsorted(at, at) < ends[at]
    ended = events[is_done & ~is_early]
    return issues[is_ended], ended, issues[~is_ended], events[is_early]


def _events(data: bytes) -> Events:
    """Return the issues and ends in data among records that begin at its first byte."""
    words = np.frombuffer(data, "u4", len(data) // 4)
    starts = np.flatnonzero(words == MAGIC) * 4
    starts = starts[starts + HEADER_7.itemsize <= len(data)]
    raw = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(HEADER_7.itemsize)]
    headers = raw.reshape(len(starts), HEADER_7.itemsize).view(HEADER_7)[:, 0]
    action = headers["action"] & 0xFF
    is_event = (action == ISSUED) | (action == COMPLETED) | (action == REQUEUED)
    headers = headers[is_event & (headers["bytes"] > 0)]
    found = np.empty(len(headers), _EVENT)
    for name in ("device", "sector", "time"):
        found[name] = headers[name]
    found["is_done"] = headers["action"] & 0xFF != ISSUED
    return found


class LiveLine:
    """One line a second of what happens on the disks."""

    def __init__(
        self,
        disks: Sequence[Path],
        watch: Watch | None,
        lost: Callable[[], Mapping[str, int]] | None,
    ) -> None:
        """Prepare a line; without a watch it has no latencies, without `lost` no losses."""
        self._disks, self._watch, self._lost = disks, watch, lost
        self._read_s, self._counts = time.monotonic(), self._read()

    def _read(self) -> tuple[int, int]:
        requests = sectors = 0
        for disk in self._disks:
            try:
                values = [int(word) for word in (disk / "stat").read_text().split()]
            except OSError:
                continue  # it went away
            requests += sum(values[place] for place in REQUESTS)
            sectors += sum(values[place] for place in SECTORS)
        return requests, sectors

    def text(self) -> str | None:
        """Return the line when it is time for the next one, else None."""
        now_s = time.monotonic()
        past_s = now_s - self._read_s
        if past_s < LINE_S:
            return None
        before, self._counts, self._read_s = self._counts, self._read(), now_s
        requests, sectors = (now - then for now, then in zip(self._counts, before, strict=True))
        mib = sectors * SECTOR_BYTES / past_s / (1 << 20)
        parts = [f"{max(0, requests) / past_s:,.0f} requests/s", f"{max(0.0, mib):,.1f} MiB/s"]
        if self._watch is not None:
            p99_ns = self._watch.p99_ns()
            parts.append(f"p99 {format_duration(p99_ns) if p99_ns is not None else '-'}")
        if self._lost is not None:
            parts.append(f"{sum(self._lost().values()):,} lost")
        return ", ".join(parts)

"""Whether numbers can be in the units that they are taken for: pairs, rate, size and epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tracekit.formats.foreign import SIZE_BYTES, TIME_NS, Units
from tracekit.schema import SECTOR_BYTES

FEWEST_PAIRS = 20
PAIRS_FACTOR = 10
FEWEST_REQUESTS = 100
MOST_PER_S = 5e6
LEAST_PER_S = 1e-3
LARGEST_LENGTH_BYTES = 1 << 30
LARGEST_PLACE_BYTES = 1 << 60
EPOCH_S = (631_152_000, 4_102_444_800)
"""1990 to 2100."""
SMALL_RATIO = 0.01
FINE = ("ms", "us")
FEWEST_TICKS = 60
FULL_RATIO = 0.9
CROWD = 4.0


def scaled(values: Any, factor: int) -> Any:
    """Return the numbers times the factor; as they are, and no copy, where it is 1."""
    return values if factor == 1 else values * factor


def _count(values: Any) -> int:
    """Return how many are true or not zero: a sum would make numbers of them first."""
    import numpy as np

    return int(np.count_nonzero(values))


@dataclass
class Evidence:
    """Counts of the whole trace that speak for or against the units."""

    units: Units
    requests: int = 0
    pairs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("bytes", "sectors"), 0))
    """Requests that begin where the one before ends, by the unit the lengths would have."""
    odd: int = 0
    """Requests whose place is no whole number of sectors."""
    byte_pairs: int = 0
    """Of places in sectors: requests that would follow the one before, were they bytes."""
    fine: int = 0
    """Of places in sectors: those that could be no bytes, as no sector begins there."""
    largest_length_bytes: int = 0
    largest_end_bytes: int = 0
    ticks: int = 0
    """Different times among the requests."""
    latest_ns: int | None = None

    def add_times(self, times_ns: Any) -> None:
        """Count some times, in ascending order and behind those before."""
        is_new = self.latest_ns is None or int(times_ns[0]) != self.latest_ns
        self.ticks += _count(times_ns[1:] != times_ns[:-1]) + is_new
        self.latest_ns = int(times_ns[-1])

    def add(self, places: Any, length: Any, *, device: Any) -> int:
        """Count some requests in the file's order; return how many begin within a sector.

        Places are bytes, lengths in the unit that they are taken for.
        """
        self.requests += len(places)
        follows = (device[1:] == device[:-1]) & (length[:-1] > 0)
        steps = places[1:] - places[:-1]
        for unit in self.pairs:
            ends = scaled(length[:-1], SIZE_BYTES[unit])
            self.pairs[unit] += _count((steps == ends) & follows)
        odd = _count(places & (SECTOR_BYTES - 1))
        self.odd += odd
        in_bytes = scaled(length, SIZE_BYTES[self.units.length])
        if self.units.offset == "sectors":
            self.byte_pairs += _count((steps == in_bytes[:-1] * SECTOR_BYTES) & follows)
            self.fine += _count(places & (SECTOR_BYTES * SECTOR_BYTES - 1))
        self.largest_length_bytes = max(self.largest_length_bytes, int(in_bytes.max()))
        self.largest_end_bytes = max(self.largest_end_bytes, int((places + in_bytes).max()))
        return odd

    def contradictions(self, *, span_ns: int, first_ns: int) -> list[str]:
        """Return what cannot be under these units, in words; none if all is plausible."""
        units = self.units
        other = "sectors" if units.length == "bytes" else "bytes"
        mine = self.pairs.get(units.length, self.requests)
        rate = self.requests / (span_ns / 1e9) if span_ns else 0.0
        # Whole seconds say nothing about a rate within one of them.
        has_rate = self.requests >= FEWEST_REQUESTS and span_ns > 0 and units.time != "none"
        checks = [
            (
                self.pairs[other] >= max(FEWEST_PAIRS, PAIRS_FACTOR * mine),
                f"lengths look like {other}, not {units.length}: {self.pairs[other]:,} requests"
                f" begin where the one before ends, against {mine:,}: --unit length={other}",
            ),
            *self._place_checks(mine),
            (
                self.largest_length_bytes > LARGEST_LENGTH_BYTES,
                f"a request of {self.largest_length_bytes:,} bytes is longer than 1 GiB:"
                " another unit than --unit length?",
            ),
            (
                self.largest_end_bytes > LARGEST_PLACE_BYTES,
                f"a request ends at byte {self.largest_end_bytes:,}, beyond 1 EiB: --unit offset?",
            ),
            (
                has_rate and not LEAST_PER_S <= rate <= MOST_PER_S,
                f"{self.requests:,} requests in {span_ns / 1e9:,.6f} s are {rate:,.3g} a second:"
                f" times cannot be {units.time}, give --unit time=...",
            ),
            *self._clock_checks(first_ns),
        ]
        return [text for is_wrong, text in checks if is_wrong]

    def doubts(self, *, span_ns: int) -> list[str]:
        """Return what is possible under these units and yet unlikely, in words.

        A clock that is read in ms or finer has gaps; one of whole seconds has requests at each.
        """
        found = []
        if self._may_be_bytes():
            found.append(
                f"each of {self.requests:,} places is a multiple of 512 sectors:"
                " bytes, --unit offset=bytes?"
            )
        return found + self._time_doubts(span_ns)

    def _may_be_bytes(self) -> bool:
        is_counted = self.units.offset == "sectors" and self.requests >= FEWEST_REQUESTS
        return is_counted and self.fine == 0 and self.largest_end_bytes > LARGEST_LENGTH_BYTES

    def _time_doubts(self, span_ns: int) -> list[str]:
        unit_ns = TIME_NS.get(self.units.time, 0)
        if self.units.time not in FINE or self.ticks < FEWEST_TICKS:
            return []
        is_full = self.ticks > FULL_RATIO * (span_ns // unit_ns + 1)
        crowd = self.requests / self.ticks
        if not is_full or crowd < CROWD:
            return []
        return [
            f"{self.ticks:,} different times fill every {self.units.time} of the trace, with"
            f" {crowd:,.1f} requests each: whole seconds, --unit time=s?"
        ]

    def _place_checks(self, mine: int) -> list[tuple[bool, str]]:
        return [
            (
                self.odd > SMALL_RATIO * self.requests,
                f"places cannot be {self.units.offset}: {self.odd:,} of {self.requests:,}"
                " are no whole sectors: --unit offset=sectors",
            ),
            (
                self.byte_pairs >= max(FEWEST_PAIRS, PAIRS_FACTOR * mine),
                f"places look like bytes, not sectors: {self.byte_pairs:,} requests"
                f" begin where the one before ends, against {mine:,}: --unit offset=bytes",
            ),
        ]

    def _clock_checks(self, first_ns: int) -> list[tuple[bool, str]]:
        units = self.units
        return [
            (
                units.is_wall and not EPOCH_S[0] <= first_ns / 1e9 <= EPOCH_S[1],
                f"the first time is {first_ns / 1e9:,.0f} s after 1970, not within 1990 to 2100:"
                f" times cannot be {units.time}{_other_clock(first_ns, units.time)}",
            ),
            (
                units.settled_time not in (None, units.time),
                f"times of this format are {units.settled_time} by its own reader,"
                f" not {units.time}",
            ),
        ]


def _other_clock(first_ns: int, unit: str) -> str:
    """Return the unit in which a first time is one of 1990 to 2100, for a message, if there is one.

    It is none of filetime, which counts from another year.
    """
    if unit == "filetime" or first_ns <= 0:
        return ""
    ticks = first_ns / TIME_NS[unit]
    others = [name for name in TIME_NS if name not in ("filetime", "date", unit)]
    fitting = [name for name in others if EPOCH_S[0] <= ticks * TIME_NS[name] / 1e9 <= EPOCH_S[1]]
    return f", and can be {fitting[0]}: --unit time={fitting[0]}" if fitting else ""

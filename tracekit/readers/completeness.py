"""How complete a trace is: which columns its requests have, how many end, which CPUs it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

COLUMNS = ("queue_ns", "issue_ns", "complete_ns", "operation", "process", "pid")
"""Of `requests`: a whole trace of a disk has them all."""
MOST_OPEN, FEW_OPEN = 0.01, 32
"""Of the requests, and in all: so many are in flight when a trace begins or ends."""
FEWEST_EVENTS = 100
"""For each CPU that has any: one that has none was idle or is missing."""
SHOWN_CPUS = 8


@dataclass
class Present:
    """How many rows of requests have each of the columns."""

    rows: int = 0
    values: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COLUMNS, 0)))

    def add(self, batch: Any) -> None:
        """Count the rows of a batch."""
        self.rows += len(batch)
        for name in COLUMNS:
            self.values[name] += len(batch) - batch.column(name).null_count

    def doubts(self, *, told: int = 0) -> list[tuple[str, object, str]]:
        """Return whether more requests lack a completion than are in flight at the ends.

        Of `told` of them that is said already.
        """
        ended = self.values["complete_ns"]
        left = self.rows - ended
        share = left / max(self.rows, 1)
        found = f"{left:,} of {self.rows:,} requests ({share:.1%}) have no completion"
        return [
            ("no_completions", not ended, "no request completes in this trace"),
            ("open_requests", ended and _are_many(left - told, self.rows), found),
        ]


def _are_many(count: int, total: int) -> bool:
    return count > max(MOST_OPEN * total, FEW_OPEN)


def absent_cpus(seen: Collection[int], *, told: int) -> list[int]:
    """Return the CPUs without an event, of those below the last one or of as many as are `told`."""
    return sorted(set(range(max([told, *(cpu + 1 for cpu in seen)]))) - set(seen))


def cpu_doubts(
    absent: Collection[int], seen: Collection[int], *, events: int, alone: int
) -> list[tuple[str, object, str]]:
    """Return whether CPUs without events are missing ones, as far as the other events tell.

    `alone` of them have no partner.
    """
    is_doubted = _are_many(alone, events) or events > FEWEST_EVENTS * len(seen)
    shown = ", ".join(str(cpu) for cpu in list(absent)[:SHOWN_CPUS])
    shown += ", ..." if len(absent) > SHOWN_CPUS else ""
    found = f"no event is of CPU {shown}, of {len(absent) + len(seen):,} CPUs"
    if alone:
        found += f"; {alone:,} events have no partner"
    return [("absent_cpus", absent and is_doubted, found)]

"""What recommendation.json says of the best placement of single blocks."""

from __future__ import annotations

import msgspec

from tracekit.metadata import Record


class BestAt(Record):
    """The best placement found at one capacity, whatever the roles of its blocks."""

    capacity_bytes: int
    placed_bytes: int
    role_bytes: dict[str, int]
    """What of each role is on NVM, unknown ones too."""
    elapsed_ns: int
    gain_ratio: float
    """0 to 1, of the base device's time."""
    bound_ns: int | None
    """No placement takes less; None with queues."""
    gap_ratio: float | None
    """How much longer than the bound it takes, 0 up, of the bound; None where that is 0."""
    order: str
    """How blocks were ordered where it was found."""
    is_exchanged: bool
    """Whether exchanging blocks made it better than that order."""


class Regret(Record):
    """How much longer a placement takes than the best one there, on changed devices or windows."""

    placement: str
    worst_ratio: float
    """0 up, of the time of the best there."""
    worst_case: str


class BestPlacement(Record):
    """The best placement found, at the headline's capacity and at others."""

    answer: BestAt
    answers: list[BestAt]
    extents: int
    """Runs of blocks in the table."""
    table: str
    orders_ns: dict[str, int]
    """Time of each order at the headline's capacity."""
    regrets: list[Regret] = msgspec.field(default_factory=list)
    """Of those that were compared, the least first; empty where none was."""
    fragile_ratio: float = 0.0
    """A best placement with a larger regret is fragile."""
    fastest_ns: int | None = None
    """Of the best placement found, where a more robust one is the answer; else None."""

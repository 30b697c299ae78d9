"""`tracekit simulate`: the what-if questions, one file each."""

from __future__ import annotations


def simulate() -> None:
    """Ask what tiers, caches or row buffers would gain, and whether the recommendation holds.

    Which mix of devices gives most for its price, if data moves between them? tiers. What would
    a cache of any size hit, and how should its money be split? cache. What would row buffers of a
    byte-addressable memory hit? buffer. Would another device, hour or capacity change where a
    small fast memory belongs? sensitivity. How long does it last under these writes, and what does
    it cost? endurance. Which device is worth its price, and who gets how much of it? purchase.
    Would a cache of the same size be quicker? rivals. Answers stay in the trace
    folder, for sql and report.
    """

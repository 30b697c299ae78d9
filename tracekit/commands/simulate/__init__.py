"""`tracekit simulate`: the what-if questions, one file each."""

from __future__ import annotations


def simulate() -> None:
    """Ask what tiers, caches or row buffers would gain, and whether the recommendation holds.

    Answers stay in the trace folder, for sql and report.
    """

"""`tracekit simulate`: the what-if questions, one file each; the tuple's order is the help's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracekit.commands.simulate.buffer import buffer
from tracekit.commands.simulate.cache import cache
from tracekit.commands.simulate.sensitivity import sensitivity
from tracekit.commands.simulate.tiers import tiers

SIMULATIONS: tuple[Callable[..., Any], ...] = (tiers, cache, buffer, sensitivity)


def simulate() -> None:
    """Ask what tiers, caches or row buffers would gain, and whether the recommendation holds."""

"""A work profile as the program holds it: checked, in bytes and nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

CONSTANT, EXPONENTIAL, GAMMA, WEIBULL, LOGNORMAL, QUANTILES, CHOICES = range(7)
"""Kinds of distributions, as `replayer/workload/dist.h` numbers them."""
UNIFORM, ZIPF, SHARES = range(3)
"""Kinds of localities, as `replayer/workload/place.h` numbers them."""


@dataclass(frozen=True)
class Distribution:
    """Of a number: `scale` is the constant, mean, scale or median by kind, `shape` shape or sigma.

    Of quantiles and choices `values` are reached with the cumulated probabilities `up_to`.
    """

    kind: int
    scale: float = 0.0
    shape: float = 0.0
    values: tuple[float, ...] = ()
    up_to: tuple[float, ...] = ()


ONE = Distribution(CONSTANT, 1.0)


@dataclass(frozen=True)
class Phase:
    """A part of the time in which requests come `rate` times as fast."""

    duration_ns: int
    rate: float


@dataclass(frozen=True)
class Arrival:
    """When the requests of a stream come; of bursts `off` is the pause, `burst` the requests."""

    gap: Distribution
    correlation: float = 0.0
    off: Distribution | None = None
    burst: Distribution | None = None
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True)
class Locality:
    """Where requests begin: ranks of blocks by Zipf's law or by shares, or where one began before.

    `distance` says how many places back, counted from 1, by their last use: places where requests
    began, or of requests that follow all pages of 4 KiB.
    """

    kind: int = UNIFORM
    block_bytes: int = 0
    exponent: float = 0.0
    blocks_to: tuple[float, ...] = ()
    requests_to: tuple[float, ...] = ()
    reuse_ratio: float = 0.0
    distance: Distribution = ONE


@dataclass(frozen=True)
class Request:
    """A kind of requests: its share of the stream, sizes in bytes, and where they go.

    `run` is how many of them go on one after the other from one place: one of random access, None
    of sequential access without end. A request that follows `begins` "on" where the stream's last
    such request ended, "resumed" where the run before that one ended, or "elsewhere", on pages that
    were used before (`is_used`) or not. With `circle`, the start and the bytes of a part of the
    stream's, it goes round there. `then` says how often each of the stream's kinds comes behind it.
    """

    share: float
    operation: str
    size: Distribution = Distribution(CONSTANT, 0.0)
    least_bytes: int = 0
    most_bytes: int = 0
    align_bytes: int = 512
    run: Distribution | None = ONE
    begins: str | None = None
    is_used: bool = False
    circle: tuple[int, int] | None = None
    then: tuple[int, ...] = ()
    locality: Locality = Locality()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stream:
    """Requests with an arrival of their own, on a part of the target."""

    arrival: Arrival
    requests: tuple[Request, ...]
    start_bytes: int
    size_bytes: int
    role: str = "unknown"
    process: str | None = None


@dataclass(frozen=True)
class Profile:
    """A work profile; `pace` is open (requests at their times) or fast (always `depth` of them)."""

    name: str
    about: str
    target_bytes: int
    streams: tuple[Stream, ...]
    sector_bytes: int = 512
    is_direct: bool = True
    pace: str = "open"
    depth: int = 32
    file: Path = field(default=Path(), compare=False)
    text: str = field(default="", compare=False)

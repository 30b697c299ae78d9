"""The sources of block events, the best first, and which of them works here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracekit.capture import blk_tracer, blktrace, bpftrace, perf
from tracekit.errors import TracekitError, UsageError


@dataclass(frozen=True)
class Known:
    """A source by name, and the question whether it works here."""

    name: str
    why_not: Callable[[Path, Path | None], str | None]
    """Given tracefs and a disk's folder in /sys/block (None: any), the reason or None."""
    asks_each_disk: bool
    """Whether the answer depends on the disk."""
    remedy: str

    def first_reason(self, tracefs: Path, disks: Sequence[Path]) -> str | None:
        """Return why it cannot record these disks (none: any) together, or None."""
        asked: Sequence[Path | None] = disks if disks and self.asks_each_disk else [None]
        return next(filter(None, (self.why_not(tracefs, disk) for disk in asked)), None)


KNOWN = (
    Known(
        blktrace.Blktrace.name,
        lambda _tracefs, disk: blktrace.why_not(disk),
        asks_each_disk=True,
        remedy=blktrace.REMEDY,
    ),
    Known(blk_tracer.BlkTracer.name, blk_tracer.why_not, True, blk_tracer.REMEDY),
    Known(perf.Perf.name, lambda _tracefs, _disk: perf.probe(), False, perf.REMEDY),
    Known(bpftrace.Bpftrace.name, lambda _tracefs, _disk: bpftrace.probe(), False, bpftrace.REMEDY),
)
NAMES = tuple(known.name for known in KNOWN)


@dataclass(frozen=True)
class Choice:
    """The source to use, and why better ones were passed over."""

    name: str
    refused: dict[str, str]
    """Reason by name."""

    @property
    def notes(self) -> list[str]:
        """Return what there is to say about the choice."""
        return [
            f"captured with {self.name}, because {name} does not work here: {why}"
            for name, why in self.refused.items()
        ]


def choose(given: str | None, *, tracefs: Path, disks: Sequence[Path] = ()) -> Choice:
    """Return the given source, or the best one that records all the disks here.

    Raise UsageError for an unknown name, TracekitError with the reasons when none works.
    """
    if given is not None and given not in NAMES:
        raise UsageError(f"--source {given}: known are {', '.join(NAMES)}", hint="choose one")
    refused: dict[str, str] = {}
    wanted = [known for known in KNOWN if given in (None, known.name)]
    for known in wanted:
        reason = known.first_reason(tracefs, disks)
        if reason is None:
            return Choice(known.name, refused)
        refused[known.name] = reason
    told = "; ".join(f"{name}: {why}" for name, why in refused.items())
    raise TracekitError(f"block events cannot be captured: {told}", hint=wanted[0].remedy)

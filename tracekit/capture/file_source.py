"""What the sources of file operations share: a command that is run, and space on the disk."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracekit.capture.command import Ran
from tracekit.invoking_user import User

LEAST_FREE_BYTES = 4 << 20
RAW_PER_TABLE = 4
"""The tables take less than this part of what a source writes."""


@dataclass(frozen=True)
class Job:
    """A command to be recorded."""

    command: tuple[str, ...]
    user: User | None = None
    """Who it runs as; None: with the rights of this process."""
    is_stdout_ours: bool = False


@dataclass(frozen=True)
class Recorded:
    """How a command ended that was recorded."""

    ran: Ran | None
    """None: nobody saw it end."""
    stopped_by: str | None
    """The signal that ended it early."""
    failure: str | None
    """Why not all is recorded that it did."""


class FileSource(ABC):
    """A way to record the file operations of a command and its children."""

    name: str
    remedy: str
    """What to do where it does not work."""
    how: str
    """What a call is said to have taken longer: `under strace`."""
    probe_calls: int
    """So many calls show what one costs."""

    @abstractmethod
    def probe(self) -> str | None:
        """Return why it cannot be used here, or None when it can."""

    @abstractmethod
    def record(self, job: Job, raw: Path) -> Recorded:
        """Run the command and write what is recorded to the file `raw`."""

    @abstractmethod
    def trial_s(self, program: Sequence[str], raw: Path) -> float:
        """Run a helper program likewise; return the seconds that it took."""


def space_left(raw: Path) -> bool:
    """Whether there is space for the tables of what is recorded, and some more."""
    found = os.statvfs(raw.parent)
    size = raw.stat().st_size if raw.exists() else 0
    return found.f_bavail * found.f_frsize >= max(LEAST_FREE_BYTES, size // RAW_PER_TABLE)


def why_full(raw: Path) -> str:
    """Return what is said where there was no space left."""
    return f"{raw.parent.parent}: less than {LEAST_FREE_BYTES >> 20} MiB were left"

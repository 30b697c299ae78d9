"""What every capture source offers, so that the session does not know which one it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Recording:
    """What a source recorded: raw files by CPU, the names it learned and what it lost."""

    spools: dict[int, Path]
    """Files of records in the order of time, by CPU number."""
    processes: dict[int, str]
    """Name by process id."""
    overrun: int
    """Records overwritten in the kernel before they were read."""
    dropped: int
    """Records that the kernel had no room for."""
    clock_to_wall_ns: int
    """To be added to a record's time to get unix time."""


class Source(Protocol):
    """A way to record block events: `start`, `drain` often, `stop`, and `close` in any case."""

    name: str

    def start(self) -> None:
        """Begin to record; every setting is changed through the session's `Settings`."""

    def drain(self) -> int:
        """Move what the kernel holds to the spool files; return the bytes moved."""

    def stop(self) -> Recording:
        """Stop recording and move the rest."""

    def close(self) -> None:
        """Let go of everything in the kernel, whatever state the source is in."""

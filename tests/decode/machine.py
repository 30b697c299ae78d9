"""What the model of the block layer is made of: I/Os, their parts, requests, time and trace."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Bio:
    """A queued I/O and the row that it must become."""

    row: dict[str, Any]
    pid: int
    parts: int = 0
    """Not yet complete."""

    def stamp(self, name: str, now_ns: int) -> None:
        if self.row[f"{name}_ns"] is None:
            self.row[f"{name}_ns"] = now_ns


@dataclass(eq=False)
class Part:
    """A run of sectors of one bio."""

    bio: Bio
    begin: int
    end: int


@dataclass(eq=False)
class Request:
    """Adjacent parts that the driver gets together."""

    maker: Part
    parts: list[Part]
    begin: int
    end: int
    rwbs: str
    is_issued: bool = False
    is_torn: bool = False
    """Complete in part, so that nothing is merged any more."""
    is_flushed: bool = False
    """Flushes go before and after it."""

    @property
    def place(self) -> str:
        return f"{self.rwbs} {self.begin}+{self.end - self.begin}"


@dataclass
class Machine:
    """Time, the trace as lines for each CPU, and all I/Os in queue order."""

    random: random.Random
    cpus: int
    now_ns: int = 0
    lines: list[list[str]] = field(default_factory=list)
    bios: list[Bio] = field(default_factory=list)

    def emit(self, text: str, pid: int) -> int:
        """Record an event on some CPU and return its time since the first event."""
        self.lines = self.lines or [[] for _ in range(self.cpus)]
        cpu = self.random.randrange(self.cpus)
        self.lines[cpu].append(f"{5000 + self.now_ns} {text} cpu={cpu} pid={pid}")
        now_ns = self.now_ns
        self.now_ns += self.random.randint(1, 9)
        return now_ns

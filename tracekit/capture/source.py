"""What every capture source offers, so that the session does not know which one it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from tracekit.capture.keep import Kept


class Recorded(Protocol):
    """What a source recorded, in spool files of the capture's folder."""

    def keep(self, folder: Path, *, name: str, layout: dict[str, Any], compress: str) -> Kept:
        """Write the capture's files and layout.json into `folder` and remove the spool files."""


class Source(Protocol):
    """A way to record block events: `start`, `drain` often, `stop`, and `close` in any case."""

    name: str

    def start(self) -> None:
        """Begin to record; every setting is changed through the session's `Settings`."""

    def drain(self) -> int:
        """Move what the kernel holds to the spool files; return the bytes moved."""

    def stop(self) -> Recorded:
        """Stop recording and move the rest."""

    def close(self) -> None:
        """Let go of everything in the kernel, whatever state the source is in."""

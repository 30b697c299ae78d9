"""What a check of this machine says, and the two ways by which checks find it out."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tracekit.errors import TracekitError

Status = Literal["ok", "limited", "missing", "broken"]
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Finding:
    """What was found."""

    status: Status
    """ok; limited: works in part; missing: not there; broken: there and does not work."""
    detail: str
    """What was tried and what it showed."""
    remedy: str = ""
    """What to do about it; empty when nothing is to be done."""


@dataclass(frozen=True)
class Check:
    """One question about this machine."""

    name: str
    purpose: str
    """What tracekit needs it for."""
    probe: Callable[[], Finding]
    is_required: bool = False
    """Whether the core does not work without it."""


@dataclass(frozen=True)
class Group:
    """Checks that belong together."""

    title: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Ran:
    """What a program did."""

    status: int
    output: str
    complaint: str

    @property
    def first_complaint(self) -> str:
        """Return the first line of its complaint, or its exit status when it said nothing."""
        lines = self.complaint.strip().splitlines() or self.output.strip().splitlines()
        return lines[0].strip() if lines else f"exit status {self.status}"


def run(*command: str) -> Ran:
    """Run a program; one that does not end in time counts as failed."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(124, "", f"no answer within {PATIENCE_S:.0f} s")
    except OSError as error:
        return Ran(127, "", f"{command[0]}: {error.strerror}")
    return Ran(done.returncode, done.stdout, done.stderr)


def missing_program(program: str, package: str) -> Finding | None:
    """Return the finding for a program that is not on PATH, or None when it is there."""
    if shutil.which(program) is not None:
        return None
    return Finding("missing", f"{program} is not on PATH", f"apt install {package}")


def caught(probe: Callable[[], Finding]) -> Finding:
    """Return the probe's finding; an error that it did not expect is a finding too."""
    try:
        return probe()
    except TracekitError as error:
        return Finding("broken", str(error), error.hint)
    except (OSError, ValueError, LookupError, ImportError) as error:
        return Finding("broken", f"{type(error).__name__}: {error}")

"""What a user should know before trusting roles and hotness."""

from __future__ import annotations

from typing import Any

from tracekit.classify.guess import Guess
from tracekit.classify.hotness import BlockCounts
from tracekit.classify.roles import RoleCounts
from tracekit.warnings import warning

STAGE = "classify"


def classify_warnings(
    guess: Guess, roles: RoleCounts, *, counts: BlockCounts, devices: list[str]
) -> list[dict[str, Any]]:
    """Return the warnings of this stage, those that apply."""
    guessed = [known["what"].removeprefix("role of ") for known in guess.inferences]
    unknown = roles.requests.get("unknown", 0)
    absent = sorted({entry["device"] for entry in guess.entries} - set(devices))
    found = [
        ("guessed_roles", guessed, f"guessed from the requests: roles of {', '.join(guessed)}"),
        ("unknown_roles", unknown, f"requests without a role: {unknown:,}"),
        (
            "absent_devices",
            absent,
            f"the layout names devices that the trace has no requests of: {', '.join(absent)}",
        ),
        (
            "crossing_requests",
            roles.crossing,
            "requests that end in another region than they begin in, where their first sector"
            f" decides: {roles.crossing:,}",
        ),
        (
            "impossible_requests",
            counts.impossible,
            "reads and writes with a place or length that no disk has, which count for no block:"
            f" {counts.impossible:,}",
        ),
    ]
    return [warning(code, message, stage=STAGE) for code, applies, message in found if applies]


def replace_own(
    present: list[dict[str, Any]] | None, own: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return what other stages noted, then this stage's notes instead of its earlier ones."""
    return [note for note in present or [] if note.get("stage") != STAGE] + own

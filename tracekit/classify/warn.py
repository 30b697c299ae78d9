"""What a user should know before trusting roles and hotness."""

from __future__ import annotations

from typing import Any

from tracekit.classify.guess import Guess
from tracekit.classify.hotness import BlockCounts
from tracekit.classify.roles import RoleCounts

STAGE = "classify"
SET_ROLES = "set roles with tracekit classify --role NAME=ROLE, or give the layout with --layout"


def classify_warnings(
    guess: Guess, roles: RoleCounts, counts: BlockCounts, devices: list[str]
) -> list[dict[str, Any]]:
    """Return the warnings of this stage, those that apply."""
    absent = sorted({entry["device"] for entry in guess.entries} - set(devices))
    guessed = [known["what"].removeprefix("role of ") for known in guess.inferences]
    unknown = roles.requests.get("unknown", 0)
    found = [
        (
            "guessed_roles",
            bool(guessed),
            f"the roles of {', '.join(guessed)} were guessed from the requests",
            f"check them; {SET_ROLES}",
        ),
        (
            "unknown_roles",
            bool(unknown),
            f"{unknown} requests have no role",
            SET_ROLES,
        ),
        (
            "absent_devices",
            bool(absent),
            f"the layout names devices that the trace has no requests of: {', '.join(absent)}",
            "check that the layout belongs to this trace",
        ),
        (
            "crossing_requests",
            bool(roles.crossing),
            f"{roles.crossing} requests end in another region than they begin in; their first"
            " sector decides",
            "check that the layout belongs to this trace",
        ),
        (
            "impossible_requests",
            bool(counts.impossible),
            f"{counts.impossible} reads or writes have a place or length that no disk has and"
            " count for no block",
            "check the capture for damage",
        ),
    ]
    return [
        {"code": code, "message": message, "advice": advice, "stage": STAGE}
        for code, applies, message, advice in found
        if applies
    ]


def replace_own(
    present: list[dict[str, Any]] | None, own: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return what other stages noted, then this stage's notes instead of its earlier ones."""
    return [note for note in present or [] if note.get("stage") != STAGE] + own

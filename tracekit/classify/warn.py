"""What a user should know before trusting roles and hotness."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracekit.classify.guess import Guess
from tracekit.classify.hotness import BlockCounts
from tracekit.classify.roles import RoleCounts

STAGE = "classify"
SET_ROLES = "set roles with tracekit classify --role NAME=ROLE, or give the layout with --layout"
CHECK_LAYOUT = "check that the layout belongs to this trace"


def classify_warnings(
    guess: Guess, roles: RoleCounts, *, counts: BlockCounts, devices: list[str]
) -> list[dict[str, Any]]:
    """Return the warnings of this stage, those that apply."""
    return [
        {"code": code, "message": message, "advice": advice, "stage": STAGE}
        for code, message, advice in [*_about_roles(guess, roles, devices), *_about_blocks(counts)]
    ]


def _about_roles(
    guess: Guess, roles: RoleCounts, devices: list[str]
) -> Iterator[tuple[str, str, str]]:
    guessed = [known["what"].removeprefix("role of ") for known in guess.inferences]
    if guessed:
        message = f"the roles of {', '.join(guessed)} were guessed from the requests"
        yield "guessed_roles", message, f"check them; {SET_ROLES}"
    unknown = roles.requests.get("unknown", 0)
    if unknown:
        yield "unknown_roles", f"{unknown} requests have no role", SET_ROLES
    absent = sorted({entry["device"] for entry in guess.entries} - set(devices))
    if absent:
        message = f"the layout names devices that the trace has no requests of: {', '.join(absent)}"
        yield "absent_devices", message, CHECK_LAYOUT
    if roles.crossing:
        message = (
            f"{roles.crossing} requests end in another region than they begin in; their first"
            " sector decides"
        )
        yield "crossing_requests", message, CHECK_LAYOUT


def _about_blocks(counts: BlockCounts) -> Iterator[tuple[str, str, str]]:
    if counts.impossible:
        message = (
            f"{counts.impossible} reads or writes have a place or length that no disk has and"
            " count for no block"
        )
        yield "impossible_requests", message, "check the capture for damage"


def replace_own(
    present: list[dict[str, Any]] | None, own: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return what other stages noted, then this stage's notes instead of its earlier ones."""
    return [note for note in present or [] if note.get("stage") != STAGE] + own

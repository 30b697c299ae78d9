"""The roles as the report shows them: one order, one name and (in the palette) one colour each."""

from __future__ import annotations

from collections.abc import Iterable

ROLE_TITLES = {
    "fs": "file system",
    "journal": "journal",
    "swap": "swap",
    "other": "other",
    "unknown": "not known",
}


def title(role: str) -> str:
    """Return how a role is called in text."""
    return ROLE_TITLES.get(role, role)


def in_order(roles: Iterable[str]) -> list[str]:
    """Return the different roles that occur, in the fixed order."""
    present = set(roles)
    return [role for role in ROLE_TITLES if role in present]

"""The events of study D (table I), in groups that are counted together, and the software basics."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.errors import UsageError

# Loads, stores and prefetches of one level share a group, so that their ratios are of one time.
GROUPS: tuple[tuple[str, ...], ...] = (
    ("cycles", "instructions"),
    ("L1-dcache-loads", "L1-dcache-load-misses"),
    ("L1-dcache-stores", "L1-dcache-store-misses"),
    ("L1-dcache-prefetches", "L1-dcache-prefetch-misses"),
    ("LLC-loads", "LLC-load-misses"),
    ("LLC-stores", "LLC-store-misses"),
    ("LLC-prefetches", "LLC-prefetch-misses"),
    ("dTLB-loads", "dTLB-load-misses"),
    ("dTLB-stores", "dTLB-store-misses"),
    ("dTLB-prefetches", "dTLB-prefetch-misses"),
    ("iTLB-loads", "iTLB-load-misses"),
    ("page-faults", "minor-faults", "major-faults"),
    ("context-switches", "cpu-migrations"),
    ("task-clock",),
    ("raw_syscalls:sys_enter",),
)
SOFTWARE = frozenset(
    ("page-faults", "minor-faults", "major-faults", "context-switches", "cpu-migrations",
     "task-clock", "raw_syscalls:sys_enter")
)  # fmt: skip
TITLES = {"raw_syscalls:sys_enter": "system calls"}


def parse_groups(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the groups of `--events`: names with commas, groups with a space between.

    Empty text is study D's. UsageError for a name that stands there twice or cannot be one.
    """
    if not text:
        return GROUPS
    groups = tuple(tuple(name for name in group.split(",") if name) for group in text.split())
    names = [name for group in groups for name in group]
    for name in names:
        if not name.isprintable() or any(sign in name for sign in "{}'\""):
            raise UsageError(f"--events {text!r}: '{name}' is no name of an event")
        if names.count(name) > 1:
            raise UsageError(f"--events: '{name}' stands there twice")
    if not names:
        raise UsageError("--events names no event")
    return groups


def arguments(groups: Sequence[Sequence[str]], usable: set[str]) -> list[str]:
    """Return `-e` of perf for what can be counted; a group that does not fit is broken up (:W)."""
    found = []
    for group in groups:
        names = [name for name in group if name in usable]
        if len(names) == 1:
            found += ["-e", names[0]]
        elif names:
            found += ["-e", f"{{{','.join(names)}}}:W"]
    return found


def group_of(groups: Sequence[Sequence[str]], event: str) -> str:
    """Return the group of an event as it is shown; empty for one that is alone."""
    for group in groups:
        if event in group and len(group) > 1:
            return ",".join(group)
    return ""

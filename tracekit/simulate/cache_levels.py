"""The policies of two levels: what a user says, and when one pass is enough for them."""

from __future__ import annotations

from tracekit.errors import UsageError
from tracekit.native.caches import POLICIES

LEVELS = ("pcm", "flash")
LRU_LEVELS = ("lru", "lru")
# The optimum is for one level: what is best for both together is another question.
LEVEL_POLICIES = tuple(policy for policy in POLICIES if policy != "optimum")


def parse_policies(text: str) -> tuple[str, str]:
    """Return the policies of PCM and flash in `pcm=arc,flash=fifo`; a level not named is LRU."""
    chosen: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        level, equals, policy = (word.strip() for word in part.partition("="))
        if not equals or level not in LEVELS:
            raise UsageError(
                f"--level-policy: '{part}' is not pcm=POLICY or flash=POLICY",
                hint="such as pcm=arc,flash=fifo",
            )
        if level in chosen:
            raise UsageError(f"--level-policy: '{level}' is there twice")
        chosen[level] = policy
    return check_policies((chosen.get("pcm", "lru"), chosen.get("flash", "lru")))


def check_policies(policies: tuple[str, str]) -> tuple[str, str]:
    """Return the policies if two levels can have them; raise UsageError."""
    for policy in policies:
        if policy not in LEVEL_POLICIES:
            raise UsageError(
                f"--level-policy: no level can have '{policy}'", hint=f"one of {LEVEL_POLICIES}"
            )
    return policies


def level_words(levels: str, policies: tuple[str, str], *, writes: str = "through") -> str:
    """Return how two levels are arranged, such as: exclusive levels, arc above fifo, write-back."""
    words = [f"{levels} levels"]
    if policies != LRU_LEVELS:
        words.append(f"{policies[0]} above {policies[1]}")
    if writes != "through":
        words.append(f"write-{writes}")
    return ", ".join(words)

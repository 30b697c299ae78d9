"""Parameters of `tracekit simulate tiers` that are changed one at a time: `--vary`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.errors import UsageError
from tracekit.simulate.mixes import Tier
from tracekit.simulate.variants import read_factor
from tracekit.simulate.what_if import RATE_KEYS, TIER_KEYS

# Of the whole system; all but the first two matter to dynamic tiering only.
COST_KEYS = ("migration_cost", "promotion_cost", "demotion_cost")
SYSTEM_KEYS = ("extent_bytes", "capacity_bytes", "window_s", "migration_mib_s", *COST_KEYS)
DYNAMIC_KEYS = SYSTEM_KEYS[2:]
VARY_KEYS = TIER_KEYS + RATE_KEYS
MOST_CHANGES = 64
HINT = "such as ssd-pcm.read_latency_us=0.25,4 or extent_bytes=0.5,2"


@dataclass(frozen=True)
class Vary:
    """A parameter of one tier, or of the whole system (tier None), times a factor."""

    tier: str | None
    parameter: str
    factor: float


def parse_vary(texts: Sequence[str]) -> tuple[Vary, ...]:
    """Return the user's TIER.KEY=FACTOR,... and KEY=FACTOR,..., each once, in their order.

    UsageError names a key or factor that cannot be; whether the tier is one is `check_vary`'s.
    """
    changes = tuple(dict.fromkeys(change for text in texts for change in _parse(text)))
    if len(changes) > MOST_CHANGES:
        raise UsageError(f"--vary: {len(changes)} changes are more than {MOST_CHANGES}")
    return changes


def check_vary(
    changes: Sequence[Vary], tiers: Sequence[str], *, is_dynamic: bool, charges_migration: bool
) -> None:
    """Raise UsageError for a tier that is not asked about, or a key that would change nothing."""
    for change in changes:
        if change.tier is not None and change.tier not in tiers:
            raise UsageError(
                f"--vary: '{change.tier}' is none of the tiers", hint=f"they are {', '.join(tiers)}"
            )
        if change.parameter in DYNAMIC_KEYS and not is_dynamic:
            raise UsageError(
                f"--vary: {change.parameter} changes dynamic tiering only", hint="add --dynamic"
            )
        if change.parameter in COST_KEYS and not charges_migration:
            raise UsageError(
                f"--vary: {change.parameter} changes nothing while moving delays no request",
                hint="add --charge-migration",
            )


def check_rates(tiers: Sequence[Tier], changes: Sequence[Vary], *, is_needed: bool) -> None:
    """Raise UsageError where a bandwidth that is changed, or needed to move extents, is unknown."""
    wanted = {(change.tier, change.parameter) for change in changes}
    for tier in tiers:
        for key in RATE_KEYS:
            if getattr(tier, key) is None and (is_needed or (tier.name, key) in wanted):
                raise UsageError(
                    f"the tier '{tier.name}' has no {key}",
                    hint=f"give it in the what-if's [devices.{tier.name}], or what it is like",
                )


def _parse(text: str) -> list[Vary]:
    name, equals, factors = text.partition("=")
    tier, point, key = name.strip().rpartition(".")
    if not equals or key not in (VARY_KEYS if point else SYSTEM_KEYS) or (point and not tier):
        known = (
            f"a tier, a point and one of {', '.join(VARY_KEYS)}, or one of {', '.join(SYSTEM_KEYS)}"
        )
        raise UsageError(f"--vary: there is no parameter '{name}' in '{text}'", hint=known)
    values = [read_factor(text, factor, hint=HINT) for factor in factors.split(",")]
    return [Vary(tier or None, key, value) for value in values]

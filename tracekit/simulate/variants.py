"""Devices of which one part takes longer or less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tracekit.errors import UsageError
from tracekit.profiles import Profile

PARTS = ("read_setup", "write_setup", "sequential_setup", "read_transfer", "write_transfer")
FLUSHES = ("flush", "fua")
HEAD = ("seek", "rotation")
LEAST_US = 1e-6
LEAST_FACTOR, LARGEST_FACTOR = 1e-3, 1e3


@dataclass(frozen=True)
class Variant:
    """A part of the base (0) or the NVM (1) that takes `factor` times as long."""

    which: int
    parameter: str
    factor: float

    @property
    def device(self) -> str:
        """The device in a word."""
        return ("base", "nvm")[self.which]

    def of(self, profiles: tuple[Profile, Profile]) -> tuple[Profile, Profile]:
        """Return base and NVM so changed."""
        changed = [*profiles]
        changed[self.which] = change(profiles[self.which], self.parameter, factor=self.factor)
        return changed[0], changed[1]


def read_factor(text: str, factor: str, *, hint: str) -> float:
    """Return one of the factors in the text of a --vary; raise UsageError when it is none."""
    try:
        value = float(factor)
    except ValueError:
        raise UsageError(f"--vary: '{factor}' in '{text}' is not a number", hint=hint) from None
    if not LEAST_FACTOR <= value <= LARGEST_FACTOR:
        raise UsageError(f"--vary: {factor} in '{text}' is not from 0.001 to 1000", hint=hint)
    return value


def change(profile: Profile, parameter: str, *, factor: float) -> Profile:
    """Return a profile of which one part of a request takes `factor` times as long.

    The parts are those of the model: setup (what a request costs before its transfer), transfer,
    flush, FUA; of a disk with a head, seek and rotation.
    """
    operation, _, part = parameter.partition("_")
    if parameter == "sequential_setup":
        return replace(profile, sequential_setup_us=(profile.sequential_setup_us or 0) * factor)
    if parameter == "seek":
        names = ("seek_track_us", "seek_average_us", "seek_full_us")
        return replace(profile, **{name: getattr(profile, name) * factor for name in names})
    if parameter == "rotation":
        return replace(profile, rpm=(profile.rpm or 0) / factor)
    if parameter in FLUSHES:
        return replace(profile, **{f"{parameter}_us": getattr(profile, f"{parameter}_us") * factor})
    setup_us = getattr(profile, f"{operation}_setup_us")
    latency_us = getattr(profile, f"{operation}_latency_us")
    if part == "setup":
        return replace(profile, **{f"{operation}_latency_us": latency_us + (factor - 1) * setup_us})
    rate = getattr(profile, f"{operation}_mib_s") / factor
    changed_us = setup_us + factor * (latency_us - setup_us)
    return replace(profile, **{f"{operation}_mib_s": rate, f"{operation}_latency_us": changed_us})


def variants(profiles: tuple[Profile, Profile], factors: Sequence[float]) -> Iterator[Variant]:
    """Yield every part that a device has, at every factor; what takes no time has none."""
    for which, profile in enumerate(profiles):
        for parameter in (*PARTS, *FLUSHES, *HEAD):
            if _takes_us(profile, parameter) > LEAST_US:
                yield from (Variant(which, parameter, factor) for factor in factors)


def _takes_us(profile: Profile, parameter: str) -> float:
    operation, _, part = parameter.partition("_")
    if parameter in HEAD:
        return 1.0 if profile.has_head else 0.0
    if parameter == "sequential_setup":
        return profile.sequential_setup_us or 0.0
    if parameter in FLUSHES:
        return float(getattr(profile, f"{parameter}_us"))
    # The head of a disk takes the place of its setup.
    if part == "setup":
        return 0.0 if profile.has_head else float(getattr(profile, f"{operation}_setup_us"))
    return 1.0

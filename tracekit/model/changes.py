"""Changed parameters of devices: as options give them, and what they do to a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracekit.devices import DevicePair, Profile
from tracekit.errors import UsageError

PARAMETERS = (
    "read_setup", "write_setup", "sequential_setup", "read_transfer", "write_transfer", "flush",
    "fua", "seek", "rotation",
)  # fmt: skip
SEEKS = ("seek_track_us", "seek_average_us", "seek_full_us")
LEAST_US = 1e-6
LEAST_FACTOR, LARGEST_FACTOR = 1e-3, 1e3
MOST_CHANGES = 64


@dataclass(frozen=True)
class Change:
    """A parameter of a device, or of the whole system (device None), times a factor."""

    device: str | None
    parameter: str
    factor: float


def read_changes(
    texts: Sequence[str],
    is_known: Callable[[str, str], bool],
    *,
    known: str,
    hint: str,
    first: Iterable[Change] = (),
) -> tuple[Change, ...]:
    """Return `first` and the user's [DEVICE.]KEY=FACTOR,..., each once, in this order.

    UsageError for what `is_known` does not accept, for factors not from 0.001 to 1000, and for
    more than 64 changes.
    """
    found = list(first)
    for text in texts:
        name, equals, factors = text.partition("=")
        device, _, key = name.strip().rpartition(".")
        if not equals or name.strip().startswith(".") or not is_known(device, key):
            raise UsageError(f"--vary: there is no parameter '{name}' in '{text}'", hint=known)
        for factor in factors.split(","):
            try:
                value = float(factor)
            except ValueError:
                raise UsageError(
                    f"--vary: '{factor}' in '{text}' is not a number", hint=hint
                ) from None
            if not LEAST_FACTOR <= value <= LARGEST_FACTOR:
                reason = f"{factor} in '{text}' is not from 0.001 to 1000"
                raise UsageError(f"--vary: {reason}", hint=hint)
            found.append(Change(device or None, key, value))
    changes = tuple(dict.fromkeys(found))
    if len(changes) > MOST_CHANGES:
        raise UsageError(f"--vary: {len(changes)} changes are more than {MOST_CHANGES}")
    return changes


def changed_devices(devices: DevicePair, change: Change) -> DevicePair:
    """Return both devices with a part of one of them (`base` or `nvm`) changed."""
    name = str(change.device)
    profile = changed_profile(getattr(devices, name), change.parameter, factor=change.factor)
    return devices._replace(**{name: profile})


def changed_profile(profile: Profile, parameter: str, *, factor: float) -> Profile:
    """Return a profile of which one part of a request takes `factor` times as long.

    The parts are those of the model: setup (what a request costs before its transfer), transfer,
    flush, FUA; of a disk with a head, seek and rotation.
    """
    operation, _, part = parameter.partition("_")
    if parameter == "rotation":
        return replace(profile, rpm=(profile.rpm or 0) / factor)
    if operation not in ("read", "write"):
        names = SEEKS if parameter == "seek" else (f"{parameter}_us",)
        if parameter == "flush" and profile.empty_flush_us is not None:
            names = (*names, "empty_flush_us")
        values: dict[str, Any] = {n: (getattr(profile, n) or 0) * factor for n in names}
        return replace(profile, **values)
    setup_us = getattr(profile, f"{operation}_setup_us")
    latency_us = getattr(profile, f"{operation}_latency_us")
    if part == "setup":
        return replace(profile, **{f"{operation}_latency_us": latency_us + (factor - 1) * setup_us})
    rate = getattr(profile, f"{operation}_mib_s") / factor
    changed_us = setup_us + factor * (latency_us - setup_us)
    return replace(profile, **{f"{operation}_mib_s": rate, f"{operation}_latency_us": changed_us})


def variants(devices: DevicePair, factors: Sequence[float]) -> Iterator[Change]:
    """Yield every part that a device has, at every factor; except parts that take no time."""
    for device, profile in zip(DevicePair._fields, devices, strict=True):
        for parameter in PARAMETERS:
            if _takes_us(profile, parameter) > LEAST_US:
                yield from (Change(device, parameter, factor) for factor in factors)


def _takes_us(profile: Profile, parameter: str) -> float:
    if parameter in ("seek", "rotation"):
        return float(profile.has_head)
    if parameter in ("read_setup", "write_setup") and profile.has_head:
        return 0.0  # the head takes its place
    if parameter.endswith("_transfer"):
        return 1.0
    return float(getattr(profile, f"{parameter}_us") or 0.0)

"""Device profiles as the program `tracekit-replay` takes them: whole ns and bytes a second."""

from __future__ import annotations

from pathlib import Path

from tracekit.devices import Profile, choose_profile, disk_of, load_profiles
from tracekit.errors import UsageError
from tracekit.units import MIB

ENGINE = "emulated"


def device_specs(devices: tuple[str, ...], profiles: Path | None) -> tuple[str, ...]:
    """Return what the program emulates for each `PROFILE` or `LABEL=PROFILE` of `devices`.

    Raises UsageError for a profile that does not exist and a label that comes twice, InputError for
    a damaged file of profiles. Which labels there are, the plan knows.
    """
    known = load_profiles(profiles)
    specs = []
    seen: set[str] = set()
    for device in devices:
        role, name = split_device(device)
        if role in seen:
            raise UsageError(f"--device {device}: {role or 'what is left'} has a device already")
        seen.add(role)
        spec = device_spec(choose_profile(known, name))
        specs.append(f"{role}:{spec}" if role else spec)
    return tuple(specs)


def split_device(device: str) -> tuple[str, str]:
    """Return role ("" for all that have none of their own) and profile of a `--device`."""
    role, equals, name = device.partition("=")
    return (role, name) if equals else ("", device)


def device_spec(profile: Profile) -> str:
    """Return a profile as `KEY=VALUE,...` of the program's `--emulate` (`INTERFACE.md`)."""
    values = {
        "read_setup_ns": profile.read_setup_us * 1e3,
        "write_setup_ns": profile.write_setup_us * 1e3,
        "read_bytes_s": profile.read_mib_s * MIB,
        "write_bytes_s": profile.write_mib_s * MIB,
        "flush_ns": profile.flush_us * 1e3,
        "fua_ns": profile.fua_us * 1e3,
    }
    if profile.sequential_setup_us is not None:
        values["sequential_setup_ns"] = profile.sequential_setup_us * 1e3
    if profile.parallelism is not None:
        values["lanes"] = profile.parallelism
    values |= _head(profile)
    return ",".join(f"{key}={round(value)}" for key, value in values.items())


def _head(profile: Profile) -> dict[str, float]:
    """Return the keys of a disk whose head moves, as the placement model has them; none if none."""
    disk = disk_of(profile)
    if disk is None:
        return {}
    return {
        "seek_track_ns": disk.track_ps / 1e3,
        "seek_root_ns": disk.root_ps / 1e3,
        "seek_linear_ns": disk.linear_ps / 1e3,
        "seek_unknown_ns": disk.unknown_ps / 1e3,
        "write_settle_ns": disk.settle_ps[1] / 1e3,
        "half_turn_ns": disk.half_turn_ps / 1e3,
        "track_sectors": disk.track_sectors,
        "capacity_sectors": disk.capacity_sectors,
    }

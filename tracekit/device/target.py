"""What is characterized: a file, a block device, or a device that exists as its service times."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracekit._native.players import run_program
from tracekit.choices import MeasuringEngine, check_choice
from tracekit.device.steps import FILL_BYTES, Step, write_plan
from tracekit.devices import Profile, choose_profile, load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.escapes import shell_word
from tracekit.free_space import check_target_folder, check_writable
from tracekit.replay.player import EMULATED, PlayerOptions, device_spec
from tracekit.units import PAGE_BYTES, SECTOR_BYTES, format_size

DEFAULT_BYTES = 1 << 30
LEAST_BYTES = 4 << 20


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """What the user named: a path, a device profile to emulate, or both."""

    path: Path | None = None
    device: str = ""
    profiles: Path | None = None
    engine: str = "auto"
    size_bytes: int | None = None
    direct: str = "auto"
    write_to: tuple[str, ...] = ()
    overwrite_signature: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that there is something to measure."""
        if self.path is None and not self.device:
            raise UsageError(
                "nothing to characterize was named",
                hint="give a file or block device, or --device PROFILE to emulate one",
            )
        check_choice(self.engine, MeasuringEngine, option="--engine")
        if self.device and self.engine not in ("auto", EMULATED):
            raise UsageError(f"--engine {self.engine}: --device needs the emulated engine")
        if self.engine == EMULATED and not self.device:
            raise UsageError("the emulated engine needs --device PROFILE")

    @property
    def is_confirmed(self) -> bool:
        """Whether the user confirmed that something may be overwritten."""
        return bool(self.write_to or self.overwrite_signature)

    def profile(self) -> Profile | None:
        """Return the profile of the device to emulate, None for a real one."""
        return choose_profile(load_profiles(self.profiles), self.device) if self.device else None


@dataclass(frozen=True)
class Target:
    """How the program reaches it, how much is used, and what it is (`about`, as in a summary)."""

    player: PlayerOptions
    size_bytes: int
    may_write: bool
    path: Path | None
    is_ours: bool
    """Whether the file is made for the measurement, and so goes away with it."""
    about: dict[str, Any]

    def confirmed(self) -> Target:
        """Return the target after its file was made: it exists."""
        if self.path is None or not self.is_ours or not self.path.exists():
            return self
        write_to = (*self.player.write_to, os.path.realpath(self.path))
        return replace(self, player=replace(self.player, keep=False, write_to=write_to))


def open_target(options: TargetOptions, scratch: Path, *, made: Path | None) -> Target:
    """Check the target as a replay would, without touching it, and return how much is used.

    `made` is the file that an interrupted measurement has made for itself.
    """
    profile = options.profile()
    player = PlayerOptions(
        engine=options.engine if profile is None else EMULATED,
        direct=options.direct,
        emulate=() if profile is None else (device_spec(profile),),
        write_to=options.write_to,
        overwrite_signature=options.overwrite_signature,
    )
    asked = options.size_bytes
    if options.path is None:
        size = _size(DEFAULT_BYTES if asked is None else asked, None, "emulated device")
        return Target(player, size, True, None, False, {"kind": "none"})
    check_target_folder(options.path)
    is_ours = made is not None or not os.path.lexists(options.path)
    player = replace(player, target=(str(options.path),), keep=is_ours)
    if made is not None:
        player = replace(player, write_to=(*player.write_to, os.path.realpath(made)))
    is_new = is_ours and made is None
    about = _dry_run(player, options, scratch, is_new=is_new)
    if options.is_confirmed and not is_ours and not about["may_write"]:
        raise UsageError(
            f"--write-to: not what {options.path} is confirmed with",
            hint=f"to write there: --write-to {shell_word(about['confirm_with'])}",
        )
    there = None if is_new else int(about["size_bytes"])
    size = _size(there or DEFAULT_BYTES if asked is None else asked, there, str(options.path))
    may_write = is_ours or bool(about["may_write"])
    if there is None:
        check_writable(options.path.parent, options.path)
        _check_free_space(options.path, size)
    elif may_write and options.path.is_file():
        _check_free_space(options.path, size - options.path.stat().st_blocks * SECTOR_BYTES)
    return Target(player, size, may_write, options.path, is_ours, about)


def _dry_run(
    player: PlayerOptions, options: TargetOptions, scratch: Path, *, is_new: bool
) -> dict[str, Any]:
    """Return what the program reports of the target; it rejects one in use or not confirmed."""
    size = _whole(options.size_bytes or DEFAULT_BYTES) if is_new else PAGE_BYTES
    plan = scratch / "check.plan"
    write_plan(plan, Step("check", 1, 0.0), size_bytes=size, seed=(0, 0))
    outcome = run_program(plan, scratch / "check.json", arguments=[*player.words(), "--dry-run"])
    about: dict[str, Any] = outcome.summary["targets"][0]
    return about


def _size(size_bytes: int, there_bytes: int | None, name: str) -> int:
    """Return the bytes used of the target, whole MiB."""
    if there_bytes is not None and size_bytes > there_bytes:
        raise UsageError(
            f"--size {format_size(size_bytes)}: {name} has {format_size(there_bytes)}",
            hint="leave --size out to use all of it",
        )
    if size_bytes < LEAST_BYTES:
        raise UsageError(
            f"{name}: {format_size(size_bytes)} are too small to be characterized",
            hint=f"from {format_size(LEAST_BYTES)} on; --size says how much is used",
        )
    return _whole(size_bytes)


def _check_free_space(path: Path, size_bytes: int) -> None:
    """Raise InputError when what is new of a file would fill its disk, hours later perhaps."""
    disk = os.statvfs(path.parent)
    free_bytes = disk.f_bavail * disk.f_frsize
    if free_bytes < size_bytes:
        raise InputError(
            f"{path}: {format_size(size_bytes)} are needed, {format_size(free_bytes)} are free"
            " on its disk",
            hint="choose a smaller --size, or a file elsewhere",
        )


def _whole(size_bytes: int) -> int:
    unit = FILL_BYTES if size_bytes >= FILL_BYTES else PAGE_BYTES
    return size_bytes // unit * unit

"""The options of the program `tracekit-replay`: only this module knows its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tracekit.choices import (
    Direct,
    Engine,
    LatePolicy,
    OutOfRange,
    Overlaps,
    Pace,
    check_choice,
)
from tracekit.devices import Profile, Quantiles, choose_profile, disk_of
from tracekit.errors import InputError, UsageError
from tracekit.replay.compiler import PlanReport
from tracekit.units import MIB, NS_PER_MS, format_duration, parse_duration

EMULATED = "emulated"
LEAD = "--lead"
NOT_QUEUED = ("null", EMULATED, "dax")
"""Engines that the kernel's queue does not see."""


@dataclass(frozen=True)
class Schedule:
    """Pace, late policy and part of the trace; times are as people write them, such as 250us."""

    pace: str = "trace"
    late: str = "catch-up"
    late_limit: str | None = None
    max_idle: str | None = None
    start: str | None = None
    end: str | None = None
    lead: str = "auto"
    """Before their times requests are handed over: a time, none, or auto: as observed."""

    def __post_init__(self) -> None:
        """Check what can be checked without the trace."""
        check_choice(self.pace, Pace, option="--pace")
        check_choice(self.late, LatePolicy, option="--late")
        if self.late != "catch-up" and self.pace != "trace":
            raise UsageError(f"--late {self.late} needs --pace trace: the others are never late")
        if self.end is not None and parse_duration(self.end, option="--end") <= self.start_ns:
            raise UsageError(
                f"--end {self.end}: not later than --start {self.start or 0}: nothing is between"
            )
        if not self.is_timed and self.lead_ns:
            raise UsageError(f"--lead {self.lead}: --pace fast has no times")
        self.arguments(0)

    @property
    def lead_ns(self) -> int | None:
        """How long before their times requests are handed over, None: as observed."""
        given = {"auto": None, "none": 0}
        return given[self.lead] if self.lead in given else parse_duration(self.lead, option=LEAD)

    @property
    def is_timed(self) -> bool:
        """Whether each request has a time at which it is due."""
        return self.pace != "fast"

    @property
    def start_ns(self) -> int:
        """The time of the trace from which it is replayed."""
        return 0 if self.start is None else parse_duration(self.start, option="--start")

    def arguments(self, first: int) -> list[str]:
        """Return the options of the replay program; `first` requests of the plan are left out."""
        times = {
            "--late-limit-ns": ("--late-limit", self.late_limit),
            "--max-idle-ns": ("--max-idle", self.max_idle),
            "--from-ns": ("--start", self.start),
            "--until-ns": ("--end", self.end),
        }
        found = ["--pace", self.pace, "--late", self.late]
        for argument, (option, text) in times.items():
            if text is not None:
                found += [argument, str(parse_duration(text, option=option))]
        found += ["--lead-ns", str(self.lead_ns)] if self.lead_ns else []
        return [*found, *(["--first", str(first)] if first else [])]

    def check(self, compiled: PlanReport) -> None:
        """Raise UsageError for a start behind the trace's end, a closed loop without completions.

        A closed loop needs to know when requests ended.
        """
        if self.start_ns > compiled.duration_ns:
            raise UsageError(
                f"--start {self.start}: the last request is"
                f" {format_duration(compiled.duration_ns)} after the first"
            )
        if self.pace == "closed" and compiled.without_completion == compiled.requests:
            raise UsageError(
                "--pace closed: the trace has no completions, so nothing tells what a request"
                " waited for",
                hint="replay it with --pace trace, or with --pace fast and a --depth",
            )


@dataclass(frozen=True, kw_only=True)
class PlayerOptions:
    """How the program runs a plan; None leaves a choice to the program.

    A target is PATH or LABEL=PATH, `emulate` a device profile as the program takes it. `sqpoll` is
    `on`, or `cpu=N` and `idle=TIME` with a comma between them: a thread of the kernel submits.
    """

    engine: str = "auto"
    schedule: Schedule = field(default_factory=Schedule)
    speed: str | None = None
    depth: int | None = None
    threads: int | None = None
    submitters: int | None = None
    direct: str | None = None
    out_of_range: str | None = None
    overlaps: str | None = None
    sqpoll: str | None = None
    iopoll: bool = False
    expand: bool = False
    keep: bool = False
    no_calibration: bool = False
    no_space_check: bool = False
    target: tuple[str, ...] = ()
    emulate: tuple[str, ...] = ()
    priority: tuple[str, ...] = ()
    write_to: tuple[str, ...] = ()
    overwrite_signature: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the words that are chosen from a list."""
        for value, choice, option in (
            (self.engine, Engine, "--engine"),
            (self.direct, Direct, "--direct"),
            (self.out_of_range, OutOfRange, "--out-of-range"),
            (self.overlaps, Overlaps, "--overlaps"),
        ):
            if value is not None:
                check_choice(value, choice, option=option)
        _sqpoll_words(self.sqpoll)

    def words(self, *, first: int = 0) -> list[str]:
        """Return the command line; `first` requests of the plan are left out."""
        found = [*self.schedule.arguments(first), *_sqpoll_words(self.sqpoll)]
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in ("schedule", "sqpoll") or value is None or value is False:
                continue
            word = f"--{one.name.replace('_', '-')}"
            if isinstance(value, tuple):
                found += [part for entry in value for part in (word, entry)]
            else:
                found += [word] if value is True else [word, str(value)]
        return found


def _sqpoll_words(sqpoll: str | None) -> list[str]:
    if sqpoll is None:
        return []
    found = ["--sqpoll"]
    for part in sqpoll.split(",") if sqpoll != "on" else ():
        key, _, value = part.partition("=")
        if key == "cpu" and value.isdecimal():
            found += ["--sqpoll-cpu", value]
        elif key == "idle" and value:
            idle_ms, rest_ns = divmod(parse_duration(value, option="--sqpoll idle="), NS_PER_MS)
            if idle_ms < 1 or rest_ns:
                message = f"--sqpoll idle={value}: the kernel takes whole milliseconds, from 1ms"
                raise UsageError(message)
            found += ["--sqpoll-idle-ms", str(idle_ms)]
        else:
            raise UsageError(
                f"--sqpoll {sqpoll}: not `on`, `cpu=N`, `idle=TIME` or the last two with a comma",
                hint="for example: --sqpoll cpu=3,idle=20ms",
            )
    return found


def describe_submission(engine: Mapping[str, Any]) -> list[str]:
    """Return how a run submitted and completed, as parts of a sentence; nothing for interrupts."""
    features = engine.get("features", {})  # summaries of older runs have none
    found = []
    if features.get("sqpoll"):
        woken = engine["sqpoll_wakes"]
        found.append(f"submitted by a thread of the kernel that was woken {woken:,} times")
    if features.get("iopoll"):
        others = engine["unpolled"]
        found.append(f"completions polled, but for {others:,} flushes and the like")
    return found


def device_specs(devices: tuple[str, ...], known: Mapping[str, Profile]) -> tuple[str, ...]:
    """Return what the program emulates for each `PROFILE` or `LABEL=PROFILE` of `devices`.

    Raises UsageError for a profile that does not exist and a label that comes twice. Which labels
    there are, the plan knows.
    """
    specs: dict[str, str] = {}
    for device in devices:
        role, name = split_device(device)
        if role in specs:
            raise UsageError(f"--device {device}: {role or 'what is left'} has a device already")
        spec = device_spec(choose_profile(known, name))
        specs[role] = f"{role}:{spec}" if role else spec
    return tuple(specs.values())


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
    if lanes := max((cell.depth for cell in profile.distributions), default=profile.parallelism):
        values["lanes"] = lanes
    quantiles = "".join(
        f",{name}_setup_quantiles={_quantiles(found)}"
        for name in ("read", "write")
        if (found := profile.setup_quantiles_us(name)) is not None
    )
    if profile.empty_flush_us is not None:
        values["empty_flush_ns"] = profile.empty_flush_us * 1e3
    # A disk whose head moves, as the placement model has it.
    if disk := disk_of(profile):
        values |= {
            "seek_track_ns": disk.track_ps / 1e3,
            "seek_root_ns": disk.root_ps / 1e3,
            "seek_linear_ns": disk.linear_ps / 1e3,
            "seek_unknown_ns": disk.unknown_ps / 1e3,
            "write_settle_ns": disk.settle_ps[1] / 1e3,
            "half_turn_ns": disk.half_turn_ps / 1e3,
            "track_sectors": disk.track_sectors,
            "capacity_sectors": disk.capacity_sectors,
        }
    return (
        ",".join(f"{key}={round(value)}" for key, value in values.items())
        + quantiles
        + _cells(profile)
    )


SPEC_CHARS = 100_000
"""Of the distributions in an argument, of which the kernel takes 128 KiB."""


def _cells(profile: Profile) -> str:
    """Return the distributions as the program reads them."""
    cells = ";".join(
        f"{one.operation[0]}/{one.length_bytes}/{one.depth}/{one.write_ratio:.6g}"
        f"/{_quantiles(one.quantiles_us)}"
        for one in profile.distributions
    )
    if len(cells) > SPEC_CHARS:
        raise InputError(
            f"profile [{profile.name}]: its {len(profile.distributions)} distributions are"
            f" {len(cells):,} characters, of which {SPEC_CHARS:,} can be given to the program",
            hint="leave out depths or shares of writes that are close to others",
        )
    return f",cells={cells}" if cells else ""


def _quantiles(quantiles: Quantiles) -> str:
    return "+".join(f"{p:.12g}@{max(round(us * 1e3), 1)}" for p, us in quantiles)

"""The options of the program `tracekit-replay`: only this module knows its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tracekit.choices import Direct, Engine, OutOfRange, Overlaps, check_choice
from tracekit.errors import UsageError
from tracekit.replay.schedule import Schedule
from tracekit.units import NS_PER_MS, parse_duration


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
    direct: str | None = None
    out_of_range: str | None = None
    overlaps: str | None = None
    sqpoll: str | None = None
    iopoll: bool = False
    expand: bool = False
    keep: bool = False
    no_calibration: bool = False
    target: tuple[str, ...] = ()
    emulate: tuple[str, ...] = ()
    priority: tuple[str, ...] = ()
    write_to: tuple[str, ...] = ()
    overwrite_signature: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the words that are chosen from a list."""
        check_choice(self.engine, Engine, option="--engine")
        for value, choice, option in (
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
            if one.name not in ("schedule", "sqpoll"):
                found += _option_words(one.name, getattr(self, one.name))
        return found


def _option_words(name: str, value: Any) -> list[str]:
    word = f"--{name.replace('_', '-')}"
    if isinstance(value, tuple):
        return [part for one in value for part in (word, one)]
    if value is None or value is False:
        return []
    return [word] if value is True else [word, str(value)]


def _sqpoll_words(sqpoll: str | None) -> list[str]:
    if sqpoll is None:
        return []
    found = ["--sqpoll"]
    for part in sqpoll.split(",") if sqpoll != "on" else ():
        key, _, value = part.partition("=")
        if key == "cpu" and value.isdecimal():
            found += ["--sqpoll-cpu", value]
        elif key == "idle" and value:
            found += ["--sqpoll-idle-ms", str(_idle_ms(value))]
        else:
            raise UsageError(
                f"--sqpoll {sqpoll}: not `on`, `cpu=N`, `idle=TIME` or the last two with a comma",
                hint="for example: --sqpoll cpu=3,idle=20ms",
            )
    return found


def _idle_ms(text: str) -> int:
    idle_ms, rest_ns = divmod(parse_duration(text, option="--sqpoll idle="), NS_PER_MS)
    if idle_ms < 1 or rest_ns:
        raise UsageError(f"--sqpoll idle={text}: the kernel takes whole milliseconds, from 1ms")
    return idle_ms


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

"""The ways of io_uring that a user chooses: who submits, and how completions are noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.errors import UsageError
from tracekit.units import NS_PER_MS, parse_duration


def polling(sqpoll: str | None, *, iopoll: bool) -> list[str]:
    """Return the options of the replay program.

    `sqpoll` is `on`, or `cpu=N` and `idle=TIME` with a comma between them, None for no thread that
    submits. Raise UsageError for anything else.
    """
    found = ["--iopoll"] if iopoll else []
    if sqpoll is None:
        return found
    found.append("--sqpoll")
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


def describe_polling(engine: Mapping[str, Any]) -> list[str]:
    """Say in the words of a sentence how a run submitted and noticed; nothing for the usual way."""
    features = engine.get("features", {})  # summaries of older runs have none
    found = []
    if features.get("sqpoll"):
        woken = engine["sqpoll_wakes"]
        found.append(f"submitted by a thread of the kernel that was woken {woken:,} times")
    if features.get("iopoll"):
        others = engine["unpolled"]
        found.append(f"completions polled, but for {others:,} flushes and the like")
    return found

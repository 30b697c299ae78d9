"""The first lines of a script: what it does, what that is predicted to save, what may be lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracekit.model.answer import Recommendation, charged_trace
from tracekit.model.placement import to_ns
from tracekit.model.placement_units import FS, JOURNAL, ROLE, UnitChoice, find_units
from tracekit.model.unit_search import time_chain
from tracekit.store import TraceFolder
from tracekit.tables import ROLE_NAMES
from tracekit.units import MIB, format_duration, format_size

CACHE = "cache"


@dataclass(frozen=True)
class Part:
    """One thing to carry out: functions of a shell file, or only words, commands after "$ "."""

    title: str
    lost: str
    mirrored: str
    library: str = ""
    """File in `scripts`; without one there is only the text."""
    action: str = ""
    """Functions apply_ and undo_ of that."""
    nvm: str = "NVM"
    """Variable of the device that it takes."""
    nvm_bytes: int = 0
    role: str = ""
    """Role that moves whole, or is to be moved by hand."""
    variables: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    undo_arguments: tuple[str, ...] = ()
    """Where they differ."""
    text: tuple[str, ...] = ()
    is_instead: bool = False
    """Not a part of the answer: something else that is quicker."""


def comments(lines: Sequence[str]) -> list[str]:
    """Return comments; whatever a name has in it stays in its line."""
    return [f"# {re.sub(r'[^ -~]', '?', line)}".rstrip() for line in lines]


def about(folder: TraceFolder, advice: Recommendation, *, parts: Sequence[Part]) -> list[str]:
    """Return what the script carries out, what that is predicted to save, and how it is run."""
    first = [
        "Carries out a recommendation of tracekit.",
        *advice.headline[:1],
        *_predictions(folder, advice, parts),
        "",
    ]
    names = list(dict.fromkeys(one.nvm for one in parts if one.library))
    if not names:
        return first
    settings = " ".join(f"{name}=/dev/..." for name in names)
    has_cache = any(one.action == CACHE for one in parts)
    but_caches = ", but for what is said below" if has_cache else ""
    return [
        *first,
        "  sh FILE         prints the commands and does nothing",
        f"  TRACEKIT_APPLY=yes {settings} sh FILE         runs them",
        f"  TRACEKIT_APPLY=yes {settings} sh FILE undo    takes them back",
        "",
        "Back up first and end the applications. Wherever it is cut, all file systems can be",
        f"mounted{but_caches}; run it again and it goes on. If the NVM is dead: undo with",
        "NVM_LOST=yes.",
        *(
            [
                "",
                "The NVM must be divided, for example by sfdisk, into these partitions:",
                *(f"  size={-(-one.nvm_bytes // MIB)}MiB    {one.nvm}" for one in _by_nvm(parts)),
            ]
            if len(names) > 1
            else []
        ),
        "",
    ]


def _predictions(
    folder: TraceFolder, advice: Recommendation, parts: Sequence[Part]
) -> Iterator[str]:
    """Yield what is predicted of what the script runs, and of the answer where that is another."""
    found = advice.units if advice.units is not None else advice.answer
    gain = _gain(found.elapsed_ns, found.base_elapsed_ns)
    given = f"with {format_size(found.capacity_bytes)} of {advice.nvm_profile}."
    is_by_hand = not all(one.library or one.is_instead for one in parts)
    counted_in = "it"
    if advice.units is not None:
        yield f"Predicted: {gain}, {given}"
    else:
        for what, elapsed_ns in _run_by_itself(folder, advice, parts):
            counted_in = "the last"
            yield f"Predicted for {what}: {_gain(elapsed_ns, found.base_elapsed_ns)}."
        yield f"Predicted for single blocks, which no command moves: {gain}, {given}"
        yield "Ask with --unit for a prediction of what moves whole."
    needed = sum(one.nvm_bytes for one in _by_nvm(parts))
    if needed > found.capacity_bytes:
        yield f"Carrying it out takes {format_size(needed)}, as things are moved whole."
    if is_by_hand:
        yield f"What is to be done by hand is counted in {counted_in}, too."


def _gain(elapsed_ns: int, base_ns: int) -> str:
    ratio = 1 - elapsed_ns / base_ns if base_ns else 0.0
    times = f"{format_duration(base_ns)} -> {format_duration(elapsed_ns)}"
    return f"{ratio:.1%} {'less' if ratio >= 0 else 'saved, so more'} I/O time, {times}"


def _run_by_itself(
    folder: TraceFolder, advice: Recommendation, parts: Sequence[Part]
) -> Iterator[tuple[str, int]]:
    """Yield what the script does by itself, and the time that takes; nothing where not known."""
    by_hand = {one.role for one in parts if not one.library}
    roles = {one.role for one in parts if one.library and one.role} - by_hand
    if roles:
        named = " and ".join(f"the whole {ROLE_NAMES[role]}" for role in sorted(roles))
        if FS in roles and JOURNAL not in by_hand:  # it lies in what moves
            roles |= {JOURNAL} & {*advice.answer.blocks}
        trace = charged_trace(folder, advice)
        units = find_units(trace, UnitChoice(ROLE), regions=folder.info.layout)
        order = np.array([at for at, name in enumerate(units.names) if name in roles], np.int64)
        if len(order):
            chain = time_chain(trace, units, order=order, exact=len(order))
            yield f"what it moves by itself, {named}", to_ns(chain.least_ps)
    if any(one.action == CACHE for one in parts):
        for one in advice.caches:
            if (one.rival, one.mode) == ("dm-cache", "through"):
                yield "the cache that it makes (CACHE=writethrough)", one.busy_ns


def about_part(one: Part, done: Sequence[Part]) -> list[str]:
    """Return what one part does, what is lost with its NVM, and its commands by hand."""
    needed = f" ({one.nvm}, at least {format_size(one.nvm_bytes)})" if one in done else ""
    return [
        f"* {one.title}{needed}",
        f"  If the NVM dies: {one.lost}",
        f"  Mirrored: {one.mirrored}",
        *(f"  {line}" for line in one.text),
        "",
    ]


def _by_nvm(parts: Sequence[Part]) -> Iterator[Part]:
    yield from {one.nvm: one for one in parts if one.library}.values()

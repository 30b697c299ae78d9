"""Makes the file plan of a personality."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.personality.flow import Thread
from tracekit.personality.layout import lay_out
from tracekit.personality.model import Personality
from tracekit.personality.steps import Steps
from tracekit.plan.file_table import Records
from tracekit.plan.files import (
    AT_POSITION,
    CODES,
    CONTINUES,
    FilePlanWriter,
    Medium,
    Setting,
    new_records,
)
from tracekit.store import beside

RECORDS = 1_000_000  # of a plan, when the number of turns is not given
LEAST_TURNS = 4
LEAST_ROOM = 256 << 20  # bytes that files may grow by before they are cut again
MOVES = (CODES["read"], CODES["write"])


@dataclass(frozen=True)
class Made:
    """What a plan holds: turns of each thread, operations by name, bytes of the files at once."""

    turns: int
    operations: dict[str, int]
    files: int
    needed_bytes: int


def expand(steps: Steps) -> Records:
    """Return the calls of the steps: transfers longer than one call become several."""
    moves = np.isin(steps["operation"], MOVES)
    size = np.maximum(steps["size"], 1)
    calls = np.where(moves, np.maximum(-(-steps["total"] // size), 1), 1)
    of = np.repeat(np.arange(len(steps)), calls)
    part = np.arange(len(of)) - np.repeat(np.cumsum(calls) - calls, calls)
    step = steps[of]
    records = new_records(len(of))
    for name in ("operation", "step", "flags", "file", "handle"):
        records[name] = step[name]
    done = part * size[of]
    left = step["total"] - done
    is_read = step["operation"] == CODES["read"]
    length = np.where(is_read, size[of], np.minimum(size[of], left))
    records["length"] = np.where(moves[of], length, step["total"])
    at_position = step["offset"] == AT_POSITION
    records["offset"] = np.where(at_position, step["offset"], step["offset"] + done.astype("u8"))
    is_last = part == calls[of] - 1
    records["flags"] |= np.where(is_last, 0, CONTINUES).astype(np.uint16)
    return records


def write_personality(
    personality: Personality,
    path: Path,
    *,
    seed: int = 0,
    turns: int | None = None,
    medium: Medium | None = None,
) -> Made:
    """Write the plan of a personality: seeded, the same bit for bit each time.

    Without `turns` there are so many that the plan has about a million operations; the program
    repeats it until the time is up. Raises InputError when the files are too few for the threads.
    """
    table, shares = lay_out(personality, seed)
    threads = [Thread(personality, own, number) for number, own in enumerate(shares)]
    most = min(thread.most_turns() for thread in threads)
    chosen = min(most, turns or max(LEAST_TURNS, _turns(personality)))
    needed = sum(row[0] for row in table.rows() if row[3])
    next_id = 0
    with beside(path) as part, part.open("wb") as file:
        writer = FilePlanWriter(file)
        for number, thread in enumerate(threads):
            drawn = thread.draw(chosen, np.random.default_rng([seed, 2, number]))
            records = expand(np.concatenate([drawn.steps, drawn.restore]))
            records["operation_id"] = np.arange(next_id, next_id + len(records))
            next_id += len(records)
            needed += drawn.growth_bytes
            writer.thread()
            writer.append(records)
        setting = Setting(personality.labels, True, needed, medium)
        operations = writer.finish(table, setting)
    return Made(chosen, operations, len(table), needed)


def _turns(personality: Personality) -> int:
    """Return how many turns make about RECORDS operations, and files not much longer."""
    calls = 0.0
    last = personality.file_sets[0]
    for one in personality.flow:
        if one.files is not None:
            last = personality.file_set(one.files)
        whole = one.action in ("read_file", "write_file")
        calls += max(1.0, last.mean_bytes / one.size_bytes) if whole else 1.0
    turns = RECORDS / (personality.threads * calls)
    return int(min(turns, _room(personality) / max(1, personality.threads * _grown(personality))))


def _grown(personality: Personality) -> int:
    """Return the most bytes by which one turn lengthens files that are never made anew."""
    grown, opened = 0, ""
    for one in personality.flow:
        opened = one.files or opened
        if one.action == "append" and not any(personality.churn(opened)):
            grown += one.size_bytes
    return grown


def _room(personality: Personality) -> int:
    return max(LEAST_ROOM, sum(one.count * one.mean_bytes for one in personality.file_sets))


def describe(personality: Personality) -> dict[str, Any]:
    """Return what one turn does: steps by label, and the ratio of reading to writing ones."""
    counts: dict[str, int] = {}
    for one in personality.flow:
        counts[one.label] = counts.get(one.label, 0) + 1
    reads = sum(one.action in ("read_file", "read") for one in personality.flow)
    writes = sum(one.action in ("write_file", "append", "write") for one in personality.flow)
    return {"steps": counts, "reads": reads, "writes": writes}

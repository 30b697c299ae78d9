"""A stage of every volume of a set, in two processes; what is up to date is passed over."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from tracekit import query
from tracekit.arrow import open_table
from tracekit.errors import InputError, TracekitError, UsageError, foreign_error
from tracekit.fleet.catalogue import TraceSet, Volume
from tracekit.objects.location import Location
from tracekit.origin import ROLES, is_current
from tracekit.progress import quiet
from tracekit.store import INFO_NAME, TraceFolder

T = TypeVar("T")
R = TypeVar("R")
PROCESSES = 2
PLACES = {
    "classify": ROLES,
    "recommend": "recommendation.json",
    "simulate cache": "simulations/cache.json",
    "simulate tiers": "simulations/tiers.json",
}
"""Where a stage says how its result was made."""
Source = Path | Location
"""A volume's folder, of this machine or in object storage."""
Work = Callable[[Source], None]
Due = Sequence[tuple[Volume, Source]]
Result = tuple[Volume, TracekitError | None]
Results = Callable[[Work, Due], Generator[Result]]
OnVolume = Callable[[str, int, int], None]


@dataclass
class Outcome:
    """Which volumes a stage was done of, which were up to date, and which are left out, and why."""

    done: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    errors: dict[str, TracekitError] = field(default_factory=dict)


def process_count(volumes: int) -> int:
    """Return how many processes work on so many volumes; each has its part of the memory."""
    return max(1, min(PROCESSES, len(os.sched_getaffinity(0)), volumes))


def _places_of(stage: str, analyses: Sequence[str]) -> list[str]:
    """Return where a stage leaves what says how it was made."""
    if stage == "analyze":
        return [f"findings/{name.rpartition('/')[2]}.parquet" for name in analyses]
    return [PLACES[stage]]


def run_each(
    traces: TraceSet,
    work: Work,
    *,
    is_done: Callable[[TraceFolder], bool],
    needed: Sequence[str] = (),
    on_volume: OnVolume = lambda *_: None,
    results: Results | None = None,
) -> Outcome:
    """Do the work with the folder of each volume, the largest first.

    A volume that is missing or damaged, or of which the work fails, is left out: the others go on.
    `results` does it with those that are due, by processes of this machine by default; `is_done`
    reads the files whose places match `needed`.
    """
    outcome, due = Outcome(), list[tuple[Volume, Source]]()
    for volume, folder in traces.folders(INFO_NAME, *needed):
        if isinstance(folder, InputError):
            outcome.errors[volume.name] = folder
        elif is_done(folder):
            outcome.kept.append(volume.name)
        else:
            due.append((volume, traces.source(volume.name)))
    due.sort(key=lambda one: -one[0].requests)
    before = len(traces.volumes) - len(due)
    with closing((results or _results)(work, due)) as ended:
        for number, (volume, failed) in enumerate(ended, before + 1):
            on_volume(volume.name, number, len(traces.volumes))
            if failed is None:
                outcome.done.append(volume.name)
            else:
                outcome.errors[volume.name] = failed
    return outcome


def _results(work: Work, due: Due) -> Generator[Result]:
    """Yield volumes as they are done, each with what went wrong.

    Of a process that is killed, as for want of memory, nobody knows on which volume it worked:
    those that were under way are each done again, alone.
    """
    count, left = process_count(len(due)), deque(due)
    if count == 1:
        yield from ((volume, error_of(partial(quietly, work, path))) for volume, path in due)
        return
    while left:
        lost: list[tuple[Volume, Source]] = []
        with _processes(count) as pool:
            running: dict[Future[None], tuple[Volume, Source]] = {}
            while running or (left and not lost):
                while left and not lost and len(running) < count:
                    one = left.popleft()
                    try:
                        running[pool.submit(quietly, work, one[1])] = one
                    except BrokenProcessPool:
                        lost.append(one)
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    one = running.pop(ended)
                    if isinstance(ended.exception(), BrokenProcessPool):
                        lost.append(one)
                    else:
                        yield one[0], error_of(ended.result)
        for volume, path in lost:
            with _processes(1) as pool:
                yield volume, error_of(pool.submit(quietly, work, path).result)


@contextmanager
def _processes(count: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def quietly(work: Callable[[T], R], item: T) -> R:
    """Do the work with a volume, or something else, of which nothing is shown."""
    with quiet():
        return work(item)


def error_of(call: Callable[[], None]) -> TracekitError | None:
    """Return what a call fails with; what is a mistake of this program is raised."""
    try:
        call()
    except TracekitError as error:
        return error
    except BrokenProcessPool:
        hint = "give it less memory with --memory, or work on a machine with more"
        return TracekitError("the process that worked on it was killed", hint=hint)
    except Exception as error:
        if (known := foreign_error(error)) is None:
            raise
        return known
    return None


def is_up_to_date(
    traces: TraceSet,
    folder: TraceFolder,
    *,
    stage: str,
    words: tuple[str, ...],
    only: tuple[str, ...] = (),
) -> bool:
    """Say whether a volume has all results of a stage, with these options and of what is there."""
    try:
        analyses = (only or traces.analyses(folder)) if stage == "analyze" else ()
        return all(
            is_current(folder.path, folder.content, place=place, words=words)
            and (stage != "analyze" or _has_columns_of_now(folder.file(place)))
            for place in _places_of(stage, analyses)
        )
    except (InputError, UsageError):
        return False


def _has_columns_of_now(finding: Path) -> bool:
    """Say whether a finding has the columns that its query has now."""
    schema = open_table(finding).schema_arrow
    source = query.read((schema.metadata or {}).get(b"query", b"").decode())
    return {*schema.names} == {*source.columns}

"""A stage of every volume of a set, in two processes; what is up to date is passed over."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tracekit.analyze import possible
from tracekit.errors import InputError, TracekitError, foreign_error
from tracekit.fleet.catalogue import TraceSet, Volume
from tracekit.origin import ROLES, is_current
from tracekit.progress import quiet
from tracekit.store import TraceFolder

PROCESSES = 2
Work = Callable[[Path], None]
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


def _places_of(stage: str, folder: TraceFolder, only: tuple[str, ...]) -> list[str]:
    """Return where a stage leaves what says how it was made."""
    if stage == "analyze":
        names = only or possible(folder)
        return [f"findings/{name.rpartition('/')[2]}.parquet" for name in names]
    return [ROLES if stage == "classify" else "recommendation.json"]


def run_each(
    traces: TraceSet,
    work: Work,
    *,
    is_done: Callable[[TraceFolder], bool],
    on_volume: OnVolume = lambda *_: None,
) -> Outcome:
    """Do the work with the folder of each volume, the largest first.

    A volume that is missing or damaged, or of which the work fails, is left out: the others go on.
    """
    outcome, due = Outcome(), []
    for volume in sorted(traces.volumes, key=lambda one: -one.requests):
        try:
            folder = TraceFolder(traces.place(volume.name))
            if is_done(folder):
                outcome.kept.append(volume.name)
            else:
                due.append((volume, folder.path))
        except InputError as error:
            outcome.errors[volume.name] = error
    before = len(traces.volumes) - len(due)
    with _results(work, due) as results:
        for number, (volume, failed) in enumerate(results, before + 1):
            on_volume(volume.name, number, len(traces.volumes))
            if failed is None:
                outcome.done.append(volume.name)
            else:
                outcome.errors[volume.name] = failed
    return outcome


@contextmanager
def _results(
    work: Work, due: list[tuple[Volume, Path]]
) -> Iterator[Iterator[tuple[Volume, TracekitError | None]]]:
    """Yield an iterator of volumes as they are done, each with what went wrong."""
    count = process_count(len(due))
    if count == 1:
        yield ((volume, _error_of(partial(_quietly, work, path))) for volume, path in due)
        return
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
    try:
        futures = {pool.submit(_quietly, work, path): volume for volume, path in due}
        yield ((futures[one], _error_of(one.result)) for one in as_completed(futures))
    finally:
        pool.shutdown(cancel_futures=True)


def _quietly(work: Work, path: Path) -> None:
    with quiet():
        work(path)


def _error_of(call: Callable[[], None]) -> TracekitError | None:
    """Return what a call fails with; what is a mistake of this program is raised."""
    try:
        call()
    except TracekitError as error:
        return error
    except BrokenProcessPool:
        message = "the process that worked on it, or one beside it, was killed"
        return TracekitError(message, hint="run the command again: what is done is kept")
    except Exception as error:
        if (known := foreign_error(error)) is None:
            raise
        return known
    return None


def is_up_to_date(
    stage: str, folder: TraceFolder, *, words: tuple[str, ...], only: tuple[str, ...] = ()
) -> bool:
    """Say whether a volume has all results of a stage, with these options and of what is there."""
    try:
        places = _places_of(stage, folder, only)
    except InputError:
        return False
    return all(
        is_current(folder.path, folder.content, place=place, words=words) for place in places
    )

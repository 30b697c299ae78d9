"""Stages of the volumes of a set on Spark: a task does what a process does on one machine.

Spark schedules volumes and nothing else: a task opens the volume's folder, runs the same code, and
leaves the results there; what goes over the network is names and errors. So results are equal.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from tracekit.errors import TracekitError
from tracekit.fleet.spark_session import session
from tracekit.fleet.stages import Due, Result, Results, Work, error_of, quietly
from tracekit.objects.location import Location
from tracekit.progress import hidden
from tracekit.version import __version__

POLL_S = 0.1
WAIT_POLLS = 150
"""So often it is looked whether any worker works; a line says when none does."""
STORAGE = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION")
"""Variables that workers get from where the command runs; the keys are a matter of the cluster."""
INSTALL = (
    "install tracekit for the Python of the workers, or name a Python that has it: PYSPARK_PYTHON"
)
FAILED_TASK = re.compile(r"Task (\d+) in stage [\d.]+ failed")
KILLED = re.compile(r"ExecutorLostFailure|Python worker exited unexpectedly|EOFException")
FAULTS = (
    (r"No module named '(?:tracekit|pyarrow|numpy|duckdb|msgspec)", "a worker has no tracekit"),
    (
        r"Can't get attribute|cannot import name",
        f"a worker has another tracekit than {__version__}",
    ),
    (r"PYTHON_VERSION_MISMATCH|has different version", "a worker has another Python than this one"),
    (r'Cannot run program "([^"]+)"', "a worker has no program {}"),
)
"""What a worker fails with that has not what a task needs, and what is said of it."""


@dataclass(frozen=True)
class _Task:
    """What a task needs beside what it works on."""

    work: Callable[[Any], Any]
    seen: str
    """The folder of the set, which a worker must see; empty of one in object storage."""
    folder: str
    """The working folder, in which options name files."""
    version: str = __version__
    variables: dict[str, str] = field(
        default_factory=lambda: {name: os.environ[name] for name in STORAGE if name in os.environ}
    )
    """Where object storage is."""


@dataclass(frozen=True)
class _Fault:
    """Why a task can do nothing at all, or a mistake of this program: the whole is given up."""

    error: TracekitError | None
    trace: str = ""


Done = tuple[int, TracekitError | _Fault | None, Any]
Ended = tuple[int, TracekitError | None, Any]
"""The number of what was worked on, what went wrong, and what was returned."""


class _Rows:
    """An accumulator of what tasks did; Spark adds what each did once, however often it ran."""

    def zero(self, _value: list[Done]) -> list[Done]:
        """Return what a task begins with."""
        return []

    def addInPlace(self, one: list[Done], other: list[Done]) -> list[Done]:  # noqa: N802 - Spark's
        """Return one list with the other behind it."""
        one += other
        return one


def on_spark(master: str, *, log: Path) -> Results:
    """Return how `run_each` gets its results from a cluster, whose messages go to the file `log`.

    A volume is done again where its worker is lost, as often as Spark tries a task, and left out
    after that. Raises TracekitError where Spark does not work: see `session`.
    """
    return partial(_results, master, log)


def _results(master: str, log: Path, work: Work, due: Due) -> Generator[Result]:
    if not due:
        return
    with session(master, log=log) as context:
        while due:
            places = [
                source if isinstance(source, Location) else source.absolute() for _, source in due
            ]
            seen = "" if isinstance(places[0], Location) else str(places[0].parent)
            task = _Task(work, seen, os.getcwd())
            done = set[int]()
            for number, error, _ in _job(context, task, places, log):
                done.add(number)
                yield due[number][0], error
            due = [one for number, one in enumerate(due) if number not in done]


@contextmanager
def workers_on_spark(master: str, log: Path) -> Iterator[SparkWorkers]:
    """Yield the workers of a cluster, whose messages go to the file `log`; see `session`."""
    with session(master, log=log) as context:
        yield SparkWorkers(context, log)


class SparkWorkers:
    """Runs tasks that return something; the folder of the log is that which workers must see."""

    def __init__(self, context: Any, log: Path) -> None:
        self._context, self._log = context, log
        self.at_a_time: int = context.defaultParallelism

    def each(
        self,
        work: Callable[[Any], Any],
        items: Sequence[Any],
        *,
        on_done: Callable[[int], None] = lambda _number: None,
    ) -> list[Any]:
        """Return what the work returns for each item, in their order; raise what one fails with."""
        found = dict[int, Any]()
        task = _Task(work, str(self._log.parent.absolute()), os.getcwd())
        ended = _job(self._context, task, items, self._log) if items else ()
        for number, error, value in ended:
            if error is not None:
                raise error
            found[number] = value
            on_done(number)
        return [found[number] for number in range(len(items))]


def _job(context: Any, task: _Task, items: Sequence[Any], log: Path) -> Generator[Ended]:
    """Yield items as they are done; some are left where the job is given up for one."""
    found = context.accumulator([], _Rows())
    rows = context.parallelize([*enumerate(items)], len(items))
    failure: list[Exception] = []

    def run() -> None:
        try:
            rows.foreachPartition(partial(_work, task, found))
        except Exception as error:
            failure.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    yield from _ended(context, thread, found)
    if failure:
        yield *_lost(failure[0], log), None


def _ended(context: Any, thread: Thread, found: Any) -> Iterator[Ended]:
    """Yield what tasks did, as they end, until the job has ended."""
    seen = polls = 0
    is_over = is_said = False
    while not is_over:
        thread.join(POLL_S)
        is_over, polls = not thread.is_alive(), polls + 1
        for number, error, value in found.value[seen:]:
            seen += 1
            if isinstance(error, _Fault):
                raise error.error or RuntimeError(error.trace)
            yield number, error, value
        if polls % WAIT_POLLS == 0 and not (is_over or is_said or _works(context)):
            is_said = True
            with hidden():
                sys.stderr.write(f"tracekit: waiting for a free worker of {context.master}\n")
                sys.stderr.flush()


def _works(context: Any) -> bool:
    from py4j.protocol import Py4JError

    try:
        status = context.statusTracker()
        stages = filter(None, map(status.getStageInfo, status.getActiveStageIds()))
        return any(stage.numActiveTasks for stage in stages)
    except (Py4JError, OSError):
        return True  # it is over: who waits for the job sees why


def _lost(error: Exception, log: Path) -> tuple[int, TracekitError]:
    """Return the number of the volume that Spark gives up, and why; raise for any other failure."""
    from py4j.protocol import Py4JError, Py4JJavaError

    hint = f"all that Spark printed is in {log}"
    if not isinstance(error, Py4JError | OSError):
        raise error  # a mistake of this program
    if not isinstance(error, Py4JJavaError):
        raise TracekitError("Spark's Java, where this runs, has ended", hint=hint)
    reason = str(error.java_exception)
    for pattern, text in FAULTS:
        if known := re.search(pattern, reason):
            raise TracekitError(text.format(*known.groups()), hint=INSTALL)
    found = FAILED_TASK.search(reason)
    if found is None or not KILLED.search(reason):
        raise TracekitError(f"Spark gave up: {reason.splitlines()[0]}", hint=hint)
    killed = TracekitError("the worker that worked on it was killed, each time", hint=hint)
    return int(found[1]), killed


def _work(task: _Task, found: Any, items: Iterator[tuple[int, Any]]) -> None:
    """Do the items of a task, on a worker; one whose cluster goes removes what is half done."""
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name, value in task.variables.items():
        os.environ.setdefault(name, value)
    for number, item in items:
        found.add([(number, *_done(task, item))])


def _done(task: _Task, item: Any) -> tuple[TracekitError | _Fault | None, Any]:
    if task.version != __version__:
        text = f"a worker has tracekit {__version__}, not {task.version}: {socket.gethostname()}"
        return _Fault(TracekitError(text, hint=INSTALL)), None
    if task.seen and not Path(task.seen).is_dir():
        return _Fault(
            TracekitError(
                f"the worker {socket.gethostname()} does not see {task.seen}",
                hint="put the set on a file system that all workers have at the same place, or into"
                " object storage",
            )
        ), None
    values: list[Any] = []
    try:
        with chdir(task.folder) if os.path.isdir(task.folder) else nullcontext():
            error = error_of(lambda: values.append(quietly(task.work, item)))
    except Exception:
        return _Fault(None, traceback.format_exc()), None
    return error, values[0] if values else None

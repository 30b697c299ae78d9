"""A trace set: many traces in one folder, as volumes that are opened by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import choices
from tracekit.api import values
from tracekit.api.set_results import (
    SetCaches,
    SetGroups,
    SetRecommendation,
    SetReport,
    SetRun,
    SetTiers,
)
from tracekit.api.simulate import Simulate
from tracekit.api.start import (
    Sources,
    files_of,
    import_options,
    new_location,
    paths_of,
    read,
)
from tracekit.api.stored import fetched, open  # noqa: A004 - opens a trace folder
from tracekit.api.trace import Trace, temporary_place
from tracekit.api.values import PathLike, Sizes
from tracekit.asked import asked, asking
from tracekit.errors import PartialError, UsageError
from tracekit.escapes import joined
from tracekit.objects.location import Location
from tracekit.progress import byte_progress, step_progress
from tracekit.units import counted, format_duration, memory_mib

if TYPE_CHECKING:
    from tracekit.fleet.catalogue import TraceSet
    from tracekit.fleet.stages import Results


MEMORY = {"classify": ("256MiB", 1), "analyze": ("512MiB", 256)}
"""Of the stages that take some: the default of all processes, and what each needs, in MiB."""
NEEDED = {
    "classify": (),
    "analyze": ("findings/*",),
    "recommend": ("recommendation.json",),
    "simulate cache": ("simulations/*",),
    "simulate tiers": ("simulations/*",),
}
"""What is read of a volume to see whether it is up to date."""


class Set(Mapping[str, Trace]):
    """A trace set: its volumes, which are traces, by name, in the order of the catalogue.

    Its stages take the options of those of a `Trace` and leave their results in the volumes. They
    pass over a volume that has the results already, of the same options and of what is there now.
    Two processes work on two volumes at a time and share the memory; or, with `engine="spark"`,
    tasks of a cluster, each with as much as one of them, or as `memory` says.
    """

    def __init__(self, opened: TraceSet) -> None:
        self.opened = opened

    @property
    def path(self) -> Path:
        """The folder of the set; of one in object storage that with what was fetched of it."""
        return self.opened.path

    def __iter__(self) -> Iterator[str]:
        return (one.name for one in self.opened.volumes)

    def __len__(self) -> int:
        return len(self.opened.volumes)

    def __getitem__(self, name: str) -> Trace:
        """Open a volume; InputError where it is missing or damaged."""
        if name not in self._names:
            raise KeyError(name)
        return open(self.opened.source(name))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self)

    @cached_property
    def _unusable(self) -> Mapping[str, str]:
        """Volumes that were missing or damaged when this was first asked, and why."""
        return {name: str(error) for name, error in self.opened.unusable().items()}

    @property
    def volumes(self) -> list[dict[str, Any]]:
        """What the catalogue says of each volume, and which stages have results there."""
        from msgspec import to_builtins

        stages = self.opened.stages
        return [{**to_builtins(one), "stages": stages(one.name)} for one in self.opened.volumes]

    @property
    def summary(self) -> Mapping[str, Any]:
        """What is in the set, as `tracekit set info --json` prints it."""
        rows = self.volumes
        requests = sorted((row["requests"] for row in rows), reverse=True)
        operations: dict[str, int] = {}
        for row in rows:
            for name, count in row["operations"].items():
                operations[name] = operations.get(name, 0) + count
        return {
            "set": str(self.opened),
            "volumes": len(rows),
            "requests": sum(requests),
            "operations": operations,
            "formats": sorted({str(row["format"]) for row in rows}),
            "longest_ns": max((row["duration_ns"] for row in rows), default=0),
            "largest": max(rows, key=lambda row: row["requests"])["name"] if rows else None,
            "largest_requests": requests[0] if rows else 0,
            "median_requests": requests[len(requests) // 2] if rows else 0,
            "tenth_requests": sum(requests[: -(-len(requests) // 10)]),
            "unusable": self._unusable,
        }

    @property
    def headline(self) -> str:
        """How many volumes and requests there are."""
        found = self.summary
        return (
            f"{counted(found['volumes'], 'volume')}, {found['requests']:,} requests,"
            f" up to {format_duration(found['longest_ns'])}, {', '.join(found['formats'])}"
        )

    @property
    def text(self) -> str:
        """What `tracekit set info` prints."""
        found = self.summary
        lines = [self.headline, *(f"  {k:<13}{n:>14,}" for k, n in found["operations"].items())]
        if found["requests"]:
            share = found["tenth_requests"] / found["requests"]
            lines += [
                f"largest volume  {found['largest']}: {found['largest_requests']:,} requests",
                f"median volume   {found['median_requests']:,} requests",
                f"busiest tenth   {share:.1%} of all requests",
            ]
        return joined(lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which volumes cannot be used, and why."""
        return tuple(self._unusable.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Nothing: each volume has its own."""
        return ()

    def check(self) -> None:
        """Raise PartialError when a volume is missing or damaged."""
        if self._unusable:
            raise PartialError(
                f"{self.opened}: {len(self._unusable):,} of {counted(len(self), 'volume')} missing"
                " or damaged",
                hint="put them back, or remove their folders and run: tracekit set add SET",
            )

    def classify(
        self, *, engine: choices.SetEngine = "local", master: str | None = None, **options: Any
    ) -> SetRun:
        """Classify each volume; see `Trace.classify`."""
        return self._run("classify", options, _Where(engine, master))

    def analyze(
        self, *, engine: choices.SetEngine = "local", master: str | None = None, **options: Any
    ) -> SetRun:
        """Analyse each volume; see `Trace.analyze`."""
        return self._run("analyze", options, _Where(engine, master))

    def recommend(
        self,
        *,
        capacity: Sizes = "",
        engine: choices.SetEngine = "local",
        master: str | None = None,
        **options: Any,
    ) -> SetRecommendation:
        """Recommend for each volume, and divide one NVM of this capacity among all of them.

        By default it is a tenth of what they touched. The other options are those of
        `Trace.recommend`; files, a script and queues are of one trace.
        """
        from msgspec import to_builtins

        from tracekit.fleet.placement import place

        for name in ("files", "script", "force"):
            if options.get(name):
                raise UsageError(f"--{name} does not go with a trace set", hint="name a volume")
        if options.get("queueing", "serial") != "serial":
            message = f"--queueing {options['queueing']} does not go with a trace set"
            raise UsageError(message, hint="mean response times of volumes do not add up")
        sizes = values.capacities(capacity)
        if len(sizes) > 1:
            raise UsageError(f"--capacity {capacity}: a trace set shares one capacity")
        run = self._run("recommend", options, _Where(engine, master))
        lost = {one["volume"] for one in run.summary["left_out"]}
        if lost == {*self}:
            return SetRecommendation(self, run.summary)
        names = [name for name in self if name not in lost]
        with self.opened.naming():
            found = place(self.opened, names, capacity_bytes=sizes[0] if sizes else None)
        kept = _with_lost(run.summary, found.left_out, placement=to_builtins(found))
        return SetRecommendation(self, kept)

    @property
    def simulate(self) -> SetSimulate:
        """What caches and tiers would gain, of each volume."""
        return SetSimulate(self)

    def groups(self) -> SetGroups:
        """Group the volumes that behave alike, after `analyze`, each with a typical member."""
        from msgspec import to_builtins

        from tracekit.fleet.groups import find_groups

        with self.opened.naming():
            found = to_builtins(find_groups(self.opened))
        left_out = [
            {"volume": name, "error": why, "hint": ""} for name, why in found["left_out"].items()
        ]
        kept = {"set": str(self.opened), "stage": "groups", "up_to_date": 0, "left_out": left_out}
        done = len(self) - len(left_out)
        return SetGroups(self, {**found, **kept, "done": done})

    def report(self, output: PathLike | None = None) -> SetReport:
        """Write one HTML file with the answer for all volumes; by default report.html in the set.

        Volumes with a report of their own are links, relative to the file. What no stage has made
        is named with its command.
        """
        from tracekit.report.page import report_set

        with self.opened.naming():
            found = report_set(self.opened, Path(output) if output else self.path / "report.html")
            if output is None:
                self.opened.publish("report.html")
        left_out = [
            {"volume": name, "error": why, "hint": ""} for name, why in self._unusable.items()
        ]
        kept: dict[str, Any] = {}
        kept |= {"set": str(self.opened), "stage": "report", "up_to_date": 0, "left_out": left_out}
        kept |= {"report": self.opened.shown(str(found.path)), "done": len(self) - len(left_out)}
        return SetReport(self, {**found.as_dict(), **kept})

    def _run(self, stage: str, options: Mapping[str, Any], where: _Where) -> SetRun:
        return SetRun(self, self.run(stage, options=options, where=where))

    def run(self, stage: str, *, options: Mapping[str, Any], where: _Where) -> dict[str, Any]:
        """Do a stage of each volume; return what became of it."""
        from tracekit.fleet.stages import is_up_to_date, process_count, run_each

        results = where.results(self.opened.log("spark.log"))
        with asking(_call_of(stage, Trace, Simulate), options):
            words = asked()
        only = values.texts(options.get("only"))
        if stage in MEMORY:
            (default, least), count = MEMORY[stage], process_count(len(self))
            if where.engine == "spark" and "memory" in options:
                count = 1
            mib = memory_mib(options.get("memory", default), least=least * count)
            options = {**options, "memory": f"{mib // count}MiB"}
        with step_progress(stage) as on_volume:
            outcome = run_each(
                self.opened,
                partial(_work, stage, options),
                is_done=partial(is_up_to_date, self.opened, stage=stage, words=words, only=only),
                needed=NEEDED[stage],
                on_volume=on_volume,
                results=results,
            )
        left_out = [
            {"volume": name, "error": str(error), "hint": error.hint}
            for name, error in sorted(outcome.errors.items())
        ]
        counts = {"done": len(outcome.done), "up_to_date": len(outcome.kept)}
        return {"set": str(self.opened), "stage": stage, **counts, "left_out": left_out}

    def __repr__(self) -> str:
        return f"Set {self.opened}: {self.headline}"


@dataclass(frozen=True)
class _Where:
    """Where the volumes of a set are worked on."""

    engine: choices.SetEngine
    master: str | None

    @property
    def is_spark(self) -> bool:
        """Whether it is a cluster; UsageError for a master without one."""
        choices.check_choice(self.engine, choices.SetEngine, option="--engine")
        if self.engine != "spark" and self.master:
            raise UsageError(f"--master {self.master} goes with --engine spark")
        return self.engine == "spark"

    def results(self, log: Path) -> Results | None:
        """Return how a stage gets its results there."""
        if not self.is_spark:
            return None
        from tracekit.fleet.spark import on_spark

        return on_spark(self.master or "", log=log)

    def importer(self) -> Callable[..., TraceSet]:
        """Return how a trace is imported as a set there."""
        if self.is_spark:
            from tracekit.fleet.spark import workers_on_spark
            from tracekit.fleet.split_by_tasks import import_set_by_tasks

            return partial(import_set_by_tasks, start=partial(workers_on_spark, self.master or ""))
        from tracekit.fleet.split import import_set

        return import_set


def _call_of(stage: str, of_trace: Any, simulations: Any) -> Callable[..., Any]:
    """Return the call of a stage: of a trace, or of its simulations, as `simulate cache` is."""
    name = stage.rpartition(" ")[2]
    found: Callable[..., Any] = getattr(of_trace if name == stage else simulations, name)
    return found


def _work(stage: str, options: Mapping[str, Any], source: Path | Location) -> None:
    trace = open(source)
    _call_of(stage, trace, trace.simulate)(**options)


def _with_lost(kept: Mapping[str, Any], lost: Mapping[str, str], **found: Any) -> dict[str, Any]:
    """Return what became of a stage, with what was found and volumes that have nothing of it."""
    more = [{"volume": name, "error": why, "hint": ""} for name, why in lost.items()]
    return {**kept, "left_out": [*kept["left_out"], *more], **found}


@dataclass(frozen=True)
class SetSimulate:
    """What caches and tiers would gain, of each volume of a set."""

    traces: Set

    def cache(
        self, *, engine: choices.SetEngine = "local", master: str | None = None, **options: Any
    ) -> SetCaches:
        """Give the miss ratio of every cache size, of each volume; see `Simulate.cache`."""
        from msgspec import to_builtins

        from tracekit.fleet.simulations import caches_of

        kept = self.traces.run("simulate cache", options=options, where=_Where(engine, master))
        found = to_builtins(caches_of(*self._done(kept)))
        return SetCaches(self.traces, _with_lost(kept, found.pop("left_out"), caches=found))

    def tiers(
        self, *, engine: choices.SetEngine = "local", master: str | None = None, **options: Any
    ) -> SetTiers:
        """Say which mix of tiers gives most for its price, of each volume; see `Simulate.tiers`."""
        from msgspec import to_builtins

        from tracekit.fleet.simulations import tiers_of

        kept = self.traces.run("simulate tiers", options=options, where=_Where(engine, master))
        found = to_builtins(tiers_of(*self._done(kept)))
        return SetTiers(self.traces, _with_lost(kept, found.pop("left_out"), tiers=found))

    def _done(self, kept: Mapping[str, Any]) -> tuple[TraceSet, list[str]]:
        """Return the set, and the volumes that have a result."""
        lost = {one["volume"] for one in kept["left_out"]}
        return self.traces.opened, [name for name in self.traces if name not in lost]


def open_set(path: PathLike) -> Set:
    """Open a trace set, also one in object storage by its URL; InputError when it is none."""
    from tracekit.fleet.catalogue import TraceSet
    from tracekit.fleet.stored_set import StoredSet

    location = Location.of(path)
    return Set(StoredSet(location) if location else TraceSet(Path(path)))


def add_to_set(path: PathLike, *traces: PathLike) -> Set:
    """Add trace folders to a set, which is made where there is none; they stay as they are.

    Their tables are linked, or copied where the system has no links. Without traces the catalogue
    is made anew of the trace folders in the set's folder. PartialError names what is left out, when
    the others are in it. The set or traces can be URLs of object storage: then tables are copied.
    """
    from tracekit.fleet.catalogue import add
    from tracekit.fleet.stored_set import add_to_location

    location = Location.of(path)
    with ExitStack() as stack:
        opened = [open(one) if Location.of(one) else None for one in traces]
        for one in filter(None, opened):
            stack.enter_context(one.naming())
        pairs = zip(opened, traces, strict=True)
        places = [one.path if one else Path(trace) for one, trace in pairs]
        return Set(add_to_location(location, places) if location else add(Path(path), places))


def read_set(
    source: Sources,
    output: PathLike,
    *,
    split_by: choices.SplitBy,
    engine: choices.SetEngine = "local",
    master: str | None = None,
    **options: Any,
) -> Set:
    """Read a trace of many volumes as a set with a trace for each; the options are those of `read`.

    All have the clock of the whole trace, so that rates and times of volumes can be compared. With
    `engine="spark"` tasks of a cluster decode parts of a text and join volumes.
    """
    from tracekit.fleet.stored_set import put_set

    choices.check_choice(split_by, choices.SplitBy, option="--split-by")
    where = _Where(engine, master)
    import_set = where.importer()
    if where.is_spark and any(map(Location.of, (output, *paths_of(source)))):
        raise UsageError(
            "import --engine spark does not go with a URL: workers read and write files",
            hint="import to a folder that they see; then: tracekit set add URL SET/VOLUME...",
        )
    bound = signature(read).bind(source, **options)
    bound.apply_defaults()
    choice = import_options(bound.arguments)
    location = new_location(output, choice)
    place, holder = (Path(output), None) if location is None else temporary_place()
    folder = place / location.name if location else place
    with (
        asking(read, options),
        fetched(files_of(source, choice)) as files,
        byte_progress("import") as on_bytes,
    ):
        made = import_set(files, folder, options=choice, on_bytes=on_bytes)
    if location is not None:
        made = put_set(made, location)
    del holder
    return Set(made)

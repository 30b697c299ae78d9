"""A trace set: many traces in one folder, as volumes that are opened by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import choices
from tracekit.api.start import Sources, import_options, paths_of, read
from tracekit.api.trace import Trace
from tracekit.api.values import PathLike
from tracekit.asked import asking
from tracekit.errors import PartialError
from tracekit.escapes import joined
from tracekit.progress import byte_progress
from tracekit.units import counted, format_duration

if TYPE_CHECKING:
    from tracekit.fleet.catalogue import TraceSet


class Set(Mapping[str, Trace]):
    """A trace set: its volumes, which are traces, by name, in the order of the catalogue."""

    def __init__(self, opened: TraceSet) -> None:
        self._opened = opened

    @property
    def path(self) -> Path:
        """The folder of the set."""
        return self._opened.path

    def __iter__(self) -> Iterator[str]:
        return (one.name for one in self._opened.volumes)

    def __len__(self) -> int:
        return len(self._opened.volumes)

    def __getitem__(self, name: str) -> Trace:
        """Open a volume; InputError where it is missing or damaged."""
        if name not in [*self]:
            raise KeyError(name)
        return Trace(self._opened.place(name))

    @property
    def volumes(self) -> list[dict[str, Any]]:
        """What the catalogue says of each volume, and which stages have results there."""
        from msgspec import to_builtins

        stages = self._opened.stages
        return [{**to_builtins(one), "stages": stages(one.name)} for one in self._opened.volumes]

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
            "set": str(self.path),
            "volumes": len(rows),
            "requests": sum(requests),
            "operations": operations,
            "formats": sorted({str(row["format"]) for row in rows}),
            "longest_ns": max((row["duration_ns"] for row in rows), default=0),
            "largest": max(rows, key=lambda row: row["requests"])["name"] if rows else None,
            "largest_requests": requests[0] if rows else 0,
            "median_requests": requests[len(requests) // 2] if rows else 0,
            "tenth_requests": sum(requests[: -(-len(requests) // 10)]),
            "unusable": {name: str(error) for name, error in self._opened.unusable().items()},
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
        return tuple(self.summary["unusable"].values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Nothing: each volume has its own."""
        return ()

    def check(self) -> None:
        """Raise PartialError when a volume is missing or damaged."""
        if unusable := self._opened.unusable():
            raise PartialError(
                f"{self.path}: {len(unusable):,} of {counted(len(self), 'volume')} missing or"
                " damaged",
                hint="put them back, or remove their folders and run: tracekit set add SET",
            )

    def __repr__(self) -> str:
        return f"Set {self.path}: {self.headline}"


def open_set(path: PathLike) -> Set:
    """Open a trace set; InputError when it is none."""
    from tracekit.fleet.catalogue import TraceSet

    return Set(TraceSet(Path(path)))


def add_to_set(path: PathLike, *traces: PathLike) -> Set:
    """Add trace folders to a set, which is made where there is none; they stay as they are.

    Their tables are linked, or copied where the system has no links. Without traces the catalogue
    is made anew of the trace folders in the set's folder. PartialError names what is left out, when
    the others are in it.
    """
    from tracekit.fleet.catalogue import add

    return Set(add(Path(path), [*map(Path, traces)]))


def read_set(
    source: Sources, output: PathLike, *, split_by: choices.SplitBy, **options: Any
) -> Set:
    """Read a trace of many volumes as a set with a trace for each; the options are those of `read`.

    All have the clock of the whole trace, so that rates and times of volumes can be compared.
    """
    from tracekit.fleet.split import import_set

    choices.check_choice(split_by, choices.SplitBy, option="--split-by")
    bound = signature(read).bind(source, **options)
    bound.apply_defaults()
    with asking(read, options), byte_progress("import") as on_bytes:
        made = import_set(
            paths_of(source),
            Path(output),
            options=import_options(bound.arguments),
            on_bytes=on_bytes,
        )
    return Set(made)

"""A work profile run on a target: generate, replay, analyze and report in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracekit.errors import UsageError
from tracekit.room import Need, check_rooms
from tracekit.store import TraceFolder
from tracekit.workload.blocks import Extent
from tracekit.workload.folder import folder_bytes, write_folder
from tracekit.workload.model import Profile
from tracekit.workload.plan import FEWER
from tracekit.workload.target import FREE_BYTES, check_size, filled_file, target_need

OnRows = Callable[[int], None]


@dataclass(frozen=True)
class Options:
    """How to run; `arguments` are further options of the replayer, in its own words."""

    target: Path | None = None
    engine: str = "auto"
    device: str | None = None
    speed: str = "1"
    pace: str | None = None
    depth: int | None = None
    repeat: int = 1
    write_to: tuple[str, ...] = ()
    keep: bool = False
    overwrite: bool = False
    with_report: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be, before anything is made."""
        if self.pace not in (None, "open", "fast"):
            raise UsageError(f"--pace {self.pace}: not open or fast")
        if self.depth is not None and self.depth < 1:
            raise UsageError(f"--depth {self.depth}: not a number of requests")
        if self.engine == "null" and self.target is not None:
            raise UsageError("--engine null: it moves no data", hint="leave --target out")

    @property
    def moves_data(self) -> bool:
        """Whether there is a target: only time passes on an emulated device without one."""
        return self.engine not in ("null", "emulated") or self.target is not None


@dataclass
class Result:
    """What came of it: the folder, a summary of each run, and whether one is not complete."""

    folder: TraceFolder
    summaries: list[dict[str, Any]]
    is_partial: bool = False
    report: Path | None = None


def bench(
    profile: Profile,
    output: Path,
    *,
    extent: Extent,
    options: Options,
    on_rows: OnRows = lambda _rows: None,
) -> Result:
    """Run the profile's requests on a target; the trace folder `output` has all that came of it.

    Without a target a file is made beside the folder, filled, and removed afterwards. Raise
    UsageError for a target that is smaller than the profile's, InputError for one that the disk
    has no room for, both before anything is made.
    """
    from tracekit.replay.stage import repeats, replay

    settings = _settings(profile, options)
    runs = repeats(settings, options.repeat)
    if options.target is not None and options.target.is_dir():
        raise UsageError(
            f"--target {options.target} is a directory, the work profile {profile.name} needs a"
            " file or block device",
            hint=f"name a file in it, such as {options.target / 'bench.target'}",
        )
    _check_room(profile, output, extent=extent, options=options)
    folder = write_folder(
        profile, output, extent=extent, overwrite=options.overwrite, on_rows=on_rows
    )
    result = Result(folder, [])
    with _target(profile, folder, options) as arguments:
        for run in runs:
            summary, is_partial = replay(folder, replace(run, **arguments))
            result.summaries.append(summary)
            result.is_partial |= is_partial
    if options.with_report:
        result.report = _report(folder)
    return result


def _check_room(profile: Profile, output: Path, *, extent: Extent, options: Options) -> None:
    """Raise when a target that is there is too small, or a disk for what is to be made on it."""
    needs = [_folder_need(profile, output, extent=extent, repeats=options.repeat)]
    if options.moves_data and not (path := _path(output, options)).exists():
        needs = [target_need(path, profile.target_bytes), *needs]
    elif options.target is not None:
        check_size(profile, options.target)
    check_rooms(needs, spare_bytes=FREE_BYTES)


def _folder_need(profile: Profile, output: Path, *, extent: Extent, repeats: int) -> Need:
    """Return what the trace folder takes at most, with the plans and results of all repeats."""
    from tracekit.plan.file import RECORD
    from tracekit.replay.completions import RECORD as COMPLETION
    from tracekit.replay.completions import ROW_BYTES

    kept_bytes = repeats * (RECORD.itemsize + ROW_BYTES) + COMPLETION.itemsize
    size_bytes = folder_bytes(profile, extent) + kept_bytes * extent.expected_requests(profile)
    return Need(output, size_bytes, FEWER, is_estimate=True)


def _settings(profile: Profile, options: Options) -> Any:
    """Return the options of the replay: the profile's pace, unless another one is asked for."""
    from tracekit.replay.schedule import Schedule
    from tracekit.replay.stage import Options as ReplayOptions

    pace = options.pace or profile.pace
    depth = options.depth or (profile.depth if pace == "fast" else None)
    arguments = ["--speed", options.speed]
    arguments += [] if depth is None else ["--depth", str(depth)]
    return ReplayOptions(
        engine=options.engine,
        schedule=Schedule("fast" if pace == "fast" else "trace"),
        devices=() if options.device is None else (options.device,),
        arguments=tuple(arguments),
    )


@contextmanager
def _target(profile: Profile, folder: TraceFolder, options: Options) -> Iterator[dict[str, Any]]:
    """Yield what the replay's options need to run on the target, which is made if there is none."""
    arguments = list(_settings(profile, options).arguments)
    if not options.moves_data:
        yield {"arguments": tuple(arguments)}
        return
    arguments += ["--direct", "auto" if profile.is_direct else "off"]
    path = _path(folder.path, options)
    if path.exists():
        confirmed = [part for place in options.write_to for part in ("--write-to", place)]
        yield {"targets": (f"default={path}",), "arguments": (*arguments, *confirmed)}
        return
    with filled_file(path, profile.target_bytes, keep=options.keep) as made:
        confirmed = ["--write-to", str(made.resolve())]
        yield {"targets": (f"default={made}",), "arguments": (*arguments, *confirmed)}


def _path(output: Path, options: Options) -> Path:
    return options.target or output.with_name(f"{output.name}.target")


def _report(folder: TraceFolder) -> Path:
    from tracekit.analyze import analyze
    from tracekit.classify import Options as ClassifyOptions
    from tracekit.classify import classify
    from tracekit.report.page import report

    classify(folder, ClassifyOptions())
    analyze(folder)
    path = folder.path / "report.html"
    report(folder, path)
    return path

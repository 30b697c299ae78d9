"""Where a trace comes from: read, parsed, captured, generated, run, or measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import choices
from tracekit.api import results, values
from tracekit.api.results import Replay
from tracekit.api.trace import Trace, temporary_place
from tracekit.api.values import (
    Duration,
    Numbers,
    PathLike,
    Size,
    Sizes,
    Texts,
    asked,
    keeps_words,
)
from tracekit.errors import PartialError, UsageError
from tracekit.progress import byte_progress, row_progress, stage_progress, step_progress
from tracekit.units import memory_mib

if TYPE_CHECKING:
    from tracekit.capture.session import Captured
    from tracekit.device.characterize import CharacterizeOptions
    from tracekit.doctor import Result as Check
    from tracekit.store import TraceFolder

PARSED = ("source", "clock", "devices", "counts", "loss", "warnings")
READ = ("source", "clock", "devices", "counts", "inferences", "warnings")
CAPTURED = ("clock", "counts", "loss", "capture", "warnings")
Sources = PathLike | Sequence[PathLike]


def _paths(source: Sources) -> list[Path]:
    return [Path(source)] if isinstance(source, str | os.PathLike) else [*map(Path, source)]


def default_output(source: Sources) -> Path:
    """Return a folder name in the working folder, made from the first input's name."""
    from tracekit.readers.files import default_output as name_for

    return name_for(_paths(source))


def _place(source: Sources, output: PathLike | None) -> tuple[Path, Any]:
    """Return where a trace goes, and what a temporary place lives as long as."""
    if output is not None:
        return Path(output), None
    folder, holder = temporary_place()
    return folder / default_output(source), holder


def _kept(folder: TraceFolder, keys: Sequence[str]) -> dict[str, Any]:
    return {"trace": str(folder.path), **{key: folder.content[key] for key in keys}}


def parse(
    source: Sources,
    output: PathLike | None = None,
    *,
    layout: PathLike | None = None,
    force: bool = False,
    salvage: bool = False,
) -> Trace:
    """Decode a block trace: blktrace files of one trace, or a folder of them.

    Without `output` the trace is in a temporary folder that lives as long as it.
    """
    from tracekit.readers.blktrace import ParseOptions
    from tracekit.readers.blktrace import parse as parse_trace

    options = ParseOptions(
        layout_file=values.maybe_path(layout), overwrite=force, keeps_whole=salvage
    )
    place, holder = _place(source, output)
    with byte_progress("parse") as on_bytes:
        folder, tally = parse_trace(_paths(source), place, options=options, on_bytes=on_bytes)
    operations = {
        name: {"requests": count, "bytes": tally.length_bytes[name]}
        for name, count in tally.rows.items()
    }
    summary = {**_kept(folder, PARSED), "operations": operations}
    return Trace(folder, summary=summary, temporary=holder)


def read(
    source: Sources,
    output: PathLike | None = None,
    *,
    format: choices.ImportFormat | None = None,  # noqa: A002 - the word of the option
    columns: str | None = None,
    regex: str | None = None,
    blkparse_format: str | None = None,
    layout: PathLike | None = None,
    delimiter: str = ",",
    unit: Texts | None = None,
    force_units: bool = False,
    max_bad: float = 1.0,
    force: bool = False,
) -> Trace:
    """Read a trace of another tool, known by its content, as `tracekit import` does.

    Without `output` the trace is in a temporary folder that lives as long as it. `max_bad` is the
    percent of wrong lines that stops it.
    """
    from tracekit.readers.importing import import_trace
    from tracekit.readers.units import ImportOptions

    choice = values.chosen(
        ImportOptions,
        locals(),
        form=format,
        units=values.texts(unit),
        forces_units=force_units,
        most_bad_ratio=max_bad / 100,
        overwrite=force,
        layout_file=values.maybe_path(layout),
    )
    place, holder = _place(source, output)
    with byte_progress("import") as on_bytes:
        folder = import_trace(_paths(source), place, options=choice, on_bytes=on_bytes)
    return Trace(folder, summary=_kept(folder, READ), temporary=holder)


def generate(
    profile: str,
    output: PathLike | None = None,
    *,
    requests: int | None = None,
    duration: Duration | None = None,
    seed: int = 0,
    target_size: Size | None = None,
    force: bool = False,
) -> Trace:
    """Make requests of a work profile, shipped or a TOML file: the same bit for bit each time.

    Without `output` the trace is in a temporary folder that lives as long as it.
    """
    place, holder = _place(f"{Path(profile).stem}.toml", output)
    summary = write_requests(
        profile,
        place,
        requests=requests,
        duration=duration,
        seed=seed,
        target_size=target_size,
        force=force,
    )
    return Trace(place, summary=summary, temporary=holder)


def write_requests(
    profile: str,
    output: PathLike,
    *,
    format: choices.GenerateFormat = "trace",  # noqa: A002 - the word of the option
    requests: int | None = None,
    duration: Duration | None = None,
    seed: int = 0,
    target_size: Size | None = None,
    force: bool = False,
) -> Mapping[str, Any]:
    """Write the requests of a work profile as a trace folder, a plan, or a job of fio."""
    from tracekit.workload.generate import asked_extent, asked_profile
    from tracekit.workload.generate import generate as make

    choices.check_choice(format, choices.GenerateFormat, option="--format")
    extent = asked_extent(requests, values.time_text(duration), seed=seed)
    chosen = asked_profile(profile, None if target_size is None else str(target_size))
    with row_progress("generate") as on_rows:
        return make(
            chosen, Path(output), form=format, extent=extent, overwrite=force, on_rows=on_rows
        )


@dataclass(frozen=True)
class Capture:
    """The block events of disks: `parse` makes a trace of them."""

    path: Path
    summary: Mapping[str, Any]
    notes: tuple[str, ...]
    lost_by_disk: tuple[tuple[str, int], ...]
    exit_status: int | None
    stopped_by: str | None

    def parse(self, output: PathLike | None = None) -> Trace:
        """Decode the events into a trace."""
        return parse(self.path, output)

    def check(self) -> None:
        """Raise PartialError when the capture is kept but is not the whole run."""
        lost = self.summary["overrun"] + self.summary["dropped"]
        if lost:
            parts = [f"{count:,} of {disk}" for disk, count in self.lost_by_disk if count]
            where = f" ({', '.join(parts)})" if len(self.lost_by_disk) > 1 else ""
            raise PartialError(
                f"{self.path}: the kernel lost {lost:,} records{where}",
                hint="capture again with a larger --buffer",
            )
        check_command(self.path, self.exit_status, stopped_by=self.stopped_by)


def check_command(output: Path, exit_status: int | None, *, stopped_by: str | None) -> None:
    """Raise PartialError when a traced command was ended, or failed."""
    if exit_status is not None and stopped_by:
        raise PartialError(f"{output}: ended early by {stopped_by}; the command was ended")
    if exit_status:
        raise PartialError(f"{output}: the command failed with status {exit_status}")


def capture(
    device: Texts,
    output: PathLike,
    *,
    command: Sequence[str] = (),
    duration: Duration | None = None,
    source: choices.CaptureSource | None = None,
    compress: choices.Compression = "none",
    buffer: Size = "32MiB",
    untraced: bool = False,
    quiet: bool = False,
) -> Capture:
    """Record disks' block events and layout while a command runs, for some time, or until Ctrl-C.

    `quiet` keeps the command's output off stdout; `untraced` runs it untraced before, to measure
    what tracing costs; `buffer` is the kernel's of each CPU. Needs root.
    """
    from tracekit.capture.session import CaptureOptions
    from tracekit.capture.session import capture as run_capture

    options = CaptureOptions(
        command=tuple(command),
        is_stdout_ours=quiet,
        duration_s=_capture_seconds(duration),
        source=source,
        runs_untraced=untraced,
        compress=compress,
        buffer_kib=memory_mib(buffer, least=1, option="--buffer") << 10,
    )
    devices = list(values.texts(device))
    if command:
        captured = run_capture(devices, Path(output), options=options)
    else:
        # A command has the terminal for itself.
        with byte_progress("capturing until Ctrl-C or the end of --duration") as show:
            watched = replace(options, on_bytes=lambda total_bytes: show(total_bytes, None))
            captured = run_capture(devices, Path(output), options=watched)
    return _captured(captured, Path(output))


def _captured(captured: Captured, output: Path) -> Capture:
    kept = captured.kept
    summary = {
        "output": str(output),
        "source": captured.source,
        "files": list(kept.files),
        "records": kept.records,
        "own_requests": kept.own_requests,
        "overrun": kept.overrun,
        "dropped": kept.dropped,
        "dropped_by_disk": dict(kept.disks_dropped),
        "foreign_bytes": kept.foreign_bytes,
        "missed_at_most": kept.missed_at_most,
        "duration_ns": round(captured.duration_s * 1e9),
        "overhead": captured.overhead,
    }
    notes = tuple(captured.notes)
    if kept.missed_at_most:
        notes += (
            f"up to {kept.missed_at_most:,} events, of all disks, happened while the kernel was in"
            " a BPF program, and were not seen; parse reports how many completions of these disks"
            " are missing",
        )
    return Capture(
        output,
        summary,
        notes,
        tuple(kept.disks_dropped),
        captured.exit_status,
        captured.stopped_by,
    )


def _capture_seconds(duration: Duration | None) -> float | None:
    seconds = values.seconds(duration, option="--duration")
    if seconds is not None and seconds < 0.01:
        raise UsageError(f"--duration: '{duration}' is too short", hint="it is at least 10ms")
    return seconds


@dataclass(frozen=True)
class FileCapture:
    """The file operations of a command, as a trace."""

    trace: Trace
    duration_s: float
    untraced_s: float | None
    exit_status: int | None
    stopped_by: str | None

    @property
    def summary(self) -> Mapping[str, Any]:
        """What was captured."""
        return _kept(self.trace.folder, CAPTURED)

    def check(self) -> None:
        """Raise PartialError when the command was ended, or failed."""
        status = (self.exit_status or 0) if self.stopped_by else self.exit_status
        check_command(self.trace.path, status, stopped_by=self.stopped_by)


def capture_files(
    command: Sequence[str],
    output: PathLike,
    *,
    below: PathLike | None = None,
    hash_names: bool = False,
    untraced: bool = False,
    force: bool = False,
    quiet: bool = False,
) -> FileCapture:
    """Record the file operations of a command and its children into a trace; needs strace."""
    from tracekit.capture.files import FileOptions
    from tracekit.capture.files import capture_files as run_capture

    options = FileOptions(
        command=tuple(command),
        below=values.maybe_path(below),
        hashes_names=hash_names,
        is_stdout_ours=quiet,
        runs_untraced=untraced,
        overwrite=force,
    )
    found = run_capture(Path(output), options=options)
    trace = Trace(output)
    return FileCapture(
        trace, found.duration_s, found.untraced_s, found.exit_status, found.stopped_by
    )


def run(
    source: Sources,
    output: PathLike | None = None,
    *,
    layout: PathLike | None = None,
    force: bool = False,
    base: str = "hdd-7200",
    nvm: str = "dax-pcm",
    capacity: Sizes = "",
    replay: choices.RunReplay = "file",
    replay_duration: Duration = "5s",
    on_step: Any = None,
) -> results.Run:
    """Do parse, classify, analyze, recommend, replay and report in one go.

    `source` is a capture or a trace folder; `on_step` is called with each stage that ended.
    """
    from tracekit.pipeline import PipelineOptions
    from tracekit.pipeline import run as run_stages
    from tracekit.store import INFO_NAME

    options = values.chosen(
        PipelineOptions,
        locals(),
        overwrite=force,
        capacities_bytes=values.sizes_bytes(capacity, option="--capacity"),
        replay_seconds=values.seconds(replay_duration, option="--replay-duration") or 0.0,
    )
    inputs = _paths(source)
    holder = None
    if output is None and not any((path / INFO_NAME).is_file() for path in inputs):
        output, holder = _place(source, None)
    place = values.maybe_path(output)
    with stage_progress() as on_stage:
        found = run_stages(
            inputs, place, options=options, on_stage=on_stage, on_step=on_step or _ignore
        )
    summary = {
        "trace": str(found.trace),
        "report": str(found.report),
        "headline": found.headline,
        "steps": [vars(step) for step in found.steps],
        "unfinished": found.unfinished,
    }
    return results.Run(Trace(found.trace, temporary=holder), summary)


def _ignore(_step: object) -> None:
    """Pass over what a stage did."""


def is_personality(definition: str) -> bool:
    """Whether a definition has a flow of file operations, and not requests."""
    from tracekit.workload.personality import is_personality as has_flow

    return has_flow(definition)


def bench(
    profile: str,
    output: PathLike,
    *,
    target: PathLike | None = None,
    duration: Duration | None = None,
    requests: int | None = None,
    seed: int = 0,
    target_size: Size | None = None,
    speed: float | str = "1",
    pace: choices.BenchPace | None = None,
    depth: int | None = None,
    engine: choices.Engine = "auto",
    device: str | None = None,
    repeat: int = 1,
    write_to: Texts | None = None,
    keep: bool = False,
    report: bool = True,
    force: bool = False,
) -> results.Bench:
    """Run the requests of a work profile on a file or block device, by the replayer.

    Without a target a file is made, filled, and removed afterwards. `output` is the new trace
    folder with all that comes of it; the default is 60s of the profile's time.
    """
    from tracekit.pipeline import BenchOptions
    from tracekit.pipeline import bench as run_bench
    from tracekit.workload.generate import asked_extent, asked_profile

    extent = asked_extent(requests, values.time_text(duration), seed=seed, default="60s")
    chosen = asked_profile(profile, None if target_size is None else str(target_size))
    options = values.chosen(BenchOptions, locals(), overwrite=force, with_report=report)
    with row_progress("generate") as on_rows:
        found = run_bench(chosen, Path(output), extent=extent, options=options, on_rows=on_rows)
    trace = Trace(found.folder)
    summary = {
        "trace": str(found.folder.path),
        "report": None if found.report is None else str(found.report),
        "profile": found.folder.content["profile"],
        "replays": found.summaries,
    }
    replays = tuple(Replay(trace, one, found.is_partial) for one in found.summaries)
    return results.Bench(trace, summary, replays)


@keeps_words
def bench_files(
    personality: str,
    *,
    output: PathLike,
    target: PathLike | None = None,
    duration: Duration = "60s",
    seed: int = 0,
    repeat: int = 1,
    threads: Numbers = "",
    files: Numbers = "",
    settings: Texts | None = None,
    warm_up: Duration = "0s",
    cache: choices.CacheState = "sync",
    report: bool = True,
    force: bool = False,
) -> results.Sweep:
    """Run a personality in the directory `target`, as `tracekit bench` does."""
    from tracekit.sweep.grid import asked_axes, asked_timing, plan_runs, split_targets

    given = {"threads": values.joined(threads), "files": values.joined(files)}
    axes = asked_axes(given, values.texts(settings), option="--set")
    timing = asked_timing(
        values.time_text(duration) or "", values.time_text(warm_up) or "", cache=cache, seed=seed
    )
    if target is None:
        raise UsageError(f"{personality} needs --target, the directory to run in")
    targets = split_targets([str(target)])
    planned = plan_runs([personality], targets, vary=axes, timing=timing, repeats=repeat)
    return _sweep(output, planned, ["bench", personality], report=report, again=force)


@keeps_words
def sweep(
    personality: Texts,
    *,
    target: Texts,
    output: PathLike,
    files: Numbers = "",
    io_size: Sizes = "",
    threads: Numbers = "",
    vary: Texts | None = None,
    duration: Duration = "60s",
    warm_up: Duration = "0s",
    repeat: int = 5,
    cache: choices.CacheState = "sync",
    seed: int = 0,
    force: bool = False,
    exact: bool = False,
    operations: bool = False,
    report: bool = True,
) -> results.Sweep:
    """Run personalities on directories: throughput and latency by step, mean and spread."""
    from tracekit.sweep.grid import asked_axes, asked_timing, plan_runs, split_targets

    named = {"files": files, "io_size": io_size, "threads": threads}
    planned = plan_runs(
        list(values.texts(personality)),
        split_targets(list(values.texts(target)), is_exact=exact),
        vary=asked_axes(
            {key: values.joined(value) for key, value in named.items()},
            values.texts(vary),
            option="--vary",
        ),
        timing=asked_timing(
            values.time_text(duration) or "",
            values.time_text(warm_up) or "",
            cache=cache,
            seed=seed,
        ),
        repeats=repeat,
    )
    first = ["sweep", *values.texts(personality)]
    return _sweep(output, planned, first, report=report, replace=force, keeps_operations=operations)


def _sweep(
    output: PathLike, planned: Any, first: list[str], *, report: bool, **options: bool
) -> results.Sweep:
    from tracekit.pipeline import finish_sweep
    from tracekit.sweep.run import sweep as run_sweep
    from tracekit.sweep.summary import describe, show

    swept = run_sweep(Path(output), planned, tell=show, **options)
    finish_sweep(swept, [*first, *asked()], with_report=report)
    return results.Sweep(Trace(swept.folder), describe(swept))


@keeps_words
def counters(
    command: Sequence[str] = (),
    *,
    output: PathLike,
    recorded: Texts | None = None,
    workload: str = "",
    repeat: int = 5,
    throughput: str = "",
    summary: PathLike | None = None,
    key: str = "",
    events: str = "",
    force: bool = False,
) -> results.Counters:
    """Count cache, TLB and software events of a command, and which go with its throughput."""
    from tracekit.counters import CountersOptions, Rule, count_events, parse_groups

    options = CountersOptions(
        command=tuple(command),
        recorded=values.texts(recorded),
        workload=workload,
        runs=repeat,
        rule=Rule(throughput, values.maybe_path(summary), key),
        groups=parse_groups(events),
        overwrite=force,
        asked=asked(),
    )
    with step_progress("counters") as on_run:
        found = count_events(Path(output), options, on_run=on_run)
    return results.Counters(Trace(output), found)


@keeps_words
def characterize_device(
    target: PathLike | None = None,
    *,
    output: PathLike,
    device: str = "",
    profiles: PathLike | None = None,
    engine: choices.Engine = "auto",
    size: Size = "",
    write_to: Texts | None = None,
    overwrite_signature: Texts | None = None,
    direct: choices.Direct = "auto",
    fill: int = 100,
    precondition: int = 1_000_000,
    writes: int = 1_000_000,
    reads: int = 5_000_000,
    sizes: int = 5_000,
    flushes: int = 5_000,
    surface: int = 100_000,
    write_percents: Numbers = "0,20,40,60,80,100",
    depths: Numbers = "1,2,4,8,16,32,64,128,256",
    scale: float = 1.0,
    quick: bool = False,
    name: str = "",
    like: str = "",
    price: float | None = None,
    seed: int = 1,
    keep: bool = False,
    force: bool = False,
) -> results.DeviceStudy:
    """Measure a device's latencies and IOPS, and fit a device profile to them.

    Everything on the device is lost: an existing target is written only with `write_to`.
    """
    from tracekit.device.characterize import CharacterizeOptions
    from tracekit.device.steps import Amounts
    from tracekit.device.target import TargetOptions

    given = locals()
    amounts = values.chosen(
        Amounts,
        given,
        fill_percent=fill,
        write_percents=values.numbers(write_percents, option="--write-percents"),
        depths=values.numbers(depths, option="--depths"),
    )
    options = values.chosen(
        CharacterizeOptions,
        given,
        target=values.chosen(
            TargetOptions,
            given,
            path=values.maybe_path(target),
            size_bytes=values.maybe_bytes(size, option="--size"),
        ),
        amounts=amounts.quick() if quick else amounts,
        price_per_gb=price,
        keeps_file=keep,
        overwrite=force,
    )
    return _measured(Path(output), options)


def _measured(output: Path, options: CharacterizeOptions) -> results.DeviceStudy:
    from tracekit.device.characterize import RESULT, characterize

    with step_progress("characterize") as on_step:
        summary = characterize(output, options, on_step=on_step)
    trace = Trace(output)
    return results.DeviceStudy(trace, trace.kept(summary, RESULT))


def doctor() -> list[Check]:
    """Examine what this machine can do for tracekit, and what to install for the rest."""
    from tracekit.doctor import examine

    return examine()

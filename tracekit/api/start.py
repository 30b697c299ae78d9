"""Where a trace comes from: read, parsed, captured, generated, or taken through all stages."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import choices
from tracekit.api import results, values
from tracekit.api.stored import fetched, put_trace, refuse_taken
from tracekit.api.trace import Trace, temporary_place
from tracekit.api.values import (
    Duration,
    PathLike,
    Size,
    Sizes,
    Texts,
)
from tracekit.asked import keeps_words
from tracekit.errors import PartialError, TracekitError, UsageError
from tracekit.objects.location import Location
from tracekit.progress import byte_progress, row_progress, stage_progress
from tracekit.safe_open import read_given
from tracekit.units import memory_mib, parse_duration, size_text

if TYPE_CHECKING:
    from tracekit.capture.pieces import Keeping
    from tracekit.capture.session import Captured, CaptureOptions
    from tracekit.readers.units import ImportOptions
    from tracekit.store import TraceFolder

PARSED = ("source", "clock", "devices", "counts", "loss", "warnings")
READ = ("source", "clock", "devices", "counts", "completeness", "unknown", "inferences", "warnings")
CAPTURED = ("clock", "counts", "loss", "capture", "warnings")
Sources = PathLike | Sequence[PathLike]


def paths_of(source: Sources) -> list[Path]:
    """Return the files that a caller gives."""
    return [Path(source)] if isinstance(source, str | os.PathLike) else [*map(Path, source)]


def default_output(source: Sources) -> Path:
    """Return a folder name in the working folder, made from the first input's name."""
    from tracekit.readers.files import default_output as name_for

    location = Location.of(paths_of(source)[0])
    return name_for([Path(location.name)] if location else paths_of(source))


def _place(source: Sources, output: PathLike | None) -> tuple[Path, Any]:
    """Return where a trace goes, and what a temporary place lives as long as."""
    if output is not None:
        return Path(output), None
    folder, holder = temporary_place()
    return folder / default_output(source), holder


def _kept(folder: TraceFolder, keys: Sequence[str]) -> dict[str, Any]:
    return {
        "trace": str(folder.path),
        **{key: folder.content[key] for key in keys if key in folder.content},
    }


@keeps_words
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
        folder, tally = parse_trace(paths_of(source), place, options=options, on_bytes=on_bytes)
    operations = {
        name: {"requests": count, "bytes": tally.length_bytes[name]}
        for name, count in tally.rows.items()
    }
    summary = {**_kept(folder, PARSED), "operations": operations}
    return Trace(folder, summary=summary, temporary=holder)


@dataclass(frozen=True, repr=False)
class StorageLayout:
    """What is on disks: `summary` is the content of layout.json, `text` draws it as a tree."""

    summary: Mapping[str, Any]
    text: str
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return self.text


def describe_disks(
    device: Texts | None = None,
    *,
    text: Texts | None = None,
    output: PathLike | None = None,
    force: bool = False,
) -> StorageLayout:
    """Describe what is on disks of this host, or on those that texts of another host describe.

    Without `device` all disks are described. `output` is a new layout.json.
    """
    from tracekit.capture.layout import describe, describe_texts
    from tracekit.store import refuse_taken, write_json

    devices, files = values.texts(device), values.texts(text)
    if output is not None:
        refuse_taken(Path(output), overwrite=force)
    # What is no text is none that is known, too.
    paths = {name: Path(name.rpartition("=")[2]) for name in files}
    given = {name: read_given(path).decode(errors="replace") for name, path in paths.items()}
    found = describe_texts(given, devices) if files else describe(devices)
    if output is not None:
        write_json(Path(output), found.layout, overwrite=force)
    return StorageLayout(found.layout, "\n".join(found.tree), tuple(found.doubts))


@keeps_words
def read(
    source: Sources,
    output: PathLike | None = None,
    *,
    format: str | None = None,  # noqa: A002 - the word of the option
    columns: str | None = None,
    regex: str | None = None,
    blkparse_format: str | None = None,
    layout: PathLike | None = None,
    delimiter: str | None = None,
    unit: Texts | None = None,
    force_units: bool = False,
    join: choices.Join = "refuse",
    op: Texts | None = None,
    rate: float | None = None,
    page: Size = "",
    max_bad: float | None = None,
    explain: bool = False,
    salvage: bool = False,
    resume: bool = False,
    force: bool = False,
) -> Trace:
    """Read a trace of another tool, known by its content, as `tracekit import` does.

    Without `output` the trace is in a temporary folder that lives as long as it. `format` is one of
    `formats()` or a format file; more than `max_bad` percent of wrong lines stop it (1, and 50 of
    the lines of compressed files in which `salvage` found damage). Times, operations and the size
    of pages that the format does not say are unknown, but where `rate` (requests a second), `op` or
    `page` gives them. With `explain` the inferences of the summary also say how other formats fit.
    `salvage` passes over what is damaged in a text, also a compressed one, and says where that is;
    `resume` goes on with a killed import of the same file to the same output.
    """
    from tracekit.readers.importing import import_trace

    choice = import_options(locals())
    location = new_location(output, choice)
    place, holder = _place(source, None if location else output)
    with fetched(files_of(source, choice)) as files, byte_progress("import") as on_bytes:
        folder = import_trace(files, place, options=choice, on_bytes=on_bytes)
    summary = _kept(folder, READ)
    if location is None:
        return Trace(folder, summary=summary, temporary=holder)
    summary["trace"] = str(location)
    return put_trace(folder, location, summary=summary, holder=holder)


def files_of(source: Sources, options: ImportOptions) -> list[PathLike]:
    """Return what a caller gives to import; a file that is fetched is another at each time."""
    given = [source] if isinstance(source, str | os.PathLike) else [*source]
    if options.resumes and any(map(Location.of, given)):
        raise UsageError("--resume does not go with a URL", hint="import a file of this machine")
    return given


def new_location(output: PathLike | None, options: ImportOptions) -> Location | None:
    """Return where a URL puts what is imported; UsageError where there is something else."""
    location = None if output is None else Location.of(output)
    if location is not None:
        if options.resumes:
            raise UsageError("--resume does not go with a URL", hint="import to this machine")
        refuse_taken(location, overwrite=options.overwrite)
    return location


def import_options(given: Mapping[str, Any]) -> ImportOptions:
    """Return the options of `read` as the stage takes them."""
    from tracekit.readers.units import ImportOptions

    max_bad = given["max_bad"]
    return values.chosen(
        ImportOptions,
        given,
        form=given["format"],
        units=values.texts(given["unit"]),
        operations=values.texts(given["op"]),
        page_bytes=values.maybe_bytes(given["page"], option="--page"),
        forces_units=given["force_units"],
        explains=given["explain"],
        salvages=given["salvage"],
        resumes=given["resume"],
        most_bad_ratio=None if max_bad is None else max_bad / 100,
        overwrite=given["force"],
        layout_file=values.maybe_path(given["layout"]),
    )


@keeps_words
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
    chosen = asked_profile(profile, None if target_size is None else size_text(target_size))
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
    failure: str | None = None
    runs_on: int | None = None

    def parse(self, output: PathLike | None = None) -> Trace:
        """Decode the events into a trace."""
        return parse(self.path, output)

    def check(self) -> None:
        """Raise PartialError when the capture is kept but is not the whole run.

        Its `exit_code` is that of a command that failed.
        """
        code = _code_of(self.exit_status)
        if self.failure:
            seconds = self.summary["duration_ns"] / 1e9
            raise PartialError(
                f"{self.path}: recording ended after {seconds:,.1f} s, all until then is kept:"
                f" {self.failure}",
                hint="" if self.exit_status is None else "the command ran on",
                exit_code=code or 3,
            )
        lost = self.summary["overrun"] + self.summary["dropped"]
        if lost:
            parts = [f"{count:,} of {disk}" for disk, count in self.lost_by_disk if count]
            where = f" ({', '.join(parts)})" if len(self.lost_by_disk) > 1 else ""
            raise PartialError(
                f"{self.path}: the kernel lost {lost:,} records{where}",
                hint="capture again with a larger --buffer",
                exit_code=code or 3,
            )
        check_command(self.path, self.exit_status, stopped_by=self.stopped_by, runs_on=self.runs_on)


def _code_of(exit_status: int | None) -> int:
    from tracekit.capture.command import shell_code

    return shell_code(exit_status or 0)


def check_command(
    output: Path, exit_status: int | None, *, stopped_by: str | None, runs_on: int | None = None
) -> None:
    """Raise PartialError, with its exit code, when a traced command was ended, or failed."""
    code = _code_of(exit_status)
    if runs_on is not None:
        raise PartialError(
            f"{output}: ended early by {stopped_by}, twice; the command runs on, pid {runs_on}"
        )
    if exit_status is not None and stopped_by:
        raise PartialError(
            f"{output}: ended early by {stopped_by}, as the command was", exit_code=code or 3
        )
    if exit_status:
        how = f"with status {exit_status}" if exit_status > 0 else f"by signal {-exit_status}"
        raise PartialError(f"{output}: the command failed {how}", exit_code=code)


def capture(
    device: Texts,
    output: PathLike,
    *,
    command: Sequence[str] = (),
    user: str | int | None = None,
    duration: Duration | None = None,
    source: choices.CaptureSource | None = None,
    compress: choices.Compression = "none",
    buffer: Size = "32MiB",
    max_size: Size = "",
    rotate: Size = "",
    last: Duration | None = None,
    slower: Duration | None = None,
    names: Duration = "10s",
    untraced: bool = False,
    remote: str | None = None,
    quiet: bool = False,
) -> Capture:
    """Record disks' block events and layout while a command runs, for some time, or until Ctrl-C.

    `max_size` ends the recording, not the command. `rotate`, a size or a time, writes a capture of
    each piece, OUTPUT-0001 and so on, of which `max_size` keeps the newest. `last` keeps only so
    much, and as much before the oldest request in it, and writes it at the end, at a SIGUSR1, or
    when a request takes longer than `slower`.

    `quiet` keeps the command's output off stdout; `untraced` runs it untraced before, to measure
    what tracing costs; `buffer` is the kernel's of each CPU. Needs root, whose rights the command
    does not get where somebody used sudo, or with `user`. `remote` is another host for disks and
    command, as ssh knows it: root is needed there, or sudo without a password, and none here.
    """
    from tracekit.capture.session import CaptureOptions
    from tracekit.invoking_user import chosen_user

    options = CaptureOptions(
        command=tuple(command),
        user=chosen_user(user),
        is_stdout_ours=quiet,
        duration_s=_capture_seconds(duration),
        source=source,
        runs_untraced=untraced,
        compress=compress,
        buffer_kib=memory_mib(buffer, least=1, option="--buffer") << 10,
        names_s=values.seconds(names, option="--names") or 0.0,
        keeping=_keeping(max_size=max_size, rotate=rotate, last=last, slower=slower),
    )
    if remote is not None:
        _refuse_remote(user=user, names=names, source=source, untraced=untraced)
    return _captured(_recorded(device, Path(output), options=options, remote=remote), Path(output))


def _recorded(
    device: Texts, output: Path, *, options: CaptureOptions, remote: str | None
) -> Captured:
    from tracekit.capture.remote import capture_remote
    from tracekit.capture.session import capture as capture_here

    run = partial(capture_remote, remote) if remote is not None else capture_here
    devices = list(values.texts(device))
    if options.command:
        return run(devices, output=output, options=options)
    # A command has the terminal for itself.
    with stage_progress() as show:
        show("capturing until Ctrl-C or the end of --duration")
        watched = replace(options, on_line=show if sys.stderr.isatty() else None)
        return run(devices, output=output, options=watched)


REMOTE_TAKES = {"source": "tracefs-blk", "names": "10s"}
"""Values that go with --remote: what it does, and defaults."""


def _refuse_remote(**given: Any) -> None:
    why = {
        "source": "the other host has the kernel's tracer and nothing else is installed there",
        "user": "the command runs as who ssh logs in as",
        "untraced": "a command is run once on another host",
        "names": "files of another host are not listed",
    }
    for name, value in given.items():
        if value and value != REMOTE_TAKES.get(name):
            raise UsageError(f"--{name} does not go with --remote", hint=why[name])


def _keeping(
    *, max_size: Size, rotate: Size, last: Duration | None, slower: Duration | None
) -> Keeping:
    from tracekit.capture.pieces import Keeping

    rotate_bytes, rotate_s, most_bytes = math.inf, math.inf, math.inf
    if rotate:
        try:
            rotate_s = parse_duration(str(rotate), option="--rotate") / 1e9
        except UsageError:
            rotate_bytes = values.size_bytes(rotate, option="--rotate")
    if max_size:
        most_bytes = values.size_bytes(max_size, option="--max-size")
    if rotate and last is not None:
        raise UsageError("--rotate and --last were both given", hint="choose one of the two")
    if slower is not None and last is None:
        raise UsageError("--slower writes what --last keeps", hint="give --last, such as 10min")
    slow_ns = None if slower is None else values.duration_ns(slower, option="--slower")
    last_s = values.seconds(last, option="--last")
    return Keeping(rotate_bytes, rotate_s, last_s, slow_ns, most_bytes)


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
        "lost_in_pieces": kept.lost_in_pieces,
        "foreign_bytes": kept.foreign_bytes,
        "missed_at_most": kept.missed_at_most,
        "duration_ns": round(captured.duration_s * 1e9),
        "overhead": captured.overhead,
    }
    notes = tuple(captured.notes)
    if kept.missed_at_most:
        notes += (
            f"up to {kept.missed_at_most:,} events were not seen: the kernel ran no BPF program"
            " for them; parse reports how many completions are missing",
        )
    if kept.whole_ns is not None:
        notes += (
            f"all is recorded of the first {kept.whole_ns / 1e9:,.3f} s; behind that records of"
            " some CPUs found no space",
        )
    return Capture(
        output,
        summary,
        notes,
        tuple(kept.disks_dropped),
        captured.exit_status,
        captured.stopped_by,
        captured.failure,
        captured.runs_on,
    )


@dataclass(frozen=True)
class Recovery:
    """What killed captures left, written now."""

    captures: tuple[Path, ...]
    notes: tuple[str, ...]
    failures: tuple[TracekitError, ...]
    """Why some could not be finished; these keep what they have."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """Where the captures are, and what was done."""
        return {
            "captures": [str(path) for path in self.captures],
            "notes": list(self.notes),
            "failures": list(map(str, self.failures)),
        }

    def check(self) -> None:
        """Raise why one could not be finished; PartialError where others were."""
        if not self.failures:
            return
        if len(self.failures) == 1 and not self.captures:
            raise self.failures[0]
        hint = next((one.hint for one in self.failures if one.hint), "")
        raise PartialError(*map(str, self.failures), hint=hint)


def recover(folders: Texts = (), output: PathLike | None = None) -> Recovery:
    """Finish captures that were killed, or had no space, and give back what they left changed.

    Without `folders`, such as NAME.unfinished, all of this machine; `output` is for one elsewhere.
    """
    from tracekit.capture.recovery import recover as run_recovery

    chosen = [Path(folder) for folder in values.texts(folders)]
    found, notes, failures = run_recovery(chosen, values.maybe_path(output))
    outputs = tuple(one.output for one in found)
    return Recovery(outputs, (*notes, *map(str, found)), tuple(failures))


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
    failure: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> Mapping[str, Any]:
        """What was captured."""
        return _kept(self.trace.folder, CAPTURED)

    def check(self) -> None:
        """Raise PartialError when not all is recorded, or the command was ended, or failed."""
        if self.failure:
            raise PartialError(
                f"{self.trace.path}: recording ended early, all until then is kept: {self.failure}",
                hint="the command ran on; free some space, or choose an --output elsewhere",
                exit_code=_code_of(self.exit_status) or 3,
            )
        status = (self.exit_status or 0) if self.stopped_by else self.exit_status
        check_command(self.trace.path, status, stopped_by=self.stopped_by)


def capture_files(
    command: Sequence[str],
    output: PathLike,
    *,
    user: str | int | None = None,
    source: choices.CaptureSource | None = None,
    below: PathLike | None = None,
    hash_names: bool = False,
    untraced: bool = False,
    force: bool = False,
    quiet: bool = False,
) -> FileCapture:
    """Record the file operations of a command and its children into a trace.

    `source` is strace, for any user, or bpf, for root, which costs the command less.
    """
    from tracekit.capture.files import FileOptions
    from tracekit.capture.files import capture_files as run_capture
    from tracekit.capture.recovery import salvage
    from tracekit.invoking_user import chosen_user

    options = FileOptions(
        command=tuple(command),
        source=source,
        user=chosen_user(user),
        below=values.maybe_path(below),
        hashes_names=hash_names,
        is_stdout_ours=quiet,
        runs_untraced=untraced,
        overwrite=force,
    )
    notes = salvage(Path(output))
    found = run_capture(Path(output), options=options)
    trace = Trace(output)
    return FileCapture(
        trace,
        found.duration_s,
        found.untraced_s,
        found.exit_status,
        found.done.stopped_by,
        found.done.failure,
        tuple(notes),
    )


def run(
    source: Sources,
    output: PathLike | None = None,
    *,
    layout: PathLike | None = None,
    force: bool = False,
    base: str = "trace",
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
        capacities_bytes=values.capacities(capacity),
        replay_seconds=values.seconds(replay_duration, option="--replay-duration") or 0.0,
    )
    inputs = paths_of(source)
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
        "rows": [{"what": row.what, "text": row.text} for row in found.rows],
        "steps": [vars(step) for step in found.steps],
        "unfinished": found.unfinished,
    }
    return results.Run(Trace(found.trace, temporary=holder), summary)


def _ignore(_step: object) -> None:
    """Pass over what a stage did."""

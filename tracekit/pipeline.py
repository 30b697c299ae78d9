"""The whole pipeline on one capture: calls the stages in turn; they do not know of each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from tracekit.analyze import analyze
from tracekit.arrow import ints, read_batches
from tracekit.asked import with_words
from tracekit.choices import BenchPace, RunReplay, check_choice
from tracekit.classify import ClassifyOptions, classify
from tracekit.errors import TracekitError, UsageError, foreign_error
from tracekit.free_space import Need, check_rooms, check_target_folder
from tracekit.locks import folder_lock
from tracekit.metadata import Record
from tracekit.model.answer import AnswerRow
from tracekit.model.buffer import BufferOptions, simulate_buffer
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.model.service_times import TRACED
from tracekit.plans.block_plan import RECORD
from tracekit.readers.blktrace import ParseOptions, parse
from tracekit.readers.files import default_output
from tracekit.replay.completions import RECORD as COMPLETION
from tracekit.replay.completions import ROW_BYTES
from tracekit.replay.player import PlayerOptions, Schedule
from tracekit.replay.run import ReplayOptions, repeats, replay
from tracekit.store import INFO_NAME, TraceFolder, write_json
from tracekit.sweep.run import Swept
from tracekit.sweep.summary import describe, headline
from tracekit.workload.generate import folder_bytes, write_folder
from tracekit.workload.model import Profile
from tracekit.workload.requests import (
    FEWER,
    FREE_BYTES,
    Extent,
    check_size,
    filled_file,
    target_need,
)

DEFAULT_REPLAY_SECONDS = 5.0


@dataclass(frozen=True)
class PipelineOptions:
    """What the user chose; the defaults are those of the command."""

    layout: Path | None = None
    overwrite: bool = False
    base: str = TRACED
    nvm: str = "dax-pcm"
    capacities_bytes: tuple[int, ...] = ()
    replay: str = "file"  # of RunReplay
    replay_seconds: float = DEFAULT_REPLAY_SECONDS  # of the trace, from its start; 0 is all

    def __post_init__(self) -> None:
        """Reject what cannot be, before any stage runs."""
        check_choice(self.replay, RunReplay, option="--replay")
        if not 0 <= self.replay_seconds < 1e9:
            raise UsageError(f"--replay-duration {self.replay_seconds}: not a length of time")


@dataclass(frozen=True)
class Step:
    """One stage that ran: how long it took and, in a few words, what it did."""

    stage: str
    elapsed_ns: int
    note: str


@dataclass
class Run:
    """What came of a run; `unfinished` says in words which parts are not complete."""

    trace: Path
    report: Path
    headline: list[str] = field(default_factory=list)
    rows: list[AnswerRow] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)


Stage = Callable[[TraceFolder, PipelineOptions, Run], str]


def run(
    inputs: Sequence[Path],
    output: Path | None,
    *,
    options: PipelineOptions,
    on_stage: Callable[[str], None] = lambda _stage: None,
    on_step: Callable[[Step], None] = lambda _step: None,
) -> Run:
    """Take captures, or one trace folder, through all stages to a report.

    `on_stage` hears the name of a stage that begins, `on_step` what became of it. A failed stage
    raises its error with the stage's name; what the stages before it made is kept. Only a failed
    replay does not end the run: the report says that it is missing, and so does `unfinished`.
    """
    result = Run(Path(), Path())
    with _stage("parse", result, on_stage, on_step) as notes:
        folder = _open(inputs, output, options, notes)
    result.trace, result.report = folder.path, folder.path / "report.html"
    with folder_lock(folder.path):
        folder = TraceFolder(folder.path)  # who had the lock may have changed it
        for name, work in MEMORY_STAGES if folder.has("memory_accesses") else STAGES:
            if name == "replay" and options.replay == "none":
                continue
            try:
                with _stage(name, result, on_stage, on_step) as notes:
                    notes.append(work(folder, options, result))
            except TracekitError as error:
                if name != "replay":
                    error.hint = f"{error.hint or 'mend that'}; what was done is in {folder.path}"
                    raise
                result.unfinished.append(str(error))
    return result


@contextmanager
def _stage(
    name: str, result: Run, on_stage: Callable[[str], None], on_step: Callable[[Step], None]
) -> Iterator[list[str]]:
    """Time a stage, note what it did, and give its name to its errors."""
    on_stage(name)
    begin_ns = time.monotonic_ns()
    notes: list[str] = []
    try:
        yield notes
    except TracekitError as error:
        raise type(error)(*f"{name}: {error}".split("\n"), hint=error.hint) from error
    except Exception as error:
        known = foreign_error(error)
        if known is None:
            raise
        raise type(known)(f"{name}: {known}", hint=known.hint) from error
    step = Step(name, time.monotonic_ns() - begin_ns, ", ".join(filter(None, notes)))
    result.steps.append(step)
    on_step(step)


def _open(
    inputs: Sequence[Path], output: Path | None, options: PipelineOptions, notes: list[str]
) -> TraceFolder:
    """Open the trace folder that was given, or parse the captures into a new one."""
    if any((path / INFO_NAME).is_file() for path in inputs):
        if len(inputs) > 1:
            raise UsageError("a trace folder stands alone", hint="run each by itself")
        if output is not None:
            raise UsageError(
                f"{inputs[0]} is a trace folder, its results stay in it", hint="leave --output out"
            )
        notes.append("a trace folder: nothing to parse")
        return TraceFolder(inputs[0])
    settings = ParseOptions(layout_file=options.layout, overwrite=options.overwrite)
    with with_words("parse", {"layout": options.layout}):
        folder, _ = parse(inputs, output or default_output(inputs), options=settings)
    notes.append(f"{folder.info.count('requests'):,} requests")
    return folder


def _classify(folder: TraceFolder, options: PipelineOptions, _result: Run) -> str:
    known: Any = folder.content.get("classification")
    if known and options.layout is None:
        roles, note = known["requests"], "as classified before: "
    else:
        with with_words("classify", {"layout": options.layout}):
            changes = classify(folder, ClassifyOptions(layout_file=options.layout))
        roles, note = changes["classification"]["requests"], ""
    return note + ", ".join(f"{role} {count:,}" for role, count in roles.items() if count)


def _analyze(folder: TraceFolder, _options: PipelineOptions, result: Run) -> str:
    analysis = analyze(folder)
    for failure in analysis.failures:
        result.unfinished.append(
            f"analyze: {failure.name} fails for {failure.failing_count:,} rows: {failure.question}"
        )
    return f"{len(analysis.findings)} tables"


def _recommend(folder: TraceFolder, options: PipelineOptions, result: Run) -> str:
    chosen = RecommendOptions(options.base, options.nvm, options.capacities_bytes)
    capacities = [f"{size}B" for size in options.capacities_bytes] or None
    given = {"base": options.base, "nvm": options.nvm, "capacity": capacities}
    with with_words("recommend", given):
        advice = recommend(folder, chosen)
    result.headline, result.rows = list(advice.headline), advice.rows
    return f"{advice.base_profile} and {advice.nvm_profile}"


def _replay(folder: TraceFolder, options: PipelineOptions, result: Run) -> str:
    limit = _requests_within(folder, options.replay_seconds)
    engine = "null" if options.replay == "null" else "auto"
    summary, is_partial = replay(
        folder, ReplayOptions(limit=limit, player=PlayerOptions(engine=engine))
    )
    counts = summary["counts"]
    if is_partial:
        result.unfinished.append(
            f"replay: {summary['outcome']}, {counts['failed']:,} requests failed"
        )
    total = folder.info.count("requests")
    target = "no target" if engine == "null" else "a temporary file"
    return (
        f"{counts['done']:,} of {total:,} requests, the first "
        f"{summary['plan']['duration_ns'] / 1e9:.1f} s, by {summary['engine']['used']} on {target}"
    )


def _requests_within(folder: TraceFolder, seconds: float) -> int | None:
    """Return how many requests the first seconds of the trace hold, at least 1; None for all."""
    if seconds == 0:
        return None
    end_ns = round(seconds * 1e9)
    count = 0
    for batch in read_batches(folder.require("requests", made_by="parse"), ("queue_ns",)):
        within = int((ints(batch.column(0)) < end_ns).sum())
        count += within
        if within != batch.num_rows:
            break
    return max(count, 1)


def _report(folder: TraceFolder, _options: PipelineOptions, result: Run) -> str:
    _write_report(folder, result.report)
    return f"{result.report.stat().st_size / 1e6:.1f} MB"


def _write_report(folder: TraceFolder, path: Path) -> None:
    # Its figures take seconds to load, which a sweep or bench without a report need not.
    from tracekit.report.page import report

    report(folder, path)


def _buffer(folder: TraceFolder, _options: PipelineOptions, result: Run) -> str:
    answer = simulate_buffer(folder, BufferOptions())
    result.headline = list(answer.headline)
    return f"{answer.memory_reads + answer.memory_writes:,} accesses of the memory"


STAGES: tuple[tuple[str, Stage], ...] = (
    ("classify", _classify),
    ("analyze", _analyze),
    ("recommend", _recommend),
    ("replay", _replay),
    ("report", _report),
)
MEMORY_STAGES: tuple[tuple[str, Stage], ...] = (("simulate buffer", _buffer), ("report", _report))
"""Of a trace of memory accesses, which has no requests."""


@dataclass(frozen=True)
class BenchOptions:
    """On what and how the profile is run."""

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
        """Reject what cannot be, before anything is made."""
        if self.pace is not None:
            check_choice(self.pace, BenchPace, option="--pace")
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
    options: BenchOptions,
    on_rows: Callable[[int], None] = lambda _rows: None,
) -> Result:
    """Run the profile's requests on a target; the trace folder `output` has all that came of it.

    Without a target a file is made beside the folder, filled, and removed afterwards. Raise
    UsageError for a target that is smaller than the profile's, InputError for one that the disk
    has no free space for, both before anything is made.
    """
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
    with folder_lock(folder.path):
        with _target(profile, folder, options) as player:
            for run in runs:
                summary, is_partial = replay(folder, replace(run, player=player))
                result.summaries.append(summary)
                result.is_partial |= is_partial
        if options.with_report:
            classify(folder, ClassifyOptions())
            analyze(folder)
            result.report = folder.path / "report.html"
            _write_report(folder, result.report)
    return result


def _check_room(profile: Profile, output: Path, *, extent: Extent, options: BenchOptions) -> None:
    """Raise when a target that is there is too small, or a disk for what is to be made on it."""
    if options.target is not None and options.moves_data:
        check_target_folder(options.target)
    needs = [_folder_need(profile, output, extent=extent, repeats=options.repeat)]
    if options.moves_data and not (path := _path(output, options)).exists():
        needs = [target_need(path, profile.target_bytes), *needs]
    elif options.target is not None:
        check_size(profile, options.target)
    check_rooms(needs, spare_bytes=FREE_BYTES)


def _folder_need(profile: Profile, output: Path, *, extent: Extent, repeats: int) -> Need:
    """Return what the trace folder takes at most, with the plans and results of all repeats."""
    kept_bytes = repeats * (RECORD.itemsize + ROW_BYTES) + COMPLETION.itemsize
    size_bytes = folder_bytes(profile, extent) + kept_bytes * extent.expected_requests(profile)
    return Need(output, size_bytes, FEWER, is_estimate=True)


def _settings(profile: Profile, options: BenchOptions) -> ReplayOptions:
    """Return the options of the replay: the profile's pace, unless another one is asked for."""
    pace = options.pace or profile.pace
    depth = options.depth or (profile.depth if pace == "fast" else None)
    player = PlayerOptions(
        engine=options.engine,
        schedule=Schedule("fast" if pace == "fast" else "trace"),
        speed=options.speed,
        depth=depth,
    )
    return ReplayOptions(player=player, devices=() if options.device is None else (options.device,))


@contextmanager
def _target(
    profile: Profile, folder: TraceFolder, options: BenchOptions
) -> Iterator[PlayerOptions]:
    """Yield the player's options with the target, which is made if there is none."""
    player = _settings(profile, options).player
    if not options.moves_data:
        yield player
        return
    player = replace(player, direct="auto" if profile.is_direct else "off")
    path = _path(folder.path, options)
    if path.exists():
        yield replace(player, target=(f"default={path}",), write_to=options.write_to)
        return
    with filled_file(path, profile.target_bytes, keep=options.keep) as made:
        confirmed = (str(made.resolve()),)
        yield replace(player, target=(f"default={made}",), write_to=confirmed)


def _path(output: Path, options: BenchOptions) -> Path:
    return options.target or output.with_name(f"{output.name}.target")


SWEEP_ANSWER = "files/sweep.json"


class SweepAnswer(Record):
    """The content of files/sweep.json; `asked` are the command lines of the folder so far."""

    headline: list[str]
    asked: list[list[str]]


def finish_sweep(swept: Swept, asked: Sequence[str], *, with_report: bool) -> dict[str, Any]:
    """Write what was found and the command lines of the folder so far; write the report.

    Return what was found.
    """
    described = describe(swept)
    if not swept.has_results:
        return described
    folder = swept.folder
    found = folder.result(SWEEP_ANSWER, SweepAnswer, hint="remove the file")
    before = found.asked if found else []
    lines = before if list(asked) in before else [*before, list(asked)]
    answer = SweepAnswer(headline=headline(folder, described), asked=lines)
    write_json(folder.file(SWEEP_ANSWER), msgspec.to_builtins(answer))
    if with_report:
        _write_report(folder, folder.file("report.html"))
    return described

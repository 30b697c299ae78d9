"""The whole pipeline on one capture: calls the stages in turn; they do not know of each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError, UsageError, foreign_error
from tracekit.store import INFO_NAME, TraceFolder

REPLAYS = ("file", "null", "none")
DEFAULT_REPLAY_SECONDS = 5.0


@dataclass(frozen=True)
class Options:
    """What the user chose; the defaults are those of the command."""

    layout: Path | None = None
    overwrite: bool = False
    base: str | None = None  # device profiles; None takes the default of `recommend`
    nvm: str | None = None
    capacities_bytes: tuple[int, ...] = ()
    replay: str = "file"  # one of REPLAYS
    replay_seconds: float = DEFAULT_REPLAY_SECONDS  # of the trace, from its start; 0 is all

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any stage runs."""
        if self.replay not in REPLAYS:
            raise UsageError(f"--replay {self.replay}: not one of {', '.join(REPLAYS)}")
        if not 0 <= self.replay_seconds < 1e9:
            raise UsageError(f"--replay-seconds {self.replay_seconds}: not a number of seconds")


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
    steps: list[Step] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)


OnStage = Callable[[str], None]
Stage = Callable[[TraceFolder, Options, Run], str]


def run(
    inputs: Sequence[Path],
    output: Path | None,
    *,
    options: Options,
    on_stage: OnStage = lambda _stage: None,
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
    for name, work in STAGES:
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
    name: str, result: Run, on_stage: OnStage, on_step: Callable[[Step], None]
) -> Iterator[list[str]]:
    """Time a stage, note what it did, and give its name to its errors."""
    on_stage(name)
    begin_ns = time.monotonic_ns()
    notes: list[str] = []
    try:
        yield notes
    except TracekitError as error:
        raise type(error)(f"{name}: {error}", hint=error.hint) from error
    except Exception as error:
        known = foreign_error(error)
        if known is None:
            raise
        raise type(known)(f"{name}: {known}", hint=known.hint) from error
    step = Step(name, time.monotonic_ns() - begin_ns, ", ".join(filter(None, notes)))
    result.steps.append(step)
    on_step(step)


def _open(
    inputs: Sequence[Path], output: Path | None, options: Options, notes: list[str]
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
    from tracekit.formats.inputs import default_output
    from tracekit.parse import Options as ParseOptions
    from tracekit.parse import parse

    settings = ParseOptions(layout_file=options.layout, overwrite=options.overwrite)
    folder, _ = parse(inputs, output or default_output(inputs), options=settings)
    notes.append(f"{folder.info['counts']['requests']:,} requests")
    return folder


def _classify(folder: TraceFolder, options: Options, _result: Run) -> str:
    from tracekit.classify import Options as ClassifyOptions
    from tracekit.classify import classify

    changes = classify(folder, ClassifyOptions(layout_file=options.layout))
    roles = changes["classification"]["requests"]
    return ", ".join(f"{role} {count:,}" for role, count in roles.items() if count)


def _analyze(folder: TraceFolder, _options: Options, result: Run) -> str:
    from tracekit.analyze import analyze

    analysis = analyze(folder)
    for failure in analysis.failures:
        result.unfinished.append(
            f"analyze: {failure.name} fails for {failure.failing_count:,} rows: {failure.question}"
        )
    return f"{len(analysis.findings)} tables"


def _recommend(folder: TraceFolder, options: Options, result: Run) -> str:
    from tracekit.recommend.stage import Options as RecommendOptions
    from tracekit.recommend.stage import recommend

    chosen = {"base": options.base, "nvm": options.nvm}
    settings: dict[str, Any] = {key: name for key, name in chosen.items() if name is not None}
    advice = recommend(
        folder, RecommendOptions(capacities_bytes=options.capacities_bytes, **settings)
    )
    result.headline = list(advice["headline"])
    return f"{advice['base_profile']} and {advice['nvm_profile']}"


def _replay(folder: TraceFolder, options: Options, result: Run) -> str:
    from tracekit.replay.stage import Options as ReplayOptions
    from tracekit.replay.stage import replay

    limit = _requests_within(folder, options.replay_seconds)
    engine = "null" if options.replay == "null" else "auto"
    summary, is_partial = replay(folder, ReplayOptions(limit=limit, engine=engine))
    counts = summary["counts"]
    if is_partial:
        result.unfinished.append(
            f"replay: {summary['outcome']}, {counts['failed']:,} requests failed"
        )
    total = folder.info["counts"]["requests"]
    target = "no target" if engine == "null" else "a file made for the run"
    return (
        f"{counts['done']:,} of {total:,} requests, the first "
        f"{summary['plan']['duration_ns'] / 1e9:.1f} s, by {summary['engine']['used']} on {target}"
    )


def _requests_within(folder: TraceFolder, seconds: float) -> int | None:
    """Return how many requests the first seconds of the trace hold, at least 1; None for all."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if seconds == 0:
        return None
    end_ns = round(seconds * 1e9)
    count = 0
    file = pq.ParquetFile(folder.require("requests", made_by="parse"))
    for batch in file.iter_batches(columns=["queue_ns"]):
        within = pc.sum(pc.fill_null(pc.less(batch.column(0), end_ns), fill_value=True)).as_py()
        count += within or 0
        if within != batch.num_rows:
            break
    return max(count, 1)


def _report(folder: TraceFolder, _options: Options, result: Run) -> str:
    from tracekit.report.page import report

    report(folder, result.report)
    return f"{result.report.stat().st_size / 1e6:.1f} MB"


STAGES: tuple[tuple[str, Stage], ...] = (
    ("classify", _classify),
    ("analyze", _analyze),
    ("recommend", _recommend),
    ("replay", _replay),
    ("report", _report),
)

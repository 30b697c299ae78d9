"""A trace folder with all that can be asked of it: the stages as methods, tables as relations."""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import choices
from tracekit.api import results, values
from tracekit.api.results import Replay
from tracekit.api.simulate import Simulate
from tracekit.api.tables import Tables, reads, writes
from tracekit.api.values import (
    Duration,
    PathLike,
    Size,
    Sizes,
    Texts,
    time_text,
)
from tracekit.asked import asking, keeps_words, runs_words
from tracekit.errors import TracekitError, UsageError
from tracekit.progress import row_progress, stage_progress, step_progress
from tracekit.units import memory_mib

if TYPE_CHECKING:
    from tracekit.repeats import Turn
    from tracekit.store import TraceFolder
    from tracekit.workload.questions import PlacementAnswer

LATEST = "latest"


class Trace(Tables):
    """A trace: its tables, lazily, and the stages as methods.

    Options have the names, units and defaults of the commands: sizes are bytes or a text such as
    "16MiB", times seconds or a text such as "500ms", and what a command takes several times is a
    list. What a stage finds is kept in the trace folder, `path`. A trace that was made without
    `output` is in a temporary folder, which goes away with the last object that refers to it.
    """

    @keeps_words
    @writes
    def classify(
        self,
        *,
        layout: PathLike | None = None,
        role: Texts | None = None,
        hot: float = 0.5,
        hot_factor: float = 2.0,
        window: Duration | None = None,
        memory: Size = "256MiB",
        names: PathLike | None = None,
        logs: PathLike | None = None,
    ) -> results.Classification:
        """Give each request its role (fs, journal, swap, other) and each block its temperature."""
        from tracekit.classify import (
            ClassifyOptions,
            Override,
            TemperatureRule,
            classify,
            window_from_seconds,
        )

        options = ClassifyOptions(
            layout_file=values.maybe_path(layout),
            overrides=tuple(Override.parse(text) for text in values.texts(role)),
            rule=TemperatureRule(hot, hot_factor),
            window_ns=window_from_seconds(values.seconds(window, option="--window")),
            budget_bytes=values.size_bytes(memory, option="--memory"),
            names_file=values.maybe_path(names),
            log_rules=values.maybe_path(logs),
        )
        with row_progress("classify") as on_rows:
            summary = classify(self.folder, options, on_rows=on_rows)
        return results.Classification(self, summary)

    @keeps_words
    @writes
    def analyze(
        self,
        *,
        only: Texts | None = None,
        param: Texts | Mapping[str, int] | None = None,
        memory: Size = "512MiB",
    ) -> results.Analysis:
        """Run the SQL analyses and write one table each to the trace's findings."""
        from tracekit.analyze import analyze
        from tracekit.arrow import read_whole

        given = param if isinstance(param, Mapping) else dict(map(_parameter, values.texts(param)))
        with step_progress("analyze") as on_start:
            found = analyze(
                self.folder,
                only=values.texts(only),
                parameters=given,
                memory_mib=memory_mib(memory, least=256),
                on_start=on_start,
            )
        summary = {
            "trace": str(self.path),
            "findings": [vars(finding) for finding in found.findings],
            "failures": [vars(failure) for failure in found.failures],
            "left_out": list(found.left_out),
        }
        made = {finding.table for finding in found.findings}
        for name in ("totals", "latency"):
            file = self.folder.table(f"findings/{name}")
            summary[name] = read_whole(file).to_pylist() if name in made else []
        return results.Analysis(self, summary)

    @keeps_words
    @writes
    def recommend(
        self,
        *,
        base: str = "trace",
        nvm: str = "dax-pcm",
        capacity: Sizes = "",
        max_capacity: Size = "",
        coverage: choices.Coverage = "hottest",
        level: choices.Level = "issued",
        queueing: choices.Queueing = "serial",
        profiles: PathLike | None = None,
        unit: str = "",
        files: PathLike | None = None,
        script: PathLike | None = None,
        force: bool = False,
    ) -> results.Recommendation:
        """Say what to place on NVM: file system, journal, swap or parts of them, at each capacity.

        The first of the capacities is the headline's; by default a tenth of what was touched.
        `script` is a file for the commands that carry it out, which `force` replaces.
        """
        from tracekit.model.answer import RESULT
        from tracekit.model.recommend import RecommendOptions, recommend

        if script is not None and os.path.exists(script) and not force:
            raise UsageError(
                f"--script {os.fspath(script)}: exists already", hint="name another or pass --force"
            )
        choices.check_choice(coverage, choices.Coverage, option="--coverage")
        choices.check_choice(level, choices.Level, option="--level")
        choices.check_choice(queueing, choices.Queueing, option="--queueing")
        options = values.chosen(
            RecommendOptions,
            locals(),
            capacities_bytes=values.capacities(capacity),
            max_capacity_bytes=values.maybe_capacity(max_capacity, option="--max-capacity"),
        )
        with row_progress("recommend") as on_rows:
            recommend(self.folder, options, on_rows=on_rows)
        found = results.Recommendation(self, self.kept(RESULT), values.maybe_path(script))
        if found.file is not None:
            from tracekit.store import beside

            with beside(found.file, overwrite=force) as part:
                part.write_text(found.script)
        return found

    @property
    def simulate(self) -> Simulate:
        """The what-if questions: `t.simulate.cache()`, `tiers`, `buffer`, and so on."""
        return Simulate(self)

    @keeps_words
    def replay(
        self,
        target: Texts | None = None,
        *,
        engine: choices.Engine = "auto",
        device: Texts | None = None,
        profiles: PathLike | None = None,
        pace: choices.Pace = "trace",
        speed: float | str = "1",
        late: choices.LatePolicy = "catch-up",
        late_limit: Duration | None = None,
        max_idle: Duration | None = None,
        start: Duration | None = None,
        end: Duration | None = None,
        placement: Size | None = None,
        resume: str | None = None,
        budget: Texts | None = None,
        certify: Texts | None = None,
        depth: int | None = None,
        threads: int = 32,
        submitters: int = 1,
        sqpoll: str | None = None,
        iopoll: bool = False,
        priority: Texts | None = None,
        level: choices.Level = "queued",
        limit: int | None = None,
        direct: choices.Direct = "auto",
        write_to: Texts | None = None,
        overwrite_signature: Texts | None = None,
        out_of_range: choices.OutOfRange = "refuse",
        overlaps: choices.Overlaps = "allow",
        expand: bool = False,
        no_space_check: bool = False,
        observe: bool = False,
        lead: str = "auto",
        name: str = "latest",
        force: bool = False,
        keep: bool = False,
        dry_run: bool = False,
    ) -> Replay:
        """Replay on files, block or DAX devices; `is_partial` says if it was cut short."""
        return self._replay(locals())

    @writes
    def _replay(self, given: Mapping[str, Any], turn: Turn | None = None) -> Replay:
        """Replay with all options of `replay`."""
        from tracekit.observe import Observer
        from tracekit.replay.player import PlayerOptions, Schedule
        from tracekit.replay.run import ReplayOptions, replay

        late_limit, max_idle, start, end = (
            time_text(given[name]) for name in ("late_limit", "max_idle", "start", "end")
        )
        schedule = Schedule(
            given["pace"],
            given["late"],
            late_limit=late_limit,
            max_idle=max_idle,
            start=start,
            end=end,
            lead=given["lead"],
        )
        options = values.chosen(
            ReplayOptions,
            given,
            player=values.chosen(PlayerOptions, given, schedule=schedule),
            devices=values.texts(given["device"]),
            is_dry_run=given["dry_run"],
            overwrite=given["force"],
            turn=turn,
        )
        with row_progress("plan") as on_rows:
            summary, is_partial = replay(
                self.folder,
                options,
                on_rows=on_rows,
                observer=Observer() if given["observe"] else None,
            )
        return Replay(self, summary, is_partial)

    def replays(
        self, *, repeat: int, run: Mapping[str, Mapping[str, Any]] | None = None, **options: Any
    ) -> Iterator[Replay]:
        """Replay several times, as NAME.1, NAME.2 and so on; `compare` reports their spread.

        Yields each when it has ended. The options are those of `replay`. `run` has options of its
        own for each of several names; these take turns, in the order ABBA BAAB and so on, so that
        `compare` can tell them from a drift of the machine.
        """
        from tracekit.repeats import Turn, in_turn

        if repeat < 1:
            raise UsageError(f"--repeat {repeat}: not a number of repeats")
        if run is not None and (len(run) < 2 or "name" in options):
            raise UsageError("--run takes the place of --name, and there are two or more of it")
        given = {**options, "repeat": repeat, "run": runs_words(run or {})}
        runs = run or {options.pop("name", LATEST): {}}
        series, position = str(time.time_ns()), 0
        for number, order in enumerate(in_turn(len(runs), repeat), 1):
            for name in (list(runs)[place] for place in order):
                position += 1
                turn = Turn(series=series, pair=number, position=position) if run else None
                asks = {**options, **runs[name], "name": f"{name}.{number}"}
                asks["force"] = asks.get("force", False) or name == LATEST
                bound = signature(self.replay).bind(**asks)
                bound.apply_defaults()
                with asking(self.replay, given):
                    made = self._replay(bound.arguments, turn)
                yield made

    @keeps_words
    @writes
    def replay_files(
        self,
        files: PathLike,
        *,
        pace: choices.Pace = "trace",
        speed: float | str = "1",
        limit: int | None = None,
        cache: choices.CacheState = "sync",
        no_space_check: bool = False,
        name: str = "latest",
        force: bool = False,
        keep: bool = False,
        dry_run: bool = False,
    ) -> Replay:
        """Replay the file operations of a capture of files in the directory `files`."""
        from tracekit.replay.run import FileReplayOptions, replay_files

        options = values.chosen(
            FileReplayOptions,
            locals(),
            directory=Path(files),
            keeps_files=keep,
            overwrite=force,
            is_dry_run=dry_run,
        )
        summary, is_partial = replay_files(self.folder, options)
        return Replay(self, summary, is_partial)

    @keeps_words
    @writes
    def verify_placement(
        self,
        *,
        placement: Size = "answer",
        target: Texts | None = None,
        engine: choices.VerifyingEngine | None = None,
        write_to: Texts | None = None,
        duration: Duration = "10s",
        repeat: int = 3,
        tolerance: float = 0.05,
        time_tolerance: float = 0.1,
        profiles: PathLike | None = None,
    ) -> results.Verification:
        """Replay base, recommended placement and runner-up, and say whether the prediction held."""
        from tracekit.replay.verify import RESULT, verify
        from tracekit.replay.verify_runs import VerifyOptions

        options = values.chosen(
            VerifyOptions,
            locals(),
            seconds=values.duration_ns(duration, option="--duration") / 1e9,
            repeats=repeat,
            tolerance_ratio=tolerance,
            time_tolerance_ratio=time_tolerance,
            targets=values.texts(target),
            engine=engine or ("auto" if target else "emulated"),
        )
        with step_progress("replay") as on_run:
            verify(self.folder, options, on_run=on_run)
        return results.Verification(self, self.kept(RESULT))

    @keeps_words
    @writes
    def prove(
        self,
        *,
        base: str,
        nvm: str,
        output: PathLike | None = None,
        write_to: Texts | None = None,
        quick: bool = False,
        scale: float = 1.0,
        rounds: int = 3,
        size: Size = "",
        capacity: Size = "",
        placement: Size = "answer",
        duration: Duration = "10s",
        repeat: int = 3,
        tolerance: float = 0.05,
        time_tolerance: float = 0.1,
        profiles: PathLike | None = None,
        force: bool = False,
    ) -> results.Proof:
        """Measure two targets, recommend with their profiles, replay on them, and compare.

        Each of `base` and `nvm` is a file or block device, of which everything is lost, or both are
        device profiles, which are emulated. An interrupted round goes on when it is asked again.
        """
        from tracekit.prove import FOLDER, ProveOptions, prove

        options = values.chosen(
            ProveOptions,
            locals(),
            size_bytes=values.maybe_bytes(size, option="--size"),
            capacity_bytes=values.maybe_capacity(capacity),
            seconds=values.duration_ns(duration, option="--duration") / 1e9,
            repeats=repeat,
            tolerance_ratio=tolerance,
            time_tolerance_ratio=time_tolerance,
            overwrite=force,
        )
        place = self.path / FOLDER if output is None else Path(output)
        with step_progress("prove") as on_step:
            summary = prove(self.folder, options, output=place, on_step=on_step)
        return results.Proof(Trace(place), summary)

    @writes
    def compare(self, *names: str | Replay, gate: str | None = None) -> results.Comparison:
        """Compare latency by role and operation and elapsed time of replays with the first one.

        A name is that of a replay, or one whose repeats are NAME.1, NAME.2 and so on, or `trace`.
        A gate such as `p99=10%,elapsed` says of each whether it is better, worse or the same.
        """
        from msgspec import to_builtins

        from tracekit.compare import compare, read_rows
        from tracekit.gate import parse_replay_gate, replays

        chosen = [one.name if isinstance(one, Replay) else one for one in names]
        wanted = None if gate is None else parse_replay_gate(gate)
        summary = compare(self.folder, chosen)
        rows = read_rows(self.folder)
        if wanted is None:
            return results.Comparison(self, {**summary, "rows": rows})
        first, *others = chosen
        gates = [replays(rows, names=(first, one), wanted=wanted) for one in others]
        return results.Comparison(self, {**summary, "rows": rows, "gates": to_builtins(gates)})

    def check_gate(self, gate: str) -> None:
        """Raise UsageError for a gate that `compare` would refuse."""
        from tracekit.gate import parse_replay_gate

        parse_replay_gate(gate)

    @reads
    def export(
        self,
        output: PathLike,
        *,
        format: choices.ExportFormat,  # noqa: A002 - the word of the option
        force: bool = False,
    ) -> results.Export:
        """Write the requests, as queued, for other tools; the answer names what is left out."""
        from tracekit.writers.export import export

        choices.check_choice(format, choices.ExportFormat, option="--format")
        with row_progress("export") as on_rows:
            summary = export(
                self.folder, format, output=Path(output), overwrite=force, on_rows=on_rows
            )
        return results.Export(self, summary)

    @reads
    def anonymize(self, output: PathLike, *, force: bool = False) -> Trace:
        """Write a trace that can be given away: other places and names, the same answer.

        Of the policies of `simulate.cache` W-TinyLFU alone can differ: its sketch hashes places.
        """
        from tracekit.writers.anonymize import anonymize

        with row_progress("anonymize") as on_rows:
            anonymize(self.folder, Path(output), overwrite=force, on_rows=on_rows)
        return Trace(output)

    @keeps_words
    @writes
    def fit(
        self,
        output: PathLike,
        *,
        processes: int = 8,
        names: bool = False,
        measured: bool = False,
        compare: bool = True,
        seed: int = 0,
        limit: int = 3_000_000,
        force: bool = False,
    ) -> results.Fit:
        """Make a work profile of the trace, without its addresses, and say how well it matches."""
        from tracekit.workload.fit import FitOptions, fit

        options = values.chosen(
            FitOptions,
            locals(),
            keeps_names=names,
            compares=compare,
            overwrite=force,
        )
        with stage_progress() as on_stage:
            summary = fit(
                self.folder,
                Path(output),
                options=options,
                recommend=_placement_answer,
                on_stage=on_stage,
            )
        return results.Fit(self, summary)

    @writes
    def report(self, output: PathLike | None = None) -> results.Report:
        """Write one self-contained HTML file; by default report.html in the trace folder."""
        from tracekit.report.page import report

        found = report(self.folder, Path(output) if output else self.folder.file("report.html"))
        return results.Report(self, found.as_dict())

    def naming(self) -> AbstractContextManager[None]:
        """Let errors in the block name the trace as the user does."""
        return nullcontext()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._temporary is not None:
            raise TracekitError(
                "a temporary trace cannot be pickled: it goes away with this process",
                hint="give the call that makes it an output",
            )
        return (Trace, (self.path,))


def _placement_answer(folder: TraceFolder, capacity_bytes: int) -> PlacementAnswer:
    """Recommend for a copy of a trace, on a disk that is the same for all."""
    from tracekit.store import link, scratch_folder
    from tracekit.workload.questions import PlacementAnswer

    with scratch_folder(folder.path / "asked") as scratch:
        copy = scratch / "trace"
        copy.mkdir()
        for name in ("trace.json", "requests.parquet", "blocks.parquet", "working_set.parquet"):
            if (file := folder.file(name)).exists():
                link(file, copy / name)
        trace = Trace(copy)
        if not trace.folder.has("blocks"):
            trace.classify()
        advice = trace.recommend(base="hdd-7200", capacity=capacity_bytes or "")
        answer, best = advice.answer, advice.summary["best_placement"]
        return PlacementAnswer(
            placement=answer["placement"],
            capacity_bytes=answer["capacity_bytes"],
            gain_ratio=answer["gain_ratio"],
            best_gain_ratio=best["answer"]["gain_ratio"] if best else 0.0,
        )


def temporary_place() -> tuple[Path, Any]:
    """Return a new temporary folder, and the object that it lives as long as."""
    place = tempfile.TemporaryDirectory(prefix="tracekit-", ignore_cleanup_errors=True)
    holder = _Holder()
    weakref.finalize(holder, place.cleanup)
    return Path(place.name), holder


class _Holder:
    """What a temporary folder lives as long as."""


def _parameter(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    try:
        return name, int(number)
    except ValueError:
        raise UsageError(
            f"--param {text}: not a name and a whole number", hint="such as window_count=100"
        ) from None

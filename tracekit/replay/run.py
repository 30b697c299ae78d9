"""Compiles a plan of requests or of file operations, runs it, and keeps the results."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tracekit import store
from tracekit._native.players import (
    KEPT_MARK,
    OWN_FOLDER,
    RESULT,
    Outcome,
    Waiting,
    checked_program,
    run_files,
    run_program,
    waiting_signals,
)
from tracekit.choices import CacheState, Level, Pace, check_choice
from tracekit.devices import Profile, load_profiles
from tracekit.errors import PartialError, UsageError
from tracekit.escapes import shell_word
from tracekit.free_space import check_room, check_target_folder
from tracekit.machine_state import Reading
from tracekit.model.fitted_base import known_profiles
from tracekit.model.service_times import TRACED
from tracekit.repeats import Turn
from tracekit.replay import partial_results
from tracekit.replay.captured import compile_files
from tracekit.replay.certificate import CERTIFICATE, certify
from tracekit.replay.compiler import PlanOptions, PlanReport, compile_plan
from tracekit.replay.completions import RECORD, ROW_BYTES
from tracekit.replay.limits import is_timed, parse_certify
from tracekit.replay.observed import kept_lead
from tracekit.replay.partial_results import (
    FILE_SUMMARY,
    PLAN,
    PROGRAM_SUMMARY,
    RECORDS,
    SUFFIX,
    SUMMARY,
    Reached,
    StartedRun,
)
from tracekit.replay.placed import place_answer
from tracekit.replay.player import EMULATED, NOT_QUEUED, PlayerOptions, device_specs, split_device
from tracekit.replay.routes import DEFAULT, NVM
from tracekit.replay.summary import (
    FileReplaySummary,
    ReplaySummary,
    content_of,
    find_rescued,
    parse_budget,
)
from tracekit.safe_open import copy_regular
from tracekit.store import TraceFolder
from tracekit.tables import ROLES
from tracekit.units import parse_duration

LATEST = "latest"
RESULT_BYTES = RECORD.itemsize + ROW_BYTES
FILE_RESULT_BYTES = RESULT.itemsize + ROW_BYTES
"""What a request, or a file operation, takes while its record is rewritten as Parquet."""
OWN_SUFFIXES = (".parquet", ".json", ".bin", ".html")


def check_name(name: str, *, option: str) -> None:
    """Raise UsageError for what is not the name of results, such as a path."""
    if not name or "/" in name or name.startswith(".") or not name.isprintable():
        raise UsageError(f"{option} {name!r}: not a plain name")


@dataclass(frozen=True, kw_only=True)
class KeepOptions:
    """What both kinds of replay have: how much to replay, and the name of the results."""

    counted = "requests"

    name: str = LATEST
    limit: int | None = None
    overwrite: bool = False
    is_dry_run: bool = False
    asked: tuple[str, ...] | None = None
    """The command line, None when there was none."""

    def __post_init__(self) -> None:
        """Check what the program cannot check."""
        check_name(self.name, option="--name")
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit {self.limit}: not a number of {self.counted}")

    @property
    def replaces(self) -> bool:
        """Whether earlier results of this name are replaced."""
        return self.overwrite or self.name == LATEST


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(KeepOptions):
    """What to replay and what to keep of it; `player` says how, and on which targets."""

    level: str = "queued"
    player: PlayerOptions = field(default_factory=PlayerOptions)
    budget: tuple[str, ...] = ()
    certify: tuple[str, ...] = ()
    resume: str | None = None
    placement: str | None = None
    devices: tuple[str, ...] = ()
    profiles: Path | None = None
    turn: Turn | None = None
    """Its place among replays that take turns."""

    def __post_init__(self) -> None:
        """Check what the program cannot check."""
        super().__post_init__()
        check_choice(self.level, Level, option="--level")
        parse_budget(self.budget)
        limits = parse_certify(self.certify)
        if not self.player.schedule.is_timed and any(map(is_timed, limits)):
            raise UsageError("--certify: there are no times to keep with --pace fast")
        if self.resume is not None:
            check_name(self.resume, option="--resume")
        if self.budget and not self.player.schedule.is_timed:
            raise UsageError("--budget: there are no times to keep with --pace fast")
        if self.resume is not None and self.player.schedule.start is not None:
            raise UsageError(
                f"--resume {self.resume} starts where that replay ended",
                hint="leave --start out",
            )
        if self.player.engine == "null" and self.player.target:
            raise UsageError("the null engine takes no --target")
        if (self.player.engine == EMULATED) != bool(self.devices):
            raise UsageError(
                "the emulated engine and --device need each other",
                hint="for example: --engine emulated --device hdd-7200 --device journal=dax-pcm",
            )

    @property
    def own_labels(self) -> tuple[str, ...]:
        """Roles, devices and parts of devices that have a target of their own."""
        labels = [target.split("=", 1)[0] for target in self.player.target if _has_label(target)]
        labels += [split_device(device)[0] for device in self.devices]
        return tuple(dict.fromkeys(label for label in labels if label not in (DEFAULT, NVM, "")))

    @property
    def has_default(self) -> bool:
        """Whether there is a target for everything else."""
        return any(not _has_label(t) or t.startswith(f"{DEFAULT}=") for t in self.player.target)


def repeats(options: ReplayOptions, count: int) -> list[ReplayOptions]:
    """Return what to run for `count` repeats: NAME alone, or NAME.1, NAME.2 and so on."""
    if count < 1:
        raise UsageError(f"--repeat {count}: not a number of repeats")
    if count == 1:
        return [options]
    return [
        replace(options, name=f"{options.name}.{number}", overwrite=options.replaces)
        for number in range(1, count + 1)
    ]


def _has_label(target: str) -> bool:
    """A target is LABEL=PATH when a word without a slash stands before the first `=`."""
    label, equals, _ = target.partition("=")
    return bool(equals) and "/" not in label


def check_targets(targets: tuple[str, ...], *, has_placement: bool = False) -> None:
    """Raise UsageError for a target of NVM without a placement; the plan knows all other labels."""
    for target in targets:
        if target.startswith(f"{NVM}=") and not has_placement:
            raise UsageError(
                f"--target {target}: there is no role '{NVM}' without a placement",
                hint=f"add --placement answer; roles are {', '.join(ROLES)}",
            )


def check_places(folder: TraceFolder, targets: tuple[str, ...]) -> None:
    """Raise UsageError for targets in one place, or that are files of the trace.

    MissingError for one whose folder is not there.
    """
    for target in targets:
        check_target_folder(target_path(target))
    _refuse_shared(targets)
    _refuse_own_files(folder, targets)


def _refuse_own_files(folder: TraceFolder, targets: tuple[str, ...]) -> None:
    """Raise UsageError for a target that is a file of the trace, by whatever name.

    The program asks for a confirmation, but not even a confirmed replay may destroy its own trace.
    """
    own = {_identity(p.lstat()) for p in folder.path.rglob("*") if p.suffix in OWN_SUFFIXES}
    for target in targets:
        path = target_path(target)
        if path.exists() and _identity(path.stat()) in own:
            raise UsageError(
                f"--target {target}: this is a file of the trace {folder.path} itself",
                hint="choose a target elsewhere",
            )


def _refuse_shared(targets: tuple[str, ...]) -> None:
    """Raise UsageError for two targets in one place: each would overwrite the other's data."""
    seen: dict[Path, str] = {}
    for target in targets:
        place = Path(os.path.realpath(target_path(target)))
        if place in seen:
            raise UsageError(
                f"--target {target}: the same place as --target {seen[place]}",
                hint="give each role a target of its own, or all one without a role",
            )
        seen[place] = target


def target_path(target: str) -> Path:
    """Return the path of PATH or LABEL=PATH."""
    return Path(target.split("=", 1)[1] if _has_label(target) else target)


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


class Observer(Protocol):
    """Runs the program while it watches the devices, and says afterwards what it saw."""

    def run(
        self, plan: Path, summary: Path, *, player: PlayerOptions, arguments: Sequence[str]
    ) -> Outcome:
        """Run the program with these arguments, of which `player` made most."""

    def add_to(self, summary: ReplaySummary, place: Path) -> None:
        """Add what was seen to the summary and to the results in `place`."""


class Unobserved:
    """Runs the program as it is, with the lead that an observed replay on its targets knows."""

    def __init__(self, replays: Path) -> None:
        self._replays, self._lead_from = replays, "none"

    def run(
        self, plan: Path, summary: Path, *, player: PlayerOptions, arguments: Sequence[str]
    ) -> Outcome:
        """Run the program with these arguments and the lead."""
        schedule, lead_ns = player.schedule, player.schedule.lead_ns
        if lead_ns:
            self._lead_from = "given"
        elif lead_ns is None and schedule.is_timed and player.engine not in NOT_QUEUED:
            paths = [str(target_path(target)) for target in player.target]
            found_ns, self._lead_from = kept_lead(self._replays, paths, engine=player.engine)
            arguments = [*arguments, *(["--lead-ns", str(found_ns)] if found_ns else [])]
        return run_program(plan, summary, arguments=arguments)

    def add_to(self, summary: ReplaySummary, _place: Path) -> None:
        """Say where the lead is from."""
        summary.lead_from = self._lead_from


def replay(
    folder: TraceFolder,
    options: ReplayOptions,
    *,
    on_rows: Callable[[int], None] | None = None,
    observer: Observer | None = None,
) -> tuple[dict[str, Any], bool]:
    """Replay the trace and return the summary, and whether only a part was done.

    Keeps the plan, completions and summary in `replays/<name>`; the replay named `latest` is
    replaced without asking. A dry run keeps nothing.
    """
    _check(folder, options)
    replays = folder.subfolder("replays")
    observer = Unobserved(replays) if observer is None or options.is_dry_run else observer
    rescued = partial_results.rescue(replays, {options.name, options.resume or options.name})
    if options.resume is not None:
        content, options = _completed(replays, options, options.resume)
        if content is not None:
            return content, bool(content["counts"]["failed"])
    with _place(replays, options, SUMMARY) as (place, waiting):
        run, player, arguments = _prepare(folder, options, place, on_rows)
        began = Reading()
        with ExitStack() as stack:
            if not options.is_dry_run:
                stack.enter_context(partial_results.keeping(replays / options.name, run))
            told = place / PROGRAM_SUMMARY
            outcome = observer.run(run.plan, told, player=player, arguments=arguments)
            waiting.begin(outcome)
            summary = run.summary(outcome, machine=began.until(Reading()))
            _say_part(waiting, summary, replays / options.name)
            summary.warnings += find_rescued(rescued)
            run.write_results()
            observer.add_to(summary, place)
            if not options.is_dry_run:
                _certify(place, summary, options, folder)
            content = run.write_summary(summary)
            waiting.raises = False
        run.remove_natives(is_resumable=summary.outcome == "interrupted")
    return content, outcome.is_partial


def _say_part(waiting: Waiting, summary: ReplaySummary, path: Path) -> None:
    """Let a signal that waits say that the run it ended is a part, and how to go on."""
    if summary.outcome != "interrupted":
        return
    counts = summary.counts
    done, of = counts.planned - counts.not_reached - counts.unknown, counts.planned
    waiting.stopped = f"interrupted after {done:,} of {of:,} requests: they are kept, in {path}"
    waiting.hint = f"go on with --resume {shell_word(path.name)} and another --name"


def _prepare(
    folder: TraceFolder, options: ReplayOptions, place: Path, on_rows: Callable[[int], None] | None
) -> tuple[StartedRun, PlayerOptions, list[str]]:
    """Make the plan; return the run, the player's options, and the program's arguments."""
    schedule = options.player.schedule
    compiled, reached = _plan(folder, options, place / PLAN, on_rows)
    schedule.check(compiled)
    disk = _disk_of_results(folder, options, place)
    if not options.player.no_space_check:
        hint = "free some, replay a part (--limit, --start and --end), or pass --no-space-check"
        needed_bytes = compiled.requests * RESULT_BYTES + _plan_bytes(place, options)
        check_room(disk, needed_bytes, hint=hint)
    player = _with_targets(folder, options, compiled, disk)
    arguments = player.words(first=reached.next)
    arguments += partial_results.write_done(place, reached.done)
    records = place / RECORDS
    arguments += ["--dry-run"] if options.is_dry_run else ["--completions", str(records)]
    run = StartedRun(
        place / PLAN,
        records,
        asdict(compiled),
        reached.next,
        schedule.start_ns,
        schedule.is_timed,
        _context(options),
        options.budget,
        options.replaces,
    )
    return run, player, arguments


def _check(folder: TraceFolder, options: ReplayOptions) -> None:
    """Raise an error for what can be seen before a plan is made."""
    targets = options.player.target
    check_targets(targets, has_placement=options.placement is not None)
    check_places(folder, targets)
    checked_program()
    folder.require("requests", made_by="parse")
    times = [] if options.player.schedule.pace == "fast" else ["times"]
    folder.require_known(*times, "operations", "page size", what="a replay at this --pace")


def _certify(
    place: Path, summary: ReplaySummary, options: ReplayOptions, trace: TraceFolder
) -> None:
    """Write the certificate of a run that asked for one, and keep its verdict in the summary."""
    if not (limits := parse_certify(options.certify)):
        return
    schedule, window = options.player.schedule, summary.window
    is_part = options.limit or summary.resumed or window.end - window.first < summary.plan.requests
    max_idle_ns = None
    if schedule.max_idle is not None:
        max_idle_ns = parse_duration(schedule.max_idle, option="--max-idle")
    made = certify(
        place, summary, limits=limits, max_idle_ns=max_idle_ns, trace=None if is_part else trace
    )
    store.write_json(place / CERTIFICATE, content_of(made))
    summary.certificate = made.result


def _completed(
    replays: Path, options: ReplayOptions, name: str
) -> tuple[dict[str, Any] | None, ReplayOptions]:
    """Give a run that ended its name; return its summary if nothing is left of it to run.

    Else return the options that run what is left.
    """
    content = partial_results.completed(replays, name)
    if content is not None:
        counts = content["counts"]
        is_left = counts.get("not_reached") or counts.get("unknown")
        if content["outcome"] != "interrupted" or not is_left:
            return content, options
        options = replace(options, resume=partial_results.base_name(name))
    _refuse_itself(options)
    return None, options


def _refuse_itself(options: ReplayOptions) -> None:
    if options.resume in (options.name, f"{options.name}{SUFFIX}"):
        raise UsageError(
            f"--resume {options.resume}: its own results would be replaced",
            hint="choose another --name for what is left",
        )


@contextmanager
def _place(replays: Path, options: KeepOptions, marker: str) -> Iterator[tuple[Path, Waiting]]:
    """Yield the folder that will be `replays/<name>`, or in a dry run one that goes away.

    The signals that come with it wait, once that has begun, until the folder has its name.
    """
    if options.is_dry_run:
        with tempfile.TemporaryDirectory(prefix="tracekit-") as place:
            yield Path(place), Waiting()
        return
    path = replays / options.name
    if path.exists() and not options.replaces:
        raise UsageError(f"{path} exists already", hint="choose another --name or pass --force")
    mark = path / partial_results.MARK
    mark.unlink(missing_ok=True)
    with waiting_signals(
        f"stopped after the end of the run: its results are whole, in {path}"
    ) as waiting:
        with store.new_folder(path, overwrite=options.replaces, marker=marker) as made:
            yield made, waiting
        mark.unlink(missing_ok=True)


def _plan(
    folder: TraceFolder, options: ReplayOptions, plan: Path, on_rows: Callable[[int], None] | None
) -> tuple[PlanReport, Reached]:
    """Make the plan, or take that of the replay to resume; return how much of it is done."""
    if options.resume is None:
        placed = None if options.placement is None else place_answer(folder, options.placement)
        chosen = PlanOptions(options.level, options.own_labels, options.limit, placed)
        return compile_plan(folder, plan, options=chosen, on_rows=on_rows), Reached(0)
    before, compiled, reached = partial_results.resumed(folder.subfolder("replays"), options.resume)
    copy_regular(before / PLAN, plan)
    return compiled, reached


def _disk_of_results(folder: TraceFolder, options: KeepOptions, place: Path) -> Path:
    """Return a folder on the disk of the results, also in a dry run, which keeps them elsewhere."""
    replays = folder.subfolder("replays")
    if not options.is_dry_run:
        return place
    return replays if replays.is_dir() else folder.path


def _plan_bytes(place: Path, options: KeepOptions) -> int:
    """Return what a dry run's plan would take of that disk."""
    return (place / PLAN).stat().st_size if options.is_dry_run else 0


def _profiles(folder: TraceFolder, options: ReplayOptions) -> Mapping[str, Profile]:
    """Return the device profiles by name; of the trace only where a device has it."""
    is_traced = any(split_device(device)[1] == TRACED for device in options.devices)
    if is_traced:
        return known_profiles(folder, options.profiles)
    return load_profiles(options.profiles)


def _with_targets(
    folder: TraceFolder, options: ReplayOptions, compiled: PlanReport, disk: Path
) -> PlayerOptions:
    """Return the player's options with all targets; the default one may be made for the run."""
    player = options.player
    if player.engine == "null":
        return player
    player = replace(player, emulate=device_specs(options.devices, _profiles(folder, options)))
    if player.engine == EMULATED and not player.target:
        return player
    is_needed = any(target["label"] == DEFAULT for target in compiled.targets)
    if is_needed and not options.has_default:
        made = f"{DEFAULT}={disk / 'target.img'}"
        return replace(player, target=(*player.target, made))
    if options.has_default and not is_needed:
        raise UsageError(
            "every request has a role with a target of its own, nothing is left for the other one",
            hint="leave the --target without a role out",
        )
    return player


def _context(options: ReplayOptions) -> dict[str, Any]:
    """Return the fields of the summary that are known before the run."""
    found = {name: getattr(options, name) for name in ("devices", "placement")}
    found |= {"resumed": options.resume, **_common(options)}
    if options.turn is not None:
        found["turn"] = options.turn
    return dict(msgspec.to_builtins(found))


def _common(options: KeepOptions) -> dict[str, Any]:
    """Return those that both kinds of summary have."""
    return {"name": options.name, "asked": options.asked, "messages": []}


@dataclass(frozen=True, kw_only=True)
class FileReplayOptions(KeepOptions):
    """How to replay file operations."""

    counted = "operations"

    directory: Path
    pace: str = "trace"
    speed: str = "1"
    cache: str = "sync"
    """keep, sync (write back what was made) or cold (and drop the caches)."""
    keeps_files: bool = False
    no_space_check: bool = False

    def __post_init__(self) -> None:
        """Check what the program cannot check."""
        super().__post_init__()
        check_choice(self.pace, Pace, option="--pace")
        check_choice(self.cache, CacheState, option="--cache")
        if not self.directory.is_dir():
            raise UsageError(f"--files {self.directory}: there is no such folder")
        own = self.directory / OWN_FOLDER
        if (own / KEPT_MARK).is_file() and not self.overwrite:
            raise UsageError(f"{own} is what a replay kept", hint="remove it, or pass --force")


def replay_files(folder: TraceFolder, options: FileReplayOptions) -> tuple[dict[str, Any], bool]:
    """Replay the file operations of a trace; return the summary and whether only a part was done.

    Keeps `plan.bin`, `file_completions.parquet` and `file_summary.json` in `replays/<name>`, or, of
    a run that was interrupted and so cannot be gone on with, in `replays/<name>.unfinished`: a name
    is that of a whole run. Raises PartialError when it was interrupted before the first operation.
    Nothing is kept then, nor of a dry run.
    """
    checked_program()
    content: dict[str, Any] = {}
    if options.is_dry_run:
        return _dry_run_of_files(folder, options), False
    replays = folder.subfolder("replays")
    rescued = partial_results.rescue(replays, {options.name})
    try:
        with _place(replays, options, FILE_SUMMARY) as (place, waiting):
            run, arguments = _prepare_files(folder, options, place)
            told = place / PROGRAM_SUMMARY
            with partial_results.keeping(replays / options.name, run):
                began = Reading()
                outcome = run_files(run.plan, options.directory, summary=told, arguments=arguments)
                waiting.begin(outcome)
                if "counts" not in outcome.summary:
                    raise PartialError(
                        "interrupted while the files were made: nothing was replayed"
                    )
                summary = run.summary(outcome, machine=began.until(Reading()))
                _say_end_of_files(waiting, summary, replays / options.name)
                summary.warnings += find_rescued(rescued)
                if summary.outcome != "interrupted":
                    run.write_results()
                content = run.write_summary(summary)
                if summary.outcome == "interrupted":
                    done = summary.counts["operations"] + summary.counts["untimed"]
                    raise PartialError(f"interrupted after {done:,} operations")
                waiting.raises = False
            run.remove_natives()
    except partial_results.KeptError as kept:
        return content | {"name": kept.place.name}, True
    return content, outcome.is_partial


def _dry_run_of_files(folder: TraceFolder, options: FileReplayOptions) -> dict[str, Any]:
    """Return the summary of a replay that is only checked."""
    with _place(folder.subfolder("replays"), options, FILE_SUMMARY) as (place, _):
        run, arguments = _prepare_files(folder, options, place)
        told = place / PROGRAM_SUMMARY
        outcome = run_files(run.plan, options.directory, summary=told, arguments=arguments)
        return content_of(run.summary(outcome))


def _say_end_of_files(waiting: Waiting, summary: FileReplaySummary, path: Path) -> None:
    """Let a signal that waits say that the run before it had ended on a full file system."""
    if summary.outcome == "full":
        done = summary.counts["operations"] + summary.counts["untimed"]
        waiting.stopped = (
            f"stopped after the run, which ended on a full file system after {done:,} operations:"
            f" they are kept, in {path}"
        )


def _prepare_files(
    folder: TraceFolder, options: FileReplayOptions, place: Path
) -> tuple[StartedRun, list[str]]:
    """Make the plan; return the run, and the program's arguments."""
    plan, results = place / PLAN, place / partial_results.FILE_RECORDS
    compiled = asdict(compile_files(folder, plan, limit=options.limit))
    count = sum(compiled["operations"].values())
    if not options.no_space_check:
        hint = "free some, replay a part (--limit), or pass --no-space-check"
        needed_bytes = count * FILE_RESULT_BYTES + _plan_bytes(place, options)
        check_room(_disk_of_results(folder, options, place), needed_bytes, hint=hint)
    arguments = ["--pace", options.pace, "--speed", options.speed, "--cache", options.cache]
    arguments += ["--keep"] if options.keeps_files else []
    arguments += ["--replace"] if options.overwrite else []
    arguments += ["--no-space-check"] if options.no_space_check else []
    arguments += ["--dry-run"] if options.is_dry_run else ["--results", str(results)]
    context, replaces = _common(options), options.replaces
    return StartedRun(plan, results, compiled, context=context, replaces=replaces), arguments

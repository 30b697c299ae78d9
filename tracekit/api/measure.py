"""What is run or measured: work profiles, personalities, commands, devices and this machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import choices
from tracekit.api import results, values
from tracekit.api.results import Replay
from tracekit.api.stored import open  # noqa: A004 - opens a trace folder
from tracekit.api.trace import Trace
from tracekit.api.values import (
    Duration,
    Numbers,
    PathLike,
    Size,
    Sizes,
    Texts,
)
from tracekit.asked import asked, keeps_words
from tracekit.errors import UsageError
from tracekit.locks import folder_lock
from tracekit.progress import row_progress, step_progress
from tracekit.units import size_text

if TYPE_CHECKING:
    from tracekit.device.characterize import CharacterizeOptions
    from tracekit.doctor import Result as Check
    from tracekit.replay.certificate_check import CertificateCheck
    from tracekit.sweep.run import SweepOptions

SIDE_BY_SIDE = "side-by-side.html"


def is_personality(definition: str) -> bool:
    """Whether a definition has a flow of file operations, and not requests."""
    from tracekit.workload.personality import is_personality as has_flow

    return has_flow(definition)


def compare(before: PathLike, after: PathLike, *, gate: str | None = None) -> results.Change:
    """Compare traces before and after a change; Trace.compare compares replays of one trace.

    Each is a trace folder, or a name whose repeats are NAME.1, NAME.2 and so on: only repeats tell
    a difference from chance. `gate` names the measures that must not be worse, each with the share
    by which it may differ and still be the same (5 % unless given): `p99=10%,gain,footprint`.
    """
    from msgspec import to_builtins

    from tracekit.gate import repeats_of, traces

    found = traces(Path(before), Path(after), gate=gate)
    return results.Change(open(repeats_of(Path(after))[0]), to_builtins(found))


def report(*traces: PathLike, output: PathLike | None = None) -> results.Report:
    """Put traces, or replays of the first, side by side on a page: differences, curves overlaid.

    Each is a trace folder, or a name whose repeats are NAME.1, NAME.2 and so on; or two or more
    replays follow a trace. The others are compared with the first, as `compare` does. The page is
    by default side-by-side.html in the working directory. One trace has `Trace.report`.
    """
    if len(traces) < 2:
        raise UsageError("name two or more traces, or a trace and replays of it")
    from tracekit.gate import repeats_of
    from tracekit.report.page import report_side_by_side

    places = [Path(one) for one in traces]
    with ExitStack() as locks:
        for folder in (one for place in places for one in repeats_of(place)):
            locks.enter_context(folder_lock(folder, shared=True))
        found = report_side_by_side(places, Path(output or SIDE_BY_SIDE))
        return results.Report(open(repeats_of(places[0])[0]), found.as_dict())


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
    chosen = asked_profile(profile, None if target_size is None else size_text(target_size))
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
    duration: Duration | None = None,
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
    """Run a personality in the directory `target`, as `tracekit bench` does.

    Without a duration it runs as long as its file says, else 60s; where the file ends the run when
    threads are done, at most an hour.
    """
    from tracekit.sweep.grid import (
        asked_axes,
        asked_timing,
        plan_runs,
        split_targets,
    )
    from tracekit.sweep.run import SweepOptions

    given = {"threads": values.joined(threads), "files": values.joined(files)}
    axes = asked_axes(given, values.texts(settings), option="--set")
    lasts = values.time_text(duration)
    timing = asked_timing(lasts, values.time_text(warm_up) or "", cache=cache, seed=seed)
    if target is None:
        raise UsageError(f"{personality} needs --target, the directory to run in")
    targets = split_targets([str(target)])
    planned = plan_runs(
        [personality],
        targets,
        vary=axes,
        timing=timing,
        repeats=repeat,
        lasts_as_said=lasts is None,
    )
    options = SweepOptions(again=force)
    return _sweep(output, planned, ["bench", personality], options=options, report=report)


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
    duration: Duration | None = None,
    warm_up: Duration = "0s",
    repeat: int = 5,
    until: str = "",
    cache: choices.CacheState = "sync",
    seed: int = 0,
    force: bool = False,
    exact: bool = False,
    operations: bool = False,
    report: bool = True,
) -> results.Sweep:
    """Run personalities on directories: throughput and latency by step, mean and spread.

    Without a duration each runs as long as its file says, as with `bench_files`.
    """
    from tracekit.sweep.grid import (
        asked_axes,
        asked_timing,
        asked_until,
        plan_runs,
        split_targets,
    )
    from tracekit.sweep.run import SweepOptions

    rule = asked_until(until, repeat)
    sizes = values.sizes_bytes(io_size, option="--io-size")
    named = {"files": files, "io_size": sizes, "threads": threads}
    planned = plan_runs(
        list(values.texts(personality)),
        split_targets(list(values.texts(target)), is_exact=exact),
        vary=asked_axes(
            {key: values.joined(value) for key, value in named.items()},
            values.texts(vary),
            option="--vary",
        ),
        timing=asked_timing(
            values.time_text(duration),
            values.time_text(warm_up) or "",
            cache=cache,
            seed=seed,
        ),
        repeats=rule.most if rule else repeat,
        lasts_as_said=duration is None,
    )
    first = ["sweep", *values.texts(personality)]
    options = SweepOptions(replaces=force, keeps_operations=operations, until=rule)
    return _sweep(output, planned, first, options=options, report=report)


def _sweep(
    output: PathLike, planned: Any, first: list[str], *, options: SweepOptions, report: bool
) -> results.Sweep:
    from tracekit.pipeline import finish_sweep
    from tracekit.store import measurement_folder
    from tracekit.sweep.run import sweep as run_sweep
    from tracekit.sweep.summary import show

    with folder_lock(measurement_folder(Path(output)).path):
        swept = run_sweep(Path(output), planned, options=options, tell=show)
        found = finish_sweep(swept, [*first, *asked()], with_report=report and not swept.stopped_by)
    return results.Sweep(Trace(swept.folder), found)


@keeps_words
def counters(
    command: Sequence[str] = (),
    *,
    output: PathLike,
    user: str | int | None = None,
    recorded: Texts | None = None,
    workload: str = "",
    repeat: int = 5,
    throughput: str = "",
    summary: PathLike | None = None,
    key: str = "",
    events: str = "",
    timed: bool = False,
    force: bool = False,
) -> results.Counters:
    """Count cache, TLB and software events of a command, and which go with its throughput."""
    from tracekit.counters import CountersOptions, Rule, count_events
    from tracekit.invoking_user import chosen_user
    from tracekit.perf_stat import parse_groups

    options = CountersOptions(
        command=tuple(command),
        user=chosen_user(user),
        recorded=values.texts(recorded),
        workload=workload,
        runs=repeat,
        is_timed=timed,
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
    engine: choices.MeasuringEngine = "auto",
    size: Size = "",
    write_to: Texts | None = None,
    overwrite_signature: Texts | None = None,
    direct: choices.Direct = "auto",
    fill: int = 200,
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
    trace: PathLike | None = None,
    name: str = "",
    like: str = "",
    price: float | None = None,
    seed: int = 1,
    keep: bool = False,
    force: bool = False,
) -> results.DeviceStudy:
    """Measure a device's latencies and IOPS, and fit a device profile to them.

    Everything on the device is lost: an existing target is written only with `write_to`. With a
    `trace` the profile has what requests cost among those of one half of the trace.
    """
    from tracekit.device.characterize import CharacterizeOptions
    from tracekit.device.steps import Amounts
    from tracekit.device.target import TargetOptions
    from tracekit.device.trace_mix import TraceMix

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
        mix=None if trace is None else TraceMix(Trace(Path(trace)).folder),
        keeps_file=keep,
        overwrite=force,
    )
    return _measured(Path(output), options)


def _measured(output: Path, options: CharacterizeOptions) -> results.DeviceStudy:
    from tracekit.device.characterize import RESULT, characterize

    with folder_lock(output):
        with step_progress("characterize") as on_step:
            characterize(output, options, on_step=on_step)
        trace = Trace(output)
        return results.DeviceStudy(trace, trace.kept(RESULT))


def profiles(name: Texts = (), *, profiles: PathLike | None = None) -> results.DeviceProfiles:
    """Return the device profiles of these names, or all, with those of the file `profiles`."""
    from tracekit.device.profile_table import list_profiles

    found = list_profiles(values.texts(name), file=values.maybe_path(profiles))
    return results.DeviceProfiles(found.summary, found.text)


def formats(name: Texts = ()) -> results.Formats:
    """Return the formats that `read` knows, or those of these names; format files, too."""
    from tracekit.readers.format_files import list_formats

    found = list_formats(values.texts(name))
    return results.Formats(found.summary, found.text)


def personalities(name: Texts = ()) -> results.Personalities:
    """Return what `bench` runs: shipped personalities and work profiles, or those of `name`."""
    from tracekit.workload.personality import list_personalities

    found = list_personalities(values.texts(name))
    return results.Personalities(found.summary, found.text)


def doctor() -> list[Check]:
    """Examine what this machine can do for tracekit, and what to install for the rest."""
    from tracekit.doctor import examine

    return examine()


def verify_certificate(path: PathLike) -> CertificateCheck:
    """Compute the numbers of a replay's certificate again, and say which differ.

    `path` is the folder of the replay, wherever it is now, or the certificate in it.
    """
    from tracekit.replay.certificate_check import verify_certificate as verify

    return verify(Path(path))

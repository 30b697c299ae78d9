"""The stage `verify`: replays base and placement in turn, and judges the model by them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from tracekit.arrow import open_table
from tracekit.devices import choose_profile
from tracekit.errors import InputError, UsageError
from tracekit.model.answer import (
    ANSWER,
    BEST,
    BY_UNITS,
    Answer,
    Recommendation,
    charged_trace,
    choose_answer,
    read_recommendation,
    resolved,
    runner_up,
)
from tracekit.model.best_placement import TABLE as BEST_TABLE
from tracekit.model.best_placement import read_best, time_ps
from tracekit.model.best_records import BestAt
from tracekit.model.fitted_base import known_profiles
from tracekit.model.placement import to_ns
from tracekit.model.recommend import check_answer
from tracekit.model.unit_answer import BLOCKS as UNITS_TABLE
from tracekit.model.unit_answer import read_units
from tracekit.model.unit_records import UnitAnswer
from tracekit.replay.between import Between
from tracekit.replay.partial_results import SUMMARY
from tracekit.replay.prediction import predict
from tracekit.replay.summary import ReplaySummary, content_of, read_summary
from tracekit.replay.verification import Verification, judged, rival_of, table_of
from tracekit.replay.verify_runs import BASE, PLACED, RIVAL, VerifyOptions, replay_in_turn
from tracekit.replay.verify_words import says
from tracekit.replay.windows import choose_windows, halves, only_windows, requests_for
from tracekit.store import TraceFolder, new_folder, write_results

TABLE = "verification"
RESULT = "verification.json"
OF_ADVICE = ("base_profile", "nvm_profile", "level", "queueing")


def verify(
    folder: TraceFolder,
    options: VerifyOptions,
    *,
    on_run: Callable[[str, int, int], None] | None = None,
    between: Between | None = None,
) -> dict[str, Any]:
    """Write verification.parquet and verification.json; return the latter's content.

    The last replay of each kind is kept as `verify-base` and `verify-placement`.
    """
    advice = _advice(folder, options.profiles)
    options = replace(options, placement=resolved(advice, options.placement))
    answer = _chosen(folder, advice, options.placement)
    windows = _windows(folder, advice, options)
    rival = runner_up(advice) if options.placement == ANSWER else None
    repeats = () if between is None else between.repeats
    with only_windows(folder, windows) as part:
        predict(part, advice, answer=answer)  # where that fails nothing is replayed
        runs = replay_in_turn(
            part, advice, options=options, has_rival=bool(rival), on_run=on_run, between=between
        )
        predicted = predict(
            *(part, advice), answer=answer, rival=rival, rounds=runs.rounds, repeats=repeats
        )
        kept = [_keep(part, folder, name) for name in (BASE, PLACED, RIVAL)[: 2 + bool(rival)]]
    gain_ratio = answer.gain_ratio
    verification = Verification(
        **judged(runs, predicted, published_ratio=gain_ratio, options=options, between=between),
        runner_up=None if rival is None else rival_of(runs, predicted, placement=rival.placement),
        answer=to_builtins(answer),
        requests=sum(len(window) for window in windows),
        trace_requests=folder.info.count("requests"),
        windows=len(windows),
        **{key: getattr(advice, key) for key in OF_ADVICE},
        cut_requests=kept[1].compiled.cut_requests,
        pieces=kept[1].compiled.pieces,
        left_out_ratio=runs.left_out_ratio,
    )
    return _written(folder, verification, table_of(runs, predicted))


def _written(folder: TraceFolder, verification: Verification, table: Any) -> dict[str, Any]:
    result = content_of(verification)
    result["headline"] = says(result)
    write_results(folder, RESULT, result=result, tables={TABLE: table})
    return result


def _windows(folder: TraceFolder, advice: Recommendation, options: VerifyOptions) -> list[range]:
    """Choose windows of all the trace, or of one half, that take about the seconds together."""
    total, lasts_ns = folder.info.count("requests"), advice.answer.base_elapsed_ns
    if advice.is_open:
        lasts_ns = span_ns(folder.require("requests", made_by="parse"))
    count = requests_for(total, lasts_ns, seconds=options.seconds)
    among = halves(total)[1] if options.only_compared else None
    return choose_windows(total, count, among=among)


def span_ns(requests: Path) -> int:
    """Return the time from the first request to the last, by the file's own statistics."""
    with open_table(requests) as source:
        column = source.schema_arrow.get_field_index("queue_ns")
        groups = [
            source.metadata.row_group(number).column(column).statistics
            for number in range(source.metadata.num_row_groups)
        ]
    known = [group for group in groups if group is not None and group.has_min_max]
    return max((int(g.max) for g in known), default=0) - min((int(g.min) for g in known), default=0)


def _chosen(
    folder: TraceFolder, advice: Recommendation, wanted: str
) -> Answer | BestAt | UnitAnswer:
    """Return a recommended placement; InputError unless it is what the trace has now."""
    if wanted not in (BEST, BY_UNITS):
        answer = choose_answer(advice, wanted)
        check_answer(folder, advice, answer=answer)
        return answer
    best = advice.best_placement
    found = advice.units if wanted == BY_UNITS else best.answer if best is not None else None
    if found is None:
        again = " with --unit" if wanted == BY_UNITS else " again"
        raise UsageError(
            f"--placement {wanted}: there is nothing to place", hint=f"run recommend{again}"
        )
    trace = charged_trace(folder, advice)
    read, table = (read_units, UNITS_TABLE) if wanted == BY_UNITS else (read_best, BEST_TABLE)
    found_ns = to_ns(time_ps(trace, read(folder, trace.touched))[1])
    if found_ns != found.elapsed_ns:
        raise InputError(
            f"{folder.table(table)} does not fit the trace: {found.elapsed_ns} ns are"
            f" recommended, of the trace it takes {found_ns}",
            hint="it was edited, or the trace has changed since: run recommend again",
        )
    return found


def _advice(folder: TraceFolder, own: Path | None) -> Recommendation:
    """Return the recommendation; InputError when a profile is no longer the one it was made for."""
    advice = read_recommendation(folder)
    known = known_profiles(folder, own)
    for profile in advice.profiles:
        if choose_profile(known, profile.name) != profile:
            raise InputError(
                f"the profile '{profile.name}' has changed since the recommendation was made",
                hint="run recommend again, or give the same --profiles",
            )
    return advice


def _keep(part: TraceFolder, folder: TraceFolder, name: str) -> ReplaySummary:
    """Move a replay to the trace that it is of; return its summary."""
    place = folder.subfolder(f"replays/{name}")
    with new_folder(place, overwrite=True, marker=SUMMARY) as made:
        for file in (part.path / "replays" / name).iterdir():
            shutil.move(file, made)
    return read_summary(place / SUMMARY)

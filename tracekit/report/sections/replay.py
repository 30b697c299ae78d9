"""What the replays did: how much was replayed, how punctually, and how long requests took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from tracekit.replay.io_uring_options import describe_polling
from tracekit.report import formatting as fmt
from tracekit.report.figures.replayed_distribution import replayed_distribution as draw
from tracekit.report.formatting import rows
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Figure, Missing, Section, figure, role_keys
from tracekit.report.sections.replay_course import course

TITLE = "Replay"
MEASURES = (
    ("late", "How late requests were submitted", "time after the intended one"),
    ("response", "Response time, from the intended time on", "intended to completed"),
    ("service", "Service time, from the submission on", "submitted to completed"),
)
PACE = {
    "trace": "each at its time",
    "closed": "each as long after a completion as in the trace",
    "fast": "as fast as possible",
}
KINDS = {
    "made file": "a file made for the run",
    "file": "a file",
    "block device": "a block device",
    "dax device": "persistent memory that is mapped",
}


def replay(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `replay` has not run."""
    if not inputs.replays:
        return Missing(TITLE, "replay")
    outcomes = inputs.computed("replay/outcomes")
    times = inputs.computed("replay/replayed")
    curves = inputs.computed("replay/replayed_distribution")
    over_time = inputs.computed("replay/replayed_over_time")
    total = inputs.info.get("counts", {}).get("requests")
    parts = []
    for run in inputs.replays:
        mine = outcomes.table[outcomes.table["replay"] == run.name]
        parts.append(
            {
                "name": run.name,
                "says": [
                    *extent(mine, total),
                    how(run.summary),
                    *says(of_run(times, run.name).table),
                ],
                "figures": _figures(of_run(curves, run.name), run.name),
                "course": course(
                    of_run(over_time, run.name), of_run(curves, run.name), name=run.name
                ),
                "times": of_run(times, run.name),
                "outcomes": of_run(outcomes, run.name),
                "facts": flat(run.summary),
            }
        )
    return Section("replay", TITLE, {"runs": parts})


def of_run(evidence: Evidence, name: str) -> Evidence:
    """Return the rows of one replay."""
    table = evidence.table
    return replace(evidence, table=table[table["replay"] == name].drop(columns="replay"))


def extent(outcomes: pd.DataFrame, total: int | None) -> list[str]:
    """Say how much of the trace was replayed and what became of it."""
    counts = outcomes.groupby("status")["request_count"].sum()
    done = int(counts.get("done", 0))
    part = f" of the trace's {fmt.count(total)}" if total else ""
    length_ns = outcomes["last_ns"].max()
    sentences = [
        f"{fmt.plural(done, 'request')}{part} were replayed, "
        f"{fmt.duration(length_ns)} of its time line."
    ]
    others = [
        f"{fmt.count(count)} {status}"
        for status, count in sorted(counts.items())
        if status != "done"
    ]
    errors = int(outcomes["error_count"].sum())
    if others or errors:
        ended = [*others, f"{fmt.count(errors)} ended with an error"] if errors else others
        sentences.append(f"Of the others: {fmt.listing(ended)}." if others else f"{ended[0]}.")
    return sentences


def how(summary: Mapping[str, Any]) -> str:
    """Say with which engine the requests were run, on what, and at which pace."""
    engine = summary["engine"]["used"]
    pace = PACE.get(summary["pace"], summary["pace"])
    places = [
        f"{fmt.role_title(target['label']) if target['label'] != 'default' else 'requests'} on "
        f"{KINDS.get(target['kind'], target['kind'])}"
        f"{'' if target['is_direct'] else ' through the page cache'}"
        for target in summary["targets"]
    ]
    where = f" {fmt.listing(places)}," if places and engine != "null" else ""
    ways = "".join(f", {way}" for way in describe_polling(summary["engine"]))
    return f"By the engine {engine}{ways},{where} {pace}."


def says(times: pd.DataFrame) -> list[str]:
    """Say how punctual the replay was and how long each role's requests took."""
    sentences = []
    late = times[times["measure"] == "late"]
    if not late.empty:
        count = late["request_count"].sum()
        mean_ns = (late["time_avg_ns"] * late["request_count"]).sum() / count
        sentences.append(
            f"Requests were submitted {fmt.duration(mean_ns)} after their time on average, "
            f"at most {fmt.duration(late['time_max_ns'].max())}."
        )
    for row in rows(times[times["measure"] == "response"]):
        half, most = fmt.duration(row.time_p50_ns), fmt.duration(row.time_p99_ns)
        sentences.append(
            f"{fmt.role_title(row.role).capitalize()} {fmt.verb_plural(row.operation)}: half"
            f" within {half}, 99\N{NO-BREAK SPACE}% within {most} of the intended time."
        )
    return sentences


def _figures(curves: Evidence, name: str) -> list[Figure]:
    drawn = []
    for measure, title, x_title in MEASURES:
        mine = curves.table[curves.table["measure"] == measure]
        if not mine.empty:
            shown = figure(
                partial(draw, x_title=x_title),
                replace(curves, table=mine),
                title=title,
                says=[],
                legend=role_keys(mine),
                name=f"replay-{fmt.anchor(name)}-{measure}",
            )
            drawn.append(replace(shown, evidence=curves))
    return drawn


def flat(content: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Flatten a summary to lines of name and value; long lists are only counted."""
    lines: list[tuple[str, str]] = []
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            lines += flat(value, f"{name}.")
        elif isinstance(value, list) and all(isinstance(part, Mapping) for part in value):
            for number, part in enumerate(value[:8]):
                lines += flat(part, f"{name}[{number}].")
        elif isinstance(value, list) and len(value) > 8:
            lines.append((name, fmt.plural(len(value), "value")))
        elif isinstance(value, bool) or not isinstance(value, int):
            lines.append((name, str(value)))
        else:
            lines.append((name, fmt.duration(value) if key.endswith("_ns") else f"{value:,}"))
    return lines

"""How long requests take, step by step, with flushes told apart."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.distribution import distribution as draw
from tracekit.report.figures.latency_over_time import latency_over_time as draw_over_time
from tracekit.report.formatting import every_window, largest, rows
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Figure, Missing, Section, figure, role_keys

TITLE = "Latency"
SERVICE = "d2c"
RESPONSE = "wait"


def latency(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("latency/distribution")
    by_role = inputs.finding("latency/latency")
    if evidence is None or by_role is None:
        return Missing(TITLE, "analyze")
    response = evidence.table[evidence.table["step"] == RESPONSE]
    drawn = figure(
        draw,
        replace(evidence, table=response),
        title="Response time: from queued to completed, closing flushes included",
        says=says(by_role.table),
        legend=role_keys(response),
    )
    return Section(
        "latency",
        TITLE,
        {
            "figure": replace(drawn, evidence=evidence),
            "rows": service_rows(by_role.table),
            "by_role": by_role,
            "btt": inputs.finding("latency/btt"),
            "over_time": _over_time(inputs.finding("latency/latency_over_time")),
        },
    )


def _over_time(evidence: Evidence | None) -> Figure | None:
    if evidence is None or evidence.table.empty:
        return None
    slowest = largest(evidence.table, "latency_p99_ns")
    curves = every_window(
        evidence.table,
        float(evidence.table["window_length_ns"].max()),
        values=["latency_p99_ns"],
        missing=math.nan,
    )
    drawn = figure(
        draw_over_time,
        replace(evidence, table=curves),
        title="Response times over time",
        says=[
            f"The slowest window is the {fmt.role_title(str(slowest['role']))}'s, "
            f"{fmt.duration(slowest['window_ns'])} after the start: 99\N{NO-BREAK SPACE}% within "
            f"{fmt.duration(slowest['latency_p99_ns'])}."
        ],
        legend=role_keys(evidence.table),
    )
    return replace(drawn, evidence=evidence)


def service_rows(table: pd.DataFrame) -> list[dict[str, str]]:
    """Return the service times (D2C) as the short table: one row a role, operation and preflush."""
    short = []
    for row in rows(table[table["step"] == SERVICE]):
        flushing = " that flushes first" if row.is_preflush and row.operation != "flush" else ""
        times = {
            key: fmt.duration(getattr(row, f"latency_{key}_ns"))
            for key in ("min", "avg", "p50", "p99", "max")
        }
        short.append(
            {
                "role": row.role,
                "name": f"{fmt.role_title(row.role)} {row.operation}{flushing}",
                "count": fmt.count(row.request_count),
                **times,
            }
        )
    return short


def says(table: pd.DataFrame) -> list[str]:
    """Say the middle and the 99th percentile of the response time, and what flushing costs."""
    responses = table[table["step"] == RESPONSE]
    if responses.empty:
        return ["No request of the trace has both its queue and its completion event."]
    sentences = []
    for row in rows(responses):
        flushing = " that flush first" if row.is_preflush and row.operation != "flush" else ""
        subject = f"{fmt.role_title(row.role).capitalize()} {fmt.verb_plural(row.operation)}"
        half, most = (fmt.duration(value) for value in (row.latency_p50_ns, row.latency_p99_ns))
        sentences.append(
            f"{subject}{flushing}: half within {half}, 99\N{NO-BREAK SPACE}% within {most}."
        )
    return sentences

"""How the requests of a fitted work profile differ from those of the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracekit.report import formatting as fmt
from tracekit.report.figures import fidelity as draw
from tracekit.report.inputs import Inputs
from tracekit.report.section import Key, Section, figure

TITLE = "Work profile"


def fidelity(inputs: Inputs) -> Section | None:
    """Build the section; None when no profile was made of this trace."""
    told = inputs.told("fidelity", command="fit")
    curve = inputs.table("fidelity_curve", command="fit")
    if told is None or curve is None:
        return None
    answer, evidence = told
    drawn = figure(
        draw.fidelity_curve,
        curve,
        title="Miss ratios of both",
        says=[],
        legend=[
            Key(*draw.STYLES["original"][:1], "the trace", draw.STYLES["original"][1]),
            Key(*draw.STYLES["synthetic"][:1], "its profile", draw.STYLES["synthetic"][1]),
        ],
        name="fidelity-curve",
    )
    return Section(
        "fidelity",
        TITLE,
        {
            "says": says(answer),
            "figure": drawn,
            "evidence": evidence,
            "streams": streams(answer.get("streams", [])),
        },
    )


def says(answer: Mapping[str, Any]) -> list[str]:
    """Say what was compared, how far apart it is, and what was left out."""
    count, left_out = answer.get("requests", 0), answer.get("left_out", {})
    sentences = [
        f"{fmt.plural(count, 'request')} of the profile were compared with as many of the trace.",
        *map(str, answer["headline"]),
    ]
    if left_out:
        parts = [f"{fmt.count(number)} ({why})" for why, number in left_out.items()]
        sentences.append(f"Requests that the profile leaves out: {fmt.listing(parts)}.")
    return sentences


def streams(found: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a row a stream: whose, how many requests, and which gaps were the likeliest."""
    rows = []
    for stream in found:
        tried = stream.get("tried", [])
        best = min(tried, key=lambda one: one["aic"], default=None)
        likeliest = "-" if best is None else best["process"]
        distance = "-" if best is None else fmt.share(best["ks_ratio"])
        rows.append(
            {
                "role": str(stream["role"]),
                "process": str(stream["process"] or "-"),
                "requests": fmt.count(stream["requests"]),
                "gaps": likeliest,
                "distance": distance,
                "dispersion": fmt.number(stream["dispersion"]),
                "correlation": f"{stream['correlation']:.2f}",
                "phases": fmt.count(stream["phases"]),
            }
        )
    return rows

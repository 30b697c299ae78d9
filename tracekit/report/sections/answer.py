"""The answer: three lines, the gain as a range, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.report import formatting as fmt
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section

TITLE = "The answer"


def answer(inputs: Inputs) -> Section | Missing:
    """Build the head of the page; without a recommendation it says what the trace is."""
    advice = inputs.recommendation
    parts: dict[str, Any] = {"advice": advice, "info": inputs.info}
    if advice is not None:
        parts |= {
            "answer": advice["answer"],
            "knee": advice["knee"],
            "range": advice.get("gain_range"),
            "placement": placement_title(advice["answer"]["placement"]),
            "runner_up": placement_title(advice["answer"]["runner_up"]),
            "shares": shares(advice["answer"]),
            "flips": [
                f"from {fmt.data(flip['capacity_bytes'])}: {placement_title(flip['to'])}"
                for flip in advice["flips"]
            ],
        }
    return Section("answer", TITLE, parts)


def placement_title(placement: str) -> str:
    """Return how a placement is called where there is little room."""
    special = {"base": "nothing", "combined": "split"}
    return special.get(placement) or " + ".join(map(fmt.role_title, placement.split("+")))


def shares(answer: Mapping[str, Any]) -> str:
    """Write how the NVM is divided: 4 MiB file system, 6 MiB journal."""
    given = [
        f"{fmt.data(answer[f'{role}_bytes'])} {fmt.role_title(role)}"
        for role in ("fs", "journal", "swap")
        if answer[f"{role}_bytes"]
    ]
    return ", ".join(given)

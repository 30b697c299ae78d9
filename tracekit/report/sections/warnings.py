"""What to know before trusting the numbers: warnings, losses and guesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tracekit.errors import span
from tracekit.report import formatting as fmt
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section

TITLE = "What to keep in mind"
LOSSES = {
    "sequence_gaps": "gaps in the numbering of the records",
    "lost_records": "records lost at those gaps",
    "dropped": "events that the kernel dropped while capturing",
    "unseen": "completions that the kernel counted and the record lacks",
}
UNMATCHED = "events without their counterpart: {}"


def warnings(inputs: Inputs) -> Section | Missing:
    """Build the section; it is always there, because nothing lost is also worth saying."""
    info = inputs.info
    losses = list(_losses(info.get("loss", {})))
    records = info.get("counts", {}).get("records")
    return Section(
        "warnings",
        TITLE,
        {
            "checks": inputs.failed_checks,
            "warnings": [*info.get("warnings", []), *_replay_warnings(inputs)],
            "losses": losses,
            "records": records,
            "inferences": info.get("inferences", []),
        },
    )


def _replay_warnings(inputs: Inputs) -> Iterator[Mapping[str, str]]:
    for replay in inputs.replays:
        for warning in replay.summary["warnings"]:
            yield {**warning, "message": f"Replay {replay.name}: {warning['message']}"}


def _losses(loss: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what was lost and how many, leaving out what did not happen."""
    for key, amount in loss.items():
        if key == "unseen":
            if amount and amount["at_most"]:
                yield LOSSES[key], span(amount["at_least"], amount["at_most"])
        elif isinstance(amount, Mapping):
            for event, count in amount.items():
                if count:
                    yield UNMATCHED.format(event), fmt.count(count)
        elif amount and not isinstance(amount, bool):
            yield LOSSES.get(key, key.replace("_", " ")), fmt.count(amount)

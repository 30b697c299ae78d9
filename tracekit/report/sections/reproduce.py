"""The commands that make this report again from the capture."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section

TITLE = "How to reproduce"


def reproduce(inputs: Inputs) -> Section | Missing:
    """Build the section from what the stages recorded about themselves."""
    return Section("reproduce", TITLE, {"commands": list(_commands(inputs))})


def _commands(inputs: Inputs) -> Iterator[str]:
    files = [file["name"] for file in inputs.info.get("source", {}).get("files", [])]
    folder = shlex.quote(inputs.folder.path.resolve().name)
    if files:
        yield f"sha256sum {shlex.join(files)}"
        yield f"tracekit parse {shlex.join(files)} -o {folder}"
    yield f"tracekit classify {folder}"
    yield f"tracekit analyze {folder}"
    advice = inputs.recommendation
    if advice is not None:
        base, nvm = (shlex.quote(str(advice[f"{which}_profile"])) for which in ("base", "nvm"))
        yield f"tracekit recommend {folder} --base {base} --nvm {nvm}"
    for name, asked in inputs.simulations_asked:
        yield shlex.join(["tracekit", "simulate", name, inputs.folder.path.resolve().name, *asked])
    for replay in inputs.replays:
        summary = replay.summary
        yield (
            f"tracekit replay {folder} --limit {summary['plan']['requests']} "
            f"--engine {summary['engine']['asked']} --pace {summary['pace']} "
            f"--name {shlex.quote(replay.name)}"
        )
    yield f"tracekit report {folder}"

"""The commands that make this report again from the capture."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section

TITLE = "How to reproduce"
VERIFIED = ("verify-base", "verify-placement")


def reproduce(inputs: Inputs) -> Section | Missing:
    """Build the section from what the stages recorded about themselves."""
    return Section("reproduce", TITLE, {"commands": list(_commands(inputs))})


def _commands(inputs: Inputs) -> Iterator[str]:
    files = [file["name"] for file in inputs.info.get("source", {}).get("files", [])]
    name = inputs.folder.path.resolve().name
    folder = shlex.quote(name)
    profile = inputs.info.get("profile")
    if isinstance(profile, dict):
        yield shlex.join(["tracekit", "generate", "profile.toml", *_extent(profile), "-o", name])
    elif files:
        yield f"sha256sum {shlex.join(files)}"
        yield f"tracekit parse {shlex.join(files)} -o {folder}"
    if inputs.has_trace:
        yield f"tracekit classify {folder}"
        yield f"tracekit analyze {folder}"
    advice = inputs.recommendation
    if advice is not None:
        base, nvm = (shlex.quote(str(advice[f"{which}_profile"])) for which in ("base", "nvm"))
        yield f"tracekit recommend {folder} --base {base} --nvm {nvm}"
    for command, asked in inputs.simulations_asked:
        yield shlex.join(["tracekit", "simulate", command, name, *asked])
    yield from dict.fromkeys(_replays(inputs, folder))
    verified = inputs.told("verification", command="verify-placement")
    if verified is not None:
        yield shlex.join(["tracekit", "verify-placement", name, *verified[0].get("asked", [])])
    compared = inputs.told("comparison", command="compare")
    if compared is not None:
        yield shlex.join(["tracekit", "compare", name, *compared[0]["names"]])
    measured = inputs.answered("device/device.json")
    if measured is not None:
        target = [measured["target"]] if measured["target"] else []
        # The folder is the name's, wherever it was; what was asked names it, too.
        yield shlex.join(["tracekit", "characterize-device", *target, *measured.get("asked", [])])
    yield from _counted(inputs)
    yield from _swept(inputs)
    fitted = inputs.told("fidelity", command="fit")
    if fitted is not None:
        yield shlex.join(["tracekit", "fit", name, *fitted[0].get("asked", [])])
    yield f"tracekit report {folder}"


def _extent(profile: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that made a folder of a profile, as generate noted them."""
    options = {
        "requests": ("--requests", ""),
        "duration_ns": ("--duration", "ns"),
        "seed": ("--seed", ""),
        "target_bytes": ("--target-size", ""),
    }
    for key, (option, unit) in options.items():
        if profile.get(key):
            yield from (option, f"{profile[key]}{unit}")


def _counted(inputs: Inputs) -> Iterator[str]:
    """Yield the command of each workload whose events were counted."""
    counted = inputs.answered("counters/counters.json")
    for one in [] if counted is None else counted["workloads"]:
        command = ["--", *one["command"]] if one["command"] else []
        yield shlex.join(["tracekit", "counters", *one["asked"], *command])


def _swept(inputs: Inputs) -> Iterator[str]:
    """Yield the commands whose personalities were run."""
    swept = inputs.answered("files/sweep.json")
    for words in [] if swept is None else swept["asked"]:
        yield shlex.join(["tracekit", *words])


def _replays(inputs: Inputs, folder: str) -> Iterator[str]:
    """Yield the command of each replay; those of a verification are made by it."""
    for replay in inputs.replays:
        summary = replay.summary
        if replay.name in VERIFIED:
            continue
        asked = summary.get("asked")
        if asked is not None:
            yield f"tracekit replay {folder} {shlex.join(asked)}".rstrip()
            continue
        yield (
            f"tracekit replay {folder} --limit {summary['plan']['requests']} "
            f"--engine {summary['engine']['asked']} --pace {summary['pace']} "
            f"--name {shlex.quote(replay.name)}"
        )

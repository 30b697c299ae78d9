"""The frame of the page: answer, warnings, layout, origin of the data, how to reproduce."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

from tracekit.errors import span
from tracekit.report import formatting as fmt
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section
from tracekit.version import __version__

ANSWER_TITLE = "The answer"


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
    return Section("answer", ANSWER_TITLE, parts)


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


WARNINGS_TITLE = "What to keep in mind"
LOSSES = {
    "sequence_gaps": "gaps in the numbering of the records",
    "lost_records": "records lost at those gaps",
    "dropped": "events that the kernel dropped while capturing",
    "unseen": "completions that the kernel counted but the trace does not have",
}
UNMATCHED = "events without their counterpart: {}"


def warnings(inputs: Inputs) -> Section | Missing:
    """Build the section; it is always there, because nothing lost is also worth saying."""
    info = inputs.info
    losses = list(_losses(info.get("loss", {})))
    records = info.get("counts", {}).get("records")
    return Section(
        "warnings",
        WARNINGS_TITLE,
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


LAYOUT_TITLE = "Layout and roles"


def layout(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `classify` has not run."""
    info = inputs.info
    if not info.get("layout"):
        return Missing(LAYOUT_TITLE, "classify")
    return Section(
        "layout",
        LAYOUT_TITLE,
        {
            "partitions": info["layout"],
            "devices": info.get("devices", []),
            "rules": [
                *_rules("roles", info.get("classification")),
                *_rules("hotness", info.get("hotness")),
            ],
        },
    )


def _rules(subject: str, content: Any) -> list[tuple[str, str]]:
    """Flatten the record of a rule to lines of `subject, key: value`."""
    if not isinstance(content, Mapping):
        return [] if content is None else [(subject, str(content))]
    lines = []
    for key, value in content.items():
        name = f"{subject}: {str(key).replace('_', ' ')}"
        if isinstance(value, Mapping):
            lines += _rules(name, value)
        elif isinstance(value, list):
            lines.append((name, ", ".join(str(part) for part in value) or "none"))
        else:
            lines.append((name, f"{value:,}" if isinstance(value, int) else str(value)))
    return lines


PROVENANCE_TITLE = "Provenance"
LIBRARIES = ("duckdb", "pyarrow", "pandas", "seaborn", "matplotlib")


def provenance(inputs: Inputs) -> Section | Missing:
    """Build the section; trace.json always has what it needs."""
    info = inputs.info
    source, clock, counts = (info.get(key, {}) for key in ("source", "clock", "counts"))
    facts = {
        "format": source.get("format"),
        "kernel of the capture": source.get("kernel"),
        "length of the trace": fmt.duration(clock.get("duration_ns")),
        "records read": fmt.count(counts.get("records")),
        "requests": fmt.count(counts.get("requests")),
        "traced by tracekit": info.get("tool", {}).get("tracekit"),
        "reported by tracekit": __version__,
        "libraries": ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES),
    }
    return Section(
        "provenance",
        PROVENANCE_TITLE,
        {
            "facts": {
                key: value for key, value in facts.items() if value not in (None, fmt.MISSING)
            },
            "files": source.get("files", []),
            "actions": counts.get("actions", {}),
        },
    )


REPRODUCE_TITLE = "How to reproduce"
VERIFIED = ("verify-base", "verify-placement")


def reproduce(inputs: Inputs) -> Section | Missing:
    """Build the section from what the stages recorded about themselves."""
    return Section("reproduce", REPRODUCE_TITLE, {"commands": list(_commands(inputs))})


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
    for command, asked in inputs.simulations_run:
        yield shlex.join(["tracekit", "simulate", command, name, *asked])
    yield from dict.fromkeys(_replays(inputs, folder))
    verified = inputs.result("verification", command="verify-placement")
    if verified is not None:
        yield shlex.join(["tracekit", "verify-placement", name, *verified[0].get("asked", [])])
    compared = inputs.result("comparison", command="compare")
    if compared is not None:
        yield shlex.join(["tracekit", "compare", name, *compared[0]["names"]])
    measured = inputs.measured_answer("device/device.json")
    if measured is not None:
        target = [measured["target"]] if measured["target"] else []
        # The folder is the name's, wherever it was; what was asked names it, too.
        yield shlex.join(["tracekit", "characterize-device", *target, *measured.get("asked", [])])
    yield from _counted(inputs)
    yield from _swept(inputs)
    fitted = inputs.result("fidelity", command="fit")
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
    counted = inputs.measured_answer("counters/counters.json")
    for one in [] if counted is None else counted["workloads"]:
        command = ["--", *one["command"]] if one["command"] else []
        yield shlex.join(["tracekit", "counters", *one["asked"], *command])


def _swept(inputs: Inputs) -> Iterator[str]:
    """Yield the commands whose personalities were run."""
    swept = inputs.measured_answer("files/sweep.json")
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

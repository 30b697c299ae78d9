"""The frame of the page: answer, warnings, layout, origin of the data, how to reproduce."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from tracekit.errors import span
from tracekit.escapes import operand, shell_line
from tracekit.origin import words_of
from tracekit.report import formatting as fmt
from tracekit.report.inputs import Inputs
from tracekit.report.section import Parts, made_by, section
from tracekit.version import __version__


@section("The answer")
def answer(inputs: Inputs) -> Parts:
    """Build the head of the page; without a recommendation it says what the trace is."""
    advice = inputs.recommendation
    if advice is None:
        return {"advice": None, "info": inputs.info}
    name = operand(inputs.folder.path.resolve().name)
    script = ["tracekit", *_recommend(advice, name), "--script", "carry-out.sh"]
    return {
        "advice": advice,
        "rows": advice.get("rows", []),
        "carry_out": shell_line(script) if advice["answer"]["placement"] != "base" else "",
        "info": inputs.info,
    }


def placement_title(placement: str) -> str:
    """Return how a placement is called where there is little space."""
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


LOSSES = {
    "sequence_gaps": "gaps in the numbering of the records",
    "lost_records": "records lost at those gaps",
    "dropped": "events that the kernel dropped while capturing",
    "unseen": "completions that the kernel counted but the trace does not have",
}
UNMATCHED = "events without their counterpart: {}"


@section("What to keep in mind")
def warnings(inputs: Inputs) -> Parts:
    """Show warnings and losses; always there, because nothing lost is also worth saying."""
    info = inputs.info
    of_replays = [
        {**warning, "message": f"Replay {replay.name}: {warning['message']}"}
        for replay in inputs.replays
        for warning in replay.summary["warnings"]
    ]
    return {
        "outdated": list(dict.fromkeys(old.command for old in inputs.outdated.values())),
        "checks": inputs.failed_checks,
        "warnings": [*info.get("warnings", []), *of_replays],
        "losses": list(_losses(info.get("loss", {}))),
        "records": info.get("counts", {}).get("records"),
        "inferences": info.get("inferences", []),
    }


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


@made_by("classify", "Layout and roles")
def layout(inputs: Inputs) -> Parts | None:
    """Show the partitions; nothing before `classify` has run."""
    info = inputs.info
    if not info.get("layout"):
        return None
    rules = _rules("roles", info.get("classification")) + _rules("hotness", info.get("hotness"))
    return {"partitions": info["layout"], "devices": info.get("devices", []), "rules": rules}


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


LIBRARIES = ("duckdb", "pyarrow", "pandas", "seaborn", "matplotlib")


@section("Provenance")
def provenance(inputs: Inputs) -> Parts:
    """Show where the trace is from; trace.json always has what it needs."""
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
    known = {key: value for key, value in facts.items() if value not in (None, fmt.MISSING)}
    files, actions = source.get("files", []), counts.get("actions", {})
    return {"facts": known, "files": files, "actions": actions}


VERIFIED = ("verify-base", "verify-placement")


@section("How to reproduce")
def reproduce(inputs: Inputs) -> Parts:
    """List the commands from what the stages recorded about themselves."""
    name = operand(inputs.folder.path.resolve().name)
    commands = [
        *_of_trace(inputs, name),
        *(["simulate", command, name, *options] for command, options in inputs.simulations_run),
        *_replays(inputs, name),
        *_after_replays(inputs, name),
        ["report", name],
    ]
    lines = [one if one[0] == "sha256sum" else ["tracekit", *one] for one in commands]
    return {"commands": list(map(shell_line, lines))}


def _of_trace(inputs: Inputs, name: str) -> Iterator[Sequence[str]]:
    """Yield the commands that made the trace folder and its answer."""
    profile = inputs.info.get("profile")
    files = [operand(file["name"]) for file in inputs.info.get("source", {}).get("files", [])]
    if isinstance(profile, dict):
        yield ["generate", "profile.toml", *_extent(profile), "-o", name]
    elif files:
        yield ["sha256sum", *files, *(["layout.json"] if _takes_layout_beside(inputs.info) else [])]
        is_of_memory = inputs.folder.has("memory_accesses") and not inputs.has_trace
        how = inputs.info.get("made_by", "import" if is_of_memory else "parse")
        yield [how, *files, *(words_of(inputs.info) or []), "-o", name]
    if inputs.has_trace:
        yield ["classify", name, *(words_of(inputs.info.get("classification")) or [])]
        yield from (["analyze", name, *words] for words in inputs.analyses_run)
    if advice := inputs.recommendation:
        yield _recommend(advice, name)


def _recommend(advice: Mapping[str, Any], name: str) -> list[str]:
    """Return the command that made the recommendation."""
    base, nvm = (str(advice[f"{which}_profile"]) for which in ("base", "nvm"))
    return ["recommend", name, *(words_of(advice) or ["--base", base, "--nvm", nvm])]


def _takes_layout_beside(info: Mapping[str, Any]) -> bool:
    """Say whether the regions are those of the layout.json that lay beside the files."""
    words = (*(words_of(info) or ()), *(words_of(info.get("classification")) or ()))
    return bool(info.get("layout")) and not {"--layout", "--role"} & {*words}


def _after_replays(inputs: Inputs, name: str) -> Iterator[Sequence[str]]:
    """Yield the commands that verified, compared, measured and fitted."""
    if verified := inputs.answer("verification.json", "headline"):
        yield ["verify-placement", name, *verified.get("asked", [])]
    if compared := inputs.answer("comparison.json", "headline"):
        yield ["compare", name, *compared["names"]]
    if measured := inputs.answer("device/device.json", "headline"):
        target = [operand(measured["target"])] if measured["target"] else []
        # The folder is the name's, wherever it was; the options name it, too.
        yield ["characterize-device", *target, *measured.get("asked", [])]
    counted = inputs.answer("counters/counters.json", "headline") or {"workloads": []}
    for one in counted["workloads"]:
        yield ["counters", *one["asked"], *(["--", *one["command"]] if one["command"] else [])]
    swept = inputs.answer("files/sweep.json", "headline") or {"asked": []}
    yield from swept["asked"]
    if fitted := inputs.answer("fidelity.json", "headline"):
        yield ["fit", name, *fitted.get("asked", [])]


def _extent(profile: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that made a folder of a profile, as generate noted them."""
    units = {"requests": "", "duration_ns": "ns", "seed": "", "target_bytes": "B"}
    for key, unit in units.items():
        if profile.get(key):
            option = "target-size" if key == "target_bytes" else key.removesuffix("_ns")
            yield from (f"--{option}", f"{profile[key]}{unit}")


def _replays(inputs: Inputs, name: str) -> Iterator[Sequence[str]]:
    """Yield the command of each replay; repeats of one are of the same command."""
    found = []
    for replay in inputs.replays:
        summary = replay.summary
        options = summary.get("asked")
        if options is None:
            options = [
                *("--limit", str(summary["plan"]["requests"])),
                *("--engine", summary["engine"]["asked"], "--pace", summary["pace"]),
                *("--name", replay.name),
            ]
        if replay.name not in VERIFIED and options not in found:
            found.append(options)
            yield ["replay", name, *options]

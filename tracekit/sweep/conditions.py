"""What runs of a folder differ in beside their parameters, so that these are no repeats of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.sweep.grid import Run

Result = Mapping[str, Any]


def told_settings(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the settings of each run: its parameters, and what its personality's runs differ in.

    That is named as the option that asks for it; a definition that was changed by its digest. Runs
    of versions that did not write a definition count as of the only one that is known.
    """
    conditions = [dict(_conditions(result)) for result in results]
    values: dict[tuple[str, str], set[Any]] = {}
    for result, found in zip(results, conditions, strict=True):
        for key, value in found.items():
            values.setdefault((result["personality"], key), set()).add(value)
    return [
        dict(result["settings"])
        | {
            key: value
            for key, value in found.items()
            if len(values[result["personality"], key]) > 1
        }
        for result, found in zip(results, conditions, strict=True)
    ]


def _conditions(result: Result) -> Iterator[tuple[str, Any]]:
    asked = result["timing_asked"]
    yield "--cache", asked["cache"]
    yield "--seed", asked["seed"]
    yield "--duration", f"{asked['duration_ns'] / 1e9:.9g}s"
    yield "--warm-up", f"{asked['warm_up_ns'] / 1e9:.9g}s"
    if "lab" in result:
        yield "--exact", "yes" if result["lab"]["exact"] else "no"
    if "definition" in result:
        yield "definition", result["definition"]


def check_places(results: Sequence[Result], runs: Sequence[Run]) -> None:
    """Raise UsageError when a target of that name was another place in the runs that are there."""
    known = {
        result["target"]: _place(result["directory"], result.get("memory")) for result in results
    }
    for target in {run.target.name: run.target for run in runs}.values():
        memory = target.memory
        medium = {"medium": vars(memory.medium)} if memory and memory.medium else {}
        place = _place(str(target.directory), medium if memory else None)
        if known.get(target.name, place) != place:
            raise UsageError(
                f"--target {target.name}={place}: in this folder {target.name} is"
                f" {known[target.name]}",
                hint="give it another name, or the results another --output",
            )


def _place(directory: str, memory: Mapping[str, Any] | None) -> str:
    """Name a place as `--target` does, memory with the times that its medium adds."""
    if directory.startswith("lab:"):
        return directory
    place = str(Path(directory).absolute())
    medium = (memory or {}).get("medium", {})
    times = [f"{medium[key]}ns" for key in ("read_line_ns", "write_line_ns") if key in medium]
    return place if memory is None else ":".join(["memory", place, *times])

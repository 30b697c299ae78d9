"""Writes the requests of a work profile: a trace folder, a plan, or a job of fio."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracekit.errors import UsageError
from tracekit.store import refuse_folder
from tracekit.units import parse_duration, parse_size
from tracekit.workload.fio import write_job
from tracekit.workload.folder import write_folder
from tracekit.workload.keys import has_flow
from tracekit.workload.model import Profile
from tracekit.workload.reader import find_definition, read_profile
from tracekit.workload.requests import Extent, resized, write_plan


def open_profile(name: str, target_bytes: int | None = None) -> Profile:
    """Return a shipped profile or that of a file, for a target of another size if one is given."""
    profile = read_profile(find_definition(name))
    return profile if target_bytes is None else resized(profile, target_bytes)


def generate(
    profile: Profile,
    output: Path,
    *,
    form: str,
    extent: Extent,
    overwrite: bool = False,
    on_rows: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Any]:
    """Write the requests of a profile as `form`: trace, plan or fio; return what was made.

    Raise UsageError for a file that is there and for a folder that a file cannot replace,
    InputError when no request comes in the time.
    """
    result: dict[str, Any] = {"profile": profile.name, "format": form, "output": str(output)}
    if form == "trace":
        folder = write_folder(profile, output, extent=extent, overwrite=overwrite, on_rows=on_rows)
        made = {
            "requests": folder.info.counts["requests"],
            "duration_ns": folder.info.clock.duration_ns,
            "operations": folder.info.counts["operations"],
        }
        return {**result, "seed": extent.seed, **made}
    refuse_folder(output, f"{profile.name}.{form}")
    if output.is_file() and not overwrite:
        hint = "choose another --output or pass --force"
        raise UsageError(f"{output} exists already", hint=hint)
    if form == "fio":
        return {**result, **write_job(profile, output, extent=extent)}
    made = write_plan(profile, output, extent=extent, on_rows=on_rows)
    return {**result, "seed": extent.seed, **made}


def asked_extent(
    requests: int | None, duration: str | None, *, seed: int, default: str | None = None
) -> Extent:
    """Return how much to make; `default` is a duration for when neither is given."""
    text = duration or (default if requests is None else None)
    length_ns = None if text is None else parse_duration(text, option="--duration")
    return Extent(requests, length_ns, seed)


def asked_profile(name: str, target_size: str | None) -> Profile:
    """Return the profile, for a target of another size if one is given.

    Raise UsageError for a definition of another kind.
    """
    file = find_definition(name)
    if has_flow(file):
        raise UsageError(
            f"{file} has a flow of file operations, which is no work profile",
            hint="a work profile has [[request]] and [arrival]: see docs/profiles.md",
        )
    size = None if target_size is None else parse_size(target_size, option="--target-size")
    return open_profile(name, size)

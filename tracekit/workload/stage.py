"""Makes what was asked of a work profile: a trace folder, a plan, or a job of fio."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracekit.errors import UsageError
from tracekit.store import refuse_folder
from tracekit.workload.blocks import Extent, resized
from tracekit.workload.fio import write_job
from tracekit.workload.folder import write_folder
from tracekit.workload.model import Profile
from tracekit.workload.plan import write_plan
from tracekit.workload.reader import find_definition, read_profile

FORMS = ("trace", "plan", "fio")


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
    """Write the requests of a profile in a form of FORMS; return what was made.

    Raise UsageError for a file that is there and for a folder that a file cannot replace,
    InputError when no request comes in the time.
    """
    result: dict[str, Any] = {"profile": profile.name, "format": form, "output": str(output)}
    if form == "trace":
        folder = write_folder(profile, output, extent=extent, overwrite=overwrite, on_rows=on_rows)
        made = {
            "requests": folder.info["counts"]["requests"],
            "duration_ns": folder.info["clock"]["duration_ns"],
            "operations": folder.info["counts"]["operations"],
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

"""What a command was asked for, in words, as a profile and an extent."""

from __future__ import annotations

from tracekit.errors import UsageError
from tracekit.sizes import parse_duration, parse_size
from tracekit.workload.blocks import Extent
from tracekit.workload.keys import has_flow
from tracekit.workload.model import Profile
from tracekit.workload.reader import find_definition
from tracekit.workload.stage import open_profile


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

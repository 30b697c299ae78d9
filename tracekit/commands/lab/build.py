"""`tracekit lab build`: make the guest's kernel and root file system."""

from __future__ import annotations

from typing import Any

from tracekit.api import lab
from tracekit.commands import options
from tracekit.invoking_user import become_invoking_user


@options.of(
    lab.build,
    package="Package of the distribution to add. Can be repeated.",
    force="Build again even if it exists.",
)
def build(*, as_json: options.Json = False, **chosen: Any) -> None:
    """Make a guest from packages of Debian, without root, and keep it in the user's cache."""
    become_invoking_user()
    made = lab.build(**chosen)
    if as_json:
        options.say_json(made)
    else:
        options.say(f"{made['folder']}: {made['kernel']}, {made['archives']} packages")

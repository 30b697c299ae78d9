"""`tracekit lab uses`: what NVM as swap, as journal and as file system does for a command."""

from __future__ import annotations

from typing import Any

from tracekit.api import lab
from tracekit.commands import options
from tracekit.invoking_user import become_invoking_user


@options.of(
    lab.uses,
    lab.job,
    output="Folder for uses.json; an unfinished one is continued.",
    disk=options.option(
        "Part of the disk, with its latency: fs (mounted on $LAB_FS), journal (of fs), swap. Each"
        " is NVM in turn. Can be repeated.",
        metavar="ROLE=SIZE:LATENCY[:DEPTH]",
    ),
    nvm=options.option(
        "Latency of the NVM, and how many requests at once.", metavar="LATENCY[:DEPTH]"
    ),
    repeat=options.option("Runs of each use.", min=1),
    throughput=options.option(
        "What counts: the number that this regular expression finds in the command's output, more"
        " is better. Default: the command's time.",
        metavar="REGEX",
    ),
    **options.GUEST,
)
def uses(command: options.GuestCommand, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Run a command with NVM as swap, as journal and as file system, and with none of it."""
    become_invoking_user()
    done = lab.uses(command, **chosen)
    if as_json:
        options.say_json(done)
    else:
        options.say(*done["headline"])

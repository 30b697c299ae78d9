"""`tracekit simulate endurance`: what the writes do to the NVM, and what it costs."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.commands.options import option


@options.of(
    tk.Simulate.endurance,
    placement=options.PLACEMENT,
    device=option(
        "Profile or what-if device of the NVM.",
        show_default="the recommendation's",
        autocompletion=completion.device_profiles,
    ),
    write_amplification="Pages that the device writes for each page written.",
    what_if=options.WHAT_IF,
    profiles=options.PROFILES,
)
def endurance(trace: options.Recommended, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Say how often pages are written, how long NVM of each placement lasts, and its price."""
    options.show(tk.open(trace).simulate.endurance(**chosen), as_json=as_json)

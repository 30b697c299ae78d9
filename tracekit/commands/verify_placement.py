"""`tracekit verify-placement`: does the model's prediction hold in a replay?"""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import options
from tracekit.commands.options import option


@options.of(
    tk.Trace.verify_placement,
    placement=options.PLACEMENT_OR_BEST,
    target=option(
        "Real devices or files: PATH for the base and nvm=PATH for NVM. Can be repeated.",
        show_default="none: both are emulated",
    ),
    engine=option("How to replay; dax cannot tell.", show_default="emulated; auto with a --target"),
    write_to=options.CONFIRM,
    duration="Replay as many requests as the model says take this long, in windows over the whole"
    " trace.",
    repeat="How often each is replayed, in turn.",
    tolerance="How far the gain may be off, as a share of the base's time.",
    time_tolerance="How far each time may be off, as a share of what was predicted.",
    profiles=options.PROFILES,
)
def verify_placement(
    trace: options.Recommended, *, as_json: options.Json = False, **chosen: Any
) -> None:
    """Replay base, recommended placement and runner-up, and say whether the prediction held."""
    options.show(tk.open(trace).verify_placement(**chosen), as_json=as_json)

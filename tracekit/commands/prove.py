"""`tracekit prove`: is what the model says true of these two devices?"""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import options
from tracekit.commands.options import option

TARGET = "file or block device, or a device profile to emulate"


@options.of(
    tk.Trace.prove,
    base=option(f"Base device: a {TARGET}.", metavar="TARGET"),
    nvm=option(f"NVM: a {TARGET}.", metavar="TARGET"),
    output=option("Folder of all that comes of it.", show_default="proof in the trace folder"),
    write_to="Allow all that is measured of this target to be overwritten: the absolute path of a"
    " file, or the name that a run without this option prints for a device. Needed for both.",
    quick="Measure a hundredth of the requests, on a coarser surface.",
    scale="Scale all request counts.",
    rounds="How often each target is measured, in turn.",
    size=option("How much of each is measured.", show_default="what is replayed there; 64MiB"),
    capacity=option("NVM capacity.", metavar="SIZE", show_default="a tenth of what was touched"),
    placement=options.PLACEMENT_OR_BEST,
    duration="Replay as many requests as take this long by the model, in windows of one half of the"
    " trace; measure the targets as long with requests of the other half.",
    repeat="How often each is replayed, in turn.",
    tolerance="How far the gain may be off, as a share of the base's time.",
    time_tolerance="How far each time may be off, as a share of what was predicted.",
    profiles=options.PROFILES,
    force="Start anew and replace results.",
)
def prove(trace: options.Classified, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Measure two devices, recommend for them, replay the answer on them, and compare.

    Everything on both is lost, so each needs --write-to, as for replay. The same command again
    continues an interrupted round.
    """
    options.show(tk.open(trace).prove(**chosen), as_json=as_json)

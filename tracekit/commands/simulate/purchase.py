"""`tracekit simulate purchase`: what to buy, if anything, and who gets how much of it."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.commands.options import option


@options.of(
    tk.Simulate.purchase,
    nvm=option(
        "Device profiles to choose from, with commas between them.",
        show_default="all with a price that are twice as quick as the base",
        metavar="PROFILES",
        autocompletion=completion.device_profiles,
    ),
    budget=option("Maximum to spend, in USD.", metavar="USD"),
    growth=option(
        "Yearly growth of the load and of what it touches: a factor, such as 1.3.", metavar="FACTOR"
    ),
    capacity=option(
        "How much of the device is used; with --share how much is divided.",
        show_default="all of it; of what is shared as the recommendation's",
        metavar="SIZE",
    ),
    share=option(
        "Other trace folder with a recommendation that shares the NVM, from a base device of its"
        " own. Can be repeated.",
        metavar="TRACE",
        autocompletion=completion.traces,
    ),
    profiles=options.PROFILES,
)
def purchase(trace: options.Recommended, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Say which device to buy, or none: gain, price and lifetime; how traces share one NVM.

    Devices are bought whole. Do not buy is the answer where a device gains nothing, is worn out
    within its warranty, loses its content without power, or slows down among writes. Of the devices
    that no other beats in gain, price and lifetime, the cheapest with 90% of the largest gain is
    bought.
    """
    options.show(tk.open(trace).simulate.purchase(**chosen), as_json=as_json)

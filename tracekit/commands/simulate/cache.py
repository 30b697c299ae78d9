"""`tracekit simulate cache`: what a cache of any size would give."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.commands.options import option


@options.of(
    tk.Simulate.cache,
    tk.SetSimulate.cache,
    page="Size of a page: a power of two from 4KiB.",
    sizes="Cache sizes for the policies and the plane, such as 64MiB,1GiB. Default: eight octaves"
    " up to all that was touched. The curves have every size.",
    policy=options.POLICIES,
    write="How the caches of one level write.",
    write_miss="Whether a missed write brings its page into the cache.",
    levels="Whether flash also holds what PCM above it holds.",
    level_policy=option(
        "Policies of the two levels: any of those above but optimum, which is for one level."
        " Default: pcm=lru,flash=lru.",
        metavar="LEVEL=POLICY,...",
    ),
    level_write="How the two levels write: through both and behind them; back, to the fastest level"
    " that has the page, and further down when it leaves; or around both.",
    volumes="Number of devices with their own curves, those with the most references; the others"
    " share one. 0: none.",
    sample_rate="Share of the pages to sample, 0 to 1; for very long traces.",
    samples="Maximum pages in the sample, 16 bytes each; its rate falls as the trace goes on.",
    pcm="Device profile of the fast level.",
    flash="Device profile of the slow level.",
    base=option(
        "Device profile of what is behind the cache.", autocompletion=completion.device_profiles
    ),
    profiles=options.PROFILES,
    vary=option(
        "Also ask what another device would give: pcm, flash or base, a key of its profile and"
        " factors. PCM's read and write latency and price are halved and doubled anyway.",
        metavar="LEVEL.KEY=FACTOR,...",
    ),
    engine=options.SET_ENGINE,
    master=options.MASTER,
)
def cache(trace: options.ClassifiedOrSet, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Give the miss ratio of every cache size, of policies, and of PCM above flash.

    Of a trace set each volume has caches of its own, and a table shows them side by side.
    """
    options.show(options.opened(trace, chosen).simulate.cache(**chosen), as_json=as_json)

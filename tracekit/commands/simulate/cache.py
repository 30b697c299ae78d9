"""`tracekit simulate cache`: what a cache of any size would give."""

from __future__ import annotations

from typing import Annotated

import typer

import tracekit as tk
from tracekit.choices import (
    Levels,
    WriteMiss,
    WritePolicy,
)
from tracekit.commands import options


def cache(
    context: typer.Context,
    trace: options.Classified,
    *,
    page: Annotated[str, typer.Option(help="Size of a page: a power of two from 4KiB.")] = "4KiB",
    sizes: Annotated[
        str,
        typer.Option(
            help="Cache sizes for the policies and the plane, such as 64MiB,1GiB. Default: eight"
            " octaves up to all that was touched. The curves have every size."
        ),
    ] = "",
    policy: options.Policies = "",
    write: Annotated[
        WritePolicy,
        typer.Option(help="How the caches of one level write."),
    ] = "through",
    write_miss: Annotated[
        WriteMiss,
        typer.Option(help="Whether a missed write brings its page into the cache."),
    ] = "allocate",
    levels: Annotated[
        Levels,
        typer.Option(help="Whether flash also holds what PCM above it holds."),
    ] = "exclusive",
    level_policy: Annotated[
        str,
        typer.Option(
            help="Policies of the two levels: any of those above but optimum, which is for one"
            " level. Default: pcm=lru,flash=lru.",
            metavar="LEVEL=POLICY,...",
        ),
    ] = "",
    level_write: Annotated[
        WritePolicy,
        typer.Option(
            help="How the two levels write: through both and behind them; back, to the fastest"
            " level that has the page, and further down when it leaves; or around both."
        ),
    ] = "through",
    volumes: Annotated[
        int,
        typer.Option(
            help="Most devices with curves of their own, those with the most references; the others"
            " are together. 0: none."
        ),
    ] = 4,
    sample_rate: Annotated[
        float | None,
        typer.Option(help="Share of the pages to sample, 0 to 1; for very long traces."),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            help="Most pages in the sample, 16 bytes each: its rate falls as the trace goes on."
        ),
    ] = None,
    pcm: Annotated[str, typer.Option(help="Device profile of the fast level.")] = "ssd-pcm",
    flash: Annotated[str, typer.Option(help="Device profile of the slow level.")] = "ssd-emlc",
    base: Annotated[
        str, typer.Option(help="Device profile of what is behind the cache.")
    ] = "network-storage",
    profiles: options.Profiles = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="Also ask what another device would give: pcm, flash or base, a key of its profile"
            " and factors. PCM's read and write latency and price are halved and doubled anyway.",
            metavar="LEVEL.KEY=FACTOR,...",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Give the miss ratio of every cache size, of policies, and of PCM above flash."""
    options.show(tk.open(trace).simulate.cache(**options.given(context)), as_json=as_json)

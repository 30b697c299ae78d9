"""`tracekit simulate cache`: what a cache of any size would give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from tracekit.model.cache import CacheOptions


def cache(
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="Trace folder, classified.")],
    *,
    page: Annotated[str, typer.Option(help="Size of a page: a power of two from 4KiB.")] = "4KiB",
    sizes: Annotated[
        str,
        typer.Option(
            help="Cache sizes for the policies and the plane, such as 64MiB,1GiB. Default: eight"
            " octaves up to all that was touched. The curves have every size."
        ),
    ] = "",
    policy: Annotated[
        str,
        typer.Option(
            help="Policies to compare: lru, fifo, clock, s3-fifo, arc, optimum. Default: all."
        ),
    ] = "",
    write: Annotated[
        Literal["through", "back", "around"],
        typer.Option(help="How the caches of one level write: through, back or around the cache."),
    ] = "through",
    write_miss: Annotated[
        Literal["allocate", "bypass"],
        typer.Option(help="Whether a missed write brings its page into the cache."),
    ] = "allocate",
    levels: Annotated[
        Literal["exclusive", "inclusive"],
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
        Literal["through", "back", "around"],
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
    profiles: Annotated[
        Path | None, typer.Option(help="TOML file of own device profiles.", metavar="FILE")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="Also ask what another device would give: pcm, flash or base, a key of its profile"
            " and factors. PCM's read and write latency and price are halved and doubled anyway.",
            metavar="LEVEL.KEY=FACTOR,...",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Give the miss ratio of every cache size, of policies, and of PCM above flash."""
    from tracekit._native.caches import POLICIES
    from tracekit.model.cache import CacheOptions, parse_policies
    from tracekit.model.cache_plane import parse_changes
    from tracekit.units import parse_size

    chosen = [text for text in sizes.split(",") if text.strip()]
    names = [text for text in policy.split(",") if text.strip()]
    options = CacheOptions(
        page_bytes=parse_size(page, option="--page"),
        sizes_bytes=tuple(parse_size(text, option="--sizes") for text in chosen),
        policies=tuple(dict.fromkeys(text.strip() for text in names)) or POLICIES,
        writes=write,
        writes_allocate=write_miss == "allocate",
        levels=levels,
        level_policies=parse_policies(level_policy),
        level_writes=level_write,
        volumes=volumes,
        sample_rate=sample_rate,
        sample_pages=samples,
        pcm=pcm,
        flash=flash,
        base=base,
        profiles=profiles,
        changes=parse_changes(vary or ()),
    )
    result = _simulate(trace, options, context=context)
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(result["headline"]))
    for line in _left_out(result, options):
        typer.echo(line, err=True)


def _simulate(trace: Path, options: CacheOptions, *, context: typer.Context) -> dict[str, Any]:
    from tracekit.commands.provenance import keep_asked
    from tracekit.model.cache import Progress, simulate_cache
    from tracekit.progress import row_progress, step_progress
    from tracekit.store import TraceFolder

    with row_progress("read requests") as on_rows, step_progress("simulate") as on_step:
        result = simulate_cache(TraceFolder(trace), options, progress=Progress(on_rows, on_step))
    keep_asked(TraceFolder(trace), result, context=context)
    return result


def _left_out(result: dict[str, Any], options: CacheOptions) -> Iterator[str]:
    """Yield a line for each thing that the answer lacks."""
    from tracekit.errors import escape

    left_out = result["left_out"]
    if result["volumes"]["others"]:
        named = ", ".join(map(escape, result["volumes"]["named"]))
        yield f"curves by volume: {named}; {result['volumes']['others']:,} others together"
    if left_out["volumes"]:
        yield f"curves by volume left out, a sample has none: {left_out['volumes']:,} devices"
    if left_out["policies"]:
        reason = "a sample is not enough for them" if options.is_sampled else "too many references"
        yield f"policies left out, {reason}: {', '.join(left_out['policies'])}"
    if left_out["impossible"]:
        yield f"requests left out, impossible: {left_out['impossible']:,}"

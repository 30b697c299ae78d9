"""`tracekit bench`: a work profile run on a file or disk, a personality in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.choices import (
    BenchPace,
    CacheState,
    Engine,
)
from tracekit.commands import options

OF_PROFILES = ("requests", "target_size", "speed", "pace", "depth", "engine", "device", "write_to")
OF_PERSONALITIES = ("threads", "files", "settings", "warm_up", "cache")


def bench(
    context: typer.Context,
    definition: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A shipped profile (web-server, paging, log-structured), a shipped personality"
            " (fileserver, webserver, webproxy, varmail, zip, unzip, ffsb), or a TOML file.",
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="New trace folder with all that comes of it.")
    ],
    target: Annotated[
        Path | None,
        typer.Option(
            help="File or block device; what does not exist is made, filled, and then removed."
            " Of a personality: directory.",
            show_default="a file beside the trace folder",
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(help="So much of the profile's time.", show_default="60s without --requests"),
    ] = None,
    requests: Annotated[int | None, typer.Option(help="Most requests.")] = None,
    seed: options.Seed = 0,
    target_size: options.TargetSize = None,
    speed: Annotated[
        str, typer.Option(help="Divide the profile's times by this, such as 2 or 0.5.")
    ] = "1",
    pace: Annotated[
        BenchPace | None,
        typer.Option(
            help="trace: each request at its time; fast: always --depth of them under way.",
            show_default="as the profile says",
        ),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(help="Most requests under way.", show_default="the profile's")
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(help="How to do I/O; emulated takes the times of --device, null does none."),
    ] = "auto",
    device: Annotated[
        str | None, typer.Option(help="Device profile to emulate.", metavar="PROFILE")
    ] = None,
    repeat: Annotated[
        int, typer.Option(help="Run so often; compare tells the spread of latest.1, latest.2, ...")
    ] = 1,
    write_to: options.Confirm = None,
    threads: Annotated[
        str, typer.Option(help="Of a personality: threads.", show_default="50")
    ] = "",
    files: Annotated[
        str, typer.Option(help="Of a personality: files.", show_default="as it says")
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Of a personality: any parameter.", metavar="KEY=VALUE"),
    ] = None,
    warm_up: Annotated[
        str, typer.Option(help="Of a personality: time before it is measured.")
    ] = "0s",
    cache: Annotated[
        CacheState, typer.Option(help="Of a personality: what becomes of caches before the run.")
    ] = "sync",
    keep: Annotated[bool, typer.Option("--keep", help="Keep a target made for the run.")] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Analyze the run and write report.html.")
    ] = True,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace the trace folder. Of a personality: run again what is there; runs of"
            " other settings stay.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Run a work profile on a target by the replayer; its report has times and throughput."""
    from tracekit.api.start import is_personality

    chosen = options.given(context)
    if is_personality(definition):
        options.refuse(context, ("keep", *OF_PROFILES), f"{definition} is a personality")
        options.show(tk.bench_files(definition, **chosen), as_json=as_json)
        return
    options.refuse(context, OF_PERSONALITIES, f"{definition} is no personality")
    options.show(tk.bench(definition, **chosen), as_json=as_json)

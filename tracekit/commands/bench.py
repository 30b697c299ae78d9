"""`tracekit bench`: a work profile run on a file or disk, a personality in a directory."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.commands.options import option

OF_PROFILES = ("requests", "target_size", "speed", "pace", "depth", "engine", "device", "write_to")
OF_PERSONALITIES = ("threads", "files", "settings", "warm_up", "cache")


@options.of(
    tk.bench,
    tk.bench_files,
    output="New trace folder for the results.",
    target=option(
        "File or block device; a file that does not exist is made, filled, and removed afterwards."
        " For a personality: a directory.",
        show_default="a file beside the trace folder",
    ),
    duration=option(
        "Length of the run.",
        show_default="60s without --requests; what a file of filebench says",
    ),
    requests="Maximum number of requests.",
    seed=options.SEED,
    target_size=options.TARGET_SIZE,
    speed="Divide the profile's times by this, such as 2 or 0.5.",
    pace=option(
        "trace: each request at its time; fast: always --depth in flight.",
        show_default="as the profile says",
    ),
    depth=option("Maximum requests in flight.", show_default="the profile's"),
    engine="How to do I/O; emulated takes the times of --device, null does none.",
    device=option(
        "Device profile to emulate.", metavar="PROFILE", autocompletion=completion.device_profiles
    ),
    repeat="Number of runs, latest.1, latest.2, ...; compare shows their spread.",
    write_to=options.CONFIRM,
    threads=option("Number of threads.", show_default="50"),
    files=option("Number of files.", show_default="as it says"),
    settings=option("Any parameter.", "--set", metavar="KEY=VALUE"),
    warm_up="Time before the measurement.",
    cache="What happens to the caches before the run.",
    keep="Keep a target made for the run.",
    report="Analyze the run and write report.html.",
    force="Replace the trace folder. For a personality: repeat runs that are there; those with"
    " other settings stay.",
)
def bench(
    context: typer.Context,
    definition: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.definitions,
            help="A shipped profile (web-server, paging, log-structured), a shipped personality"
            " (fileserver, webserver, webproxy, varmail, zip, unzip, ffsb, varmail-study-d,"
            " webproxy-study-d), or a file, of TOML or of filebench (.f).",
        ),
    ],
    *,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Run a work profile or personality on a target; report times and throughput."""
    from tracekit.api.measure import is_personality

    if is_personality(definition):
        options.refuse(context, ("keep", *OF_PROFILES), f"{definition} is a personality")
        options.show(tk.bench_files(definition, **chosen), as_json=as_json)
        return
    options.refuse(context, OF_PERSONALITIES, f"{definition} is no personality")
    options.show(tk.bench(definition, **chosen), as_json=as_json)

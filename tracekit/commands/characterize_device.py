"""`tracekit characterize-device`: what a device does, and a profile fitted to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.errors import PartialError, UsageError


def characterize_device(  # noqa: PLR0913 - a command's parameters are its options
    context: typer.Context,
    target: Annotated[
        Path | None,
        typer.Argument(
            help="File or block device; a file that does not exist is made and removed afterwards."
            " Can be left out with --device."
        ),
    ] = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder for the results: a new one, or that of a trace."
        ),
    ],
    device: Annotated[
        str, typer.Option(help="Device profile to emulate; without TARGET no data moves.")
    ] = "",
    profiles: Annotated[
        Path | None, typer.Option(help="TOML file of own device profiles.", metavar="FILE")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="auto, io_uring, threads, dax, or emulated (--device).")
    ] = "auto",
    size: Annotated[
        str, typer.Option(help="How much is used of it.", show_default="all; 1GiB of a new file")
    ] = "",
    write_to: Annotated[
        list[str] | None,
        typer.Option(
            help="Confirm that this existing target may be written, all of --size: the absolute"
            " path of a file, or what a run without it shows for a device. Without it only what"
            " reads is measured."
        ),
    ] = None,
    overwrite_signature: Annotated[
        list[str] | None,
        typer.Option(help="Allow a target that holds this, such as ext or swap, to be destroyed."),
    ] = None,
    direct: Annotated[str, typer.Option(help="O_DIRECT: auto, on or off.")] = "auto",
    fill: Annotated[
        int, typer.Option("--fill", help="Percent of the size to write in sequence first.")
    ] = 100,
    precondition: Annotated[
        int, typer.Option(help="Random requests then, 20 % of them writes, at depth 256.")
    ] = 1_000_000,
    writes: Annotated[int, typer.Option(help="Random 4 KiB writes at depth 1.")] = 1_000_000,
    reads: Annotated[int, typer.Option(help="Random 4 KiB reads at depth 1.")] = 5_000_000,
    sizes: Annotated[int, typer.Option(help="Requests of each longer length.")] = 5_000,
    flushes: Annotated[int, typer.Option(help="Writes with a flush, and with FUA.")] = 5_000,
    surface: Annotated[int, typer.Option(help="Requests of each write share and depth.")] = 100_000,
    write_percents: Annotated[
        str, typer.Option(help="Write shares of the surface, in percent.")
    ] = "0,20,40,60,80,100",
    depths: Annotated[
        str, typer.Option(help="Depths of the surface.")
    ] = "1,2,4,8,16,32,64,128,256",
    scale: Annotated[
        float, typer.Option(help="Factor of all numbers of requests; what is filled stays.")
    ] = 1.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A hundredth of the requests, a coarser surface.")
    ] = False,
    name: Annotated[
        str, typer.Option(help="Name of the fitted profile.", show_default="after the target")
    ] = "",
    like: Annotated[
        str, typer.Option(help="Profile that gives what was not measured.", metavar="PROFILE")
    ] = "",
    price: Annotated[
        float | None, typer.Option(help="Price a gigabyte for the profile.", show_default="1")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random places; the same gives the same.")] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Keep a file made for the run.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Begin anew, replace results.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Measure a device's latencies and IOPS as study B does, and fit a device profile to them.

    The device is filled and written at random first, so everything on it is lost: an existing
    target is written only with --write-to, as for replay. An interrupted run goes on when the
    same command is given again.
    """
    from tracekit.device.characterize import CharacterizeOptions
    from tracekit.device.steps import Amounts
    from tracekit.device.target import TargetOptions
    from tracekit.units import parse_size

    size_bytes = parse_size(size, option="--size") if size else None
    amounts = Amounts(
        fill_percent=fill,
        precondition=precondition,
        writes=writes,
        reads=reads,
        sizes=sizes,
        flushes=flushes,
        surface=surface,
        write_percents=_numbers(write_percents, option="--write-percents"),
        depths=_numbers(depths, option="--depths"),
        scale=scale,
    )
    options = CharacterizeOptions(
        target=TargetOptions(
            path=target,
            device=device,
            profiles=profiles,
            engine=engine,
            size_bytes=size_bytes,
            direct=direct,
            write_to=tuple(write_to or ()),
            overwrite_signature=tuple(overwrite_signature or ()),
        ),
        amounts=amounts.quick() if quick else amounts,
        name=name,
        like=like,
        price_per_gb=price,
        seed=seed,
        keeps_file=keep,
        overwrite=force,
    )
    _run(output, options, context=context, as_json=as_json)


def _run(output: Path, options: Any, *, context: typer.Context, as_json: bool) -> None:
    from tracekit.commands.provenance import keep_asked
    from tracekit.device.characterize import RESULT, characterize
    from tracekit.progress import step_progress
    from tracekit.store import TraceFolder

    with step_progress("characterize") as on_step:
        result = characterize(output, options, on_step=on_step)
    keep_asked(TraceFolder(output), result, context=context, place=RESULT)
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(result["headline"]))
    for doubt in result["warnings"]:
        typer.echo(f"warning: {doubt}", err=True)
    if result["failed"]:
        raise PartialError(f"{result['failed']:,} requests failed; the others are in {output}")


def _numbers(text: str, *, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} {text}: not whole numbers with commas between them") from None


# As on the command line.
characterize_device.__name__ = "characterize-device"

"""`tracekit lab capture`: the block events of a command in a virtual machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tracekit.errors import PartialError, UsageError

if TYPE_CHECKING:
    from tracekit.lab.session import Ended, Kept


def capture(
    command: Annotated[list[str], typer.Argument(help="Command to run in the guest, after `--`.")],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="New folder, as `tracekit parse` reads it.")
    ],
    disk: Annotated[
        list[str],
        typer.Option(
            metavar="ROLE=SIZE[:LATENCY]",
            help="Part of a traced disk: fs (mounted on $LAB_FS), journal (of fs), swap. With a "
            "latency it is emulated in memory (LATENCY:DEPTH: so many requests at once). Can be "
            "repeated.",
        ),
    ],
    memory: Annotated[int, typer.Option(help="Memory of the guest, in MiB.", min=256)] = 1024,
    cpus: Annotated[int, typer.Option(help="Processors of the guest.", min=1, max=64)] = 2,
    limit: Annotated[
        str, typer.Option(help="Memory of the command with its page cache; 0: all there is.")
    ] = "0",
    share: Annotated[
        Path | None, typer.Option(help="Folder of which the command finds a copy in $LAB_SHARE.")
    ] = None,
    package: Annotated[
        list[str] | None,
        typer.Option(help="Package that the guest has, built in if new. Can be repeated."),
    ] = None,
    prepare: Annotated[
        str, typer.Option(help="Shell text to run before; then the disks are mounted anew.")
    ] = "",
    mount: Annotated[str, typer.Option(help="Mount options of fs, such as data=journal.")] = "",
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Count the guest's time in instructions: emulated latencies are exact whatever "
            "else this machine does.",
        ),
    ] = False,
    timeout: Annotated[
        int, typer.Option(help="Most seconds of the guest for the command.", min=1)
    ] = 600,
    compress: Annotated[
        Literal["none", "xz", "zstd"], typer.Option(help="Compress the record files.")
    ] = "none",
    buffer_kib: Annotated[
        int, typer.Option("--buffer", help="Each of blktrace's 8 buffers a CPU, in KiB.", min=64)
    ] = 1024,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Record the block events of a command in a virtual machine, with blktrace and the layout."""
    from tracekit.lab.machine import parse_disks
    from tracekit.lab.session import Job, collect, session
    from tracekit.progress import stage_progress
    from tracekit.store import new_folder
    from tracekit.units import parse_size

    if output.exists():
        raise UsageError(f"{output} exists already", hint="choose another --output")
    job = Job(
        tuple(command),
        disks=tuple(parse_disks(disk)),
        memory_mib=memory,
        cpus=cpus,
        limit_bytes=parse_size(limit, option="--limit"),
        share=share,
        packages=tuple(package or ()),
        prepare=prepare,
        mount_options=mount,
        is_exact=exact,
        timeout_s=timeout,
        is_traced=True,
        buffer_kib=buffer_kib,
    )
    with stage_progress() as on_step, session(job, on_step=on_step) as ended:
        with new_folder(output) as part:
            kept = collect(ended, job, folder=part, name=output.name, compress=compress)
        talk = [(ended.folder / name).read_text(errors="replace") for name in ("stdout", "stderr")]
    sys.stderr.write("".join(talk))
    _print(kept, ended, output, as_json=as_json)
    _complain(kept, ended, output)


def _print(kept: Kept, ended: Ended, output: Path, *, as_json: bool) -> None:
    if as_json:
        result = {
            "output": str(output),
            "files": list(kept.files),
            "records": kept.records,
            "own_requests": kept.own_requests,
            "dropped": kept.dropped,
            "exit_status": ended.exit_status,
            "accelerator": ended.accelerator,
            "duration_ns": round(ended.duration_s * 1e9),
        }
        typer.echo(json.dumps(result, indent=2))
        return
    typer.echo(
        f"{output}: {kept.records:,} records in {len(kept.files)} files, {kept.dropped:,} lost; "
        f"guest of {ended.duration_s:.1f} s ({ended.accelerator})"
    )
    if kept.own_requests:
        typer.echo(f"{kept.own_requests:,} requests are of blktrace itself")


def _complain(kept: Kept, ended: Ended, output: Path) -> None:
    """Raise PartialError when the capture is kept but is not the whole run."""
    if kept.dropped:
        raise PartialError(
            f"{output}: blktrace lost {kept.dropped:,} records",
            hint="capture again with a larger --buffer",
        )
    if ended.exit_status == 124:
        raise PartialError(f"{output}: the command ran past --timeout")
    if ended.exit_status:
        raise PartialError(f"{output}: the command failed with status {ended.exit_status}")

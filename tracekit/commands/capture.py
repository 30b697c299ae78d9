"""`tracekit capture`: record a disk's block events while a command runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tracekit.errors import PartialError, UsageError
from tracekit.progress import byte_progress

if TYPE_CHECKING:
    from tracekit.capture.session import Captured, Options


def capture(  # noqa: PLR0913 - a command's parameters are its options
    device: Annotated[str, typer.Argument(help="Whole disk to trace, such as /dev/loop0.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Command to run, after `--`; the capture ends when it ends."),
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="New folder, on a disk that is not traced.")
    ],
    seconds: Annotated[
        float | None, typer.Option("--for", help="Capture for this many seconds.", min=0.01)
    ] = None,
    compress: Annotated[
        Literal["none", "xz", "zstd"], typer.Option(help="Compress the record files.")
    ] = "none",
    buffer_mib: Annotated[
        int, typer.Option("--buffer", help="Kernel buffer of each CPU, in MiB.", min=1, max=1024)
    ] = 32,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Record the block events of a disk and its layout, while a command runs or for a time."""
    from tracekit.capture.session import Options
    from tracekit.capture.session import capture as run_capture

    if command and seconds is not None:
        raise UsageError("--for and a command were both given", hint="choose one of the two")
    options = Options(
        command=tuple(command or ()),
        is_stdout_ours=as_json,
        duration_s=seconds,
        compress=compress,
        buffer_kib=buffer_mib << 10,
    )
    with _progress(options) as watched:
        captured = run_capture(device, output, options=watched)
    for note in captured.notes:
        typer.echo(note, err=True)
    _print(captured, output, as_json=as_json)
    _complain(captured, output)


@contextmanager
def _progress(options: Options) -> Iterator[Options]:
    """Yield options that show how much is captured; a command has the terminal for itself."""
    if options.command:
        yield options
        return
    with byte_progress("capturing until Ctrl-C or the end of --for") as show:
        yield replace(options, on_bytes=lambda total_bytes: show(total_bytes, None))


def _print(captured: Captured, output: Path, *, as_json: bool) -> None:
    kept = captured.kept
    if as_json:
        result = {
            "output": str(output),
            "files": list(kept.files),
            "records": kept.records,
            "own_requests": kept.own_requests,
            "overrun": kept.overrun,
            "dropped": kept.dropped,
            "foreign_bytes": kept.foreign_bytes,
            "duration_ns": round(captured.duration_s * 1e9),
        }
        typer.echo(json.dumps(result, indent=2))
        return
    typer.echo(
        f"{output}: {kept.records:,} records in {len(kept.files)} files, "
        f"{captured.duration_s:.1f} s, {kept.overrun + kept.dropped:,} lost"
    )
    if kept.own_requests:
        typer.echo(f"{kept.own_requests:,} requests are of the capture itself, named tracekit")


def _complain(captured: Captured, output: Path) -> None:
    """Raise PartialError when the capture is kept but is not the whole run."""
    lost = captured.kept.overrun + captured.kept.dropped
    if lost:
        raise PartialError(
            f"{output}: the kernel lost {lost:,} records",
            hint="capture again with a larger --buffer",
        )
    if captured.exit_status is not None and captured.stopped_by:
        raise PartialError(f"{output}: ended early by {captured.stopped_by}; the command was ended")
    if captured.exit_status:
        raise PartialError(f"{output}: the command failed with status {captured.exit_status}")

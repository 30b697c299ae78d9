"""`tracekit capture`: record a disk's block events, or a command's file operations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec import to_builtins
from typer.core import TyperCommand

from tracekit.errors import PartialError, UsageError
from tracekit.progress import byte_progress
from tracekit.units import parse_duration

if TYPE_CHECKING:
    from tracekit.capture.files import FileCapture
    from tracekit.capture.recording import Kept
    from tracekit.capture.session import Captured, CaptureOptions

BUFFER_MIB = 32
LEAST_NS = 10**7
SECONDS = re.compile(r"\d{1,9}(\.\d+)?")


class DevicesAndCommand(TyperCommand):
    """A command of two lists of words: `device` in front of the first `--`, `command` behind it."""

    def make_parser(self, ctx: Any) -> Any:
        """Return a parser that leaves `command` out: it would not know where that begins."""
        whole = self.params
        self.params = [param for param in whole if param.name != "command"]
        try:
            return super().make_parser(ctx)
        finally:
            self.params = whole

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words in front of the first `--`; those behind it are the command as it is."""
        at = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["command"] = args[at + 1 :]
        return rest


def capture(
    device: Annotated[
        list[str] | None,
        typer.Argument(help="Whole disks to trace, such as /dev/loop0; none with --files."),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- command",
            help="Command to run, after `--`; the capture ends when it ends.",
        ),
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="New folder, on a disk that is not traced.")
    ],
    duration: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="TIME", help="Capture for so long: 90 (seconds), 90s, 500ms, 5min."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="How to record: blktrace, tracefs-blk (the kernel's tracer), perf or bpftrace"
            " (of both the text is kept). [default: the first that works here]"
        ),
    ] = None,
    compress: Annotated[
        Literal["none", "xz", "zstd"] | None,
        typer.Option(help="Compress the record files. [default: none]"),
    ] = None,
    buffer_mib: Annotated[
        int | None,
        typer.Option(
            "--buffer", help="Kernel buffer of each CPU, in MiB. [default: 32]", min=1, max=1024
        ),
    ] = None,
    files: Annotated[
        bool,
        typer.Option(
            "--files",
            help="Record the file operations of the command and its children instead, into a"
            " trace folder. Needs strace; no root.",
        ),
    ] = False,
    below: Annotated[
        Path | None,
        typer.Option(help="With --files: only what is below this folder, with all sizes."),
    ] = None,
    hash_names: Annotated[
        bool,
        typer.Option("--hash-names", help="With --files: hashes for names of files and processes."),
    ] = False,
    untraced: Annotated[
        bool,
        typer.Option(
            "--untraced",
            help="Run the command untraced before, to measure what tracing costs.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --files: replace the folder if it is a trace.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Record disks' block events and layout while a command runs, or the command's file calls."""
    words = [*(device or ()), *(command or ())]
    given = {"--below": below, "--hash-names": hash_names, "--untraced": untraced, "--force": force}
    if files:
        if duration is not None or not words:
            raise UsageError("--files records one command", hint="give it behind --")
        _refuse_with_files({"--source": source, "--compress": compress, "--buffer": buffer_mib})
        _capture_files(words, output, given=given, as_json=as_json)
        return
    wrong = [name for name, value in given.items() if value and name != "--untraced"]
    if wrong:
        raise UsageError(f"{wrong[0]} belongs to --files", hint="add --files, or leave it away")
    if not device:
        raise UsageError("which disk?", hint="name one, such as /dev/sda, or give --files")
    if command and duration is not None:
        raise UsageError("--for and a command were both given", hint="choose one of the two")
    if untraced and not command:
        raise UsageError("--untraced needs a command", hint="give it behind --")
    from tracekit.capture.session import CaptureOptions

    options = CaptureOptions(
        command=tuple(command or ()),
        is_stdout_ours=as_json,
        duration_s=_seconds(duration),
        source=source,
        runs_untraced=untraced,
        compress=compress or "none",
        buffer_kib=(buffer_mib or BUFFER_MIB) << 10,
    )
    _capture_blocks(device, output, options=options, as_json=as_json)


def _seconds(text: str | None) -> float | None:
    """Return what --for means in seconds; a number without a unit is that already."""
    if text is None:
        return None
    duration_ns = round(float(text) * 1e9) if SECONDS.fullmatch(text) else None
    if duration_ns is None:
        duration_ns = parse_duration(text, option="--for")
    if duration_ns < LEAST_NS:
        raise UsageError(f"--for: '{text}' is too short", hint="it is at least 10ms")
    return duration_ns / 1e9


def _refuse_with_files(given: dict[str, object]) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} is of block events", hint="leave it away with --files")


def _capture_blocks(
    devices: list[str], output: Path, *, options: CaptureOptions, as_json: bool
) -> None:
    from tracekit.capture.session import capture as run_capture

    with _progress(options) as watched:
        captured = run_capture(devices, output, options=watched)
    for note in (*captured.notes, *_doubts(captured.kept)):
        typer.echo(note, err=True)
    _print(captured, output, as_json=as_json)
    _complain(captured, output)


def _doubts(kept: Kept) -> list[str]:
    if not kept.missed_at_most:
        return []
    return [
        f"up to {kept.missed_at_most:,} events, of all disks, happened while the kernel was in a"
        " BPF program, and were not seen; parse tells how many completions of these disks lack"
    ]


def _capture_files(
    command: list[str], output: Path, *, given: dict[str, Any], as_json: bool
) -> None:
    from tracekit.capture.files import FileOptions, capture_files

    options = FileOptions(
        command=tuple(command),
        below=given["--below"],
        hashes_names=given["--hash-names"],
        is_stdout_ours=as_json,
        runs_untraced=given["--untraced"],
        overwrite=given["--force"],
    )
    found = capture_files(output, options=options)
    _print_files(found, output, as_json=as_json)
    for doubt in to_builtins(found.info.warnings):
        typer.echo(f"warning: {doubt['message']}\n  {doubt['advice']}", err=True)
    if found.stopped_by:
        raise PartialError(f"{output}: ended early by {found.stopped_by}; the command was ended")
    if found.exit_status:
        raise PartialError(f"{output}: the command failed with status {found.exit_status}")


def _print_files(found: FileCapture, output: Path, *, as_json: bool) -> None:
    info = to_builtins(found.info)
    if as_json:
        kept = ("clock", "counts", "loss", "capture", "warnings")
        result = {"trace": str(output), **{key: info[key] for key in kept}}
        typer.echo(json.dumps(result, indent=2))
        return
    counts = info["counts"]
    typer.echo(
        f"{counts['file_operations']:,} operations on {counts['files']:,} files in"
        f" {found.duration_s:.1f} s"
    )
    for name, rows in counts["operations"].items():
        typer.echo(f"  {name:<16}{rows:>12,}")
    overhead = info["capture"]["overhead"]
    if overhead["ratio"]:
        typer.echo(
            f"  traced {found.duration_s:.2f} s, untraced {found.untraced_s:.2f} s:"
            f" {overhead['ratio']:.1f} times as long"
        )
    elif overhead["expected_ns"] is not None:
        typer.echo(
            f"  tracing took about {overhead['expected_ns'] / 1e9:.2f} s of it"
            f" ({overhead['call_ns'] / 1e3:,.1f} us a call); --untraced measures it"
        )
    typer.echo(f"{output}")


@contextmanager
def _progress(options: CaptureOptions) -> Iterator[CaptureOptions]:
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
            "source": captured.source,
            "files": list(kept.files),
            "records": kept.records,
            "own_requests": kept.own_requests,
            "overrun": kept.overrun,
            "dropped": kept.dropped,
            "dropped_by_disk": dict(kept.disks_dropped),
            "foreign_bytes": kept.foreign_bytes,
            "missed_at_most": kept.missed_at_most,
            "duration_ns": round(captured.duration_s * 1e9),
            "overhead": captured.overhead,
        }
        typer.echo(json.dumps(result, indent=2))
        return
    typer.echo(
        f"{output}: {kept.records:,} records in {len(kept.files)} files, "
        f"{captured.duration_s:.1f} s, {kept.overrun + kept.dropped:,} lost ({captured.source})"
    )
    if cost := captured.overhead:
        traced_s, untraced_s = cost["traced_ns"] / 1e9, cost["untraced_ns"] / 1e9
        typer.echo(
            f"  traced {traced_s:.2f} s, untraced {untraced_s:.2f} s:"
            f" {cost['ratio']:.2f} times as long"
        )
    if kept.own_requests:
        typer.echo(f"{kept.own_requests:,} requests are of the capture itself, named tracekit")


def _complain(captured: Captured, output: Path) -> None:
    """Raise PartialError when the capture is kept but is not the whole run."""
    lost = captured.kept.overrun + captured.kept.dropped
    if lost:
        raise PartialError(
            f"{output}: the kernel lost {lost:,} records{_where_lost(captured.kept)}",
            hint="capture again with a larger --buffer",
        )
    if captured.exit_status is not None and captured.stopped_by:
        raise PartialError(f"{output}: ended early by {captured.stopped_by}; the command was ended")
    if captured.exit_status:
        raise PartialError(f"{output}: the command failed with status {captured.exit_status}")


def _where_lost(kept: Kept) -> str:
    """Say which of several disks' records were lost, where that is known."""
    parts = [f"{lost:,} of {disk}" for disk, lost in kept.disks_dropped if lost]
    return f" ({', '.join(parts)})" if len(kept.disks_dropped) > 1 else ""

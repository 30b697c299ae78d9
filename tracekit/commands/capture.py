"""`tracekit capture`: record a disk's block events, or a command's file operations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import tracekit as tk
from tracekit.commands import options
from tracekit.commands.options import option
from tracekit.errors import UsageError

OF_FILES = ("below", "hash_names", "force")
OF_DISKS = (
    *("compress", "buffer", "duration", "max_size", "rotate", "last", "slower", "names"),
    "remote",
)


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


CLASS = DevicesAndCommand


@options.of(
    tk.recover,
    tk.capture,
    tk.capture_files,
    output="New folder, on a disk that is not traced.",
    user=options.USER,
    duration=option(
        "How long to capture: 90s, 500ms, 5min. Without a command, a terminal shows rates, latency"
        " and losses meanwhile; a command has the terminal for itself.",
        metavar="TIME",
    ),
    source="How to record; bpf is a BPF program, tracefs-blk the kernel's tracer; of perf the text"
    " is kept. With --files: strace, or bpf, which needs root, and x86-64, and costs the command"
    " less."
    " [default: the first that works here; with --files strace]",
    compress="Compress the record files.",
    buffer=option("Kernel buffer of each CPU, 1MiB to 1GiB.", metavar="SIZE"),
    max_size=option("Stop recording, but not the command, after so many bytes.", metavar="SIZE"),
    rotate=option(
        "Begin a new capture after so many bytes or minutes: OUTPUT-0001, ..., which parse reads"
        " as one; --max-size then keeps the newest.",
        metavar="SIZE|TIME",
    ),
    last=option(
        "Keep only the last 10min, for example, and as much before it as its requests began;"
        " written at the end and on SIGUSR1, as OUTPUT-0001, ... --max-size limits it.",
        metavar="TIME",
    ),
    slower=option("With --last: write it when a request takes longer than this.", metavar="TIME"),
    names=option(
        "Time limit for finding where files lie, before and after, and for each OUTPUT-0001; 0: do"
        " not. It reads the metadata of all files into memory.",
        metavar="TIME",
    ),
    files=None,
    below="With --files: only files below this folder, with all their sizes.",
    hash_names="With --files: hash the names of files and processes.",
    untraced="First run the command untraced, to measure what tracing costs.",
    force="With --files: replace the folder if it is a trace.",
    remote=option(
        "Record disks, and run the command, on this host: by ssh, with tracefs and root or sudo"
        " there.",
        metavar="USER@HOST",
    ),
    recover=None,
)
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
    files: Annotated[
        bool,
        typer.Option(
            "--files",
            help="Record the file operations of the command and its children instead, into a"
            " trace folder. Needs strace and no root, or --source bpf.",
        ),
    ] = False,
    recover: Annotated[
        bool,
        typer.Option(
            "--recover",
            help="Finish a killed capture, NAME.unfinished as the device, or all of them, and"
            " restore the kernel's settings.",
        ),
    ] = False,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Record disks' block events and layout while a command runs, or the command's file calls."""
    if recover:
        _recover(device or [], chosen, as_json=as_json)
        return
    if "output" not in chosen:
        raise UsageError("where to? --output is missing", hint="give -o and a new folder")
    words = [*(device or ()), *(command or ())]
    if files:
        if "duration" in chosen or not words:
            raise UsageError("--files records one command", hint="give it behind --")
        _refuse(chosen, OF_DISKS, "is of block events", hint="leave it away with --files")
        recorded = tk.capture_files(words, **chosen, quiet=as_json)
        for note in recorded.notes:
            options.say(note, err=True)
        _print_files(recorded, chosen["output"], as_json=as_json)
        options.warn(recorded.trace)
        recorded.check()
        return
    _refuse(chosen, OF_FILES, "belongs to --files", hint="add --files, or leave it away")
    if not device:
        raise UsageError("which disk?", hint="name one, such as /dev/sda, or give --files")
    if command and "duration" in chosen:
        raise UsageError("--duration and a command were both given", hint="choose one of the two")
    for name in ("untraced", "user"):
        if name in chosen and not command:
            raise UsageError(f"--{name} needs a command", hint="give it behind --")
    captured = tk.capture(device, command=command or (), **chosen, quiet=as_json)
    for note in captured.notes:
        options.say(note, err=True)
    _print(captured.summary, chosen["output"], as_json=as_json, err=bool(command))
    captured.check()


def _recover(folders: list[str], chosen: Mapping[str, Any], *, as_json: bool) -> None:
    others = tuple(name for name in chosen if name != "output")
    _refuse(chosen, others, "is of a new capture", hint="leave it away with --recover")
    found = tk.recover(folders, chosen.get("output"))
    if as_json:
        options.say_json(found.summary)
    elif found.notes or not found.failures:
        options.say(*(found.notes or ["nothing is left over"]))
    found.check()


def _refuse(chosen: Mapping[str, Any], names: tuple[str, ...], why: str, *, hint: str) -> None:
    for name in names:
        if name in chosen:
            raise UsageError(f"--{name.replace('_', '-')} {why}", hint=hint)


def _print_files(found: tk.FileCapture, output: Path, *, as_json: bool) -> None:
    info = found.summary
    if as_json:
        options.say_json(info)
        return
    counts = info["counts"]
    lost = ""
    if info["loss"].get("is_counted") is False:
        lost = f", at least {info['loss']['dropped']:,} calls lost, how many more is not known"
    elif info["loss"]["dropped"]:
        lost = f", {info['loss']['dropped']:,} calls lost"
    options.say(
        f"{counts['file_operations']:,} operations on {counts['files']:,} files in"
        f" {found.duration_s:.1f} s{lost}"
    )
    for name, rows in counts["operations"].items():
        options.say(f"  {name:<16}{rows:>12,}")
    overhead = info["capture"]["overhead"]
    if overhead["ratio"]:
        options.say(
            f"  traced {found.duration_s:.2f} s, untraced {found.untraced_s:.2f} s:"
            f" {overhead['ratio']:.1f} times as long"
        )
    elif overhead["expected_ns"] is not None:
        options.say(
            f"  tracing took about {overhead['expected_ns'] / 1e9:.2f} s of it"
            f" ({overhead['call_ns'] / 1e3:,.1f} us a call); --untraced measures it"
        )
    options.say(f"{output}")


def _print(done: Mapping[str, Any], output: Path, *, as_json: bool, err: bool) -> None:
    """Say what was recorded; what stands on a command's own output (`err`) is its own."""
    if as_json:
        options.say_json(done)
        return
    missed = done["missed_at_most"]
    unseen = f", up to {missed:,} not seen" if missed else ""
    options.say(
        f"{output}: {done['records']:,} records in {len(done['files'])} files,"
        f" {done['duration_ns'] / 1e9:.1f} s,"
        f" {done['overrun'] + done['dropped'] + done['lost_in_pieces']:,} lost"
        f"{unseen} ({done['source']})",
        err=err,
    )
    if cost := done["overhead"]:
        traced_s, untraced_s = cost["traced_ns"] / 1e9, cost["untraced_ns"] / 1e9
        options.say(
            f"  traced {traced_s:.2f} s, untraced {untraced_s:.2f} s:"
            f" {cost['ratio']:.2f} times as long",
            err=err,
        )
    if done["own_requests"]:
        options.say(
            f"{done['own_requests']:,} requests are of the capture itself, named tracekit", err=err
        )

"""`tracekit lab run`: a command in a virtual machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.errors import PartialError

if TYPE_CHECKING:
    from tracekit.lab.session import Ended

RESULT = "lab.json"


def run(
    command: Annotated[list[str], typer.Argument(help="Command to run in the guest, after `--`.")],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="New folder for what the command writes into $LAB_OUT."
        ),
    ] = None,
    disk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=SIZE[:LATENCY]",
            help="Part of a disk: fs (mounted on $LAB_FS), journal (of fs), swap. With a latency "
            "it is emulated in memory (LATENCY:DEPTH: so many requests at once). Can be repeated.",
        ),
    ] = None,
    pmem: Annotated[
        str, typer.Option(help="Persistent memory with an ext4 on $LAB_DAX that does DAX.")
    ] = "0",
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a command in a virtual machine; bring back what it prints and writes."""
    from tracekit.lab.machine import parse_disks
    from tracekit.lab.session import Job, session
    from tracekit.progress import stage_progress
    from tracekit.units import MIB, parse_size

    job = Job(
        tuple(command),
        disks=tuple(parse_disks(disk or ())),
        dax_mib=parse_size(pmem, option="--pmem") // MIB,
        memory_mib=memory,
        cpus=cpus,
        limit_bytes=parse_size(limit, option="--limit"),
        share=share,
        packages=tuple(package or ()),
        prepare=prepare,
        mount_options=mount,
        is_exact=exact,
        timeout_s=timeout,
    )
    _refuse(output)
    with stage_progress() as on_step, session(job, on_step=on_step) as ended:
        result = _result(ended, output)
        if output is not None:
            _keep(ended, output, result)
        _print(ended, result, as_json=as_json)
    if ended.exit_status:
        what = f"the command failed in the guest with status {ended.exit_status}"
        raise PartialError(what if ended.exit_status != 124 else "the command ran past --timeout")


def _refuse(output: Path | None) -> None:
    from tracekit.errors import UsageError

    if output is not None and output.exists():
        raise UsageError(f"{output} exists already", hint="choose another --output")


def _result(ended: Ended, output: Path | None) -> dict[str, Any]:
    return {
        "output": None if output is None else str(output),
        "exit_status": ended.exit_status,
        "accelerator": ended.accelerator,
        "duration_ns": round(ended.duration_s * 1e9),
    }


def _keep(ended: Ended, output: Path, result: dict[str, Any]) -> None:
    import shutil

    from tracekit.store import new_folder, write_json

    with new_folder(output, marker=RESULT) as part:
        shutil.copytree(ended.folder / "files", part / "files")
        for name in ("stdout", "stderr", "log", "console.log"):
            shutil.copy(ended.folder / name, part / name)
        write_json(part / RESULT, result)


def _print(ended: Ended, result: dict[str, Any], *, as_json: bool) -> None:
    stdout, stderr = (
        (ended.folder / name).read_text(errors="replace") for name in ("stdout", "stderr")
    )
    if as_json:
        typer.echo(json.dumps({**result, "stdout": stdout, "stderr": stderr}, indent=2))
        return
    sys.stdout.write(stdout)
    sys.stderr.write(stderr)

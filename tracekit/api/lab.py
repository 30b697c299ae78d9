"""Commands in a small virtual machine with disks of chosen roles."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.api import values
from tracekit.api.values import PathLike, Size, Texts
from tracekit.choices import Compression
from tracekit.errors import PartialError, UsageError
from tracekit.progress import stage_progress
from tracekit.units import memory_mib

if TYPE_CHECKING:
    from tracekit.lab.session import Ended, Job
else:
    Job = Any  # commands look at the types of calls

RESULT = "lab.json"


@dataclass(frozen=True)
class Guest:
    """What a command did in a guest: its output, its status, and what was kept."""

    summary: dict[str, Any]
    stdout: str
    stderr: str
    dropped: int = 0

    def check(self) -> None:
        """Raise PartialError when the command failed or what was recorded is not all."""
        status = self.summary["exit_status"]
        of = f"{self.summary['output']}: " if "records" in self.summary else ""
        where = "" if of else " in the guest"
        if self.dropped:
            raise PartialError(
                f"{of}blktrace lost {self.dropped:,} records",
                hint="capture again with a larger --buffer",
            )
        if status == 124:
            raise PartialError(f"{of}the command ran past --timeout")
        if status:
            raise PartialError(f"{of}the command failed{where} with status {status}")


def build(*, package: Texts | None = None, force: bool = False) -> dict[str, Any]:
    """Make a guest from packages of Debian, without root, and keep it in the user's cache."""
    from tracekit.lab.image import build as build_image

    with stage_progress() as on_step:
        image = build_image(list(values.texts(package)), again=force, on_step=on_step)
    return {"folder": str(image.folder), **json.loads((image.folder / "image.json").read_text())}


def run(command: Sequence[str], *, output: PathLike | None = None, **options: Any) -> Guest:
    """Run a command in a virtual machine; bring back what it prints and writes.

    The options are those of `job`.
    """
    from tracekit.lab.session import session

    place = values.maybe_path(output)
    chosen = job(command, **options)
    if place is not None:
        _refuse(place)
    with stage_progress() as on_step, session(chosen, on_step=on_step) as ended:
        summary = {
            "output": None if place is None else str(place),
            "exit_status": ended.exit_status,
            "command_ns": ended.command_ns,
            "accelerator": ended.accelerator,
            "duration_ns": round(ended.duration_s * 1e9),
        }
        if place is not None:
            _keep(ended, place, summary)
        return Guest(summary, *_texts(ended))


def capture(
    command: Sequence[str],
    *,
    output: PathLike,
    disk: Texts,
    compress: Compression = "none",
    buffer: Size = "1MiB",
    **options: Any,
) -> Guest:
    """Record the block events of a command in a virtual machine, with blktrace and the layout."""
    from tracekit.lab.session import collect, session
    from tracekit.store import new_folder

    place = Path(output)
    _refuse(place)
    kib = values.size_bytes(buffer, option="--buffer") >> 10
    if kib < 64:
        raise UsageError(f"--buffer {buffer}: less than 64KiB")
    chosen = job(command, disk=disk, is_traced=True, buffer_kib=kib, **options)
    with stage_progress() as on_step, session(chosen, on_step=on_step) as ended:
        with new_folder(place) as part:
            kept = collect(ended, chosen, folder=part, name=place.name, compress=compress)
        summary = {
            "output": str(output),
            "files": list(kept.files),
            "records": kept.records,
            "own_requests": kept.own_requests,
            "dropped": kept.dropped,
            "exit_status": ended.exit_status,
            "accelerator": ended.accelerator,
            "duration_ns": round(ended.duration_s * 1e9),
        }
        return Guest(summary, *_texts(ended), kept.dropped)


def uses(
    command: Sequence[str],
    *,
    output: PathLike,
    disk: Texts,
    nvm: str,
    repeat: int = 5,
    throughput: str = "",
    **options: Any,
) -> dict[str, Any]:
    """Run a command with NVM as swap, as journal and as file system, and with none of it.

    Fig. 1 of study A: time, or a throughput that the command prints, with 95 % confidence
    intervals. Return the content of uses.json; an interrupted series goes on with the same call.
    """
    from msgspec import to_builtins

    from tracekit.counters import Rule
    from tracekit.lab.uses import UsesOptions, run_uses

    chosen = UsesOptions(values.texts(disk), nvm, repeat, Rule(throughput))
    with stage_progress() as on_step:
        guest = job(command, disk=disk, **options)
        done = run_uses(Path(output), chosen, job=guest, on_step=on_step)
    return dict(to_builtins(done))


def job(
    command: Sequence[str],
    *,
    disk: Texts | None = None,
    pmem: Size = "0",
    memory: Size = "1GiB",
    cpus: int = 2,
    limit: Size = "0",
    share: PathLike | None = None,
    package: Texts | None = None,
    prepare: str = "",
    mount: str = "",
    exact: bool = False,
    timeout: int = 600,
    is_traced: bool = False,
    buffer_kib: int = 1024,
) -> Job:
    """Return what a guest is to do, of the options of the commands."""
    from tracekit.lab.machine import parse_disks
    from tracekit.lab.session import Job

    return values.chosen(
        Job,
        locals(),
        command=tuple(command),
        disks=tuple(parse_disks(list(values.texts(disk)))),
        dax_mib=values.size_bytes(pmem, option="--pmem") >> 20,
        memory_mib=memory_mib(memory, least=256),
        limit_bytes=values.size_bytes(limit, option="--limit"),
        packages=values.texts(package),
        mount_options=mount,
        is_exact=exact,
        timeout_s=timeout,
    )


def _refuse(output: Path) -> None:
    if output.exists():
        raise UsageError(f"{output} exists already", hint="choose another --output")


def _texts(ended: Ended) -> tuple[str, str]:
    stdout, stderr = (
        (ended.folder / name).read_text(errors="replace") for name in ("stdout", "stderr")
    )
    return stdout, stderr


def _keep(ended: Ended, output: Path, summary: dict[str, Any]) -> None:
    from tracekit.store import new_folder, write_json

    with new_folder(output, marker=RESULT) as part:
        shutil.copytree(ended.folder / "files", part / "files")
        for name in ("stdout", "stderr", "log", "console.log"):
            shutil.copy(ended.folder / name, part / name)
        write_json(part / RESULT, summary)

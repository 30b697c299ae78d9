"""One capture of file operations from start to end."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from tracekit.capture import strace
from tracekit.capture.command import run, run_untraced, signals_held
from tracekit.capture.file_info import FileCapture, FileOptions, trace_info
from tracekit.capture.file_tables import Hashes, decode
from tracekit.capture.snapshot import files_below, standard_files
from tracekit.errors import TracekitError, UsageError
from tracekit.native.calls import Start
from tracekit.store import INFO_NAME, new_folder, write_json

# The kernel's times of files are those of its last tick, 10 ms at the most.
TICK_S = 0.02
LEAST_FREE_BYTES = 4 << 20


def capture_files(output: Path, *, options: FileOptions) -> FileCapture:
    """Run the command and record its file operations into the new trace folder `output`.

    Raise UsageError for a bad command, folder or output, TracekitError where strace does not work.
    """
    if shutil.which(options.command[0]) is None:
        raise UsageError(f"{options.command[0]}: there is no such program")
    below = _resolved(options.below)
    reason = strace.probe()
    if reason is not None:
        raise TracekitError(f"file operations cannot be captured: {reason}", hint=strace.REMEDY)
    cost = strace.cost()
    with new_folder(output, overwrite=options.overwrite) as part:
        untraced_s = None
        if options.runs_untraced:
            untraced_s = run_untraced(options.command, is_stdout_ours=options.is_stdout_ours)
        known = files_below(below) if below else ()
        began = Start(
            folder=str(Path.cwd()),
            below=str(below) if below else None,
            start_ns=time.time_ns(),
            known=known,
            has_snapshot=below is not None,
            inherited=standard_files(),
        )
        time.sleep(TICK_S)
        text = part / "strace.txt"
        duration_s, exit_status, stopped_by = _record(text, options)
        decoded = decode(text, part, start=began, hashes=Hashes() if options.hashes_names else None)
        text.unlink()
        found = FileCapture(decoded, duration_s, untraced_s, cost, exit_status, stopped_by, info={})
        found.info.update(trace_info(found, options))
        write_json(part / INFO_NAME, found.info)
    return found


def _resolved(folder: Path | None) -> Path | None:
    if folder is None:
        return None
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="give --below a folder that is there")
    return folder.resolve()


def _record(text: Path, options: FileOptions) -> tuple[float, int, str | None]:
    """Run the command under strace; return seconds, exit status and the signal that ended it."""
    with signals_held() as stop:
        ran = run(
            strace.command(text, options.command),
            stop,
            is_stdout_ours=options.is_stdout_ours,
            each=lambda: _refuse_full(text.parent),
        )
    return ran.command_s, ran.exit_status, stop.name


def _refuse_full(folder: Path) -> None:
    """Raise TracekitError before strace finds its disk full: it would say so at every call."""
    found = os.statvfs(folder)
    if found.f_bavail * found.f_frsize < LEAST_FREE_BYTES:
        raise TracekitError(
            f"{folder.parent}: less than {LEAST_FREE_BYTES >> 20} MiB are left for the capture",
            hint="free some space, or choose an --output elsewhere",
        )

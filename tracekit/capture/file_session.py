"""One capture of file operations from start to end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tracekit.capture import strace
from tracekit.capture.command import end, signals_held, start
from tracekit.capture.file_info import FileCapture, FileOptions, trace_info
from tracekit.capture.file_tables import Hashes, decode
from tracekit.capture.snapshot import files_below, standard_files
from tracekit.errors import TracekitError, UsageError
from tracekit.native.calls import Start
from tracekit.store import INFO_NAME, new_folder, write_json

# The kernel's times of files are those of its last tick, 10 ms at the most.
TICK_S = 0.02


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
        untraced_s = _untraced(options) if options.runs_untraced else None
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


def _untraced(options: FileOptions) -> float:
    """Run the command as it is; return how long it took."""
    with signals_held() as stop:
        began_s = time.perf_counter()
        child = start(options.command, is_stdout_ours=options.is_stdout_ours)
        _wait(child, stop.signals)
        taken_s = time.perf_counter() - began_s
    if stop.name:
        raise TracekitError(f"the untraced run was ended by {stop.name}")
    return taken_s


def _wait(child: subprocess.Popen[bytes], signals: list[int]) -> None:
    """Wait until the command has ended, or end it when a signal comes."""
    try:
        while not signals:
            try:
                child.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            return
        end(child, lambda: None)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)


def _record(text: Path, options: FileOptions) -> tuple[float, int, str | None]:
    """Run the command under strace; return seconds, exit status and the signal that ended it."""
    with signals_held() as stop:
        began_s = time.perf_counter()
        traced = strace.command(text, options.command)
        child = start(traced, is_stdout_ours=options.is_stdout_ours)
        _wait(child, stop.signals)
        return time.perf_counter() - began_s, child.returncode, stop.name

"""The source bpf of file operations: BPF programs record a command's calls in the kernel.

`tracekit-bpf --files` (replayer/capture) loads them and writes their records to a file. The command
is a child of this process: the next one that it makes is recorded, from its exec on, and all that
come from it.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tracekit._native import program_path
from tracekit.capture import bpf
from tracekit.capture.command import Ran, Stop, failure_of, run, signals_held
from tracekit.capture.file_source import FileSource, Job, Recorded, space_left, why_full
from tracekit.capture.programs import PROBE_S, Program, probe_failure
from tracekit.capture.unfinished import LOG_NAME
from tracekit.helper_programs import run_helper
from tracekit.invoking_user import popen_options

MACHINE = "x86_64"
RING_BYTES = 1 << 26
PAUSE_S = 0.02


def why_not() -> str | None:
    """Return why BPF programs cannot record file operations here, or None when they can."""
    if platform.machine() != MACHINE:
        return f"only {MACHINE} has the numbers of system calls that it knows"
    if not bpf.is_built():
        return bpf.NOT_BUILT
    if not bpf.BTF.exists():
        return bpf.NO_BTF
    return probe_failure(
        [str(program_path(bpf.PROGRAM)), "--probe-files"], within_s=PROBE_S, noise=bpf.NOISE
    )


class BpfFiles(FileSource):
    """Record with BPF programs."""

    name = "bpf"
    remedy = bpf.REMEDY
    how = "by the BPF programs"
    probe_calls = 20_000

    def probe(self) -> str | None:
        """Return why BPF programs cannot be used here, or None when they can."""
        return why_not()

    def record(self, job: Job, raw: Path) -> Recorded:
        """Run the command; what the programs pass on goes to `raw`."""
        recorder = Recorder(raw)
        try:
            with signals_held() as stop:
                recorder.start()
                ran = run(
                    job.command,
                    stop,
                    popen=popen_options(job.user),
                    is_stdout_ours=job.is_stdout_ours,
                    each=recorder.check,
                )
                failure = recorder.wait(ran, stop)
        finally:
            recorder.close()
        return Recorded(ran, stop.name, failure)

    def trial_s(self, program: Sequence[str], raw: Path) -> float:
        """Run a helper program."""
        raw.unlink(missing_ok=True)
        recorder = Recorder(raw)
        try:
            recorder.start()
            began_s = time.perf_counter()
            run_helper(program, stdin=subprocess.DEVNULL, capture_output=True)
            taken_s = time.perf_counter() - began_s
            recorder.wait(Ran(0, taken_s), Stop())
        finally:
            recorder.close()
        return taken_s


class Recorder:
    """One run of the program that writes the records."""

    def __init__(self, raw: Path) -> None:
        """Prepare to record this process's next child into the file `raw`, not made yet."""
        self._raw = raw
        self._program = Program(
            bpf.PROGRAM, raw.with_name(LOG_NAME), remedy=bpf.REMEDY, noise=bpf.NOISE
        )
        self._failure: str | None = None

    def start(self) -> None:
        """Begin to record; raise TracekitError when the program does not."""
        words = ("--files", str(self._raw), str(RING_BYTES), str(os.getpid()))
        self._program.start([str(program_path(bpf.PROGRAM)), *words])

    def check(self) -> None:
        """Stop recording where the disk is nearly full; the command runs on."""
        if self._failure is None and not space_left(self._raw):
            self._failure = why_full(self._raw)
            self._program.ask_to_stop()

    def wait(self, ran: Ran, stop: Stop) -> str | None:
        """Wait for what the command left running, or until a second signal.

        Return why not all is recorded.
        """
        failure = ran.failure
        while self._program.is_running() and ran.runs_on is None and len(stop.signals) < 2:
            failure = failure or failure_of(self.check)
            time.sleep(PAUSE_S)
        failure = failure or failure_of(self._program.stop)
        return self._failure or (str(failure) if failure else None)

    def close(self) -> None:
        """End it, whatever state it is in."""
        self._program.close()

"""Runs `perf stat`: asks first what can be counted here, then counts a command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracekit.counters.events import arguments
from tracekit.counters.recorded import Count, parse_counts
from tracekit.errors import InputError, TracekitError, UsageError

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
PLAIN = {**os.environ, "LC_ALL": "C"}
NO_LEAVE = "no permission: "
LAST_LINES = 3


@dataclass(frozen=True)
class Ran:
    """One run of the command: what was counted, how long it took, and what it said."""

    counts: list[Count]
    elapsed_ns: int
    output: str


def checked_perf() -> str:
    """Return the path of perf; TracekitError says how to get it."""
    path = shutil.which("perf")
    if path is None:
        raise TracekitError(
            "perf is not installed, nothing can be counted",
            hint="install it: linux-perf of Debian, linux-tools-generic of Ubuntu, perf elsewhere;"
            " or give recorded files with --from",
        )
    return path


def checked_command(command: Sequence[str]) -> list[str]:
    """Return the command to count; UsageError when there is none of that name."""
    if not command:
        raise UsageError("no command was given", hint="tracekit counters -o FOLDER -- COMMAND")
    if shutil.which(command[0]) is None:
        raise UsageError(f"there is no command '{command[0]}'", hint="give its path")
    return list(command)


def probe(events: Sequence[str]) -> dict[str, str]:
    """Return for each event why it cannot be counted here, or nothing where it can.

    TracekitError says what to change when not one can be.
    """
    perf = checked_perf()
    reasons = _probe_all(perf, events)
    if all(reasons.values()):
        level = _paranoid()
        is_refused = any(reason.startswith(NO_LEAVE) for reason in reasons.values())
        raise TracekitError(
            f"perf can count none of {len(events)} events here: {next(iter(reasons.values()))}",
            hint=f"kernel.perf_event_paranoid is {level}: as root, sysctl"
            " kernel.perf_event_paranoid=1, or run this as root"
            if is_refused
            else "name others with --events; perf list shows what there is",
        )
    return reasons


def _probe_all(perf: str, events: Sequence[str]) -> dict[str, str]:
    """Ask for all at once; one that perf does not even know spoils that, then ask for each."""
    reasons = _probed(perf, events)
    if reasons is not None:
        return reasons
    found: dict[str, str] = {}
    for event in events:
        one = _probed(perf, [event])
        found[event] = _why(perf, event) if one is None else one[event]
    return found


def _probed(perf: str, events: Sequence[str]) -> dict[str, str] | None:
    ended = _perf(perf, [part for event in events for part in ("-e", event)], ["true"])
    if ended.returncode != 0:
        return None
    try:
        counts = {one.event: one for one in parse_counts(ended.stderr, place="perf")}
    except InputError:
        return None
    return {event: _reason(event, counts) for event in events}


def _reason(event: str, counts: Mapping[str, Count]) -> str:
    if event in counts:
        # An event of /bin/true that never happened is one that can be counted.
        return "" if "free" in counts[event].reason else counts[event].reason
    if f"{event}u" in counts:
        # So perf names a tracepoint of user space alone, as if that were part of its name.
        return NO_LEAVE + "perf counts user space alone, and this happens in the kernel"
    return "perf says nothing of it"


def _why(perf: str, event: str) -> str:
    said = _perf(perf, ["-e", event], ["true"]).stderr
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if any("ermission" in line or "access trace" in line for line in lines):
        told = next((line for line in lines if "ermission" in line), "its files cannot be read")
        return NO_LEAVE + told.removeprefix("Error:").strip()
    if any("parser error" in line or "Bad event" in line for line in lines):
        return "this perf does not know it"
    return lines[-1] if lines else "perf failed without a word"


def _perf(
    perf: str, events: Sequence[str], command: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [perf, "stat", "-j", *events, "--", *command],
        capture_output=True, text=True, check=False, env=PLAIN,
    )  # fmt: skip


def _paranoid() -> str:
    try:
        return PARANOID.read_text().strip()
    except OSError:
        return "not known"


def count(command: Sequence[str], groups: Sequence[Sequence[str]], *, usable: set[str]) -> Ran:
    """Run the command once and return what was counted; TracekitError when it failed.

    Whatever ends us ends the command, too.
    """
    perf = checked_perf()
    with tempfile.TemporaryDirectory(prefix="tracekit-") as name:
        told, said = Path(name) / "counts.json", Path(name) / "output"
        words = [perf, "stat", "-j", "-o", str(told), *arguments(groups, usable), "--", *command]
        with said.open("wb") as output:
            start_ns = time.monotonic_ns()
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                code = child.wait()
            finally:
                _end(child)
            elapsed_ns = time.monotonic_ns() - start_ns
        text = said.read_bytes().decode("utf-8", errors="backslashreplace")
        if code != 0:
            last = "; ".join(text.splitlines()[-LAST_LINES:])
            raise TracekitError(f"{command[0]} ended with code {code}: {last or 'it said nothing'}")
        return Ran(parse_counts(told.read_text(), place="perf"), elapsed_ns, text)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End perf, which ends what it counts, if it still runs."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        child.wait()

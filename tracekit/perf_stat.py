"""Runs `perf stat` and reads what it counted, live or recorded, in each of its formats."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tracekit._native.players import PERF_CONTROL
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.helper_programs import find_helper, run_helper, start_helper, why_missing, withheld
from tracekit.invoking_user import User
from tracekit.safe_open import read_given

# Loads, stores and prefetches of one level share a group, so that their ratios are of one time.
GROUPS: tuple[tuple[str, ...], ...] = (
    ("cycles", "instructions"),
    ("L1-dcache-loads", "L1-dcache-load-misses"),
    ("L1-dcache-stores", "L1-dcache-store-misses"),
    ("L1-dcache-prefetches", "L1-dcache-prefetch-misses"),
    ("LLC-loads", "LLC-load-misses"),
    ("LLC-stores", "LLC-store-misses"),
    ("LLC-prefetches", "LLC-prefetch-misses"),
    ("dTLB-loads", "dTLB-load-misses"),
    ("dTLB-stores", "dTLB-store-misses"),
    ("dTLB-prefetches", "dTLB-prefetch-misses"),
    ("iTLB-loads", "iTLB-load-misses"),
    ("page-faults", "minor-faults", "major-faults"),
    ("context-switches", "cpu-migrations"),
    ("task-clock",),
    ("raw_syscalls:sys_enter",),
)
SOFTWARE = frozenset(
    ("page-faults", "minor-faults", "major-faults", "context-switches", "cpu-migrations",
     "task-clock", "raw_syscalls:sys_enter")
)  # fmt: skip
TITLES = {"raw_syscalls:sys_enter": "system calls"}


def parse_groups(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the groups of `--events`: names with commas, groups with a space between.

    Empty text is study D's. UsageError for a name that stands there twice or cannot be one.
    """
    if not text:
        return GROUPS
    groups = tuple(tuple(name for name in group.split(",") if name) for group in text.split())
    names = [name for group in groups for name in group]
    for name in names:
        if not name.isprintable() or any(sign in name for sign in "{}'\""):
            raise UsageError(f"--events {text!r}: '{name}' is no name of an event")
        if names.count(name) > 1:
            raise UsageError(f"--events: '{name}' stands there twice")
    if not names:
        raise UsageError("--events names no event")
    return groups


def arguments(groups: Sequence[Sequence[str]], usable: set[str]) -> list[str]:
    """Return `-e` of perf for what can be counted; a group that does not fit is broken up (:W)."""
    found = []
    for group in groups:
        names = [name for name in group if name in usable]
        if len(names) == 1:
            found += ["-e", names[0]]
        elif names:
            found += ["-e", f"{{{','.join(names)}}}:W"]
    return found


def group_of(groups: Sequence[Sequence[str]], event: str) -> str:
    """Return the group of an event as it is shown; empty for one that is alone."""
    for group in groups:
        if event in group and len(group) > 1:
            return ",".join(group)
    return ""


NOT_COUNTED = {
    "<not supported>": "this machine's processor does not count it, or hides it from the guest",
    "<not counted>": "no counter was free while it ran",
}
SEPARATORS = (",", ";", "\t", "|", " ")
MODIFIER = re.compile(r"(?<=.):[ukhGHpPSDWIe]+$")
PMU_EVENT = re.compile(
    r"(?P<unit>cpu|cpu_core|cpu_atom|armv\d+_\w+)/(?P<event>[A-Za-z][\w.-]*)/(?P<modifier>[ukhGHpPSDWIe]*)"
)
TRAILING_COMMA = re.compile(r",\s*}\s*,?$")
VARIANCE = re.compile(r"\d+([.,]\d+)?%")
# What perf writes where the locale has decimal commas: two decimals, in values of -j six.
DECIMAL_COMMA = re.compile(r"(?<!\w)(?<!\w,)(\d+),(\d\d|\d{6})(?!\w|,\w)")
LOCALE_HINT = "numbers with decimal commas: record with LC_ALL=C perf stat, or with -x ';'"
PART_KEYS = ("cpu", "core", "cluster", "cache", "die", "socket", "node")
PARTIAL_KEYS = ("interval", "thread", "cgroup")
PROCESSOR = re.compile(r"CPU\d+")
# Such as S0-D0-C3 of --per-core; the number of processors in it is a field of its own behind it.
PROCESSORS = re.compile(r"(S\d+(-[A-Z]+\d+)*|N\d+)")


@dataclass(frozen=True)
class Count:
    """One event of one run; `count` is None with a `reason`. `is_user`: not the kernel's part.

    `is_mean`: of the runs of `perf stat -r`, and so no run of its own.
    """

    event: str
    count: float | None
    unit: str
    running_ratio: float | None
    reason: str
    is_user: bool = False
    is_mean: bool = False
    core_kind: str = ""
    """Of a part of a count, such as cpu_core; empty of a whole one."""


def read_counts(file: Path) -> tuple[list[Count], str]:
    """Return the counts of a recorded file, and its text; InputError names file, line and value."""
    try:
        text = read_given(file).decode(errors="backslashreplace")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    return parse_counts(text, place=str(file)), text


def parse_counts(text: str, *, place: str) -> list[Count]:
    """Return the counts of the text of `perf stat -j` or `-x`, each event once."""
    lines = [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    is_json = bool(lines) and lines[0][1].startswith("{")
    separator = "" if is_json or not lines else _separator(lines[0][1])
    found: dict[str, dict[str, Count]] = {}
    for number, line in lines:
        at = f"{place}, line {number}"
        part, one = _of_json(line, at) if is_json else _of_fields(line.split(separator), at)
        if one is None:
            continue
        parts = found.setdefault(one.event, {})
        if part in parts or (parts and "" in (part, *parts)):
            raise InputError(
                f"{at}: '{one.event}' is counted a second time{f' for {part}' * bool(part)}",
                hint="one file is one run: without -I, and not appended",
            )
        parts[part] = one
    if not found:
        raise InputError(
            f"{place} holds no event of perf stat",
            hint="record with: perf stat -j -o FILE -- COMMAND, or with -x, in place of -j",
        )
    return [_sum(parts) for parts in found.values()]


def _sum(parts: Mapping[str, Count]) -> Count:
    """Add up the counts of processors; those where nothing was counted ran nothing of it.

    Of a thread on cores of two kinds, `parts` are by kind alone. The event of one kind is off while
    the thread runs on the other, and perf extrapolates for that time: together they were counted
    for the sum of their shares.
    """
    first = next(iter(parts.values()))
    known = [one for one in parts.values() if one.count is not None]
    if len(parts) == 1 or not known:
        return replace(first, core_kind="")
    counts = [one.count or 0.0 for one in known]
    is_by_kind = all(part == one.core_kind for part, one in parts.items())
    shares = [one.running_ratio for one in known if one.running_ratio is not None]
    together = math.fsum(shares)
    if is_by_kind and 0 < together <= 1.001:
        parts_counted = [(one.count or 0.0) * (one.running_ratio or 0.0) for one in known]
        total = math.fsum(parts_counted) / together
        return replace(known[0], count=total, running_ratio=min(together, 1.0), core_kind="")
    total, least = math.fsum(counts), min(shares, default=None)
    return replace(known[0], count=total, running_ratio=least, core_kind="")


Part = tuple[str, Count | None]
"""Of which processors a line is, `` of all, and what was counted; None for a metric alone."""


def _of_json(line: str, at: str) -> Part:
    try:
        event = json.loads(TRAILING_COMMA.sub("}", line))
    except (ValueError, RecursionError):
        event = _with_decimal_points(line)
    if not isinstance(event, dict):
        raise InputError(f"{at}: not a line of perf stat -j: {line[:60]!r}")
    partial = [key for key in PARTIAL_KEYS if key in event]
    if partial:
        raise InputError(
            f"{at}: counted by {partial[0]}, not over the run",
            hint="record without -I, --per-thread and --for-each-cgroup",
        )
    part = " ".join(f"{key} {event[key]}" for key in PART_KEYS if key in event)
    part = " ".join(filter(None, [part, _core_kind(str(event.get("event", "")))]))
    if "event" not in event or "counter-value" not in event:
        return part, None
    return part, _count(event, at)


def _with_decimal_points(line: str) -> Any:
    """Take a line whose numbers the locale wrote with decimal commas; None when it is no JSON."""
    try:
        return json.loads(DECIMAL_COMMA.sub(r"\1.\2", line))
    except (ValueError, RecursionError):
        return None


def _of_fields(fields: list[str], at: str) -> Part:
    """Take [processors,] value, unit, event, [variance,] run time, share, metric and its unit."""
    part, fields = _of_processors(fields)
    if len(fields) < 3:
        raise InputError(f"{at}: not a line of perf stat -x: {','.join(fields)[:60]!r}")
    if not fields[2] and not fields[0]:
        return part, None
    if re.fullmatch(r"\d+\.\d{9}", fields[0].strip()):
        raise InputError(
            f"{at}: counted by interval ({fields[0].strip()}), not over the run",
            hint="record without -I",
        )
    rest = fields[3:]
    event = {"counter-value": fields[0], "unit": fields[1], "event": fields[2]}
    if rest and VARIANCE.fullmatch(rest[0]):
        event["variance"], rest = rest[0], rest[1:]
    part = " ".join(filter(None, [part, _core_kind(fields[2])]))
    return part, _count(event | ({"pcnt-running": rest[1]} if len(rest) > 1 else {}), at)


def _of_processors(fields: list[str]) -> tuple[str, list[str]]:
    if PROCESSOR.fullmatch(fields[0]):
        return fields[0], fields[1:]
    if PROCESSORS.fullmatch(fields[0]):
        return fields[0], fields[2:]
    return "", fields


def _count(line: Mapping[str, Any], at: str) -> Count:
    name, value = str(line["event"]), str(line["counter-value"]).strip()
    event, modifier = plain_event(name)
    is_user = "u" in modifier and "k" not in modifier
    if value in NOT_COUNTED:
        return Count(event, None, "", None, NOT_COUNTED[value], is_user, "variance" in line)
    count = _number(value, f"{at}: count of '{name}'")
    share = _number(str(line.get("pcnt-running", 100)), f"{at}: share of '{name}'") / 100
    if not 0 <= share <= 1.001:
        raise InputError(f"{at}: '{name}' ran {share:.0%} of the time", hint=LOCALE_HINT)
    unit = str(line.get("unit") or "")
    kind = _core_kind(name)
    return Count(event, count, unit, min(share, 1.0), "", is_user, "variance" in line, kind)


def plain_event(name: str) -> tuple[str, str]:
    """Return an event as it is asked for, and its modifier.

    A processor with cores of two kinds counts an event for each: cpu_core/cycles/u is the `cycles`
    of one of them, and cpu/cycles/ and armv8_pmuv3_0/cycles/ are those of all there are. Events by
    number or with terms, as cpu/event=0xb4/, keep their names.
    """
    if found := PMU_EVENT.fullmatch(name):
        return found["event"], found["modifier"]
    event = MODIFIER.sub("", name)
    return event, name[len(event) :]


def _core_kind(name: str) -> str:
    """Return the kind of core that counted an event; empty where there is only one."""
    found = PMU_EVENT.fullmatch(name)
    return found["unit"] if found and found["unit"] != "cpu" else ""


def _number(text: str, place: str) -> float:
    try:
        value = float(DECIMAL_COMMA.sub(r"\1.\2", text))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{place}: {text[:60]!r} is not a number from 0 up")
    return value


def _separator(line: str) -> str:
    """Return the separator of -x: the one that leaves an event as the third field."""
    fitting: Iterator[str] = (
        separator
        for separator in SEPARATORS
        if len(fields := _of_processors(line.split(separator))[1]) >= 5
        and re.search(r"[A-Za-z]", fields[2])
    )
    return next(fitting, SEPARATORS[0])


PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
NO_PERMISSION = "no permission: "
LAST_LINES = 3


@dataclass(frozen=True)
class Ran:
    """One run of the command: what was counted, how long it took, and what it said."""

    counts: list[Count]
    elapsed_ns: int
    output: str


def checked_perf() -> str:
    """Return the path of perf; TracekitError says how to get it."""
    path = find_helper("perf")
    if path is None:
        raise TracekitError(
            why_missing("perf", "is not installed, nothing can be counted"),
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
        is_refused = any(reason.startswith(NO_PERMISSION) for reason in reasons.values())
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
        return NO_PERMISSION + "perf counts user space alone, and this happens in the kernel"
    return "perf says nothing of it"


def _why(perf: str, event: str) -> str:
    complaint = _perf(perf, ["-e", event], ["true"]).stderr
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    if any("ermission" in line or "access trace" in line for line in lines):
        reason = next((line for line in lines if "ermission" in line), "its files cannot be read")
        return NO_PERMISSION + reason.removeprefix("Error:").strip()
    if any("parser error" in line or "Bad event" in line for line in lines):
        return "this perf does not know it"
    return lines[-1] if lines else "perf failed without a word"


def _perf(
    perf: str, events: Sequence[str], command: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    words = [perf, "stat", "-j", *events, "--", *command]
    return run_helper(words, variables={"LC_ALL": "C"}, capture_output=True, text=True)


def _paranoid() -> str:
    try:
        return PARANOID.read_text().strip()
    except OSError:
        return "not known"


def count(
    command: Sequence[str],
    groups: Sequence[Sequence[str]],
    *,
    usable: set[str],
    user: User | None = None,
    is_timed: bool = False,
) -> Ran:
    """Run the command once and return what was counted; TracekitError when it failed.

    `is_timed`: while tracekit's own file player measures alone, which tells perf when that is.
    Whatever ends us ends the command, too.
    """
    perf = checked_perf()
    with tempfile.TemporaryDirectory(prefix="tracekit-") as name, _gate(is_timed) as gate:
        counts, printed = Path(name) / "counts.json", Path(name) / "output"
        words = [perf, "stat", "-j", "-o", str(counts), *gate.words]
        words += [*arguments(groups, usable), "--"]
        with printed.open("wb") as output:
            start_ns = time.monotonic_ns()
            child = start_helper(
                [*words, *_as_user(command, user)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=gate.descriptors,
                variables=gate.variables,
            )
            try:
                code = child.wait()
            finally:
                _end(child)
            elapsed_ns = time.monotonic_ns() - start_ns
        text = printed.read_bytes().decode("utf-8", errors="backslashreplace")
        if code != 0:
            last = "; ".join(text.splitlines()[-LAST_LINES:])
            raise TracekitError(f"{command[0]} ended with code {code}: {last or 'it said nothing'}")
        return Ran(_counted(counts, command[0], is_timed=is_timed), elapsed_ns, text)


def _counted(file: Path, program: str, *, is_timed: bool) -> list[Count]:
    """Return what perf wrote; TracekitError where it was to be told when to count, and was not."""
    found = parse_counts(file.read_text(), place="perf")
    if is_timed and all(one.count is None for one in found):
        raise TracekitError(
            f"{program} ran no personality of tracekit: no time was measured",
            hint="count tracekit bench or sweep of a personality, or leave --timed out",
        )
    return found


@dataclass(frozen=True)
class _Gate:
    """What a perf that waits for commands is started with."""

    words: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def _gate(is_timed: bool) -> Iterator[_Gate]:
    """Yield two pipes between perf and what it counts, by which that says when to count."""
    if not is_timed:
        yield _Gate()
        return
    control, ack = os.pipe(), os.pipe()
    try:
        yield _Gate(
            ("--delay=-1", f"--control=fd:{control[0]},{ack[1]}"),
            (*control, *ack),
            {PERF_CONTROL: f"{control[1]},{ack[0]}"},
        )
    finally:
        for descriptor in (*control, *ack):
            os.close(descriptor)


def _as_user(command: Sequence[str], user: User | None) -> list[str]:
    """Return a command that takes the rights of the user, sets what perf did not get, and runs it.

    These two programs are counted, too: perf goes on with its own rights and begins with the first.
    """
    words = []
    if user is not None:
        ids = (f"--reuid={user.uid}", f"--regid={user.gid}", "--inh-caps=-all")
        groups = ",".join(map(str, user.groups))
        words += ["setpriv", *ids, f"--groups={groups}", "--"]
    if variables := withheld() | (user.variables if user else {}):
        words += ["env", *(f"{name}={text}" for name, text in variables.items())]
    return [*words, *command]


def _end(child: subprocess.Popen[bytes]) -> None:
    """End perf, which ends what it counts, if it still runs."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        child.wait()

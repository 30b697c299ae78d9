"""The state of the machine during a run: what else it did, how fast its processors were, how warm.

All of it is what the kernel shows as text; what this machine does not show is None.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tracekit.metadata import Record, TraceWarning
from tracekit.stolen_time import MOST_LEFT_OUT

PROC, SYS = Path("/proc"), Path("/sys")
FREQUENCY_CHANGE = 0.1
TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
PRESSURES = ("cpu", "io", "memory")


class Moment(Record):
    """The machine at one moment."""

    unix_ns: int
    load: float | None = None
    """Mean of runnable and waiting tasks over the last minute."""
    running: int | None = None
    """Tasks that run or want to, this one too."""
    blocked: int | None = None
    """Tasks that wait for a device."""
    frequency_low_khz: int | None = None
    """Of the slowest processor; the next of the fastest."""
    frequency_high_khz: int | None = None
    temperature_c: float | None = None
    """Of the warmest zone."""
    free_bytes: int | None = None
    """Memory that can be had, page cache included."""


class MachineState(Record, kw_only=True):
    """The machine over a run; ratios are 0 to 1 of its time."""

    kernel: str
    processor: str | None = None
    processors: int | None = None
    hypervisor: str | None = None
    """What the kernel knows of one, such as kvm; empty: none."""
    governor: str | None = None
    """Of the processors' frequencies."""
    before: Moment
    after: Moment
    busy_ratio: float | None = None
    """Of all processors' time: worked on anything."""
    iowait_ratio: float | None = None
    """Of all processors' time: idle while something waited for a device."""
    steal_ratio: float | None = None
    """Of all processors' time: taken by the hypervisor."""
    steal_ticks: int | None = None
    iowait_ticks: int | None = None
    throttles: int | None = None
    """Times that processors were slowed down for their heat."""
    pressure_ratios: dict[str, float] = msgspec.field(default_factory=dict)
    """By resource: time in which at least one task waited for it."""


def boot_id() -> str:
    """Return what no other boot of any machine has; empty where the kernel does not say."""
    return _text(PROC / "sys/kernel/random/boot_id") or ""


class Reading:
    """The machine now, with the counters that only a second reading makes sense of."""

    def __init__(self, proc: Path = PROC, sys: Path = SYS) -> None:
        self.proc, self.sys = proc, sys
        self.at_ns = time.monotonic_ns()
        stat = _text(proc / "stat") or ""
        self.ticks = _ticks(stat)
        self.throttles = _total(sys.glob("devices/system/cpu/cpu*/thermal_throttle/*_count"))
        self.pressures = dict(_pressures(proc))
        self.moment = _moment(proc, sys, stat)

    def until(self, end: Reading) -> MachineState:
        """Return the state from this reading to a later one."""
        spent = {kind: end.ticks[kind] - self.ticks[kind] for kind in self.ticks if end.ticks}
        lasted_us = max((end.at_ns - self.at_ns) / 1000, 1.0)
        throttles = None
        if self.throttles is not None and end.throttles is not None:
            throttles = end.throttles - self.throttles
        return MachineState(
            kernel=os.uname().release,
            processor=_processor(self.proc),
            processors=os.cpu_count(),
            hypervisor=_hypervisor(self.proc, self.sys),
            governor=_governor(self.sys),
            before=self.moment,
            after=end.moment,
            busy_ratio=_share(spent, *(kind for kind in TICKS if kind not in ("idle", "iowait"))),
            iowait_ratio=_share(spent, "iowait"),
            steal_ratio=_share(spent, "steal"),
            steal_ticks=spent.get("steal"),
            iowait_ticks=spent.get("iowait"),
            throttles=throttles,
            pressure_ratios={
                name: min((end.pressures[name] - waited_us) / lasted_us, 1.0)
                for name, waited_us in self.pressures.items()
                if name in end.pressures
            },
        )


def _text(file: Path) -> str | None:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return None


def _numbers(files: Iterable[Path]) -> list[int]:
    texts = (_text(file) or "" for file in sorted(files))
    return [int(text) for text in texts if text.removeprefix("-").isdecimal()]


def _total(files: Iterable[Path]) -> int | None:
    found = _numbers(files)
    return sum(found) if found else None


def _ticks(stat: str) -> dict[str, int]:
    """Return the time of all processors by kind; empty where it is not known."""
    words = stat.partition("\n")[0].split()
    if not words or words[0] != "cpu" or len(words) <= len(TICKS):
        return {}
    return dict(zip(TICKS, map(int, words[1:]), strict=False))


def _share(spent: dict[str, int], *kinds: str) -> float | None:
    total = sum(spent.values())
    return sum(spent[kind] for kind in kinds) / total if total > 0 else None


def _pressures(proc: Path) -> Iterator[tuple[str, int]]:
    """Yield in how many microseconds since the start some task waited, by resource."""
    for name in PRESSURES:
        if found := re.search(r"^some .*total=(\d+)", _text(proc / "pressure" / name) or ""):
            yield name, int(found[1])


def _moment(proc: Path, sys: Path, stat: str) -> Moment:
    load = re.match(r"[\d.]+", _text(proc / "loadavg") or "")
    memory = re.search(r"^MemAvailable: +(\d+) kB", _text(proc / "meminfo") or "", re.MULTILINE)
    clocks = _numbers(sys.glob("devices/system/cpu/cpu*/cpufreq/scaling_cur_freq"))
    degrees = _numbers(sys.glob("class/thermal/thermal_zone*/temp"))
    counts = {
        name: re.search(rf"^procs_{name} (\d+)", stat, re.MULTILINE)
        for name in ("running", "blocked")
    }
    return Moment(
        unix_ns=time.time_ns(),
        load=float(load[0]) if load else None,
        **{name: int(found[1]) if found else None for name, found in counts.items()},
        frequency_low_khz=min(clocks, default=None),
        frequency_high_khz=max(clocks, default=None),
        temperature_c=max(degrees) / 1000 if degrees else None,
        free_bytes=int(memory[1]) * 1024 if memory else None,
    )


def _processor(proc: Path) -> str | None:
    found = re.search(r"^model name\s*: *(.+)$", _text(proc / "cpuinfo") or "", re.MULTILINE)
    return found[1] if found else None


def _governor(sys: Path) -> str | None:
    files = sys.glob("devices/system/cpu/cpu*/cpufreq/scaling_governor")
    found = {text for file in files if (text := _text(file))}
    return ", ".join(sorted(found)) or None


def _hypervisor(proc: Path, sys: Path) -> str | None:
    """Return what runs this machine as a guest, as far as the kernel shows it."""
    clocks = _text(sys / "devices/system/clocksource/clocksource0/available_clocksource") or ""
    for name in ("kvm", "hyperv", "xen"):
        if name in clocks:
            return name
    if found := _text(sys / "hypervisor/type") or _text(sys / "class/dmi/id/sys_vendor"):
        is_known = re.search("qemu|vmware|xen|virtualbox|innotek|amazon", found, re.IGNORECASE)
        return found if is_known else ""
    processor = _text(proc / "cpuinfo")
    if processor is None:
        return None
    return "unknown" if re.search(r"^flags.* hypervisor\b", processor, re.MULTILINE) else ""


class Use(Record):
    """What else used the machine while a measurement ran."""

    tasks: float | None
    """Mean of those that ran or wanted to, whenever none of the measurement's did."""
    steal_ratio: float | None
    processors: int | None = None
    load: float | None = None
    """Before it."""
    left_out_ratio: float | None = None
    """Of the requests: time was stolen meanwhile; None where all count."""

    @property
    def is_busy(self) -> bool:
        """Whether times are not those of the devices alone."""
        return self.excess > 1

    @property
    def excess(self) -> float:
        """How many times as much there was as may be, of what there was most."""
        stolen = (self.steal_ratio or 0) / MOST_STEAL
        if self.left_out_ratio is not None:
            stolen = self.left_out_ratio / MOST_LEFT_OUT
        return max((self.tasks or 0) / MOST_TASKS, stolen)

    @property
    def words(self) -> str:
        """What it was, in a few words."""
        found = [] if self.tasks is None else [f"{self.tasks:.1f} other tasks ran"]
        found += [] if self.steal_ratio is None else [f"{self.steal_ratio:.1%} of time was stolen"]
        if self.left_out_ratio:
            found.append(f"{self.left_out_ratio:.1%} of requests left out for it")
        return ", ".join(found) or "the machine's state is not known"


MOST_TASKS, MOST_STEAL = 0.5, 0.02


class Watch:
    """Looks what else uses the machine, from when it is made."""

    def __init__(self) -> None:
        self._begin = Reading()
        self._running: list[int] = []
        self.look()

    def look(self) -> None:
        """Count the tasks of others; to be called where none of the measurement's runs."""
        if (running := _moment(PROC, SYS, _text(PROC / "stat") or "").running) is not None:
            self._running.append(max(running - 1, 0))

    def found(self, left_out_ratio: float | None = None) -> Use:
        """Return what there was so far."""
        self.look()
        state = self._begin.until(Reading())
        return Use(
            tasks=statistics.fmean(self._running) if self._running else None,
            steal_ratio=state.steal_ratio,
            processors=state.processors,
            load=state.before.load,
            left_out_ratio=left_out_ratio,
        )


ADVICE = {
    "loaded": "end what else runs, and repeat",
    "frequency": "set the governor to performance, and repeat",
    "throttled": "let the machine cool down, and repeat",
}


def doubts(state: MachineState) -> Iterator[TraceWarning]:
    """Yield a warning for each part of the state that makes times doubtful."""
    for code, message in _doubts(state):
        yield TraceWarning(code=code, message=message, advice=ADVICE[code])


def _doubts(state: MachineState) -> Iterator[tuple[str, str]]:
    load, processors = state.before.load, state.processors
    if load is not None and processors and load > processors:
        yield (
            "loaded",
            f"{load:.1f} tasks wanted the {processors} processors in the minute before the run",
        )
    clocks = (state.before.frequency_high_khz, state.after.frequency_high_khz)
    if all(clocks) and (change := _change(*clocks)) > FREQUENCY_CHANGE:
        yield "frequency", f"the fastest processor's frequency changed by {change:.0%}"
    if state.throttles:
        yield "throttled", f"processors were slowed down for their heat {state.throttles:,} times"


def _change(one: float | None, other: float | None) -> float:
    low, high = sorted((one or 0, other or 0))
    return high / low - 1 if low else 0.0


@dataclass(frozen=True)
class Measure:
    """A part of the state by which runs may differ: how much of it is a difference."""

    name: str
    value: Callable[[MachineState], float | None]
    apart: float
    """Difference from which it counts."""
    text: str


MEASURES = (
    Measure(
        "tasks a processor before",
        lambda state: _each(state.before.load, state),
        0.5,
        "{:.1f}",
    ),
    Measure("stolen time", lambda state: state.steal_ratio, 0.01, "{:.1%}"),
    Measure("GHz", lambda state: (state.after.frequency_high_khz or 0) / 1e6, 0.2, "{:.2f}"),
    Measure("warmest", lambda state: state.after.temperature_c, 10, "{:.0f} C"),
    Measure("slowed down for heat", lambda state: state.throttles, 1, "{:.1f} times"),
)
SAME_OF_ALL = ("kernel", "processor", "processors", "hypervisor", "governor")


def _each(load: float | None, state: MachineState) -> float | None:
    return load / state.processors if load is not None and state.processors else None


def differences(mine: Sequence[MachineState], other: Sequence[MachineState]) -> Iterator[str]:
    """Yield by what the state of some runs differs from that of others: means, and other texts."""
    if not mine or not other:
        return
    for name in SAME_OF_ALL:
        texts = [sorted({str(getattr(state, name)) for state in group}) for group in (mine, other)]
        if texts[0] != texts[1]:
            yield f"{name} {' or '.join(texts[0])} against {' or '.join(texts[1])}"
    for measure in MEASURES:
        values = [[measure.value(state) for state in group] for group in (mine, other)]
        known = [[value for value in group if value is not None] for group in values]
        if not all(known):
            continue
        means = [statistics.fmean(group) for group in known]
        if abs(means[0] - means[1]) >= max(measure.apart, 2 * _error(*known)):
            first, second = map(measure.text.format, means)
            yield f"{measure.name} {first} against {second}"


def _error(*groups: Sequence[float]) -> float:
    """Return the standard error of the difference of means, 0 where a value is alone."""
    return math.sqrt(
        sum(statistics.variance(group) / len(group) for group in groups if len(group) > 1)
    )

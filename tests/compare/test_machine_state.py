"""The state of the machine: of this one, and of others that show everything or nothing."""

import os
from pathlib import Path

import msgspec
import pytest

from tests.command_line import succeed
from tests.replay.trace import ROWS, trace
from tests.traces import json_of
from tracekit.machine_state import MachineState, Moment, Reading, differences, doubts

CPU = "sys/devices/system/cpu"
SHOWN = {
    "proc/stat": "cpu  100 0 50 800 20 0 0 30 0 0\ncpu0 1 2 3\nprocs_running 3\nprocs_blocked 1",
    "proc/loadavg": "0.50 0.40 0.30 3/200 999",
    "proc/meminfo": "MemTotal: 16 kB\nMemAvailable:   8 kB",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some Processor 3\nflags\t\t: fpu hypervisor",
    "proc/pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\nfull total=5",
    f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "3000000",
    f"{CPU}/cpu1/cpufreq/scaling_cur_freq": "800000",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "7",
    "sys/class/thermal/thermal_zone0/temp": "41000",
    "sys/class/thermal/thermal_zone1/temp": "-5000",
}
LATER = {
    "proc/stat": "cpu  160 0 70 900 30 0 0 40 0 0\nprocs_running 1\nprocs_blocked 0",
    f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "2000000",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "9",
    "sys/class/thermal/thermal_zone0/temp": "63500",
}


def write(place: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"{text}\n")


def reading(place: Path) -> Reading:
    return Reading(place / "proc", place / "sys")


def test_a_machine_that_shows_everything(tmp_path: Path) -> None:
    write(tmp_path, SHOWN)
    before = reading(tmp_path)
    write(tmp_path, LATER)
    found = before.until(reading(tmp_path))
    # THEN shares are of the 200 ticks between both: 60 + 20 + 10 busy, 10 waited, 10 stolen
    assert (found.busy_ratio, found.iowait_ratio, found.steal_ratio) == (0.45, 0.05, 0.05)
    assert (found.steal_ticks, found.iowait_ticks, found.throttles) == (10, 10, 2)
    assert (found.processor, found.hypervisor) == ("Some Processor 3", "unknown")
    assert (found.governor, found.kernel) == ("powersave", os.uname().release)
    assert found.pressure_ratios == {"io": 0}
    one, other = found.before, found.after
    assert (one.load, one.running, one.blocked, one.free_bytes) == (0.5, 3, 1, 8192)
    assert (one.frequency_low_khz, one.frequency_high_khz) == (800_000, 3_000_000)
    assert (one.temperature_c, other.temperature_c) == (41.0, 63.5)
    assert [doubt.code for doubt in doubts(found)] == ["frequency", "throttled"]
    assert msgspec.convert(msgspec.to_builtins(found), MachineState) == found


def test_a_machine_that_shows_nothing_is_no_error(tmp_path: Path) -> None:
    write(tmp_path, {"proc/stat": "cpu  1 2", "proc/pressure/io": "", "proc/loadavg": "none"})
    found = reading(tmp_path).until(reading(tmp_path))
    assert found.pressure_ratios == {}
    known = {"kernel", "processors", "before", "after", "pressure_ratios"}
    assert {name for name, value in vars_of(found).items() if value is not None} == known
    assert {name for name, value in vars_of(found.before).items() if value is not None} == {
        "unix_ns"
    }
    assert list(doubts(found)) == []


def vars_of(record: msgspec.Struct) -> dict[str, object]:
    return msgspec.structs.asdict(record)


def state(load: float = 0.0, *, steal: float = 0.0, ghz: float = 3.0) -> MachineState:
    moment = Moment(unix_ns=1, load=load, frequency_high_khz=round(ghz * 1e6))
    return MachineState(kernel="6.1", processors=2, before=moment, after=moment, steal_ratio=steal)


def test_a_busy_machine_is_doubted() -> None:
    assert [doubt.code for doubt in doubts(state(1.9))] == []
    assert [doubt.message for doubt in doubts(state(2.1))] == [
        "2.1 tasks wanted the 2 processors in the minute before the run"
    ]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (state(0.9, steal=0.009, ghz=3.1), []),
        (state(4.0), ["tasks a processor before 0.0 against 2.0"]),
        (state(steal=0.02), ["stolen time 0.0% against 2.0%"]),
        (state(ghz=2.0), ["GHz 3.00 against 2.00"]),
    ],
)
def test_runs_in_different_states_differ(other: MachineState, expected: list[str]) -> None:
    assert list(differences([state(), state()], [other])) == expected
    assert list(differences([], [other])) == []


def test_what_spreads_as_far_as_it_is_apart_is_no_difference() -> None:
    # GIVEN means of 5 % and 2 % that come of one run, WHEN all runs are alike, THEN it counts
    burst = [state(steal=0.2), *(state(steal=0.0) for _ in range(3))]
    even = [state(steal=0.05) for _ in range(4)]
    calm = [state(steal=0.02) for _ in range(4)]
    assert list(differences(burst, calm)) == []
    assert list(differences(even, calm)) == ["stolen time 5.0% against 2.0%"]


def test_a_replay_keeps_the_state_of_this_machine(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", ROWS)
    succeed("replay", folder.path, "--engine", "null", "--pace", "trace")
    kept = json_of(folder.path / "replays/latest/summary.json")["machine"]
    found = msgspec.convert(kept, MachineState)
    assert found.kernel == os.uname().release
    assert found.processors == os.cpu_count()
    assert found.before.unix_ns < found.after.unix_ns
    assert found.before.load is not None
    assert found.before.free_bytes is not None
    assert (found.before.running or 0) >= 1

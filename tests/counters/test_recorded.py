"""Files of `perf stat`: recorded here, made as other machines give them, damaged ones."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tracekit.errors import InputError
from tracekit.perf_stat import Count, parse_counts, read_counts

RECORDED = Path(__file__).with_name("recorded")
HIDDEN = "this machine's processor does not count it, or hides it from the guest"


NO_TURN = "no counter was free while it ran"
REAL_RUNS = {
    # What -x';' wrote, with an event of user space alone.
    "software.csv": [
        Count("page-faults", 159.0, "", 1.0, "", is_user=True),
        Count("context-switches", 24.0, "", 1.0, ""),
        Count("raw_syscalls:sys_enter", 221.0, "", 1.0, ""),
        Count("LLC-loads", None, "", None, HIDDEN),
    ],
    # The column of a repeated run is not taken for a time.
    "repeated.csv": [
        Count("page-faults", 49.0, "", 1.0, "", is_mean=True),
        Count("task-clock", 1.0, "msec", 1.0, "", is_mean=True),
    ],
}


@pytest.mark.parametrize("name", REAL_RUNS)
def test_separated_values_of_a_real_run(name: str) -> None:
    assert read_counts(RECORDED / name)[0] == REAL_RUNS[name]


def test_json_lines_of_real_runs() -> None:
    counts, _ = read_counts(RECORDED / "software.json")
    assert len(counts) == 8
    assert counts[0] == Count("page-faults", 368.0, "", 1.0, "")
    assert counts[5] == Count("task-clock", 6.57754, "msec", 1.0, "")
    assert [one.event for one in counts if one.count is None] == ["L1-dcache-loads"]
    assert counts[-1].reason == HIDDEN
    # AND what never ran is not counted
    counts, _ = read_counts(RECORDED / "not-counted.json")
    assert {one.event: one.count for one in counts} == {"page-faults": None, "task-clock": None}
    assert {one.reason for one in counts} == {NO_TURN}
    # AND a repeated run of user space has means
    counts, _ = read_counts(RECORDED / "repeated.json")
    assert [one.event for one in counts] == ["page-faults", "minor-faults"]
    assert all(one.is_mean and one.is_user and one.count for one in counts)


def shape(line: str) -> tuple[tuple[str, str], ...]:
    """Return keys and kinds of values of a line of perf stat -j, in their order."""
    told = json.loads(line)
    value = told["counter-value"]
    kind = value if value.startswith("<") else f"{len(value.partition('.')[2])} decimals"
    return tuple(
        (key, kind if key == "counter-value" else type(told[key]).__name__) for key in told
    )


def lines_of(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.startswith("{")]


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_files_made_by_hand_have_the_shape_that_perf_writes(tmp_path: Path) -> None:
    # GIVEN lines of the perf that is here: counted, never run, and, where there are no hardware
    # counters, not supported; and lines that were recorded
    told = tmp_path / "told"
    names = ("software", "not-counted", "repeated")
    real = [line for name in names for line in lines_of(RECORDED / f"{name}.json")]
    for more in ((), ("-D", "-1")):
        command = ["perf", "stat", "-j", *more, "-e", "page-faults:u,task-clock", "-o", str(told)]
        command += ["--", "true"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("perf may not count here")
        # THEN those of here are read, whatever more a newer perf writes
        counts = parse_counts(told.read_text(), place="a")
        assert [one.event for one in counts] == ["page-faults", "task-clock"]
        real += lines_of(told)
    # AND each line of a file that was made by hand has a shape that perf gave to another event
    made = [line for n in range(1, 7) for line in lines_of(RECORDED / f"hardware-{n}.json")]
    assert len(made) == 36
    assert {shape(line) for line in made} <= {shape(line) for line in real}


REAL_PARTS = {
    "-A": (
        '{"cpu" : "0", "counter-value" : "6296.000000", "unit" : "", "event" : "page-faults",'
        ' "event-runtime" : 112007671, "pcnt-running" : 100.00}\n'
        '{"cpu" : "1", "counter-value" : "213.000000", "unit" : "", "event" : "page-faults",'
        ' "event-runtime" : 119934451, "pcnt-running" : 40.00}\n'
        '{"cpu" : "0", "counter-value" : "<not supported>", "unit" : "", "event" : "cycles"}\n'
        '{"cpu" : "1", "counter-value" : "<not supported>", "unit" : "", "event" : "cycles"}\n'
    ),
    "-x, -A": (
        "CPU0,6296,,page-faults,112007671,100.00,,\n"
        "CPU1,213,,page-faults,119934451,40.00,,\n"
        "CPU2,<not counted>,,page-faults,0,0.00,,\n"
        "CPU0,<not supported>,,cycles,0,100.00,,\n"
    ),
    "--per-core": (
        '{"core" : "S0-D0-C0", "aggregate-number" : 2, "counter-value" : "6296.000000",'
        ' "unit" : "", "event" : "page-faults", "pcnt-running" : 40.00}\n'
        '{"core" : "S0-D0-C0", "aggregate-number" : 1, "counter-value" : "<not supported>",'
        ' "unit" : "", "event" : "cycles", "pcnt-running" : 100.00}\n'
        '{"core" : "S0-D0-C1", "aggregate-number" : 2, "counter-value" : "213.000000",'
        ' "unit" : "", "event" : "page-faults", "pcnt-running" : 100.00}\n'
    ),
    "-x; --per-socket": (
        "S0;4;6296;;page-faults;443307760;100.00;;\nS0;1;<not supported>;;cycles;0;100.00;;\n"
        "S1;4;213;;page-faults;443307760;40.00;;\n"
    ),
    "-x, --per-cache": (
        "S0-D0-L3-ID0,4,6296,,page-faults,44,100.00,,\n"
        "S0-D0-L3-ID4,4,213,,page-faults,44,40.00,,\nS0-D0-L3-ID0,1,<not supported>,,cycles,0,,,\n"
    ),
    "-x, --per-node": (
        "N0,4,6296,,page-faults,44,100.00,,\nN1,4,213,,page-faults,44,40.00,,\n"
        "N0,1,<not supported>,,cycles,0,100.00,,\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", REAL_PARTS.values(), ids=list(REAL_PARTS))
def test_counts_by_processor_are_added_up(text: str) -> None:
    # THEN what was counted is 6,296 + 213, and what took turns most tells how sure that is
    assert parse_counts(text, place="a") == [
        Count("page-faults", 6509.0, "", 0.4, ""),
        Count("cycles", None, "", None, HIDDEN),
    ]


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
@pytest.mark.parametrize("option", ["-A", "--per-core", "--per-socket", "--per-node"])
@pytest.mark.parametrize("form", [("-j",), ("-x", ",")])
def test_counts_by_processor_of_the_perf_that_is_here(
    tmp_path: Path, option: str, form: tuple[str, ...]
) -> None:
    told = tmp_path / "told"
    command = ["perf", "stat", *form, "-a", option, "-e", "page-faults,task-clock", "-o", str(told)]
    if subprocess.run([*command, "--", "true"], capture_output=True, check=False).returncode:
        pytest.skip("perf may not count all processors here")
    counts = parse_counts(told.read_text(), place="a")
    assert [one.event for one in counts] == ["page-faults", "task-clock"]
    assert all(one.count and one.running_ratio == 1 for one in counts)


def test_events_that_took_turns() -> None:
    counts, _ = read_counts(RECORDED / "hardware-1.json")
    found = {one.event: one for one in counts}
    assert found["dTLB-load-misses"] == Count("dTLB-load-misses", 1e6, "", 0.4286, "")
    assert found["LLC-prefetches"].reason == NO_TURN
    assert found["page-faults"].is_user


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("cpu_core/L1-dcache-loads/", "L1-dcache-loads"),
        ("cpu_atom/cycles/u", "cycles"),
        ("armv8_pmuv3_0/cycles/", "cycles"),
        ("cpu/event=0xb4,umask=0x1/", "cpu/event=0xb4,umask=0x1/"),
        ("ls_dispatch.ld_dispatch:u", "ls_dispatch.ld_dispatch"),
        ("raw_syscalls:sys_enter", "raw_syscalls:sys_enter"),
        ("page-faults:u", "page-faults"),
        ("LLC-loads:W", "LLC-loads"),
    ],
)
def test_a_modifier_is_no_part_of_the_name(name: str, event: str) -> None:
    (one,) = parse_counts(f"7|x|{name}|9|100.00||", place="a")
    assert (one.event, one.count) == (event, 7.0)


def test_cores_of_two_kinds_are_one_processor() -> None:
    # GIVEN a thread that ran 60 % of its time on one kind, 900 cycles, and 200 on the other, for
    # which perf extrapolates 1,500 and 500; and cores of a whole machine, all the time counted
    line = '{"counter-value" : "%s", "unit" : "", "event" : "%s", "pcnt-running" : %s,}'
    thread = [("1500", "cpu_core/cycles/u", "60.00"), ("500", "cpu_atom/cycles/u", "40.00")]
    machine = [("70", "cpu_core/cycles/", "100.00"), ("30", "cpu_atom/cycles/", "100.00")]
    one_kind = [("70", "cpu_core/cycles/", "50.00"), ("<not counted>", "cpu_atom/cycles/", "0.00")]
    found = [
        parse_counts("\n".join(line % one for one in lines), place="a")
        for lines in (thread, machine, one_kind)
    ]
    assert found[0] == [Count("cycles", 1100.0, "", 1.0, "", is_user=True)]
    assert found[1] == [Count("cycles", 100.0, "", 1.0, "")]
    assert found[2] == [Count("cycles", 70.0, "", 0.5, "")]
    # AND of two processors with cores of one kind both are counted
    arm = '{"cpu" : "%d", "counter-value" : "1000", "event" : "armv8_pmuv3_0/cycles/",' + (
        ' "pcnt-running" : 50.00}\n'
    )
    (cycles,) = parse_counts(arm % 0 + arm % 1, place="a")
    assert (cycles.count, cycles.running_ratio) == (2000.0, 0.5)
    separated = "1500,,cpu_core/cycles/u,6,60.00,,\n500,,cpu_atom/cycles/u,4,40.00,,\n"
    assert parse_counts(separated, place="a") == found[0]


def test_decimal_commas_of_another_locale() -> None:
    # GIVEN what perf writes with LC_ALL=de_DE.UTF-8: by -x';', and by -j with numbers in no quotes
    separated = (
        "<not counted>;;LLC-loads;0;0,00;;\n"
        "1234,56;msec;task-clock;1234560000;100,00;1,234;CPUs utilized\n"
        "1000000;;dTLB-loads;600000000;48,60;810,000;K/sec\n"
    )
    lines = (
        '{"counter-value" : "<not counted>", "unit" : "", "event" : "LLC-loads"}\n'
        '{"counter-value" : "1234,560000", "unit" : "msec", "event" : "task-clock",'
        ' "event-runtime" : 1234560000, "pcnt-running" : 100,00, "metric-value" : 1,234567}\n'
        '{"counter-value" : "1000000,000000", "unit" : "", "event" : "dTLB-loads",'
        ' "event-runtime" : 600000000, "pcnt-running" : 48,60}\n'
    )
    for text in (separated, lines):
        assert parse_counts(text, place="a") == [
            Count("LLC-loads", None, "", None, NO_TURN),
            Count("task-clock", 1234.56, "msec", 1.0, ""),
            Count("dTLB-loads", 1e6, "", 0.486, ""),
        ]


def test_decimal_commas_between_commas_are_told() -> None:
    with pytest.raises(InputError, match="line 1: 'msec' ran") as told:
        parse_counts("1234,56,msec,task-clock,1234560000,100,00,,", place="a")
    assert "LC_ALL=C" in (told.value.hint or "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a holds no event"),
        ("# started on Monday\n", "a holds no event"),
        ("{not json}", "a, line 1: not a line of perf stat -j"),
        ('{"counter-value" : "many", "event" : "x"}', "line 1: count of 'x': 'many' is not"),
        ('{"counter-value" : "nan", "event" : "x"}', "'nan' is not a number"),
        ('{"counter-value" : "-1", "event" : "x"}', "'-1' is not a number"),
        ('{"counter-value" : "1", "event" : "x", "pcnt-running" : 900}', "'x' ran 900%"),
        ('{"interval" : 0.1, "counter-value" : "1", "event" : "x"}', "by interval, not over"),
        ('{"thread" : "a-1", "counter-value" : "1", "event" : "x"}', "by thread, not over the run"),
        ('{"cgroup" : "a", "counter-value" : "1", "event" : "x"}', "by cgroup, not over the run"),
        ("CPU0,1,,x,5,100.00,,\nCPU0,1,,x,5,100.00,,", "'x' is counted a second time for CPU0"),
        ("CPU0,1,,x,5,100.00,,\n1,,x,5,100.00,,", "line 2: 'x' is counted a second time"),
        ("1,,x,5,100.00,,\nS0,4,1,,x,5,100.00,,", "line 2: 'x' is counted a second time for S0"),
        ("0.100187358,1,,x,5,100.00,,", r"by interval \(0.100187358\)"),
        ("1,234;;x;9;100.00;;", "'1,234' is not a number"),
        ("hello", "line 1: not a line of perf stat -x"),
        ("1,,x,5,100.00,,\n1,,x,5,100.00,,", "line 2: 'x' is counted a second time"),
    ],
)
def test_what_is_no_run_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_counts(text, place="a")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json: there is no such file"):
        read_counts(tmp_path / "none.json")

"""`tracekit counters`: live software events, a stand-in for perf with hardware, recorded files."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from tests.command_line import invoke, refused, succeed
from tests.traces import json_of
from tracekit import query
from tracekit.counters import CountersOptions, count_events
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.perf_stat import SOFTWARE
from tracekit.store import TraceFolder
from tracekit.tables import COUNTER_STATISTICS, COUNTERS

RECORDED = Path(__file__).with_name("recorded")
RATES = (100, 110, 120, 130, 140, 150)
needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
# Counts L1 loads and page faults; the first are twice as many with each run of its command.
STAND_IN = r"""#!/bin/sh
events=""; out=/dev/stderr; wanted=""
while [ "$1" != -- ]; do
  case $1 in -e) wanted="$wanted $2"; shift ;; -o) out=$2; shift ;; esac
  shift
done
shift
case $wanted in *no-such*) echo "event syntax error: parser error" >&2; exit 129 ;; esac
[ -z "$FORBIDDEN" ] || { echo "Error:" >&2; echo "No permission to enable events" >&2; exit 255; }
[ "$1" = true ] || "$@" || exit
runs=$(cat "$COUNTER" 2>/dev/null || echo 1)
[ "$1" = true ] || echo $((runs * 2)) > "$COUNTER"
for event in $(echo "$wanted" | tr -d '{}' | sed 's/:W//g' | tr ',' ' '); do
  case $event in
    L1-dcache-loads) value=$((runs * 1000)) share=50.00 ;;
    page-faults) value=7 share=100.00 ;;
    of:the-kernel) value=0 share=100.00 event=of:the-kernelu ;;
    *) value="<not supported>" share=0.00 ;;
  esac
  echo "{\"counter-value\" : \"$value\", \"unit\" : \"\", \"event\" : \"$event\","\
    "\"pcnt-running\" : $share}" >> "$out"
done
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program in perf's place that counts two events."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "perf").write_text(STAND_IN)
    (place / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    monkeypatch.setenv("COUNTER", str(tmp_path / "n"))


def count(out: Path, *words: str | Path) -> Result:
    """Run `tracekit counters -o OUT WORDS`, which must end well."""
    return succeed("counters", "-o", out, *words)


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = pq.read_table(folder / f"counters/{name}.parquet").to_pylist()
    return table


@needs_perf
def test_software_events_of_a_real_command(out: Path) -> None:
    # GIVEN a command that opens 200 files and says how fast
    script = "i=0; while [ $i -lt 200 ]; do : < /dev/null; i=$((i+1)); done; echo did 200 ops/s"
    rule = ("--throughput", "([0-9]+) ops/s")
    ran = count(out, "--workload", "opens", "--repeat", "2", *rule, "--", "sh", "-c", script)
    # THEN each event of each run has a row: a count, or why there is none
    found = rows(out, "counters")
    assert {row["run"] for row in found} == {1, 2}
    assert all((row["count"] is None) == bool(row["reason"]) for row in found)
    assert {row["throughput"] for row in found} == {200.0}
    counts = {row["event"]: row["count"] for row in found if row["run"] == 1}
    assert counts["page-faults"] == counts["minor-faults"] + counts["major-faults"]
    assert counts["task-clock"] > 0
    if counts["raw_syscalls:sys_enter"] is not None:
        # 200 opens of /dev/null and what sh does beside
        assert counts["raw_syscalls:sys_enter"] > 400
    # AND what this machine cannot count is named
    (workload,) = json.loads((out / "counters/counters.json").read_text())["workloads"]
    for event, reason in workload["not_counted"].items():
        assert counts[event] is None
        assert reason in ran.stdout
    assert SOFTWARE - {"raw_syscalls:sys_enter"} <= {e for e, c in counts.items() if c is not None}


@needs_perf
def test_the_measured_time_is_counted_alone(tmp_path: Path, out: Path) -> None:
    # GIVEN a personality, whose run is counted as a whole and while it is measured
    target = tmp_path / "target"
    target.mkdir()
    bench = [sys.executable, "-m", "tracekit", "bench", "varmail", "--target", str(target)]
    bench += ["--files", "200", "--threads", "2", "--set", "mean_size=4KiB", "--duration", "500ms"]
    bench += ["--cache", "keep", "--no-report"]
    counted = {}
    for name, more in (("whole", ()), ("timed", ("--timed",))):
        words = ("--repeat", "1", "--workload", name, *more, "--", *bench, "-o", tmp_path / name)
        count(out, "--events", "page-faults task-clock raw_syscalls:sys_enter", *words)
        found = [row for row in rows(out, "counters") if row["workload"] == name]
        counted[name] = {row["event"]: row["count"] for row in found}
    (run,) = (json_of(file)["summary"] for file in tmp_path.glob("timed/files/runs/*.json"))
    # THEN nothing of what makes memory ready for Python and files is in the second
    assert counted["timed"]["page-faults"] < counted["whole"]["page-faults"] / 100
    spent_ms = (run["timing"]["cpu_user_ns"] + run["timing"]["cpu_system_ns"]) / 1e6
    assert counted["timed"]["task-clock"] <= 1.1 * spent_ms + 20  # of ticks of the processor's time
    if counted["timed"]["raw_syscalls:sys_enter"] is not None:
        calls, done = counted["timed"]["raw_syscalls:sys_enter"], run["counts"]["operations"]
        # Two of the 13 steps read until nothing is left, a call more; a busy machine begins late.
        assert 0.3 * done <= calls <= 1.2 * done * 15 / 13 + 1000
    # AND what measures nothing is told so
    none = invoke("counters", "-o", tmp_path / "none", "--repeat", "1", "--timed", "--", "true")
    refused(none, "true ran no personality of tracekit", error=TracekitError)


@pytest.mark.usefixtures("stand_in")
def test_hardware_events_that_take_turns(tmp_path: Path, out: Path) -> None:
    # GIVEN a machine that counts L1 loads half of the time, and whose command gets slower
    summary = tmp_path / "s.json"
    write = (
        f'n=$(cat "$COUNTER" || echo 1); echo "{{\\"bytes_per_second\\": $((99 - n))}}" > {summary}'
    )
    words = ("--workload", "w", "--summary", summary)
    for repeat in ("3", "5"):  # WHEN more runs are asked for, THEN those that are there count
        ran = count(out, *words, "--repeat", repeat, "--", "sh", "-c", write)
    found = [row for row in rows(out, "counters") if row["event"] == "L1-dcache-loads"]
    assert [row["count"] for row in found] == [1000, 2000, 4000, 8000, 16000]
    assert [row["throughput"] for row in found] == [98, 97, 95, 91, 83]
    assert {row["running_ratio"] for row in found} == {0.5}
    assert {row["counted_group"] for row in found} == {"L1-dcache-loads,L1-dcache-load-misses"}
    # AND on a line the correlation is -1
    told = {row["event"]: row for row in rows(out, "counter_statistics")}
    assert told["L1-dcache-loads"]["correlation"] == pytest.approx(-1)
    assert (told["L1-dcache-loads"]["rank"], told["L1-dcache-loads"]["mean"]) == (1, 6200)
    assert told["page-faults"]["correlation"] is None
    assert "took turns" in ran.stdout
    # AND another command under that name is refused, unless it replaces it
    again = invoke("counters", "-o", out, *words, "--", "true")
    refused(again, "another command", error=TracekitError)


@pytest.mark.usefixtures("stand_in")
def test_a_run_that_fails_keeps_those_before(tmp_path: Path, out: Path) -> None:
    script = f"echo x >> {tmp_path}/n2; [ $(wc -l < {tmp_path}/n2) -lt 3 ]"
    ran = invoke("counters", "-o", out, "--repeat", "4", "--", "sh", "-c", script)
    refused(ran, "sh ended with code 1", error=TracekitError)
    (kept,) = (out / "counters").glob("runs-*.json")
    assert len(json.loads(kept.read_text())["runs"]) == 2


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("no-such-event", "this perf does not know it"),
        (
            "of:the-kernel",
            "no permission: perf counts user space alone, and this happens in the kernel",
        ),
    ],
)
def test_an_event_that_perf_does_not_count_is_named(out: Path, event: str, reason: str) -> None:
    # THEN the others are counted
    ran = count(out, "--events", f"page-faults {event}", "--repeat", "1", "--", "true")
    assert f"not counted ({reason}): {event}" in ran.stdout


@pytest.mark.usefixtures("stand_in")
def test_where_perf_may_count_nothing_it_is_said_what_to_change(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORBIDDEN", "1")
    ran = invoke("counters", "-o", out, "--", "true")
    refused(ran, "no permission", error=TracekitError)
    assert "sysctl kernel.perf_event_paranoid=1" in getattr(ran.exception, "hint", "")
    assert not out.exists()


def test_without_perf_it_is_said_how_to_get_it(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "true").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = invoke("counters", "-o", out, "--", "true")
    refused(ran, "perf is not installed", error=TracekitError)
    assert "linux-perf" in getattr(ran.exception, "hint", "")


def hardware(*numbers: int) -> list[str]:
    return [f"--from={RECORDED}/hardware-{n}.json={RATES[n - 1]}" for n in numbers]


def test_recorded_files_of_another_machine(out: Path) -> None:
    # GIVEN six runs whose TLB misses fall as their throughput rises; no perf is needed
    count(out, "--workload", "varmail", *hardware(1, 2, 3))
    # WHEN three more are given later, THEN they join
    ran = count(out, "--workload", "varmail", *hardware(4, 5, 6))
    told = {row["event"]: row for row in rows(out, "counter_statistics")}
    # THEN mean, deviation and correlation are those worked out by hand: of rates around 125 and
    # misses around 766,667, products -17,000,000, squares 1,750 and 168,333,333,333
    misses = told["dTLB-load-misses"]
    assert misses["mean"] == pytest.approx(766_666.67)
    assert misses["deviation"] == pytest.approx((168_333_333_333 / 5) ** 0.5)
    assert misses["correlation"] == pytest.approx(-17e6 / (1750 * 168_333_333_333) ** 0.5)
    assert misses["rank"] == 1
    assert misses["least_running_ratio"] == pytest.approx(0.4286)
    assert told["page-faults"]["correlation"] is None
    assert "most telling of the throughput: dTLB-load-misses -0.99" in ran.stdout
    assert "without the kernel's part" in ran.stdout
    # AND none is counted twice
    again = invoke("counters", "-o", out, "--workload", "varmail", *hardware(2))
    refused(again, "hardware-2.json is there already", error=TracekitError)
    # AND the tables are as the schema says, and views of SQL
    for name, columns in (("counters", COUNTERS), ("counter_statistics", COUNTER_STATISTICS)):
        assert pq.read_schema(out / f"counters/{name}.parquet").equals(columns)
    with query.connect_locked(TraceFolder(out), memory_mib=256) as connection:
        counted = query.ask(connection, "select count(*) as n from counters where count is null")
        assert next(iter(counted.batches)).to_pylist() == [{"n": 6}]
    # AND the most telling events are told also when another workload is counted into the folder
    other = count(out, "--workload", "zip", *hardware(1))
    assert "zip: 1 run, " in other.stdout
    assert "most telling of varmail: dTLB-load-misses -0.99" in other.stdout


def test_means_of_several_runs_are_told(out: Path) -> None:
    # GIVEN what perf stat -r wrote, THEN it is no run like others
    ran = count(out, "--from", RECORDED / "repeated.csv")
    assert "1 of the runs are means of several (perf stat -r)" in ran.stdout


def test_throughput_inside_of_recorded_files(tmp_path: Path, out: Path) -> None:
    # GIVEN that each file says its rate in a comment
    files = [f"--from={RECORDED}/hardware-{n}.json" for n in range(1, 7)]
    count(out, "--throughput", "throughput ([0-9]+)", *files)
    assert {row["throughput"] for row in rows(out, "counters")} == set(map(float, RATES))
    # AND without, the counts are kept and what is missing is said
    ran = count(tmp_path / "b", *files)
    assert "6 runs do not tell their throughput" in ran.stdout
    assert {row["throughput"] for row in rows(tmp_path / "b", "counters")} == {None}
    assert {row["correlation"] for row in rows(tmp_path / "b", "counter_statistics")} == {None}


def test_the_report_has_the_heat_map(out: Path) -> None:
    count(out, "--workload", "<b>var & mail", *hardware(1, 2, 3, 4, 5, 6))
    succeed("report", out)
    page = (out / "report.html").read_text()
    assert 'id="figure-counters-heat"' in page
    assert "<b>var" not in page
    assert "LLC-prefetches" in page
    assert "no counter was free while it ran" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a command"),
        (["--from", "x.json", "--", "true"], "give either a command"),
        (["--repeat", "0", "--", "true"], "--repeat 0"),
        (["--", "no-such-command"], "there is no command 'no-such-command'"),
        (["--from", "none.json"], "none.json: there is no such file"),
        (["--from", f"{RECORDED}/hardware-1.json=fast"], "'fast' is not a throughput"),
        (["--from", f"{RECORDED}/hardware-1.json=-1"], "'-1' is not a throughput"),
        (["--workload", "a\x1bb", "--", "true"], "--workload"),
        (["--events", "a,a", "--", "true"], "twice"),
        (["--throughput", "x", "--", "true"], "has 0 groups"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    out: Path, arguments: list[str], message: str
) -> None:
    ran = invoke("counters", "-o", out, *arguments)
    assert isinstance(ran.exception, UsageError | InputError)
    assert message in str(ran.exception)
    assert not out.exists()


@pytest.mark.usefixtures("stand_in")
def test_a_throughput_that_a_run_does_not_tell(tmp_path: Path, out: Path) -> None:
    count_events(tmp_path / "a", CountersOptions(command=("echo", "nothing"), workload="w", runs=1))
    words = ("--throughput", "([0-9]+) ops", "--", "echo", "nothing")
    ran = invoke("counters", "-o", out, *words)
    refused(ran, "is nowhere in the command's output", error=TracekitError)
